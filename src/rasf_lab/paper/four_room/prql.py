"""PRQL and RaPRQL, Algorithm 4 of the paper: Q-learning that reuses policies of earlier tasks as behaviour policies.

Every task t begins with a new policy t and with scores of 0 for the policies 0 .. t. A policy k has two tables: action
values Q^k, and the risk C^k, which begins at 0 and learns the mean of -|TD error|. The score of a policy is the mean
return of the episodes of task t in which the policy was selected. Each episode has a selected policy c, which is t in
the first episode. One step:

    a       if c != t, with probability eta: argmax_b Q^c - omega C^c
            otherwise epsilon-greedy on Q^t - omega C^t
    delta = r + gamma max_b Q^t(s', b) - Q^t(s, a)
    Q^t(s, a) += alpha delta
    C^t(s, a) += alpha rho (-|delta| - C^t(s, a))           so C <= 0, and omega < 0 is averse

The paper prints + omega C, which would be risk-seeking at the paper's omega = -2. The bootstrap term gamma max_b Q is
left out if the step terminates the episode, but not if the episode is truncated (by the step limit or a change of
task). After an episode with undiscounted return R,

    score_c <- (score_c used_c + R) / (used_c + 1),   used_c += 1,   next c ~ softmax(tau score_0, .., tau score_t)

where used_c counts the episodes with the selected policy c. An episode that is truncated by a change of task does not
change the scores. With `as_printed`, used_c is increased already when c is drawn, as printed in the paper. The first
score of a drawn policy is then R / 2. PRQL has omega = 0. Q-learning has omega = 0 and no reuse.

Q begins at zero or, as the paper allows, at small noise. Of actions with equal scores, the first is taken. So before
the first reward, a policy with Q = 0 everywhere moves left, while policies with noise move in different directions.
Only the policy of the current task learns. A finished task's policy is stored as its greedy actions, one byte for each
state. Compiled functions do not allocate memory, as in `rasf.tabular.table`.

Shapes: A actions, K policies, R rows, n tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.arrays import Floats, Ints
from rasf.compiled import compiled
from rasf.envs.four_room import FourRoom, RoomArrays, step
from rasf.tabular.stretch import Rows, enlarged, enter, new_rows, slot_of
from rasf.tabular.table import initial_noise

Q, C = 0, 1  # the two tables in `Memory.value`


class Memory(NamedTuple):
    """The tables, which have one row for every state seen so far."""

    rows: Rows
    value: Floats  # (R, 2, A) Q and C of the current policy
    choice: Ints  # (K, R) greedy actions of all policies up to the current one
    used: Ints  # (1,) the number of rows in use


class Scores(NamedTuple):
    """The scores of the policies on the current task."""

    score: Floats  # (K,) mean return
    used: Ints  # (K,) the number of episodes in which the policy was selected
    weight: Floats  # (K,) scratch space for the softmax


class Rule(NamedTuple):
    """Constants of the learning rule in the module's header, by default those of the paper; `make_rule` checks them."""

    omega: float
    eta: float
    tau: float
    seed: int
    alpha: float = 0.5
    rho: float = 0.1
    gamma: float = 0.95
    epsilon: float = 0.12
    noise_scale: float = 0.0
    reuse: bool = True
    as_printed: bool = False


def make_rule(**constants: Any) -> Rule:
    """Return a `Rule` with checked constants, converted to the types that compiled code takes.

    Args:
        **constants: fields of `Rule`.
    """
    rule, shares = Rule(**constants), ("eta", "alpha", "gamma", "epsilon", "noise_scale")
    numbers = {name: checks.number(name, getattr(rule, name), 0.0, 1.0) for name in shares}
    numbers |= {name: checks.number(name, getattr(rule, name)) for name in ("omega", "tau", "rho")}
    checks.number("alpha * rho", rule.alpha * rule.rho, 0.0, 1.0)
    if rule.tau <= 0:
        raise ValueError(f"tau must be positive, got {rule.tau}")
    whole = checks.whole("seed", rule.seed, 0)
    return rule._replace(**numbers, seed=whole, reuse=bool(rule.reuse), as_printed=bool(rule.as_printed))


