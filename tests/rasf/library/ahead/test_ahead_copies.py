"""Looking ahead in copies of a Gymnasium environment, against the exact model and against other ways to the same."""

import copy

import gymnasium as gym
import jax
import numpy as np
import pytest
from ahead_libraries import NEUTRAL, states_of, walk_library
from gymnasium.utils import EzPickle
from library_worlds import Finite, gamble, random_world
from test_ahead_finite import table_library

import rasf
from deep.probe_worlds import Walk
from rasf import CVaR, MeanVariance
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.gymnasium.worlds import WorldEnv
from rasf.library.ahead.copies import _copied, copied
from rasf.library.ahead.models import CopyEach, own_model
from rasf.library.ahead.policies import LookingAhead
from rasf.library.ahead.world import WorldModel

W3 = np.array([-0.2, 1.0, -3.0])


def gamble_library(error=0.3):
    mdp = gamble().mdp(0.9)
    return table_library(gamble, mdp, np.array([[-0.1, 1.0, -1.0], [0.0, 1.0, 0.0]]), 0.9, error=error), mdp


def test_many_copies_give_the_exact_moments():
    library, mdp = gamble_library()
    env = gamble()
    obs, _ = env.reset(seed=0)
    sources = library.rule(W3, NEUTRAL, model=env, ahead=3, particles=3_000).sources
    rows = sources.beside(np.atleast_2d(library.encode(obs)), sources.model.rows(None, None, [0]))
    found = sources.scores(rows, W3, MeanVariance(-1.0))
    exact = library.rule(W3, NEUTRAL, model=mdp, ahead=3).sources.scores(np.zeros((1, 1)), W3, MeanVariance(-1.0))
    np.testing.assert_allclose(found.mean, exact.mean, atol=0.06)
    np.testing.assert_allclose(found.std, exact.std, atol=0.06)
    first = np.ptp(found.mean[:, 0, 1])
    assert first == pytest.approx(np.ptp(exact.mean[:, 0, 1]), abs=1e-6)  # both policies had the same random numbers


def test_the_environment_that_is_copied_is_not_stepped():
    library, _ = gamble_library()
    env = gym.wrappers.TimeLimit(gamble(), 5)
    obs, _ = env.reset(seed=3)
    before = copy.deepcopy(env.unwrapped.np_random.bit_generator.state)
    actor = library.actor(W3, MeanVariance(-2.0), model=env, ahead=4, particles=2)
    over, steps = False, 0
    while not over:
        action = actor.act(obs)
        if steps == 0:
            assert env.unwrapped.state == 0
            assert env.unwrapped.np_random.bit_generator.state == before
        obs, phi, terminated, truncated, _ = env.step(action)
        actor.observe(phi)
        over, steps = terminated or truncated, steps + 1
    assert steps <= 2


def test_several_episodes_have_environments_of_their_own():
    library, _ = gamble_library()
    envs = [gamble(start=s) for s in (0, 1)]
    obs = np.array([env.reset(seed=s)[0] for s, env in enumerate(envs)])
    actor = library.actor(W3, model=gamble(), ahead=2, particles=2)
    assert actor.act(obs, state=envs).shape == (2,)
    for state in (envs[:1], envs[0], [0, 1]):
        with pytest.raises(ValueError, match=r"^state must be a"):
            actor.act(obs, state=state)


def test_a_truncated_path_ends_in_its_tail():
    """One step before the limit, looking 5 steps ahead is looking 1 step ahead; beyond a terminal state is nothing."""
    library, _ = gamble_library()
    found = []
    for ahead in (1, 5):
        env = gym.wrappers.TimeLimit(random_gamble(), 1)
        obs, _ = env.reset(seed=0)
        sources = library.rule(W3, NEUTRAL, model=env, ahead=ahead, particles=4).sources
        rows = sources.beside(np.atleast_2d(library.encode(obs)), sources.model.rows(None, None, [0]))
        paths = sources.model.paths(sources.plain(rows), rows[:, 1:], np.arange(2)[None], ahead, 4, 1, True)
        assert set(np.unique(paths.discount)) <= {0.0, 0.9}
        found.append(sources.scores(rows, W3, NEUTRAL).mean)
    np.testing.assert_array_equal(*found)


def random_gamble():
    return gamble(start=0)


def test_copies_of_a_world_agree_with_the_world():
    """With a world without noise, both are the same numbers."""
    world = Calm()
    library, states = walk_library("rasfdqn", world), states_of(world, 1)
    env = WorldEnv(world)
    env.reset(seed=0)
    env._state = jax.tree.map(lambda part: part[0], states)
    obs = np.asarray(world.observe(env._state), np.float32)
    w = np.array([0.7, 0.0, 0.3])
    found = []
    for model, state in ((env, None), (world, env.world_state)):
        sources = library.rule(w, NEUTRAL, model=model, ahead=3, particles=2).sources
        given = (state, None) if model is world else (state, None, [0])
        rows = sources.beside(obs[None], sources.model.rows(*given))
        found.append(sources.scores(rows, w, MeanVariance(-1.0)))
    np.testing.assert_allclose(found[0].values, found[1].values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[0].std, found[1].std, rtol=1e-3, atol=1e-4)


