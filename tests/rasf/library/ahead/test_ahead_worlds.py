"""Looking ahead in a world in jax, against loops over single paths."""

from dataclasses import dataclass

import jax
import numpy as np
import pytest
from ahead_libraries import NEUTRAL, plain_moments, plain_paths, states_of, walk_library

import rasf
from deep.probe_worlds import Push, Walk
from rasf.envs.reacher import Reacher
from rasf.library.ahead.policies import LookingAhead
from rasf.risk import CVaR, Entropic, MeanVariance, MonotoneMeanVariance

W = np.array([0.7, -0.8, 0.3])
AGENTS = ("rasfdqn", "rasfc51", "sfdqn-residual", "sfdqn", "rasftd3")


@dataclass(frozen=True)
class KnownLuck(Walk):
    """A walk that knows the moments of its second feature, a uniform number, given the states."""

    def step_moments(self, state, action, next_state):
        mean = jax.numpy.stack([jax.numpy.tanh(next_state.at[0]), jax.numpy.asarray(0.5), action / 2])
        return mean, jax.numpy.diag(jax.numpy.array([0.0, 1 / 12, 0.0]))


def rows_of(library, world, states, **options):
    """The sources that look ahead, and encoded observations with the numbers of the states."""
    sources = library.rule(W, NEUTRAL, model=world, **options).sources
    count = len(jax.tree.leaves(states)[0])
    obs = np.asarray(jax.vmap(world.observe)(states), np.float32)
    return sources, sources.beside(obs, sources.model.rows(states, count)), obs


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("ahead", "particles"), [(1, 2), (3, 2)])
def test_scores_are_those_of_single_paths(agent, ahead, particles):
    world = Push(edge=0.2) if agent == "rasftd3" else Walk(edge=0.9)
    library, states = walk_library(agent, world), states_of(world, 3)
    sources, rows, _ = rows_of(library, world, states, ahead=ahead, particles=particles)
    found = sources.scores(rows, W, NEUTRAL)
    paths = plain_paths(library, world, states, ahead, particles)
    mean, variance = plain_moments(library, paths, W)
    assert {z for _, z, _, _ in paths.values()} >= ({0.0} if ahead > 1 else set())  # some paths terminate
    np.testing.assert_allclose(found.mean, mean, rtol=2e-4, atol=2e-5)
    np.testing.assert_array_equal(found.values, found.mean)
    if agent != "sfdqn":
        np.testing.assert_allclose(found.std**2, variance, rtol=2e-3, atol=1e-4)
        risk = MeanVariance(-0.7)
        values = sources.scores(rows, W, risk).values
        np.testing.assert_allclose(values, risk.moments(found.mean, found.std**2), rtol=1e-12)
        chosen = values.max(axis=0).argmax(axis=-1)
        expected = library.sources.actions(sources.plain(rows), chosen)
        np.testing.assert_array_equal(sources.act(rows, W, risk), expected)


def test_without_steps_nothing_changes_bit_for_bit():
    world = Walk()
    for agent in AGENTS[:4]:
        library = walk_library(agent, world)
        obs = np.asarray(jax.vmap(world.observe)(states_of(world, 5)), np.float32)
        for risk in library.risks():
            rule = library.rule(W, risk, model=world, ahead=0)
            assert rule.sources is library.sources
            actor = library.actor(W, risk, model=world, ahead=0)
            np.testing.assert_array_equal(actor.act(obs), library.act(obs, W, risk))


@pytest.mark.parametrize("risk", [CVaR(0.3), Entropic(-0.5), MonotoneMeanVariance(-1.0)])
def test_histograms_are_mixtures_over_paths(risk):
    """At risks other than mean-variance; each tail is 32 equal parts of the learned histogram."""
    world, particles = Walk(edge=0.9), 3
    library, states = walk_library("rasfc51", world), states_of(world, 2)
    sources, rows, _ = rows_of(library, world, states, ahead=2, particles=particles)
    values = sources.scores(rows, W, risk).values
    paths = plain_paths(library, world, states, 2, particles)
    for k, b, a in np.ndindex(values.shape):
        returns, weights = [], []
        for n in range(particles):
            features, z, obs, action = paths[k, b, a, n]
            probs, atoms = library.sources.laws(obs[None], W)
            returns.append(features @ W + z * atoms)
            weights.append(probs[k, 0, action] / particles)
        exact = risk.histogram(np.concatenate(weights), np.concatenate(returns))
        assert values[k, b, a] == pytest.approx(exact, abs=0.03)
    probs, atoms = sources.laws(rows, W)
    np.testing.assert_allclose((probs * atoms).sum(axis=-1), sources.scores(rows, W, NEUTRAL).mean, atol=2e-4)