class History(NamedTuple):
    """Total return, failures and number of begun episodes of each training task (n,)."""

    returns: Floats
    failures: Ints
    episodes: Ints


def new_memory(n_policies: int, n_actions: int, size: int = 0) -> Memory:
    """Return a memory without states, with room for `size` rows."""
    value, choice = np.zeros((size, 2, n_actions)), np.zeros((n_policies, size), np.int8)
    return Memory(new_rows(size, n_actions), value, choice, np.zeros(1, np.int64))


def reserve(memory: Memory, more: int) -> Memory:
    """Return a memory with room for `more` further rows. If the given memory has this room, return it unchanged."""
    used, have = int(memory.used[0]), len(memory.value)
    if used + more <= have:
        return memory
    size = max(2 * have, used + more)
    larger = new_memory(len(memory.choice), memory.value.shape[2])._replace(rows=enlarged(memory.rows, size, used))
    value, choice = np.zeros((size, *memory.value.shape[1:])), np.zeros((len(memory.choice), size), np.int8)
    value[:used], choice[:, :used], larger.used[0] = memory.value[:used], memory.choice[:, :used], used
    return larger._replace(value=value, choice=choice)


@compiled(_nrt=False)
def row_of(memory: Memory, rule: Rule, t: int, state: int) -> int:
    """Return the row of a state. Add a row for a new state, initialised for the policies 0 .. t."""
    slot = slot_of(memory.rows.keys, state)
    if memory.rows.keys[slot] == -1:
        row = memory.used[0]
        memory.used[0] += 1
        enter(memory.rows, slot, state, row)
        for policy in range(t + 1):
            begin(memory, rule, policy, row)
    return int(memory.rows.values[slot])


@compiled(_nrt=False)
def begin(memory: Memory, rule: Rule, policy: int, row: int) -> None:
    """Initialise Q, C and the greedy action of a policy at a row."""
    for a in range(memory.value.shape[2]):
        memory.value[row, Q, a] = rule.noise_scale * initial_noise(rule.seed, memory.rows.state[row], policy, a)
        memory.value[row, C, a] = 0.0
    choose(memory, rule, policy, row)


@compiled(_nrt=False)
def choose(memory: Memory, rule: Rule, t: int, row: int) -> None:
    """Store the greedy action of policy t at a row."""
    choice, highest = 0, memory.value[row, Q, 0] - rule.omega * memory.value[row, C, 0]
    for b in range(1, memory.value.shape[2]):
        score = memory.value[row, Q, b] - rule.omega * memory.value[row, C, b]
        if score > highest:
            choice, highest = b, score
    memory.choice[t, row] = choice


@compiled(_nrt=False)
def learn(memory: Memory, rule: Rule, t: int, row: int, action: int, reward: float, next_row: int) -> None:
    """Update Q, C and the greedy action of policy t on one transition; next_row is -1 after termination."""
    value, target = memory.value, reward
    if next_row >= 0:
        best = -np.inf
        for b in range(value.shape[2]):
            best = max(best, value[next_row, Q, b])
        target += rule.gamma * best
    delta = target - value[row, Q, action]
    value[row, Q, action] += rule.alpha * delta
    value[row, C, action] += rule.alpha * rule.rho * (-abs(delta) - value[row, C, action])
    choose(memory, rule, t, row)


@compiled(_nrt=False)
def draw_driver(scores: Scores, t: int, tau: float, draw: float) -> int:
    """Return a policy from 0 .. t, with probabilities softmax(tau x scores); `draw` is a random number in [0, 1)."""
    highest, total = -np.inf, 0.0
    for k in range(t + 1):
        highest = max(highest, scores.score[k])
    for k in range(t + 1):
        scores.weight[k] = np.exp(tau * (scores.score[k] - highest))
        total += scores.weight[k]
    below = 0.0
    for k in range(t):
        below += scores.weight[k]
        if draw * total < below:
            return k
    return t


@compiled(_nrt=False)
def finish_episode(scores: Scores, rule: Rule, t: int, driver: int, gained: float, draw: float) -> int:
    """Update the score of the selected policy (`driver`) by the episode's return; return the next selected policy."""
    used = scores.used[driver]
    scores.score[driver] = (scores.score[driver] * used + gained) / (used + 1)
    chosen = draw_driver(scores, t, rule.tau, draw) if rule.reuse else t
    scores.used[chosen if rule.as_printed else driver] += 1
    return chosen