class Calm(Walk):
    """A walk without noise."""

    def noise(self, key):
        return jax.tree.map(lambda part: 0 * part + 0.5, super().noise(key))


def test_an_environment_that_cannot_be_copied_is_refused():
    class Held(Finite):
        def __deepcopy__(self, memo):
            raise TypeError("cannot pickle 'socket' object")

    library, _ = gamble_library()
    base = gamble()
    env = Held(base.P, base.phi, ends=(3,))
    obs, _ = env.reset(seed=0)
    actor = library.actor(W3, model=env, ahead=1)
    with pytest.raises(ValueError, match=r"^model must be an environment that copy.deepcopy copies, but: cannot"):
        actor.act(obs)
    other = random_world(0, start=0)  # two features in place of three
    other.reset(seed=0)
    with pytest.raises(ValueError, match=r"^model must return 3 features as its reward, got \(2,\)$"):
        library.actor(W3, model=other, ahead=1).act(0)
    for model, what in ((random_world(0, S=5), "observations"), (random_world(0, A=3), "actions")):
        with pytest.raises(ValueError, match=rf"^model must have the {what} that the library was trained with$"):
            library.actor(W3, model=model, ahead=1)


def test_a_copy_has_the_present_state():
    """Also of classes that deepcopy would make anew."""

    class Pickled(Finite, EzPickle):
        def __init__(self):
            base = gamble()
            EzPickle.__init__(self)
            Finite.__init__(self, base.P, base.phi, ends=(3,))

    env = gym.wrappers.TimeLimit(Pickled(), 5)
    env.reset(seed=0)
    env.step(0)
    found = copied(env)
    assert found.unwrapped.state == env.unwrapped.state == 1
    assert not hasattr(copy.deepcopy(env).unwrapped, "state")
    found.step(0)
    assert (found.unwrapped.state, env.unwrapped.state) == (3, 1)


def test_a_copy_of_mujoco_has_the_present_state():
    pytest.importorskip("mujoco")
    env = gym.make("InvertedPendulum-v5")
    env.reset(seed=0)
    env.step(np.ones(1, np.float32))
    found, action = copied(env), np.full(1, -0.5, np.float32)
    np.testing.assert_array_equal(found.step(action)[0], env.step(action)[0])