def test_moments_that_a_world_knows_replace_samples():
    """The mean of many samples is the known mean, and the variance that samples have is the known one."""
    states, options = states_of(Walk(), 1), {"ahead": 2, "particles": 4_000}
    (known, rows, _), (sampled, same, _) = (
        rows_of(walk_library("rasfdqn", world), world, states, **options) for world in (KnownLuck(), Walk())
    )
    one, other = known.scores(rows, W, NEUTRAL), sampled.scores(same, W, NEUTRAL)
    np.testing.assert_allclose(one.mean, other.mean, atol=0.02)
    np.testing.assert_allclose(one.std, other.std, rtol=0.05)
    options["particles"] = 1  # with one path, only known moments have the spread of luck
    few, rows, _ = rows_of(walk_library("rasfdqn", KnownLuck()), KnownLuck(), states, **options)
    luck = 0.8**2 / 12 * (1 + 0.8**2)
    paths = plain_paths(walk_library("rasfdqn", KnownLuck()), KnownLuck(), states, 2, 1)
    _, tails = plain_moments(walk_library("rasfdqn", KnownLuck()), paths, W)
    np.testing.assert_allclose(few.scores(rows, W, NEUTRAL).std ** 2, tails + luck, rtol=1e-3)


def test_all_pairs_have_the_same_random_numbers_and_a_state_of_their_own():
    """Where an action has no effect on luck, its luck is the same; equal states in a batch have different luck."""
    world, luck = Walk(), np.array([0.0, 1.0, 0.0])
    library = walk_library("sfdqn", world)
    states = jax.tree.map(lambda part: np.repeat(part, 2, axis=0), states_of(world, 1))
    sources, rows, _ = rows_of(library, world, states, ahead=1, particles=3)
    paths = sources.model.paths(
        sources.plain(rows), rows[:, 3:], np.tile(np.arange(3), (2, 1)), 1, 3, turn=5, sampled=True
    )
    of_luck = np.asarray(paths.features @ luck)  # (K, B, A, N)
    np.testing.assert_array_equal(of_luck, np.broadcast_to(of_luck[:1, :, :1], of_luck.shape))
    assert (of_luck[0, 0] != of_luck[0, 1]).all()
    again = sources.model.paths(
        sources.plain(rows), rows[:, 3:], np.tile(np.arange(3), (2, 1)), 1, 3, turn=5, sampled=True
    )
    np.testing.assert_array_equal(paths.features, again.features)


def test_rows_without_a_state_are_scored_without_looking_ahead():
    world = Walk()
    for agent in ("rasfdqn", "rasfc51"):
        library, states = walk_library(agent, world), states_of(world, 3)
        sources, rows, obs = rows_of(library, world, states, ahead=2, particles=2)
        rows[1, 3:] = np.nan
        risk = MeanVariance(-1.0)
        found = sources.scores(rows, W, risk)
        np.testing.assert_allclose(found.values[:, 1], library.sources.scores(obs, W, risk).values[:, 1], rtol=1e-5)
        fresh, _, _ = rows_of(library, world, states, ahead=2, particles=2)
        alone = fresh.scores(rows[[0, 2]], W, risk)
        np.testing.assert_array_equal(found.values[:, [0, 2]], alone.values)
        if agent == "rasfc51":
            probs, atoms = sources.laws(rows, W)
            plain = library.sources.scores(obs, W, NEUTRAL).mean
            np.testing.assert_allclose((probs * atoms).sum(axis=-1)[:, 1], plain[:, 1], atol=1e-3)


@pytest.mark.parametrize("agent", ["rasfdqn", "rasfc51"])
def test_static_risks_and_limits_look_ahead(agent):
    """By the same rules as without a model; the budget of a limit is the simulated cost of the source's own action."""
    world = Walk()
    library, states = walk_library(agent, world), states_of(world, 4)
    obs = np.asarray(jax.vmap(world.observe)(states), np.float32)
    options = {"model": world, "ahead": 3, "particles": 4}
    static = library.actor(W, CVaR(0.3), static=True, **options)
    limited = library.actor(W, NEUTRAL, limits={1: 1.3}, **options)
    for actor in (static, limited):
        state, seen = states, obs
        for t in range(3):
            action = actor.act(seen, state=state)
            assert action.shape == (4,)
            keys = jax.random.split(jax.random.key(t), 4)
            state, phi = jax.vmap(lambda s, a, key: world.advance(s, a, world.noise(key)))(state, action, keys)
            seen = np.asarray(jax.vmap(world.observe)(state), np.float32)
            actor.observe(np.asarray(phi))
    assert np.isfinite(static.threshold).all()
    sources = limited._rule.sources
    rows = sources.beside(obs, sources.model.rows(states, 4))
    memory = limited._rule.begin(rows)
    limited._rule.act(rows, memory)
    costs = sources.scores(rows, np.eye(3)[1], NEUTRAL).mean
    spent = np.array([memory.own["costs"][b, 0] for b in range(4)])
    least = costs.min(axis=(0, 2))
    assert (spent <= np.maximum(1.3, least) + 1e-9).all()


