"""A model from counts, planned while it is learned: all experience is kept, and every task begins with what is known.

For every state and action the outcomes (phi, next state or end) are counted. Features do not depend on the task, so the
model serves all of them. It is planned for one (w, risk) at a time, by the nested entropic recursion

    Q(s, a) = (1 / beta) log E exp(beta (phi . w + gamma V(s'))),    V(s) = max_a Q(s, a),    the mean at beta = 0,

a contraction. `MeanVariance(beta)` and `NestedEntropic(beta)` are both planned so: the first is the second order of the
other in beta, and has no recursion of its own.

What the counts do not say:

- An action that was never tried in a state is worth `optimism` times the largest reward known. One that was tried once
  may yet have outcomes that were not seen: while a task is learned, `doubt` tries of that worth are added to its own.
- Bad endings are rare and must not come as a surprise: an action that failed in none of ten tries is not safe. States
  that are alike in those numbers of the observation that failures depend on are a group. A failure is an ending with a
  reward below 0 by the task at hand. To the counts of (s, a) are added some tries that failed as often as those of the
  same action in the whole group, and went on as the others did. Which numbers matter, and how many tries are added,
  `prior` at most, is found from the data (`groups`): few where the states of a group are not alike. An untried action
  fails as its group does, too. Until numbers that matter are found, and where none does, there is no prior: at the rate
  of all states every one would look dangerous, and nothing be found out.
- Exploration minds the risk: it takes, with probability epsilon, one of the actions whose score is within `margin`
  times the largest reward of the best one.

Planning is incremental. What a transition changes is put on a worklist: a state is backed up, and if its value moves by
more than `tolerance` times the largest reward, the states that lead to it follow.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from rasf import checks
from rasf.arrays import Bools, Floats, Ints
from rasf.compiled import compiled
from rasf.envs import four_room
from rasf.envs.four_room import FourRoom
from rasf.mdp import FiniteMDP
from rasf.risk import MeanVariance, NestedEntropic, Risk
from rasf.risk.base import concrete
from rasf.tabular.groups import STRENGTHS, numbers_that_matter, strength
from rasf.tabular.learner import TaskOutcome

_ENDINGS = 8  # kinds of endings that the prior knows, the first ones that were seen
_FIRST_LOOK = 1_000  # steps until groups are made, and then again at every doubling
_MOST_WORK = 2_000  # backups a state when a task begins: a bound that convergence does not need
_MOST_AT_ONCE = 10_000  # backups after a step; what is left is done after the next ones
_STREAM = 0  # of random numbers
_NEUTRAL = MeanVariance(0.0)


@dataclass(frozen=True)
class ModelSettings:
    """Constants of the agent; see the header."""

    gamma: float = 0.95
    epsilon: float = 0.03
    margin: float = 0.1
    optimism: float = 0.3
    doubt: float = 1.0
    prior: float = 20.0
    groups: Literal["auto", "none"] = "auto"
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("gamma", "epsilon"):
            checks.number(name, getattr(self, name), 0.0, 1.0)
        if not 0 < self.gamma < 1:
            raise ValueError(f"gamma must be above 0 and below 1, got {self.gamma}")
        for name in ("margin", "doubt", "prior", "tolerance"):
            checks.number(name, getattr(self, name), 0.0)
        checks.number("optimism", self.optimism)
        checks.one_of("groups", self.groups, ("auto", "none"))


def recursion_beta(risk: Risk) -> float:
    """Of the recursion by which a risk is planned."""
    if not isinstance(risk, MeanVariance | NestedEntropic):
        raise ValueError(f"risk must be MeanVariance or NestedEntropic to be planned, got {risk!r}")
    return float(concrete(risk.beta) or 0.0)


class Model(NamedTuple):
    """R rows (states), O outcomes, K kinds of features, G groups, A actions."""

    tries: Ints  # (R, A) int32
    first: Ints  # (R, A) int32, the first outcome, or -1
    group: Ints  # (R,) int32
    before: Ints  # (R,) int32, the first outcome that leads here, or -1
    value: Floats  # (R,)
    score: Floats  # (R, A)
    best: Ints  # (R,) int32
    queued: Ints  # (R,) bool, whether it is on the worklist
    worklist: Ints  # (R,) int32, a ring
    source: Ints  # (O,) int32, the row of the outcome
    successor: Ints  # (O,) int32, the row after it, or -1: the end
    kind: Ints  # (O,) int32
    times: Ints  # (O,) int32, how often it came
    next_outcome: Ints  # (O,) int32, of the same row and action
    next_before: Ints  # (O,) int32, that leads to the same row
    reward: Floats  # (K,) of the task
    ending: Ints  # (K,) int32, the number of a kind among the endings, or -1
    group_tries: Floats  # (G, A)
    group_endings: Floats  # (G, A, _ENDINGS)
    used: Ints  # (6,) see below


ROWS, OUTCOMES, HEAD, LENGTH, BACKUPS, ENDINGS = range(6)  # entries of `used`


class Rule(NamedTuple):
    """What a backup needs beside the model."""

    beta: float
    gamma: float
    untried: float
    doubt: float
    prior: float
    threshold: float


@compiled(_nrt=False, forceinline=True)
def add(beta: float, total: float, largest: float, weight: float, x: float) -> tuple[float, float]:
    """Add an outcome to a running sum: of weight x, or of weight exp(beta x - largest)."""
    if beta == 0.0:
        return total + weight * x, 0.0
    exponent = beta * x
    if exponent <= largest:
        return total + weight * np.exp(exponent - largest), largest
    return total * np.exp(largest - exponent) + weight, exponent


@compiled(_nrt=False)
def backup(model: Model, rule: Rule, row: int) -> float:
    """Score the actions of a row anew; how much its value moved."""
    n_actions = model.tries.shape[1]
    group = model.group[row]
    top, chosen = -np.inf, 0
    for action in range(n_actions):
        tries = model.tries[row, action]
        known = model.group_tries[group, action]
        # the law is (1 - prior) of what was seen, and prior of the group's endings, else of what was seen not to end
        prior = rule.prior / (rule.prior + tries) if rule.prior > 0 else 0.0
        total, largest, goes_on = 0.0, -np.inf, prior
        seen = tries / (tries + rule.doubt) if tries > 0 else 1.0
        if seen < 1.0:
            total, largest = add(rule.beta, total, largest, 1.0 - seen, rule.untried)
        if known > 0 and prior > 0:
            for kind in range(len(model.ending)):
                e = model.ending[kind]
                if e >= 0 and model.reward[kind] < 0.0 and model.group_endings[group, action, e] > 0:
                    weight = prior * model.group_endings[group, action, e] / known
                    total, largest = add(rule.beta, total, largest, seen * weight, model.reward[kind])
                    goes_on -= weight
        goes_on = max(goes_on, 0.0)
        if tries == 0:
            total, largest = add(rule.beta, total, largest, 1.0 - prior + goes_on, rule.untried)
        else:
            went_on = 0
            o = model.first[row, action]
            while o >= 0:
                went_on += model.times[o] if model.successor[o] >= 0 else 0
                o = model.next_outcome[o]
            o = model.first[row, action]
            while o >= 0:
                x, after = model.reward[model.kind[o]], model.successor[o]
                weight = (1.0 - prior) * model.times[o] / tries
                if after >= 0:
                    x += rule.gamma * model.value[after]
                    weight += goes_on * model.times[o] / went_on
                elif went_on == 0:
                    weight += goes_on * model.times[o] / tries
                total, largest = add(rule.beta, total, largest, seen * weight, x)
                o = model.next_outcome[o]
        score = total if rule.beta == 0.0 else (largest + np.log(total)) / rule.beta
        model.score[row, action] = score
        if score > top:
            top, chosen = score, action
    moved = abs(top - model.value[row])
    model.value[row], model.best[row] = top, chosen
    model.used[BACKUPS] += 1
    return moved


@compiled(_nrt=False)
def put(model: Model, row: int) -> None:
    """On the worklist."""
    if not model.queued[row]:
        model.queued[row] = True
        model.worklist[(model.used[HEAD] + model.used[LENGTH]) % len(model.worklist)] = row
        model.used[LENGTH] += 1


@compiled(_nrt=False)
def work(model: Model, rule: Rule, most: int) -> None:
    """Back up what is on the worklist, and what follows from it, `most` times at most."""
    done = 0
    while model.used[LENGTH] > 0 and done < most:
        row = model.worklist[model.used[HEAD]]
        model.used[HEAD] = (model.used[HEAD] + 1) % len(model.worklist)
        model.used[LENGTH] -= 1
        model.queued[row] = False
        done += 1
        if backup(model, rule, row) > rule.threshold:
            o = model.before[row]
            while o >= 0:
                put(model, model.source[o])
                o = model.next_before[o]


@compiled(_nrt=False)
def add_row(model: Model, rule: Rule, group: int) -> int:
    """A new state; its number."""
    row = model.used[ROWS]
    model.used[ROWS] += 1
    model.group[row] = group
    backup(model, rule, row)
    return row


@compiled(_nrt=False)
def count(model: Model, row: int, action: int, kind: int, after: int) -> None:
    """One transition; after = -1 is the end."""
    group = model.group[row]
    model.group_tries[group, action] += 1.0
    if after < 0:
        if model.ending[kind] < 0 and model.used[ENDINGS] < model.group_endings.shape[2]:
            model.ending[kind] = model.used[ENDINGS]
            model.used[ENDINGS] += 1
        if model.ending[kind] >= 0:
            model.group_endings[group, action, model.ending[kind]] += 1.0
    model.tries[row, action] += 1
    o = model.first[row, action]
    while o >= 0:
        if model.kind[o] == kind and model.successor[o] == after:
            model.times[o] += 1
            return
        o = model.next_outcome[o]
    o = model.used[OUTCOMES]
    model.used[OUTCOMES] += 1
    model.source[o], model.successor[o], model.kind[o], model.times[o] = row, after, kind, 1
    model.next_outcome[o] = model.first[row, action]
    model.first[row, action] = o
    if after >= 0:
        model.next_before[o] = model.before[after]
        model.before[after] = o


@compiled(_nrt=False)
def choose(model: Model, row: int, epsilon: float, margin: float, explore: float, which: float) -> int:
    """The best action, or at times another that is nearly as good; two uniform numbers decide."""
    if explore >= epsilon:
        return int(model.best[row])
    bar, able = model.value[row] - margin, 0
    for action in range(model.score.shape[1]):
        able += model.score[row, action] >= bar
    wanted = int(which * able)
    for action in range(model.score.shape[1]):
        if model.score[row, action] >= bar:
            if wanted == 0:
                return action
            wanted -= 1
    return int(model.best[row])


# --- the learner


class ModelLearner:
    """Counts, and plans on them; rows are states, numbered by whoever adds them."""

    def __init__(self, n_features: int, n_actions: int, settings: ModelSettings, seed: int) -> None:
        self.settings, self.seed = settings, checks.whole("seed", seed, 0)
        self.n_features, self.n_actions = n_features, n_actions
        self.kinds = np.zeros((0, n_features))
        self._kind_of: dict[bytes, int] = {}
        self.numbers: tuple[int, ...] = ()  # of an observation, that groups are made of
        self._group_of: dict[bytes, int] = {}
        self.prior = min(STRENGTHS[0], float(settings.prior))  # until it was looked at
        self.w, self.beta, self.pessimistic, self.steps = np.zeros(n_features), 0.0, False, 0
        self.planning_seconds, self._seconds_a_backup = 0.0, 0.0
        self._rooms: FourRoom | None = None
        self._row_of: Any = None
        self._model = _empty(n_actions)

    @property
    def states(self) -> int:
        return int(self._model.used[ROWS])

    @property
    def backups(self) -> int:
        """How many there were so far, a measure of the work of planning."""
        return int(self._model.used[BACKUPS])

    def kind(self, phi: npt.ArrayLike) -> int:
        """The number of a feature vector; a new one is noted."""
        features = np.ascontiguousarray(phi, np.float64) + 0.0  # -0.0 is 0.0
        found = self._kind_of.setdefault(features.tobytes(), len(self.kinds))
        if found == len(self.kinds):
            self.kinds = np.concatenate([self.kinds, features[None]])
            self._model = self._model._replace(
                reward=self.kinds @ self.w, ending=np.append(self._model.ending, np.int32(-1))
            )
        return found

    @property
    def unit(self) -> float:
        """The largest reward known, in absolute terms; 1 while there is none."""
        largest = float(np.abs(self._model.reward).max(initial=0.0))
        return largest if largest > 0 else 1.0

    def plan(self, w: npt.ArrayLike, risk: Risk = _NEUTRAL, pessimistic: bool = False) -> None:
        """Plan all that is known for the weights w (d,) and a risk, and learn with that plan from now on.

        pessimistic: what was never tried could not be worse.
        """
        self.w, self.beta, self.pessimistic = checks.weights("w", w, self.n_features), recursion_beta(risk), pessimistic
        self._model = self._model._replace(reward=self.kinds @ self.w)
        self._plan_anew()

    def _plan_anew(self) -> None:
        begin, model, n = time.perf_counter(), self._model, self.states
        model.used[HEAD], model.used[LENGTH] = 0, n
        model.worklist[:n] = np.arange(n)[::-1]  # states that were found late are often near the end
        model.queued[:n] = True
        before = self.backups
        work(model, self.rule, _MOST_WORK * n)
        took = time.perf_counter() - begin
        self.planning_seconds += took
        if self.backups > before:
            self._seconds_a_backup = took / (self.backups - before)

    @property
    def rule(self) -> Rule:
        """For the task that is learned."""
        chosen, unit = self.settings, self.unit
        untried, doubt = chosen.optimism * unit, chosen.doubt
        if self.pessimistic:
            untried, doubt = -unit / (1 - chosen.gamma), 0.0
        # the rate of states that nothing tells apart would make all of them look dangerous
        prior = self.prior if self.numbers else 0.0
        return Rule(self.beta, chosen.gamma, untried, doubt, prior, chosen.tolerance * unit)

    def add_row(self, group: int = 0) -> int:
        """A new state; its number."""
        self._make_room()
        return int(add_row(self._model, self.rule, group))

    def choose(self, row: int, explore: float, which: float) -> int:
        """The action that is best by the plan, or one nearly as good; two uniform numbers decide."""
        chosen = self.settings
        return int(choose(self._model, row, chosen.epsilon, chosen.margin * self.unit, explore, which))

    def value(self, row: int) -> float:
        """The plan's utility of a state."""
        return float(self._model.value[row])

    def learn(self, row: int, action: int, phi: npt.ArrayLike, next_row: int | None) -> None:
        """One transition; no next row is the end."""
        kind = self.kind(phi)
        self._make_room()
        begin = time.perf_counter()
        after = -1 if next_row is None else next_row
        count(self._model, row, action, kind, after)
        put(self._model, row)
        work(self._model, self.rule, _MOST_AT_ONCE)
        self.planning_seconds += time.perf_counter() - begin
        self.steps += 1

    def regroup(self, keys: Sequence[Floats] | Floats) -> bool:
        """Make groups anew where it is time; keys (S, n) are the numbers of the states. Whether they have changed."""
        if self.settings.groups == "none" or not _is_time(self.steps):
            return False
        table = np.asarray(keys)
        numbers = numbers_that_matter(table, *self._endings())
        changed = numbers != self.numbers
        if changed:
            self.numbers, self._group_of = numbers, {}
            self.set_groups(np.array([self.group_of(key) for key in table]), max(1, len(self._group_of)))
        self._weigh_prior()
        return changed

    def _weigh_prior(self) -> None:
        """How many tries the prior is worth, from what is known of failures by the task at hand."""
        tries, endings = self._failures()
        failures, group = endings.sum(axis=2), self._model.group[: self.states]
        pooled = np.zeros_like(self._model.group_tries), np.zeros_like(self._model.group_tries)
        np.add.at(pooled[0], group, tries)
        np.add.at(pooled[1], group, failures)
        rate = (pooled[1] / np.maximum(pooled[0], 1.0))[group]
        self.prior = strength(tries, failures, rate, float(self.settings.prior))

    def group_of(self, key: Floats) -> int:
        """The group of a state with these numbers (n,)."""
        if not self.numbers:
            return 0
        alike = np.ascontiguousarray(key[list(self.numbers)]).tobytes()
        group = self._group_of.setdefault(alike, len(self._group_of))
        pooled = self._model.group_tries
        if group >= len(pooled):
            self._model = self._model._replace(
                group_tries=np.concatenate([pooled, np.zeros_like(pooled)]),
                group_endings=np.concatenate([self._model.group_endings, np.zeros_like(self._model.group_endings)]),
            )
        return group

    def set_groups(self, ids: Ints, groups: int) -> None:
        """The group (S,) of every state, of so many; what is pooled is counted anew, and all is planned anew."""
        tries, endings = self._endings()
        model, n = self._model, self.states
        pooled = np.zeros((groups, self.n_actions)), np.zeros((groups, self.n_actions, _ENDINGS))
        np.add.at(pooled[0], ids, tries)
        np.add.at(pooled[1], ids, endings)
        model.group[:n] = ids
        self._model = model._replace(group_tries=pooled[0], group_endings=pooled[1])
        self._plan_anew()

    def _failures(self) -> tuple[Floats, Floats]:
        """The same, of endings that are failures by the task at hand."""
        tries, endings = self._endings()
        for kind in np.flatnonzero(self._model.ending >= 0):
            endings[..., self._model.ending[kind]] *= self._model.reward[kind] < 0
        return tries, endings

    def _endings(self) -> tuple[Floats, Floats]:
        """Tries (S, A), and how many of them ended in each way (S, A, _ENDINGS)."""
        model, n, o = self._model, self.states, int(self._model.used[OUTCOMES])
        endings = np.zeros((n, self.n_actions, _ENDINGS))
        action = self._actions()
        ended = (model.successor[:o] < 0) & (model.ending[model.kind[:o]] >= 0)
        at = (model.source[:o][ended], action[ended], model.ending[model.kind[:o][ended]])
        np.add.at(endings, at, model.times[:o][ended])
        return model.tries[:n].astype(float), endings

    def _actions(self) -> Ints:
        """The action (O,) of every outcome."""
        model, n = self._model, self.states
        actions = np.empty(int(model.used[OUTCOMES]), np.int64)
        outcome_actions(model.first[:n], model.next_outcome, actions)
        return actions

    def _make_room(self) -> None:
        """For two more states and their outcomes."""
        model = self._model
        if model.used[ROWS] + 2 > len(model.value) or model.used[OUTCOMES] + 2 > len(model.kind):
            self._model = _grown(model)

    # --- what is known, as a process

    def finite_mdp(self) -> FiniteMDP:
        """What is known as a `FiniteMDP`, with the prior's failures by the task at hand; the last state is the end.

        An action that was never tried ends at once, with no features but those of the group's failures.
        """
        model, n, A, d = self._model, self.states, self.n_actions, self.n_features
        o = int(model.used[OUTCOMES])
        tries, _ = self._endings()
        row = model.source[:o].astype(np.int64) * A + self._actions()
        counts, flat = model.times[:o].astype(float), tries.ravel()
        added = self.rule.prior
        prior = added / np.maximum(added + flat, 1e-300)
        pooled = model.group_tries[model.group[:n]].reshape(-1)
        of_kind = np.flatnonzero((model.ending >= 0) & (model.reward < 0))
        share = model.group_endings[model.group[:n]].reshape(n * A, -1)[:, model.ending[of_kind]]
        ends = np.where(pooled[:, None] > 0, prior[:, None] * share / np.maximum(pooled, 1.0)[:, None], 0.0)
        goes_on = np.maximum(np.where(flat > 0, prior, 1.0) - ends.sum(axis=1), 0.0)
        on = model.successor[:o] >= 0
        went_on = np.bincount(row, weights=counts * on, minlength=n * A)
        p = (1 - prior[row]) * counts / flat[row]
        p += np.where(on, goes_on[row] * counts / np.maximum(went_on[row], 1.0), 0.0)
        p += np.where((went_on[row] == 0) & ~on, goes_on[row] * counts / flat[row], 0.0)
        at, e = np.nonzero(ends)
        untried = np.flatnonzero(flat == 0)
        rows = np.concatenate([row, at, untried])
        successor = np.concatenate([np.where(on, model.successor[:o], n), np.full(len(at) + len(untried), n)])
        probability = np.concatenate([p, ends[at, e], goes_on[untried]])
        phi = np.concatenate([self.kinds[model.kind[:o]], self.kinds[of_kind[e]], np.zeros((len(untried), d))])
        order = np.argsort(rows, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=(n + 1) * A))])
        P = sp.csr_array((probability[order], successor[order], indptr), shape=((n + 1) * A, n + 1))
        return FiniteMDP(P, phi[order], terminal=[n], gamma=self.settings.gamma)

    def policy(self, w: npt.ArrayLike, risk: Risk = _NEUTRAL) -> Ints:
        """Actions (S + 1,) for the weights w and a risk on all that is known by now.

        There is nothing more to find out: an action that was never tried is taken only where none was.
        """
        self.plan(w, risk, pessimistic=True)
        return np.append(self._model.best[: self.states], 0).astype(np.int64)

    def tried(self) -> Bools:
        """Which actions (S, A) were ever tried."""
        return np.asarray(self._model.tries[: self.states] > 0)

    # --- the four-room world, compiled

    def learn_four_room(self, rooms: FourRoom, w: npt.ArrayLike, risk: Risk, steps: int) -> TaskOutcome:
        """Learn a task of the four-room world, weights w (d,) at a risk, for `steps` transitions from its start."""
        from numba import int64, typed

        if self._rooms is None:
            self._rooms, self._row_of = rooms, typed.Dict.empty(int64, int64)
            for phi in (np.zeros(self.n_features), *np.eye(self.n_features)):
                self.kind(phi)  # kind 1 + i is feature i
        elif self._rooms != rooms:
            raise ValueError("the learner has learned in another world; make a new one for this")
        self.plan(w, risk)
        world = rooms.world()
        draws = np.random.default_rng([self.seed, self.steps, _STREAM]).random((steps, 3))
        progress, total = np.zeros(6, np.int64), np.zeros(1)
        progress[CELL] = world.start
        while progress[STEP] < steps:
            self._make_room()
            look = min(steps, int(progress[STEP]) + _until_look(self.steps))
            before = int(progress[STEP])
            chosen = (self.settings.epsilon, self.settings.margin * self.unit)
            room = (rooms.step_limit, rooms.shape[1], np.array(self.numbers, np.int64))
            begin, backups = time.perf_counter(), self.backups
            run_four_room(world, *room, self._model, self.rule, self._row_of, *chosen, draws[:look], progress, total)
            self.steps += int(progress[STEP]) - before
            # compiled code has no clock: as many backups as there were, each as long as those that were timed
            spent = time.perf_counter() - begin
            self.planning_seconds += min(spent, (self.backups - backups) * self._seconds_a_backup)
            if self.regroup(self.four_room_keys()):
                self._number_four_room_groups()
        return TaskOutcome(float(total[0]), int(progress[FAILURES]), int(progress[EPISODES]))

    def _number_four_room_groups(self) -> None:
        """Groups by the number that compiled code gives them, which knows no table of keys."""
        assert self._rooms is not None
        keys, ids, groups = self.four_room_keys(), np.zeros(self.states, np.int64), 1
        for number in self.numbers:
            sizes = max(self._rooms.shape) if number < 2 else 2
            ids, groups = ids * sizes + keys[:, number].astype(np.int64), groups * sizes
        self.set_groups(ids, groups)

    def four_room_keys(self) -> Floats:
        """The states as `rasf/FourRoom-v0` shows them (S, n): row, column, collected flags."""
        assert self._rooms is not None
        found = np.empty(self.states, np.int64)
        list_rows(self._row_of, found)
        cells, objects = len(self._rooms.cells), len(self._rooms.world().class_of)
        flags = found // cells
        collected = (flags[:, None] >> np.arange(objects)) & 1
        return np.column_stack([*np.divmod(found % cells, self._rooms.shape[1]), collected]).astype(np.float64)


