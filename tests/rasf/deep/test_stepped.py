"""The stepped driver: what it stores, draws and learns, and which networks act."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import compiled_actions, constant_networks, create_agent, settings_of, single_steps

from rasf.deep import algorithm
from rasf.deep.agent import Tasks
from rasf.deep.algorithm import Scaling
from rasf.deep.laws import MeanOnly, Within
from rasf.deep.networks import plain_outputs
from rasf.deep.replay import Steps
from rasf.deep.stepped import Pace, SteppedLearner
from rasf.mdp import FiniteMDP
from rasf.planning.moments import successor_moments
from rasf.risk import MeanVariance

OBS, ACTIONS, BETA = 2, 3, -1.5
BOUNDS = np.array([(-1.0, 1.0), (0.0, 2.0)])
TASKS = Tasks.of([[1.0, -0.5], [0.3, 1.0]])


class Step(NamedTuple):
    next_obs: np.ndarray
    phi: np.ndarray
    terminated: np.ndarray
    valid: np.ndarray


def agent_of(name="rasfc51", tasks=TASKS, **changes):
    small = {"widths": (6,), "atoms": 5, "gamma": 0.8, "target_period": 4, "batch": 4, "learning_rate": 0.01}
    return create_agent(settings_of(name, **(small | changes)), OBS, ACTIONS, BOUNDS, tasks)


def make(name="rasfc51", num_envs=2, seed=3, capacity=1_000, beta=BETA, options=None, **changes):
    of_pace, options = {"together", "act_every"}, options or {}
    pace = Pace(num_envs, capacity, **{key: value for key, value in options.items() if key in of_pace})
    others = {key: value for key, value in options.items() if key not in of_pace}
    return SteppedLearner(agent_of(name, **changes), TASKS, beta, seed, pace, **others)


def random_step(rng, n=2):
    next_obs, phi = rng.normal(size=(n, OBS)), rng.uniform(BOUNDS[:, 0], BOUNDS[:, 1], size=(n, 2))
    return Step(next_obs, phi, rng.random(n) < 0.3, rng.random(n) < 0.8)


def feed(learner, steps, seed=0):
    """Random transitions; the list of those that count: (obs, action, phi, next_obs, not_terminated, task)."""
    rng, kept = np.random.default_rng(seed), []
    for _ in range(steps):
        obs, step = rng.normal(size=(2, OBS)).astype(np.float32), random_step(rng)
        reused = obs.copy()
        action = learner.act(reused)
        reused[:] = 7.0  # as environments do that keep one array
        learner.observe(*step)
        kept += [
            (obs[i], action[i], step.phi[i], step.next_obs[i], float(not step.terminated[i]), learner.active[i])
            for i in range(2)
            if step.valid[i]
        ]
    return kept


def as_batch(transitions):
    obs, action, phi, next_obs, not_terminated, task = map(np.array, zip(*transitions, strict=True))
    floats = (part.astype(np.float32) for part in (obs, phi, next_obs, not_terminated))
    obs, phi, next_obs, not_terminated = floats
    return single_steps(obs, action, phi, next_obs, not_terminated, task)


@pytest.mark.parametrize("name", ["rasfc51", pytest.param("sfdqn-residual", marks=pytest.mark.slow)])
def test_updates_are_the_agent_s_on_what_was_stored_in_order(name):
    """Rows are chosen by the chance of each update; 40 updates, target copies every 4, scans of 2 and 4."""
    learner = make(name)
    agent = learner.agent
    reference = jax.tree.map(jnp.array, learner._learner)
    chance = jax.jit(lambda update: algorithm.sample_chance(agent, jax.random.key(3), update))
    update = jax.jit(lambda state, batch, within: agent.update(state, batch, TASKS, MeanVariance(BETA), within))
    kept, done = [], 0
    for task, updates in ((0, 2), (1, 4), (1, 34)):
        learner.begin_task(task)
        kept += feed(learner, 5, seed=done)
        found = learner.learn(updates)
        assert learner.transitions == len(kept) < 10 * (1 + task + done)  # some were empty steps
        seen = np.float32([one[2] for one in kept])
        within = Within(seen.min(axis=0).clip(None, 0), seen.max(axis=0).clip(0), np.ones(2, np.float32))
        losses, clipped = [], []
        for _ in range(updates):
            batch = as_batch([kept[int(bits)] for bits in np.asarray(chance(done).bits) % np.uint32(len(kept))])
            reference, one = update(reference, batch, within)
            losses.append(np.mean(one.each))
            clipped.append(one.clipped)
            done += 1
            if done % 4 == 0:
                reference = agent.copy_target(reference)
        assert (found.updates, learner.updates) == (updates, done)
        assert found.loss == pytest.approx(np.mean(losses), rel=1e-4)
        np.testing.assert_allclose(found.clipped, np.mean(clipped, axis=0), atol=1e-6)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), learner._within, within)
    for mine, plain in ((learner._learner.online, reference.online), (learner._learner.target, reference.target)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), mine, plain)


def test_without_target_networks_there_is_nothing_to_copy():
    learner = make("sfdqn", target_period=0)
    feed(learner, 3)
    assert learner.learn(8).updates == 8
    assert learner._learner.target == ()


def test_greedy_actions_are_gpi_on_the_active_task():
    learner = make(epsilon=0.0)
    agent, chosen = learner.agent, []
    for seed in range(12):
        obs = np.random.default_rng(seed).normal(size=(2, OBS)).astype(np.float32)
        for task in (0, 1):
            learner.begin_task(task)
            task_heads = agent.task_heads(learner.networks, TASKS.weights[task])
            scores = np.asarray(agent.scores(task_heads, obs, TASKS.inputs[task], MeanVariance(BETA)))
            chosen.append(learner.act(obs))
            np.testing.assert_array_equal(chosen[-1], scores.max(axis=0).argmax(axis=-1))
    assert len(np.unique(chosen)) > 1


def test_older_policies_take_part_in_the_choice():
    """Networks that score the actions 1, 3, 2 on both tasks; an older policy acts where its score is higher."""
    own = np.zeros((2, 1, ACTIONS, 2))
    own[:, 0, :, 0] = [1.0, 3.0, 2.0]
    obs, asked = np.array([[1.0, 2.0], [3.0, 4.0]]), []

    def base_scores(seen, task):
        asked.append((seen.tolist(), task))
        return np.array([[-np.inf, -np.inf, 3.5], [3.0, 0.0, 0.0]])[-len(seen) :]

    def advised(by, **options):
        learner = make("sfdqn", epsilon=0.0, options={"base_scores": by, **options})
        learner._learner = learner._learner._replace(online=constant_networks(learner.agent, [own]))
        learner._refresh()
        return learner

    for options in ({}, {"act_every": 2}):
        np.testing.assert_array_equal(advised(None, **options).act(obs), [1, 1])
        learner = advised(base_scores, **options)
        np.testing.assert_array_equal(learner.act(obs), [2, 0])  # in the second, a tie: the lowest
        learner.begin_task([0, 1])
        np.testing.assert_array_equal(learner.act(obs), [0, 0])  # each asked by itself
        assert asked == [(obs.tolist(), 0), (obs[:1].tolist(), 0), (obs[1:].tolist(), 1)]
        asked.clear()
    for wrong in (np.zeros((2, 2)), np.full((2, ACTIONS), np.nan)):
        with pytest.raises(ValueError, match="base_scores must"):
            advised(lambda *_, wrong=wrong: wrong).act(obs)


def test_exploration_is_uniform_and_as_frequent_as_it_should_be():
    learner = make("sfdqn", epsilon=0.5, num_envs=500)
    values = np.zeros((2, 1, ACTIONS, 2))
    values[:, 0, 1, 0] = 1.0
    learner._learner = learner._learner._replace(online=constant_networks(learner.agent, [values]))
    learner._refresh()
    actions = np.concatenate([learner.act(np.zeros((500, OBS))) for _ in range(20)])
    share = np.bincount(actions, minlength=ACTIONS) / len(actions)
    np.testing.assert_allclose(share, [1 / 6, 4 / 6, 1 / 6], atol=4 * np.sqrt(0.25 / 10_000))


def run(seed, calls):
    """Networks and actions of a short run; `calls` are the numbers of updates after each step."""
    learner, rng, actions = make(seed=seed, epsilon=0.5), np.random.default_rng(0), []
    for updates in calls:
        actions.append(learner.act(rng.normal(size=(2, OBS))))
        learner.observe(*random_step(rng)._replace(valid=np.ones(2, bool)))
        learner.learn(updates)
    return learner.networks, np.array(actions)


def test_same_seed_same_bits():
    first, again, other = (run(seed, [1, 2, 0, 2] * 3) for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first[0][0].heads.weight, other[0][0].heads.weight)


def test_one_scan_of_updates_is_as_many_alone():
    learners = [make(), make()]
    for learner, spans in zip(learners, ([2, 4], [1] * 6), strict=True):
        feed(learner, 10)
        for span in spans:
            learner.learn(span)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), *(one.networks for one in learners))


def test_networks_are_a_copy_that_stays():
    learner = make()
    feed(learner, 5)
    learner.learn(1)
    held = learner.networks
    before = jax.tree.map(np.copy, held)
    for _ in range(5):
        learner.learn(1)
    jax.tree.map(np.testing.assert_array_equal, held, before)
    assert not np.array_equal(held[0].heads.weight, learner.networks[0].heads.weight)


def test_owed_updates_follow_the_valid_transitions():
    """3 valid transitions a step, an update for each, done by twos: owed 3, 1 + 3, 0 + 3, 1 + 3."""
    learner = make("sfdqn", num_envs=4, options={"together": 2})
    assert learner.learn() is None  # nothing is owed before the first transition
    step = Step(np.zeros((4, OBS)), np.zeros((4, 2)), np.zeros(4, bool), np.array([True, False, True, True]))
    done = []
    for _ in range(4):
        learner.act(np.zeros((4, OBS)))
        learner.observe(*step)
        done.append(learner.learn().updates)
    assert done == [2, 4, 2, 4]
    assert learner.updates == learner.transitions == 12


def one_hot_learner(n_states, n_actions, **changes):
    tasks = Tasks.of(np.ones((1, 1)))
    settings = settings_of("sfdqn", widths=(32,), epsilon=1.0, learning_rate=5e-3, target_period=16, **changes)
    agent = create_agent(settings, n_states, n_actions, [(0.0, 1.0)], tasks)
    return SteppedLearner(agent, tasks, 0.0, 0, Pace(n_states, 100_000))


def psi_of(learner, n_states):
    """psi (S, A) of the only policy and feature."""
    agent = learner.agent
    assert isinstance(agent.law, MeanOnly)
    mean, _ = agent.moments(agent.task_heads(learner.networks, np.ones(1)), np.eye(n_states), np.zeros(0))
    return np.asarray(mean[0])


def test_psi_of_a_chain_is_learned():
    """States 0 to 3 in a row, 4 the end; action 1 goes right, action 0 left; phi is 1 on entering the end and 0.1
    on bumping into the wall. All states are stepped at once, at random: every transition is seen.
    """
    gamma, n = 0.8, 5
    P, phi = np.zeros((n, 2, n)), np.zeros((n, 2, n, 1))
    for s in range(n - 1):
        P[s, 0, max(s - 1, 0)] = P[s, 1, s + 1] = 1.0
    phi[3, 1, 4], phi[0, 0, 0] = 1.0, 0.1
    mdp = FiniteMDP(P, phi, terminal=[4], gamma=gamma)
    learner = one_hot_learner(n, 2, gamma=gamma)
    states = np.arange(n)
    for _ in range(30):
        action = learner.act(np.eye(n)[states])
        to = np.where(action == 1, states + 1, np.maximum(states - 1, 0)).clip(0, n - 1)
        seen = phi[states, action, to]
        learner.observe(*Step(np.eye(n)[to], seen, to == 4, states < 4))
    for _ in range(12):
        learner.learn(256)
    psi = psi_of(learner, n)[:4]
    greedy = psi.argmax(axis=1)
    np.testing.assert_array_equal(greedy, [1, 1, 1, 1])
    exact = successor_moments(mdp, np.append(greedy, 0)).psi[:4, :, 0]
    assert exact[0, 1] == pytest.approx(gamma**3)
    np.testing.assert_allclose(psi, exact, atol=0.02)


@pytest.mark.parametrize(("terminated", "value"), [(True, [1.0, 0.25]), (False, [1.5, 1.0])])
def test_an_end_has_no_future_and_a_cut_has(terminated, value):
    """State 0 earns 1 and leads to 1, which earns 0.25 and leads to 0; every episode is over after one step.

    Terminated: psi = phi. Cut: psi_0 = 1 + 0.5 psi_1 and psi_1 = 0.25 + 0.5 psi_0, so 1.5 and 1.
    """
    learner = one_hot_learner(2, 1, gamma=0.5)
    for _ in range(5):
        learner.act(np.eye(2))
        learner.observe(*Step(np.eye(2)[::-1], np.array([[1.0], [0.25]]), np.full(2, terminated), np.ones(2, bool)))
    for _ in range(4):
        learner.learn(256)
    np.testing.assert_allclose(psi_of(learner, 2)[:, 0], value, atol=0.02)


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"phi": np.array([[0.0, np.nan], [0.0, 0.0]])}, "features"),
        ({"phi": np.array([[0.0, 1e39], [0.0, 0.0]])}, "features"),
        ({"next_obs": np.array([[0.0, 0.0], [np.inf, 0.0]])}, "an observation"),
    ],
)
def test_what_is_not_finite_is_refused_and_not_stored(changes, culprit):
    learner = make("sfdqn")
    learner.act(np.zeros((2, OBS)))
    step = Step(np.zeros((2, OBS)), np.zeros((2, 2)), np.zeros(2, bool), np.ones(2, bool))
    with pytest.raises(ValueError, match=f"{culprit} (that is|that are) not finite"):
        learner.observe(*step._replace(**changes))
    assert learner.transitions == 0
    learner.act(np.zeros((2, OBS)))
    learner.observe(*step._replace(**changes, valid=np.zeros(2, bool)))  # an empty step says nothing
    assert learner.transitions == 0


def test_a_loss_that_is_not_finite_is_refused():
    learner = make("sfdqn", learning_rate=1e38)
    feed(learner, 5)
    learned = learner.learn(8)
    with pytest.raises(ValueError, match=r"loss .* update 8"):
        print(learned.loss)


def test_misuse_is_refused():
    learner = make("sfdqn")
    step = Step(np.zeros((2, OBS)), np.zeros((2, 2)), np.zeros(2, bool), np.ones(2, bool))
    with pytest.raises(ValueError, match="observe must"):
        learner.observe(*step)
    with pytest.raises(ValueError, match="obs must"):
        learner.act(np.zeros((1, OBS)))
    with pytest.raises(ValueError, match="task must"):
        learner.begin_task(2)
    with pytest.raises(ValueError, match="learn needs at least one step"):
        learner.learn(1)
    with pytest.raises(ValueError, match="together must"):
        make("sfdqn", options={"together": 3})
    with pytest.raises(ValueError, match="num_envs must"):
        make("sfdqn", capacity=1)
    with pytest.raises(ValueError, match="beta must"):
        make("sfdqn", beta=np.inf)
    with pytest.raises(ValueError, match="tasks must"):
        SteppedLearner(learner.agent, Tasks(TASKS.weights[:1], TASKS.inputs[:1]), 0.0, 0, Pace(2, 10))
    with pytest.raises(ValueError, match="activation must be tanh"):
        SteppedLearner(replace(learner.agent, activation=np.maximum), TASKS, 0.0, 0, Pace(2, 10))


# --- beyond the paper: warm-up and scaling, epsilon that falls, interleaved tasks, sums over several steps


def test_what_is_learned_in_other_units_is_the_same():
    """An environment in other units (obs, features and weights) is learned alike, and networks answer in its own."""
    shift, scale, units = np.array([5.0, -300.0]), np.array([0.01, 40.0]), np.array([200.0, 0.004])
    found = []
    for there in (False, True):
        settings = {"warmup": 40, "epsilon": 0.2, "exploration": 0.5, "learning_rate": 1e-3}
        learner = make("rasfdqn", options={"act_every": 8}, **settings)
        if there:
            tasks = Tasks(TASKS.weights / units.astype(np.float32), TASKS.inputs)
            learner = SteppedLearner(learner.agent, tasks, BETA, 3, Pace(2, 1_000, act_every=8))
        rng, actions = np.random.default_rng(0), []
        obs = rng.normal(size=(2, OBS))
        for _ in range(150):
            step = random_step(rng)
            move = (lambda x: shift + scale * x) if there else (lambda x: x)
            actions.append(learner.act(move(obs)))
            learner.observe(move(step.next_obs), step.phi * (units if there else 1.0), step.terminated, step.valid)
            learner.learn()
            obs = step.next_obs
        heads = learner.agent.law.plain_heads(learner.networks, learner._weights[0])
        out = plain_outputs(
            heads.networks[0], move(np.eye(2)).astype(np.float32), learner.agent.law.task_shapes(heads)[0]
        )
        found.append((np.array(actions), out))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=2e-2, atol=2e-2)
    assert np.abs(found[0][1]).max() > 0.1


def test_warm_up_is_random_and_nothing_is_learned_from_it_yet():
    learner = make("rasfdqn", warmup=10, n_step=1, epsilon=0.0, options={"act_every": 2})
    values = np.zeros((2, 1, ACTIONS, 2))
    values[:, 0, 1, 0] = 5.0
    rng, actions = np.random.default_rng(0), []
    while learner.transitions < 10:
        obs = rng.normal(size=(2, OBS))
        actions.append(learner.act(obs))
        learner.observe(obs, np.ones((2, 2)), [False] * 2, [True] * 2)
        assert learner.learn() is None
    assert len(np.unique(actions)) == ACTIONS
    learner._learner = learner._learner._replace(
        average=constant_networks(learner.agent, [values, values, np.zeros((2, 2, ACTIONS, 2))])
    )
    learner._refresh()
    np.testing.assert_array_equal(learner.act(rng.normal(size=(2, OBS))), [1, 1])


def test_a_warm_up_of_one_step_has_a_finite_scale():
    learner = make("rasfdqn", warmup=1, n_step=3, num_envs=1)
    rng = np.random.default_rng(0)
    for _ in range(4):
        obs = rng.normal(size=(1, OBS))
        learner.act(obs)
        learner.observe(obs, np.ones((1, 2)), [False], [True])
        assert all(np.isfinite(part).all() for part in learner._scaling)
    assert learner._warm


def test_inputs_that_never_change_are_left_alone():
    obs, phi = np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([[0.0, 3.0], [0.0, 3.0]])
    for xp in (np, jnp):
        seen = Steps(xp.asarray(obs), None, xp.asarray(phi), None, None, None, None)
        scaling = Scaling.of(agent_of("sfdqn", gamma=0.5), seen)
        np.testing.assert_allclose(scaling.inputs(obs), [[1.0, -1.0], [1.0, 1.0]])
        np.testing.assert_allclose(scaling.units, [1.0, 6.0])
        np.testing.assert_allclose(Scaling.of(agent_of("rasfc51", gamma=0.5), seen).units, 1.0)


def test_epsilon_falls_from_one_over_its_share_of_the_steps():
    agent = replace(agent_of("rasfdqn", epsilon=0.1, exploration=0.5, updates=0.5), planned=100)  # of 200 steps
    np.testing.assert_allclose(agent.epsilon_at(np.array([0, 50, 100, 200])), [1.0, 0.55, 0.1, 0.1])
    assert replace(agent, planned=0).epsilon_at(np.array(0)) == 0.1


def test_every_environment_acts_on_its_own_task():
    for options in ({}, {"act_every": 4}):
        learner = make(epsilon=0.0, options=options)
        obs = np.random.default_rng(2).normal(size=(2, OBS)).astype(np.float32)
        each = []
        for task in (0, 1):
            learner.begin_task(task)
            each.append(learner.act(obs))
            assert [learner.greedy(one, task) for one in obs] == each[-1].tolist()
        learner.begin_task([1, 0])
        np.testing.assert_array_equal(learner.act(obs), [each[1][0], each[0][1]])


def test_a_quarter_of_an_update_for_each_step():
    learner = make("rasfdqn", updates=0.25, warmup=0, n_step=1, options={"together": 2})
    feed(learner, 40)
    done = learner.learn()
    assert done.updates == learner.transitions // 4 // 2 * 2


def windows_of(learner):
    """Of all rows, in order."""
    return learner._replay.draw(np.arange(learner.transitions), learner.agent.settings.n_step).windows()


def test_sums_of_steps_stop_where_an_episode_is_cut_or_ends_or_a_step_is_empty():
    """Truncated after step 1, terminated after step 4, cut by the caller after step 6; step 3 is empty.

    The networks want all actions alike, so that the policies would take every action that was taken.
    """
    learner = make("rasfdqn", n_step=2, warmup=0, num_envs=1)
    for t in range(9):
        learner.act(np.full((1, OBS), t))
        learner.observe(np.full((1, OBS), t + 1.0), np.ones((1, 2)), [t == 4], [t != 3], [t == 1])
        if t == 6:
            learner.cut()
    batch, agent = windows_of(learner), learner.agent
    alike = constant_networks(agent, [np.zeros((2, heads, ACTIONS, n)) for heads, n in agent.law.shapes()])
    given = (
        learner._learner._replace(online=alike, target=alike),
        batch,
        TASKS.weights,
        np.zeros(2, np.float32),
        np.ones(2),
    )
    target = jax.jit(agent.target_of)(*given)
    np.testing.assert_allclose(batch.obs[:, 0], [0, 1, 2, 4, 5, 6, 7, 8])
    # an empty step is none: step 4 follows step 2 in the same episode
    phi = [1.8, 1.0, 1.8, 1.0, 1.8, 1.0, 1.8, 1.0]
    np.testing.assert_allclose(target.phi[..., 0], [phi, phi], rtol=1e-6)
    discounts = [0.64, 0.8, 0.0, 0.0, 0.64, 0.8, 0.64, 0.8]
    np.testing.assert_allclose(target.discount, [discounts, discounts], rtol=1e-6)


def test_images_of_200000_steps_fit_in_four_gigabytes():
    agent = create_agent(settings_of("rasfdqn"), 84 * 84, ACTIONS, BOUNDS, TASKS)
    assert agent.memory_needed(200_000, 84 * 84, 2, item=1) < 4e9 < agent.memory_needed(200_000, 84 * 84, 2)


@pytest.mark.parametrize(("limit", "horizon"), [(0, "continuing"), (9, "episode")])
def test_compiled_actions_are_those_of_networks_in_plain_units(limit, horizon):
    """Risk-averse, and averse episodes: features of large means, whose distributions are learned over their spread."""
    small = {"widths": (6,), "batch": 4, "warmup": 20, "epsilon": 0.0, "averse_episodes": 1.0, "n_step": 2}
    settings = settings_of("rasfdqn", horizon=horizon, **small)
    agent = create_agent(settings, OBS, ACTIONS, BOUNDS, TASKS, limit=limit)
    learner = SteppedLearner(agent, TASKS, BETA, 3, Pace(4, 1_000))
    rng, chosen = np.random.default_rng(0), []
    for t in range(40):
        obs, next_obs = rng.normal(size=(2, 4, OBS))
        phi, over = [5.0, -3.0] + 0.1 * rng.normal(size=(4, 2)), np.full(4, t % 9 == 8)
        actions = learner.act(obs)
        if learner._warm:
            np.testing.assert_array_equal(actions, compiled_actions(learner, TASKS, BETA))
            chosen.append(actions)
        learner.observe(next_obs, phi, [False] * 4, [True] * 4, over)
    assert (learner._scaling.spread < 0.3).all()
    assert learner._held.aversion.max() > 0.5
    assert len(chosen) > 30
    assert len(np.unique(chosen)) > 1