def test_policies_that_know_the_time_left_stop_at_the_limit():
    """Beyond the limit nothing is simulated or predicted."""
    world = Walk(episode_length=4)
    options = {"widths": (8,), "batch": 8, "horizon": "episode", "gamma": 1.0}
    library = rasf.learn(world, agent="rasfdqn", tasks=[[1.0, 0.0, 0.2]], steps_per_task=60, **options)
    state = jax.tree.map(lambda part: part[0], states_of(world, 1))
    obs = np.asarray(world.observe(state), np.float32)
    w = np.array([0.0, 0.0, 1.0])  # action / 2
    actor = library.actor(w, model=world, ahead=3, particles=2)
    actor.act(obs, state=state)
    sources = actor._rule.sources
    for age, left in ((3, 1), (2, 2)):
        encoded = np.atleast_2d(library.encode(obs, age))
        rows = sources.beside(encoded, sources.model.rows(state, None))
        paths = sources.model.paths(
            sources.plain(rows), rows[:, encoded.shape[1] :], np.arange(3)[None], 3, 2, turn=1, sampled=False
        )
        assert (np.asarray(paths.discount) == 0).all()
        first = np.asarray(paths.features)[0, 0, :, 0, 2]
        assert (first >= np.arange(3) / 2 - 1e-6).all()
        assert (first <= np.arange(3) / 2 + (left - 1) + 1e-6).all()


def test_a_budget_lowers_particles_and_then_steps(monkeypatch):
    world = Walk()
    library, state = walk_library("sfdqn", world), jax.tree.map(lambda part: part[0], states_of(world, 1))
    obs = np.asarray(world.observe(state), np.float32)

    def settled(cost, milliseconds):
        """The steps and particles that a budget leaves where a decision takes cost(ahead, particles) ms."""
        monkeypatch.setattr(LookingAhead, "_seconds", lambda self, *_: cost(self.ahead, self.particles) / 1e3)
        actor = library.actor(W, model=world, ahead=8, particles=16, milliseconds=milliseconds)
        actor.act(obs, state=state)
        return actor.ahead, actor.particles

    assert settled(lambda h, n: h * n, 1e6) == (8, 16)
    assert settled(lambda h, n: h * n, 40.0) == (8, 4)
    assert settled(lambda h, n: h * n, 3.0) == (2, 1)
    assert settled(lambda h, n: h * n, 0.1) == (1, 1)
    library = walk_library("rasfc51", world)
    for static in (False, True):
        actor = library.actor(W, CVaR(0.3), static=static, model=world, ahead=8, particles=16, milliseconds=0)
        actor.act(obs, state=state)
        assert (actor.ahead, actor.particles) == (1, 1)
    monkeypatch.undo()
    actor = library.actor(W, model=world, ahead=2, particles=4, milliseconds=1e5)
    actor.act(obs, state=state)
    assert (actor.ahead, actor.particles) == (2, 4)
    assert (library.actor(W).ahead, library.actor(W).particles) == (0, 0)


def test_an_actor_needs_the_state_of_its_world():
    world = Walk()
    library, states = walk_library("sfdqn", world), states_of(world, 2)
    obs = np.asarray(jax.vmap(world.observe)(states), np.float32)
    actor = library.actor(W, model=world, ahead=2, particles=2)
    assert actor.act(obs, state=states).shape == (2,)
    for state in (None, jax.tree.map(lambda part: part[0], states), np.zeros(3)):
        with pytest.raises(ValueError, match=r"^state must be a state of the model, with arrays of shapes"):
            actor.act(obs, state=state)
    with pytest.raises(ValueError, match=r"^state must be left out unless the actor has a model and looks ahead$"):
        library.actor(W).act(obs, state=states)


def test_models_that_do_not_fit_are_refused():
    world = Walk()
    library = walk_library("rasfdqn", world)
    cases = [
        ({"ahead": 2}, "model must be given to look ahead"),
        ({"ahead": -1, "model": world}, "ahead must be a whole number"),
        ({"ahead": 2.5, "model": world}, "ahead must be a whole number"),
        ({"ahead": 20_000, "model": world}, "ahead must be at most 10,000"),
        ({"ahead": 2, "model": world, "particles": 0}, "particles must be a whole number"),
        ({"ahead": 2, "model": world, "milliseconds": "fast"}, "milliseconds must be"),
        ({"ahead": 2, "model": Push()}, "model must have the action_size"),
        ({"ahead": 2, "model": Reacher()}, "model must have the n_actions"),
        ({"ahead": 2, "model": "world"}, "model must be a rasf.World"),
    ]
    for options, sentence in cases:
        with pytest.raises(ValueError, match=rf"^{sentence}[^\n]*$"):
            library.actor(W, **options)
    unscored = walk_library("sfdqn", world)
    unscored.policies = library.policies
    with pytest.raises(ValueError, match=r"^looking ahead needs policies whose own risk can be scored, but policy 1"):
        unscored.actor(W, model=world, ahead=1)
    with pytest.raises(ValueError, match=r"^policies that look ahead cannot be merged"):
        library.rule(W, NEUTRAL, model=world, ahead=1).sources.merge([])
