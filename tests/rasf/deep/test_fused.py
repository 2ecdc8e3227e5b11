"""The fused driver against the same loop written plainly; lanes, chunks, what the ring holds, and what is refused."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import Twin, assert_same_networks, create_agent, plain_run, settings_of
from probe_worlds import Walk

from rasf.deep import algorithm, replay
from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.fused import PeriodStats, RunConfig, Schedule, _check, _check_sizes, chunks, period_of, start_lanes
from rasf.deep.settings import MomentSettings

WALK = Walk()
TASKS = Tasks(
    np.array([[1.0, 0.0, -0.5], [-1.0, 0.0, 1.0]], np.float32), np.array([[0.5, 0.0], [0.0, -0.5]], np.float32)
)
SMALL = {"widths": (4,), "atoms": 4, "batch": 3, "learning_rate": 0.02, "gamma": 0.8}
PERIOD = 8


def make(name="rasfc51", world=WALK, planned=0, limit=0, **changes):
    settings = settings_of(name, **{"target_period": PERIOD, **SMALL, **changes})
    return Agent.for_world(settings, world, TASKS, planned=planned, limit=limit)


def config_of(seed, beta=-3.0, bootstrap_beta=-1.0):
    return RunConfig(
        jax.random.key(seed), jnp.asarray(beta), jnp.asarray(bootstrap_beta), Tasks(*map(jnp.asarray, TASKS))
    )


def stacked(configs):
    return jax.tree.map(lambda *parts: jnp.stack(parts), *configs)


def run(agent, configs, schedule, world=WALK, lanes=None, step=0):
    """Lanes of stacked configs after all of training, in numpy, and what the chunks showed."""
    seen = []
    for chunk in chunks(agent, world, configs, schedule, lanes, step):
        last = jax.tree.map(np.array, chunk.lanes)
        seen.append(jax.tree.map(np.array, chunk._replace(lanes=())))
    return last, seen


def lane(lanes, i):
    return jax.tree.map(lambda part: part[i], lanes)


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


# The loop, step by step

# with all that the plain loop does not do switched off
PLAIN_LOW_RANK = {
    "events": (1,), "shared": False, "decay": False, "average": 0, "warmup": 0, "prioritised": 0.0, "updates": 0.5,
    "n_step": 3, "averse_episodes": 0.8, "replay": 10,
}  # fmt: skip


def rows_of(obs, action, phi, next_obs, not_terminated, task, last):
    return np.concatenate([obs, next_obs, phi, [action, not_terminated, task, last]])


@pytest.mark.parametrize(
    ("name", "world", "changes"),
    [
        ("rasfc51", WALK, {}),
        ("rasfc51", WALK, {"interleaved": True, "updates": 0.5}),
        ("sfdqn-residual", Walk(episode_length=7, edge=0.3), {"n_step": 3}),
        pytest.param(
            "sfdqn",
            Walk(episode_length=7, edge=0.3),
            {"n_step": 3, "interleaved": True, "updates": 0.5},
            marks=pytest.mark.slow,
        ),
        ("rasfdqn", Walk(episode_length=4, edge=0.5), PLAIN_LOW_RANK | {"limit": 4}),
    ],
    ids=["tasks in sequence", "interleaved", "three steps", "three steps interleaved", "averse episodes, small replay"],
)
def test_the_loop_is_algorithm_2(name, world, changes):
    """The plain loop takes the same chance and must take the same actions and hold the same numbers.

    Interleaved, each task has an environment, and there is an update for a step of all of them.
    """
    with jax.enable_x64(True):
        agent, config = make(name, world, epsilon=0.3, **changes), config_of(3)
        configs, schedule = stacked([config]), Schedule(12, 2, 2 * PERIOD)
        first = jax.tree.map(np.array, lane(start_lanes(agent, world, configs, schedule), 0))
        lanes, _ = run(agent, configs, schedule, world)
        twin = Twin(agent, first.learner, *TASKS)
        kept = plain_run(agent, world, config, schedule, twin)
        # weights of tasks are in single precision, and so are the directions of covariances that follow from them
        assert_same_networks(twin, lane(lanes, 0).learner, agent, atol=1e-6 if name == "rasfdqn" else 1e-9)
        rows = lanes.ring.rows[0]
        newest = [max(range(slot, len(kept), len(rows))) for slot in range(len(rows))]
        np.testing.assert_allclose(
            rows, [rows_of(*kept[i]) for i in newest], rtol=0, atol=1e-6 if agent.limit else 1e-9
        )
        assert len({last for *_, last in kept}) == 2
        if world.edge < np.inf:
            assert len({alive for *_, alive, _, _ in kept}) == 2


# Lanes and chunks

TWO_TASKS = Schedule(2 * PERIOD, 2, 2 * PERIOD)


@pytest.fixture(scope="module")
def three_lanes():
    agent, configs = make(), [config_of(1), config_of(2), config_of(2, beta=4.0)]
    return agent, configs, *run(agent, stacked(configs), TWO_TASKS)


def test_same_seed_same_bits(three_lanes):
    agent, configs, lanes, seen = three_lanes
    again, same = run(agent, stacked(configs), TWO_TASKS)
    assert_same(lanes, again)
    assert_same(seen, same)


def test_lanes_do_not_see_one_another(three_lanes):
    """At the same width, a lane is the same bits whatever the others are."""
    agent, configs, lanes, _ = three_lanes
    others, _ = run(agent, stacked([config_of(7), configs[1], config_of(8, beta=0.0)]), TWO_TASKS)
    assert_same(lane(lanes, 1), lane(others, 1))


def test_lanes_differ(three_lanes):
    _, _, lanes, _ = three_lanes
    for i, j in ((0, 1), (1, 2), (0, 2)):  # by seed, by beta, by both
        assert not np.array_equal(lanes.ring.rows[i], lanes.ring.rows[j])
        assert not np.array_equal(lanes.learner.online[0].heads.bias[i], lanes.learner.online[0].heads.bias[j])
    # the same seed begins alike: reset, noise and exploration are the same
    np.testing.assert_array_equal(lanes.ring.rows[1, 0, :3], lanes.ring.rows[2, 0, :3])


def test_a_lane_alone_is_close(three_lanes):
    """Another width compiles to other sums; over 32 updates rounding of 1e-7 grows little."""
    agent, configs, lanes, _ = three_lanes
    alone, _ = run(agent, stacked(configs[:1]), TWO_TASKS)
    actions = [replay.unpack(one.ring.rows[0], 3).action for one in (alone, lanes)]
    np.testing.assert_array_equal(*actions)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=0, atol=1e-4), lane(alone, 0), lane(lanes, 0))


def test_chunks_change_no_bit(three_lanes):
    agent, configs, lanes, seen = three_lanes
    cut, pieces = run(agent, stacked(configs), replace(TWO_TASKS, evaluate_every=PERIOD))
    assert_same(lanes, cut)
    assert [one.step for one in seen] == [16, 32]
    assert [one.step for one in pieces] == [8, 16, 24, 32]
    for whole, halves in zip(seen, (pieces[:2], pieces[2:]), strict=True):
        for name in ("phi", "loss", "clipped"):
            halved = np.mean([getattr(one, name) for one in halves], axis=0)
            np.testing.assert_allclose(getattr(whole, name), halved, rtol=1e-5, atol=1e-7)
        assert whole.length == sum(one.length for one in halves)


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_everything_random_follows_from_key_and_index(interleaved):
    """Cut into chunks of any length, and resumed after any of them: the same bits.

    With all that has a state: warm-up and scaling, repeated actions, averse episodes, prioritised replay, sums over
    steps, a small ring, averaged and frozen networks. Interleaved, with a time limit.
    """
    world, limit = Walk(episode_length=7, edge=0.9), 7 if interleaved else 0
    changes = {"warmup": 8, "epsilon_z": True, "n_step": 3, "replay": 30, "freeze": 0.3, "average": 9, "events": (1,)}
    changes |= {"averse_episodes": 1.0}
    agent = make("rasfdqn", world, 48, limit, interleaved=interleaved, epsilon=0.3, **changes)
    configs, schedule = stacked([config_of(1), config_of(2)]), Schedule(24, 2, 1_000)
    whole, seen = run(agent, configs, schedule, world)
    lanes, step, steps = None, 0, []
    short = replace(schedule, evaluate_every=PERIOD)
    while step < schedule.steps:  # one chunk each time, as after a kill
        chunk = next(chunks(agent, world, configs, short, lanes, step))
        lanes, step = jax.tree.map(jnp.array, chunk.lanes), chunk.step
        steps.append(step)
    assert len(steps) > len(seen)
    assert (whole.held.aversion > 0).any()
    assert_same(whole, jax.tree.map(np.asarray, lanes))


def test_what_chunks_show_is_what_the_ring_holds(three_lanes):
    _, _, lanes, seen = three_lanes
    phi = replay.unpack(lanes.ring.rows, 3).phi.reshape(3, 2, 2 * PERIOD, 3)  # lanes, tasks, steps
    for task, found in enumerate(seen):
        assert found.loss.shape == (3,)
        assert found.clipped.shape == (3, 2)
        assert (found.task, found.length) == (task, 2 * PERIOD)
        np.testing.assert_allclose(found.phi[:, 0], phi[:, task].mean(1), rtol=0, atol=1e-6)


# The ring


def test_rows_are_the_walk(three_lanes):
    _, _, lanes, _ = three_lanes
    for rows in lanes.ring.rows:
        obs, action, phi, next_obs, not_terminated, task, last = replay.unpack(rows, 3)
        age = obs[:, 2]
        # a task begins with a new episode, of five steps
        np.testing.assert_array_equal(age, np.tile(np.arange(16) % 5, 2))
        np.testing.assert_array_equal(next_obs[:, 2], age + 1)
        np.testing.assert_array_equal(task, np.repeat([0, 1], 16))
        assert (not_terminated == 1).all()  # episodes are cut, and the last state is bootstrapped
        goes_on = age[1:] > 0
        np.testing.assert_array_equal(last[:-1], ~goes_on)
        np.testing.assert_array_equal(obs[1:][goes_on], next_obs[:-1][goes_on])
        assert (obs[1:][~goes_on] != next_obs[:-1][~goes_on]).any(1).all()
        assert len(np.unique(obs[age == 0, 0])) == (age == 0).sum()  # every reset is a new draw
        np.testing.assert_allclose(phi[:, 0], np.tanh(next_obs[:, 0]), atol=1e-6)
        np.testing.assert_array_equal(phi[:, 2], action / 2)
        assert set(np.unique(action)) <= {0, 1, 2}
        assert len(np.unique(phi[:, 1])) == 32  # and so is every step's chance


def test_a_warm_up_is_random_and_sets_the_scale():
    """5 steps of two environments are 3 rounds; nothing is learned in them."""
    agent, configs, schedule = (
        make("rasfdqn", warmup=5, n_step=1, epsilon=0.0),
        stacked([config_of(1)]),
        Schedule(6, 2, 6),
    )
    start = jax.tree.map(np.array, start_lanes(agent, WALK, configs, schedule))
    chunk = next(chunks(agent, WALK, configs, schedule))
    assert (chunk.step, int(chunk.lanes.learner.updates[0])) == (6, 0)
    assert_same(start.learner, jax.tree.map(np.asarray, chunk.lanes.learner))
    steps = replay.unpack(np.asarray(chunk.lanes.ring.rows[0, :6]), 3)
    expected = algorithm.Scaling.of(agent, steps)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4), lane(chunk.lanes.scaling, 0), expected)
    assert not np.allclose(expected.factor, 1.0)
    np.testing.assert_array_equal(chunk.lanes.within.high[0], steps.phi.max(axis=0))
    np.testing.assert_array_equal(chunk.lanes.within.low[0], np.minimum(steps.phi.min(axis=0), 0))
    np.testing.assert_array_equal(chunk.lanes.within.recurring[0], np.ones(3))
    np.testing.assert_array_equal(steps.task, [0, 1] * 3)


def test_the_last_step_of_an_episode_is_its_end_and_time_is_stored():
    """With a limit; without one, or for a world whose episodes are cut sooner, the last state is bootstrapped."""
    agent = make("sfdqn", limit=WALK.episode_length, horizon="episode", interleaved=True)
    lanes, _ = run(agent, stacked([config_of(1)]), Schedule(16, 2, 16))
    steps = replay.unpack(lanes.ring.rows[0], agent.inputs)
    age = np.repeat(np.arange(16) % 5, 2)
    np.testing.assert_array_equal(steps.obs[:, 2], age)
    np.testing.assert_array_equal(steps.not_terminated, age < 4)
    np.testing.assert_array_equal(steps.last, age == 4)
    for one, so_far in ((steps.obs, age), (steps.next_obs, age + 1)):
        np.testing.assert_allclose(one, agent.with_time(one[:, :3], so_far), atol=1e-5)
        expected = [sum(0.8**t for t in range(5 - a)) for a in so_far]
        np.testing.assert_allclose(agent.longest(one), expected, rtol=1e-4, atol=1e-4)
    later = make("sfdqn", limit=WALK.episode_length + 1, horizon="episode", interleaved=True)
    lanes, _ = run(later, stacked([config_of(1)]), Schedule(16, 2, 16))
    assert replay.unpack(lanes.ring.rows[0], agent.inputs).not_terminated.all()


# Sizes and refusals

SCHEDULE = Schedule(steps_per_task=16, tasks=2, evaluate_every=8)
THREE = Tasks(np.ones((3, 3), np.float32), np.zeros((3, 2), np.float32))
WIDER = Tasks(np.ones((2, 4), np.float32), TASKS.inputs)
DENSE = TASKS._replace(weights=np.ones((2, 3), np.float32))


@cache
def sized(name="sfdqn", tasks=2, observation_size=3, n_actions=3):
    settings = settings_of(name, widths=(3,), batch=2, target_period=4)
    training = {2: TASKS, 3: THREE}[tasks]
    return create_agent(settings, observation_size, n_actions, WALK.feature_bounds, training)


def configs_of(seeds=(1, 2), beta=-1.0, bootstrap_beta=-1.0, tasks=TASKS):
    return stacked(
        [config_of(seed, beta, bootstrap_beta)._replace(tasks=Tasks(*map(jnp.asarray, tasks))) for seed in seeds]
    )


def test_sizes_that_do_not_fit_together_are_refused_before_training():
    usual, fine = configs_of(), sized()
    policies = Policies(np.ones((2, 2, 3)), np.zeros((2, 2)))
    cases = [
        ({"agent": sized(n_actions=2)}, "agent must have 3 actions to fit the world and the configs, got 2"),
        ({"agent": sized(observation_size=2)}, "agent must have 3 inputs to fit the world and the configs, got 2"),
        ({"agent": replace(fine, law=type(fine.law)(2))}, "agent must have 3 features .*, got 2"),
        ({"agent": sized(tasks=3)}, "agent must have 2 policies .*, got 3"),
        ({"configs": configs_of(tasks=WIDER)}, "configs must have 3 features .*, got 4"),
        ({"schedule": Schedule(16, 3, 8)}, "schedule must have 2 tasks .*, got 3"),
        ({"agent": sized("rasfc51"), "configs": configs_of(tasks=DENSE)}, "must have 3 active_features, .*, got 2"),
        ({"configs": lane(usual, 0)}, r"configs must have lanes .* got key \(\), beta \(\), "),
        ({"configs": usual._replace(beta=jnp.zeros(3))}, r"configs must have lanes .* beta \(3,\)"),
        ({"configs": usual._replace(bootstrap_beta=0.0)}, r"configs must have lanes .* bootstrap_beta \(\)"),
        ({"configs": usual._replace(key=jax.random.key(0))}, r"configs must have lanes .* key \(\)"),
        ({"configs": configs_of(tasks=TASKS._replace(inputs=np.zeros(2)))}, r"must have lanes .* inputs \(2, 2\)"),
        ({"configs": lane(usual, slice(0))}, r"configs must have lanes .* key \(0,\)"),
        ({"configs": configs_of(beta=float("nan"))}, "beta of configs must be finite, got nan"),
        ({"configs": configs_of(bootstrap_beta=-float("inf"))}, "bootstrap_beta of configs must be finite, got -inf"),
        ({"configs": configs_of(tasks=TASKS._replace(weights=TASKS.weights * np.nan))}, "weights of configs must"),
        ({"configs": usual._replace(policies=policies._replace(beta=np.zeros(2)))}, "policies of configs must have"),
        ({"configs": usual._replace(policies=policies._replace(weights=np.ones((2, 3, 3))))}, "policies of configs"),
        ({"configs": usual._replace(policies=policies._replace(beta=np.full((2, 2), np.nan)))}, "beta of policies of"),
    ]
    for change, words in cases:
        given = {"agent": fine, "configs": usual, "schedule": SCHEDULE, **change}
        with pytest.raises(ValueError, match=words) as refusal:
            start_lanes(given["agent"], WALK, given["configs"], given["schedule"])
        assert "\n" not in str(refusal.value)
    _check_sizes(fine, WALK, usual._replace(policies=policies), SCHEDULE)


@pytest.mark.parametrize("name", ["rasfc51", "sfdqn-residual", "rasfdqn"])
def test_every_distribution_fits(name):
    _check_sizes(sized(name), WALK, configs_of(), SCHEDULE)
    if name != "rasfc51":  # only histograms leave features out
        _check_sizes(sized(name), WALK, configs_of(tasks=DENSE), SCHEDULE)


def check(seen, events=(), bounds=(0.0, 1.0)):
    agent = Agent.create(MomentSettings(widths=(4,), events=events), 3, 2, Tasks.of(np.eye(2)))
    _check(agent, seen, np.array([bounds] * 2), 40, 10)


def stats(phi_min=0.0, phi_max=1.0, loss=1.0):
    """Of 2 lanes, 3 periods and 2 features, fine but for one entry."""
    low, high, losses = np.zeros((2, 3, 2)), np.ones((2, 3, 2)), np.ones((2, 3))
    low[1, 2, 1], high[1, 2, 1], losses[1, 2] = phi_min, phi_max, loss
    return PeriodStats(losses, np.zeros((2, 3, 2)), low, low, high)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"phi_min": -0.01},
            r"feature 1 left its declared bounds \[0, 1\] between steps 40 and 50: it was in \[-0.01, 1\]",
        ),
        ({"phi_max": 1.01}, r"feature 1 left its declared bounds \[0, 1\]"),
        ({"phi_min": float("nan")}, "not finite"),
        ({"phi_max": float("inf")}, "not finite"),
        ({"phi_min": -float("inf")}, "not finite"),
        ({"loss": float("nan")}, "the loss was not finite between steps 40 and 50; a smaller learning rate may help"),
        ({"loss": float("inf")}, "the loss was not finite"),
    ],
)
def test_what_is_checked(change, words):
    with pytest.raises(ValueError, match=words):
        check(stats(**change))


def test_rounding_at_the_bounds_is_fine():
    check(stats(phi_min=-1e-7, phi_max=1 + 1e-6))


def test_events_must_not_be_negative():
    with pytest.raises(ValueError, match="events must never be negative"):
        check(stats(phi_min=-0.5), events=(1,), bounds=(-1.0, 1.0))
    check(stats(phi_min=-0.5), bounds=(-1.0, 1.0))


def test_schedules_are_positive_whole_numbers():
    for name in ("steps_per_task", "tasks", "evaluate_every"):
        for wrong in (0, -8, 8.0, True, None):
            with pytest.raises(ValueError, match=f"{name} must"):
                replace(SCHEDULE, **{name: wrong})
    assert Schedule(200_000, 4, 5_000).steps == 800_000


def test_periods():
    assert period_of(sized()) == 4
    assert period_of(make(target_period=0)) == 1_000
    # 12 updates, 3 for each of 4 steps: 4 rounds of 4 steps
    assert period_of(make(target_period=12, updates=0.75, interleaved=True), 4) == 16
    with pytest.raises(ValueError, match=r"updates must be a whole number for a round of 2 steps, got 1\.5"):
        period_of(make(updates=0.75, interleaved=True), 2)
