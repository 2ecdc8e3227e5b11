"""The two drivers of the training algorithm compute the same: a world trained in one scan, and stepped from Python."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probe_worlds import Push, Walk

from rasf.deep import algorithm, fused, replay
from rasf.deep.actors import ActorAgent
from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.fused import RunConfig, Schedule
from rasf.deep.settings import ActorSettings, CovarianceSettings, HistogramSettings, MeanSettings, MomentSettings
from rasf.deep.stepped import Pace, SteppedLearner

W = np.array([(1.0, 0.0, -0.5), (0.0, 1.0, 0.3)], np.float32)
BETA = np.array([0.0, -2.0], np.float32)
SMALL = {"widths": (8,), "batch": 6, "target_period": 8, "epsilon": 0.3}
KEY = 5


def agent_for(settings, world, steps):
    """Returns are those of episodes where the settings say so: networks see the time that is left."""
    limit = world.episode_length if settings.horizon == "episode" else 0
    more = {"planned": round(steps * settings.updates), "limit": limit}
    if isinstance(world, Push):
        return ActorAgent.for_world(settings, world, Tasks.of(W), action_size=world.action_size, **more)
    return Agent.for_world(settings, world, Tasks.of(W), **more)


def by_fused(agent, world, steps_per_task):
    policies = Policies(W, BETA)
    one = RunConfig(jax.random.key(KEY), BETA, BETA[0], Tasks.of(W), policies)
    configs = jax.tree.map(lambda part: jnp.asarray(part)[None], one)
    schedule = Schedule(steps_per_task, len(W), 16)
    *_, last = fused.chunks(agent, world, configs, schedule)
    return last.lanes


def by_steps(agent, world, steps_per_task):
    """The same world, stepped from Python with the chance of the same key."""
    n = len(W) if agent.settings.interleaved else 1
    capacity = fused.Ring.empty(agent.settings.replay or steps_per_task * len(W), n, 1).rows.shape[0]
    pace = Pace(n, capacity, together=1)
    learner = SteppedLearner(agent, Tasks.of(W), BETA, KEY, pace, policies=Policies(W, BETA))
    key = jax.random.key(KEY)
    chance = jax.jit(partial(algorithm.world_chance, world, key, n=n))
    advance = jax.jit(jax.vmap(world.advance))
    observe, terminated = jax.jit(jax.vmap(world.observe)), jax.jit(jax.vmap(world.terminated))
    rounds = steps_per_task if n > 1 else steps_per_task * len(W)
    state, age = None, np.zeros(n, int)
    for index in range(rounds):
        if index % steps_per_task == 0:
            learner.begin_task(np.arange(n) if n > 1 else index // steps_per_task)
            learner.cut()
            age[:] = 0
        drawn = chance(index)
        if state is None:
            state = drawn.reset
        state = begun_anew(age == 0, drawn.reset, state)
        actions = learner.act(observe(state))
        state, phi = advance(state, actions, drawn.noise)
        age += 1
        ended = np.asarray(terminated(state))
        cut = (age >= world.episode_length) & ~ended
        learner.observe(observe(state), phi, ended, np.ones(n, bool), cut)
        age[ended | cut] = 0
        learner.learn()
    return learner


def begun_anew(fresh, first, state):
    def choose(new, old):
        return jnp.where(fresh.reshape(len(fresh), *(1,) * (new.ndim - 1)), new, old)

    return jax.tree.map(choose, first, state)


def bounds_of(lanes, learner):
    return jax.tree.map(lambda part: np.asarray(part[0]), lanes.within), learner._within


def assert_equal(agent, world, steps_per_task):
    lanes, learner = by_fused(agent, world, steps_per_task), by_steps(agent, world, steps_per_task)
    assert int(lanes.learner.updates[0]) == learner.updates > 20
    # what was stored: the same actions at the same observations, with the same ends
    rows, kept = np.asarray(lanes.ring.rows[0]), learner._replay.rows()
    ours, theirs = (replay.unpack(one, agent.inputs, action_size=agent.action_size) for one in (rows, kept))
    for name in ("not_terminated", "task", *["action"] * (not agent.action_size)):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    if agent.action_size:
        np.testing.assert_allclose(ours.action, theirs.action, rtol=1e-4, atol=1e-4)
        assert 0.2 < np.std(theirs.action) < 0.8
        assert np.abs(theirs.action).max() <= 1
    # where a task ends, the ring marks the last row, and the host's replay lets none follow
    np.testing.assert_allclose(rows[:, :-1], kept[:, :-1], rtol=1e-5, atol=1e-5)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), *bounds_of(lanes, learner))
    if agent.averse_episodes:
        assert 0 < learner._held.aversion.max() <= algorithm._MOST_AVERSE
        np.testing.assert_allclose(lanes.held.aversion[0], learner._held.aversion, rtol=1e-6)
    found, expected = fused.unscaled_networks(agent, lanes), learner.networks
    first = agent.init(algorithm.init_keys(jax.random.key(KEY))[0]).online
    for one, other, before in zip(*map(jax.tree.leaves, (found, expected, first)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        if before.size > 1 and not agent.settings.warmup:
            assert np.abs(other - before).max() > 1e-3  # something was learned


@pytest.mark.parametrize(
    "settings",
    [
        MomentSettings(**SMALL, warmup=10, events=(1,)),
        pytest.param(
            MomentSettings(**SMALL, warmup=10, replay=24, epsilon_z=True, n_step=3, average=5), marks=pytest.mark.slow
        ),
        pytest.param(
            MomentSettings(**SMALL, warmup=0, freeze=0.4, n_step=2, prioritised=0.0, shared=False),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            MomentSettings(**SMALL, warmup=10, horizon="continuing", averse_episodes=1.0, interleaved=False),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            MomentSettings(
                **SMALL, warmup=0, gamma=1.0, n_step=3, averse_episodes=1.0, replay=30, prioritised=0.0, epsilon_z=True
            ),
            marks=pytest.mark.slow,
        ),
        pytest.param(HistogramSettings(**SMALL, atoms=11, n_step=2, prioritised=0.5), marks=pytest.mark.slow),
        pytest.param(
            HistogramSettings(**SMALL, atoms=11, n_step=3, horizon="episode", interleaved=True), marks=pytest.mark.slow
        ),
        pytest.param(MeanSettings(**SMALL, interleaved=True, warmup=9, exploration=0.5), marks=pytest.mark.slow),
        pytest.param(CovarianceSettings(**SMALL, replay=20, n_step=4), marks=pytest.mark.slow),
    ],
    ids=[
        "defaults",
        "ring-and-repeats",
        "settled",
        "averse-and-continuing",
        "no-discount",
        "histograms",
        "histograms-of-episodes",
        "means-interleaved",
        "covariance",
    ],
)
def test_both_drivers_learn_the_same(settings):
    world = Walk(episode_length=7, edge=0.9)
    assert_equal(agent_for(settings, world, 80), world, 40)


OF_VECTORS = SMALL | {"policies_per_update": 1, "noise": 0.3, "updates": 0.5, "averse_episodes": 1.0}


@pytest.mark.parametrize(
    "settings",
    [
        ActorSettings(**OF_VECTORS, warmup=10, events=(1,), average=5),
        pytest.param(
            ActorSettings(**OF_VECTORS, warmup=0, freeze=0.5, epsilon_z=True, replay=30), marks=pytest.mark.slow
        ),
        pytest.param(
            ActorSettings(
                **OF_VECTORS | {"policies_per_update": 2, "updates": 1.0},
                horizon="continuing",
                warmup=9,
                prioritised=0.0,
                interleaved=False,
                shared=False,
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["defaults", "frozen-repeats-and-ring", "continuing-in-sequence"],
)
def test_both_drivers_learn_the_same_actors(settings):
    """In a world whose episodes end and are cut; with turns of policies and averse episodes."""
    world = Push(episode_length=7, edge=0.9)
    assert_equal(agent_for(settings, world, 80), world, 40)


@pytest.mark.slow
def test_a_period_that_a_task_cuts_goes_on_in_the_next_task():
    world = Walk(episode_length=7)
    settings = MeanSettings(**SMALL | {"target_period": 9})
    assert_equal(agent_for(settings, world, 50), world, 25)