@compiled(_nrt=False)
def run_task(
    world: RoomArrays,
    step_limit: int,
    memory: Memory,
    scores: Scores,
    rule: Rule,
    t: int,
    rewards: Floats,
    draws: Floats,
    episode_draws: Floats,
    drivers: Ints,
) -> tuple[float, int, int]:
    """Learn task t of the four-room world for len(draws) steps; return its total reward, failures and episodes.

    The columns of the random numbers `draws` (steps, 4) decide on exploration, the random action, traps and reuse.
    `episode_draws` (steps + 1,) decide on the selected policy of the next episode. The selected policy of every episode
    is written to `drivers` (steps + 1,).
    """
    for row in range(memory.used[0]):
        begin(memory, rule, t, row)
    for k in range(t + 1):
        scores.score[k], scores.used[k] = 0.0, 0
    n_cells, n_actions = world.destination.shape
    total, gained, failures, episodes = 0.0, 0.0, 0, 1
    cell, flags, taken, driver = world.start, 0, 0, t
    drivers[0] = driver
    first_row = row = row_of(memory, rule, t, cell)
    for n in range(len(draws)):
        if driver != t and draws[n, 3] < rule.eta:
            action = int(memory.choice[driver, row])
        elif draws[n, 0] < rule.epsilon:
            action = int(draws[n, 1] * n_actions)
        else:
            action = int(memory.choice[t, row])
        cell, flags, feature, terminated = step(world, cell, flags, action, draws[n, 2])
        taken += 1
        reward = rewards[feature] if feature >= 0 else 0.0
        failures += feature == world.n_classes + 1
        total, gained = total + reward, gained + reward
        next_row = -1
        if not terminated:
            next_row = int(memory.rows.successor[row, action])
            if next_row < 0:
                next_row = row_of(memory, rule, t, cell + n_cells * flags)
                memory.rows.successor[row, action] = next_row
        learn(memory, rule, t, row, action, reward, next_row)
        row = next_row
        if terminated or taken == step_limit:
            driver = finish_episode(scores, rule, t, driver, gained, episode_draws[episodes - 1])
            drivers[episodes] = driver
            episodes += 1
            cell, flags, taken, gained, row = world.start, 0, 0, 0.0, first_row
    return total, failures, episodes


def learn_tasks(
    world: RoomArrays, step_limit: int, tasks: Floats, steps: int, rule: Rule
) -> Iterator[tuple[tuple[float, int, int], Memory, Scores, Ints]]:
    """Learn tasks one after the other.

    Yields:
        After each task: the values returned by `run_task`, the memory, the scores, and the selected policy of every
        episode. The next task overwrites the memory, the scores and the selected policies.
    """
    n = len(tasks)
    memory, drivers = new_memory(n, world.destination.shape[1]), np.zeros(steps + 1, np.int32)
    scores = Scores(np.zeros(n), np.zeros(n, np.int64), np.zeros(n))
    for t in range(n):
        rng = np.random.default_rng([rule.seed, t])
        draws, episode_draws = rng.random((steps, 4)), rng.random(steps + 1)
        memory = reserve(memory, steps + 1)
        outcome = run_task(world, step_limit, memory, scores, rule, t, tasks[t], draws, episode_draws, drivers)
        yield outcome, memory, scores, drivers[: outcome[2]]


def train(four_room: FourRoom, tasks: npt.ArrayLike, *, steps_per_task: int, **constants: Any) -> History:
    """Learn tasks one after the other, and return the results of each task. Equal seeds give identical results.

    Args:
        four_room: the map.
        tasks: weights of the tasks (n, d).
        steps_per_task: the number of steps on each task.
        **constants: fields of `Rule`.
    """
    weights = checks.task_weights("tasks", tasks, four_room.n_features)
    steps, rule = checks.whole("steps_per_task", steps_per_task), make_rule(**constants)
    results = learn_tasks(four_room.world(), four_room.step_limit, weights, steps, rule)
    returns, failures, episodes = zip(*(outcome for outcome, *_ in results), strict=True)
    return History(np.array(returns), np.array(failures), np.array(episodes))