STEP, CELL, FLAGS, TAKEN, FAILURES, EPISODES = range(6)  # entries of `progress`


@compiled()
def run_four_room(
    world: four_room.RoomArrays,
    step_limit: int,
    columns: int,
    numbers: Ints,
    model: Model,
    rule: Rule,
    row_of: Any,
    epsilon: float,
    margin: float,
    draws: Floats,
    progress: Ints,
    total: Floats,
) -> None:
    """Learn until the draws (steps, 3) or the model's arrays are used up; `progress` says how far it got.

    draws are uniform: explore or not, which action, whether a trap fires. `numbers` of an observation make a group.
    """
    n_cells, largest = world.destination.shape[0], max(columns, world.destination.shape[0] // columns)
    cell, flags, taken = progress[CELL], progress[FLAGS], progress[TAKEN]
    row = -1
    for n in range(progress[STEP], len(draws)):
        if model.used[ROWS] + 2 > len(model.value) or model.used[OUTCOMES] + 2 > len(model.kind):
            break
        if row < 0:
            row = four_room_row(model, rule, row_of, cell, flags, n_cells, columns, largest, numbers)
        action = choose(model, row, epsilon, margin, draws[n, 0], draws[n, 1])
        cell, flags, feature, terminated = four_room.step(world, cell, flags, action, draws[n, 2])
        taken += 1
        if feature >= 0:
            total[0] += model.reward[1 + feature]
            progress[FAILURES] += feature == world.n_classes + 1
        next_row = -1
        if not terminated:
            next_row = four_room_row(model, rule, row_of, cell, flags, n_cells, columns, largest, numbers)
        count(model, row, action, 1 + feature, next_row)
        put(model, row)
        work(model, rule, _MOST_AT_ONCE)
        row = next_row
        if terminated or taken == step_limit:
            progress[EPISODES] += 1
            cell, flags, taken, row = world.start, 0, 0, -1
        progress[STEP] = n + 1
    progress[CELL], progress[FLAGS], progress[TAKEN] = cell, flags, taken


@compiled()
def four_room_row(
    model: Model,
    rule: Rule,
    row_of: Any,
    cell: int,
    flags: int,
    n_cells: int,
    columns: int,
    largest: int,
    numbers: Ints,
) -> int:
    """The row of a state; a new one is added, with its group."""
    state = np.int64(cell + n_cells * flags)
    if state in row_of:
        return row_of[state]
    group = 0
    for number in numbers:
        if number < 2:
            group = group * largest + (cell // columns if number == 0 else cell % columns)
        else:
            group = group * 2 + ((flags >> (number - 2)) & 1)
    row = add_row(model, rule, group)
    row_of[state] = row
    return row


@compiled()
def list_rows(row_of: Any, states: Ints) -> None:
    """The state of every row."""
    for state, row in row_of.items():
        states[row] = state


@compiled(_nrt=False)
def outcome_actions(first: Ints, next_outcome: Ints, actions: Ints) -> None:
    """The action of every outcome."""
    for row in range(first.shape[0]):
        for action in range(first.shape[1]):
            o = first[row, action]
            while o >= 0:
                actions[o] = action
                o = next_outcome[o]


# --- when groups are made, and room


def _is_time(steps: int) -> bool:
    return steps >= _FIRST_LOOK and _until_look(steps - 1) == 1


def _until_look(steps: int) -> int:
    """Steps until groups are made anew."""
    look = _FIRST_LOOK
    while look <= steps:
        look *= 2
    return look - steps


def _empty(n_actions: int, rows: int = 256, outcomes: int = 1024) -> Model:
    return Model(
        tries=np.zeros((rows, n_actions), np.int32),
        first=np.full((rows, n_actions), -1, np.int32),
        group=np.zeros(rows, np.int32),
        before=np.full(rows, -1, np.int32),
        value=np.zeros(rows),
        score=np.zeros((rows, n_actions)),
        best=np.zeros(rows, np.int32),
        queued=np.zeros(rows, np.bool_),
        worklist=np.zeros(rows, np.int32),
        source=np.zeros(outcomes, np.int32),
        successor=np.zeros(outcomes, np.int32),
        kind=np.zeros(outcomes, np.int32),
        times=np.zeros(outcomes, np.int32),
        next_outcome=np.full(outcomes, -1, np.int32),
        next_before=np.full(outcomes, -1, np.int32),
        reward=np.zeros(0),
        ending=np.zeros(0, np.int32),
        group_tries=np.zeros((1, n_actions)),
        group_endings=np.zeros((1, n_actions, _ENDINGS)),
        used=np.zeros(6, np.int64),
    )


_BY_ROW = ("tries", "first", "group", "before", "value", "score", "best", "queued", "worklist")
_BY_OUTCOME = ("source", "successor", "kind", "times", "next_outcome", "next_before")


def _grown(model: Model) -> Model:
    """With twice the room; the worklist, a ring, begins at 0 again."""
    rows, outcomes = 2 * len(model.value), 2 * len(model.kind)
    larger = _empty(model.tries.shape[1], rows, outcomes)
    for name in (*_BY_ROW, *_BY_OUTCOME):
        old = getattr(model, name)
        getattr(larger, name)[: len(old)] = old
    waiting = (model.used[HEAD] + np.arange(model.used[LENGTH])) % len(model.worklist)
    larger.worklist[: len(waiting)] = model.worklist[waiting]
    model.used[HEAD] = 0
    kept = {name: getattr(model, name) for name in ("reward", "ending", "group_tries", "group_endings", "used")}
    return larger._replace(**kept)