def test_copies_do_not_have_the_random_numbers_of_the_future():
    """Also where a part of the environment holds the generator itself."""

    class Parted(Finite):
        def reset(self, *, seed=None, options=None):
            found = super().reset(seed=seed)
            self.part = [self.np_random]
            return found

    base = gamble()
    env = Parted(base.P, base.phi, ends=(3,))
    env.reset(seed=0)
    future = copy.deepcopy(env).part[0].random(4)
    one, same, other = (_copied(env, [seed, 0, 0]).part[0].random(4) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert len({*one, *other, *future}) == 12


# --- evaluate and compare


def test_evaluation_finds_its_model():
    """The world of a compiled environment, the MDP of a finite one, else copies."""
    from rasf.envs.finite import FiniteEnv
    from rasf.envs.gymnasium.vector import SyncEnvs

    library, mdp = gamble_library()
    networks = walk_library("rasfdqn", Walk())
    one = open_environment(lambda: WorldEnv(Walk()))
    assert own_model(networks.sources, SyncEnvs([one])) == Walk()
    assert own_model(library.sources, SyncEnvs([open_environment(gamble)])) == CopyEach()
    wrapped = gym.wrappers.TransformObservation(WorldEnv(Walk()), lambda obs: 2 * obs, None)
    assert own_model(networks.sources, SyncEnvs([open_environment(wrapped)])) == CopyEach()
    timed = gym.wrappers.TimeLimit(WorldEnv(Walk()), 3)
    assert own_model(networks.sources, SyncEnvs([open_environment(timed)])) == Walk()
    finite = FiniteEnv(mdp, 0, ("step", "gain", "fall"), (-1, 1, -1))
    assert own_model(library.sources, SyncEnvs([open_environment(finite)])) is mdp


def test_evaluating_without_steps_changes_nothing():
    library, mdp = gamble_library()
    options = {"episodes": 30, "seed": 4}
    plain = library.evaluate(gamble, W3, MeanVariance(-1.0), **options)
    for more in ({"ahead": 0}, {"ahead": 0, "model": mdp}):
        np.testing.assert_array_equal(
            plain.phi, library.evaluate(gamble, W3, MeanVariance(-1.0), **options, **more).phi
        )


def test_evaluation_looks_ahead_in_every_kind_of_model():
    """Wrong tables take the gamble, which is bad for w; three exact steps see its costs."""
    library, mdp = gamble_library(error=0.0)
    worst = None
    for seed in range(20):  # tables that are wrong where it matters
        found = table_library(gamble, mdp, np.array([[-0.1, 1.0, -1.0], [0.0, 1.0, 0.0]]), 0.9, error=3.0, seed=seed)
        if found.act(0, W3) == 1 and library.act(0, W3) == 0:
            worst = found
            break
    assert worst is not None
    options = {"episodes": 40, "seed": 1}
    plain = worst.evaluate(gamble, W3, **options)
    assert plain.phi[:, 2].mean() > 0.2
    exact = worst.evaluate(gamble, W3, model=mdp, ahead=3, **options)
    assert exact.phi[:, 2].sum() == 0
    copied = worst.evaluate(gamble, W3, ahead=3, particles=24, **options)
    assert copied.phi[:, 2].mean() < 0.1
    again = worst.evaluate(gamble, W3, ahead=3, particles=24, **options)
    np.testing.assert_array_equal(copied.phi, again.phi)
    compared = worst.compare(gamble, W3, [NEUTRAL, CVaR(0.2)], 40, seed=1, model=mdp, ahead=3, prices={2: [1.0]})
    assert len(compared.reports) == 3
    np.testing.assert_array_equal(next(iter(compared.reports.values())).phi, exact.phi)
    assert str(compared)


@pytest.mark.slow
def test_evaluation_in_a_world_reads_the_true_state():
    world = Walk(episode_length=6)
    library = walk_library("rasfdqn", world)
    w = np.array([0.7, -0.8, 0.3])
    report = library.evaluate(world, w, MeanVariance(-1.0), 5, ahead=2, particles=2)
    assert report.episodes == 5
    assert isinstance(report.rule.sources, LookingAhead)
    assert isinstance(report.rule.sources.model, WorldModel)
    np.testing.assert_array_equal(report.starts.shape, (5, 3 + 3))
    assert "actions are chosen by looking 2 steps ahead, with 2 simulated paths for each policy and action" in str(
        report
    )
    assert (report.describe()["ahead"], report.describe()["particles"]) == (2, 2)
    other = library.evaluate(
        world, w, MeanVariance(-1.0), 5, ahead=2, particles=2, model=Walk(episode_length=6, scale=2.0)
    )
    assert other.phi.shape == (5, 3)
    limited = library.evaluate(world, w, NEUTRAL, 4, ahead=2, particles=2, limits={1: 1.5})
    assert limited.prices.keys() == {"1"}
    aware = library.evaluate(world, w, MeanVariance(-1.0), 4, ahead=2, particles=2, discount_aware=True)
    assert aware.episodes == 4
    static = library.evaluate(world, w, CVaR(0.3), 4, ahead=2, particles=2, static=True)
    assert static.episodes == 4


def test_an_environment_whose_state_is_hidden_is_refused_for_a_world():
    world = Walk(episode_length=6)

    class Hidden(gym.Env):
        def __init__(self):
            self._inner = WorldEnv(world)
            for name in ("observation_space", "action_space", "reward_space"):
                setattr(self, name, getattr(self._inner, name))

        def reset(self, *, seed=None, options=None):
            return self._inner.reset(seed=seed)

        def step(self, action):
            return self._inner.step(action)

    library = walk_library("rasfdqn", world)
    with pytest.raises(ValueError, match=r"^model needs the environment's state: env must have"):
        library.evaluate(Hidden, np.ones(3), episodes=2, model=world, ahead=1)
    tables, _ = gamble_library()
    with pytest.raises(ValueError, match=r"^model must be given for a vector environment"):
        own_model(tables.sources, object())
    for options, sentence in (({"ahead": -1}, "ahead must be"), ({"ahead": 1, "particles": 0}, "particles must be")):
        with pytest.raises(ValueError, match=rf"^{sentence}"):
            tables.evaluate(gamble, W3, episodes=2, **options)


def test_bounds_of_a_calibrated_library_say_that_they_are_for_acting_without_a_model():
    library, mdp = gamble_library(error=0.0)
    library.calibrate(gamble, 400, tasks=np.array([[-0.1, 1.0, -1.0], [0.0, 1.0, -0.5], [-0.2, 1.0, -3.0]]))
    report = library.evaluate(gamble, W3, episodes=20, model=mdp, ahead=2)
    assert any("without a model" in remark for remark in report.remarks())
    assert not any("without a model" in one for one in library.evaluate(gamble, W3, episodes=20).remarks())


@pytest.mark.parametrize("name", ["rasf/Reacher-v0"])
def test_the_reacher_looks_ahead_in_its_own_world(name):
    from small_reacher import random_reacher

    library = random_reacher("residual")
    w = rasf.envs.reacher.Reacher().tasks((4,))[0]
    report = library.evaluate(name, w, MeanVariance(-6.0), 2, max_steps=3, ahead=2, particles=1)
    assert report.lengths.tolist() == [3, 3]
    assert isinstance(report.rule.sources.model, WorldModel)
