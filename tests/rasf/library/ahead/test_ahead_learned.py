"""Learned models: against known dynamics, against the same formulas for single rows in numpy, and in files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ahead_libraries import NEUTRAL, OWN, states_of, walk_library

import rasf
from deep.probe_worlds import Push, Walk
from rasf.envs.gymnasium.worlds import world_environment
from rasf.library.ahead import fitting
from rasf.library.ahead.fitting import Transitions, fit
from rasf.library.ahead.learned import QUANTILE
from rasf.library.ahead.world import simulate
from rasf.library.networks.experience import transitions_of
from rasf.library.policy_library import PolicyLibrary

A = np.array([[0.9, 0.1], [-0.2, 0.8]])
MOVES = np.array([[0.5, 0.0], [0.0, 0.5], [-0.5, -0.5]])
SD, LUCK = np.array([0.1, 0.3]), 0.2
W = np.array([0.7, -0.8, 0.3])
SMALL = {"widths": (8, 8), "batch": 8, "warmup": 10, "horizon": "continuing", "model": True, "progress": False}


@pytest.fixture
def tiny(monkeypatch):
    """Networks and trainings so small that only their form matters."""
    for name, value in {"WIDTHS": (8, 8), "NARROW": (4,), "_FEWEST": 40, "_EPOCHS": 1}.items():
        monkeypatch.setattr(fitting, name, value)


def hazard(after):
    """Probability of the event: high to the right of an edge."""
    return 0.3 / (1 + np.exp(-20 * after[:, 0]))


def linear_steps(count, seed=0):
    """Steps of a linear-Gaussian world with a noisy feature and an event; it ends above an edge, half of the times."""
    rng = np.random.default_rng(seed)
    obs, action = rng.normal(size=(count, 2)), rng.integers(3, size=count)
    after = obs @ A.T + MOVES[action] + SD * rng.normal(size=(count, 2))
    event = rng.random(count) < hazard(after)
    phi = np.stack([2.0 * event, 2 * obs[:, 0] + action + LUCK * rng.normal(size=count)], axis=1)
    over = rng.random(count) < 0.5 * (after[:, 1] > 1)
    return Transitions(*np.float32([obs]), action, np.float32(phi), *np.float32([after]), over)


def plain_networks(network, member, x):
    """Outputs (B, X) of one member, layer by layer."""
    h = x
    for i, layer in enumerate(network.hidden):
        z = h @ layer.weight[member] + layer.bias[member]
        h = np.sin(z) if type(layer).__name__ == "Sines" else z / (1 + np.exp(-z))
        assert i == 0 or type(layer).__name__ == "Layer"
    return h @ network.heads.weight[member, :, 0] + network.heads.bias[member, 0]


def plain_model(model, obs, action, after):
    """For each member: means, standard deviations, and chances of the end and of the events, for batches."""
    own, form, found = model.parameters, model.form, []
    x, z = ((part - own.inputs.mean) / np.where(own.inputs.std > 0, own.inputs.std, 1) for part in (obs, after))
    given = np.concatenate([x, np.eye(form.n_actions)[action]], axis=1) if form.n_actions else np.c_[x, action]
    t, outcomes = form.targets, 1 + len(form.events)
    for member in range(form.members):
        out = plain_networks(own.dynamics, member, given)
        upper = 4 - np.log1p(np.exp(4 - out[:, t : 2 * t]))
        log_variance = -10 + np.log1p(np.exp(upper + 10))
        logits = plain_networks(own.after, member, z) + plain_networks(own.before, member, given)
        mean = own.targets.mean + own.targets.std * out[:, :t]
        spread = own.targets.std * np.exp(log_variance / 2)
        found.append((mean, spread, 1 / (1 + np.exp(-logits[:, :outcomes]))))
    return found


def ensemble(model, steps):
    """Means and variances (M, B, t), and chances (M, B, 1 + e)."""
    mean, spread, chance = (
        np.stack(part) for part in zip(*plain_model(model, steps.obs, steps.action, steps.next_obs), strict=True)
    )
    return mean, spread**2, chance


def test_a_linear_gaussian_world_is_recovered():
    model, said = fit(linear_steps(12_000), 3, (0,), seed=1)
    assert said.startswith("the learned model explains ")
    fresh = linear_steps(4_000, seed=5)
    mean, variance, chance = ensemble(model, fresh)
    true = np.c_[fresh.obs @ A.T + MOVES[fresh.action] - fresh.obs, 2 * fresh.obs[:, 0] + fresh.action]
    noise = np.r_[SD, LUCK]
    wrong = np.sqrt(((mean.mean(axis=0) - true) ** 2)[np.abs(fresh.obs).max(axis=1) < 2].mean(axis=0))
    assert (wrong < 0.35 * noise).all()
    np.testing.assert_allclose(np.sqrt(variance.mean(axis=(0, 1))), noise, rtol=0.15)
    assert np.abs(chance[..., 1].mean(axis=0) - hazard(fresh.next_obs)).mean() < 0.03
    ends = chance[..., 0].mean(axis=0)
    assert ends[fresh.next_obs[:, 1] > 1.2].mean() == pytest.approx(0.5, abs=0.08)
    assert ends[fresh.next_obs[:, 1] < 0.8].mean() < 0.02
    np.testing.assert_allclose(model.parameters.sizes[:, 0], [2.0, 4.0])


def test_the_upper_quantile_is_above_the_truth_where_data_are_few():
    """On average over samples; the mean of the members is not, by as much."""
    found = []
    for seed in range(3):
        model, _ = fit(linear_steps(300, seed), 3, (0,), seed)
        fresh = linear_steps(500, 50 + seed)
        chance = ensemble(model, fresh)[2][..., 1]
        at = fresh.next_obs[:, 0] > 0.2
        found.append((np.quantile(chance, QUANTILE, axis=0)[at].mean(), chance.mean(axis=0)[at].mean()))
    upper, middle = np.mean(found, axis=0)
    assert upper > 0.3 > 0.6 * middle
    assert upper > 1.1 * middle


@pytest.mark.parametrize("continuous", [False, True])
def test_steps_are_those_of_the_path_s_own_member(tiny, continuous):
    """The first step draws the member, later steps keep it; all numbers by formulas for single rows in numpy."""
    steps = linear_steps(200)
    if continuous:
        steps = steps._replace(action=np.random.default_rng(3).normal(size=(200, 2)).astype(np.float32))
    model, _ = fit(steps, 0 if continuous else 3, (0,), seed=2)
    own, state = model.parameters, model.begin(steps.obs[:6])
    for turn in range(2):
        noise = jax.vmap(model.noise)(jax.random.split(jax.random.key(turn), 6))
        before, action = np.asarray(state.obs), steps.action[turn * 6 : turn * 6 + 6]
        member = np.asarray(noise.member if turn == 0 else state.member)
        state, phi = jax.vmap(model.advance)(state, action, noise)
        np.testing.assert_array_equal(state.member, member)
        psi, sigma = jax.vmap(model.step_moments)(state, action, state)
        found = plain_model(model, before, action, np.asarray(state.obs))
        likely = np.quantile([chance[:, 1] for _, _, chance in found], QUANTILE, axis=0)
        for b in range(6):
            mean, spread, chance = (part[b] for part in found[member[b]])
            drawn = mean + spread * np.asarray(noise.normal[b])
            after = np.clip(before[b] + drawn[:2], own.low, own.high)
            np.testing.assert_allclose(state.obs[b], after, rtol=1e-4, atol=1e-5)
            uniform = np.asarray(noise.uniform[b])
            assert bool(model.terminated(jax.tree.map(lambda part, b=b: part[b], state))) == (uniform[0] < chance[0])
            happened = 2.0 * (uniform[1] < likely[b])
            np.testing.assert_allclose(phi[b], np.clip([happened, drawn[2]], own.least, own.most), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(psi[b], np.clip([2 * likely[b], mean[2]], own.least, own.most), rtol=1e-3)
            variance = np.diag([4 * likely[b] * (1 - likely[b]), spread[2] ** 2])
            np.testing.assert_allclose(sigma[b], variance, rtol=2e-3, atol=1e-6)


def test_the_same_seed_gives_the_same_bits(tiny):
    steps = linear_steps(100)
    one, again, other = (fit(steps, 3, (0,), seed)[0].parameters for seed in (4, 4, 5))
    jax.tree.map(np.testing.assert_array_equal, one, again)
    assert (one.dynamics.heads.weight != other.dynamics.heads.weight).any()
    fit(Transitions(*(part[:1] for part in steps)), 3, (), 0)  # a single step is enough


@pytest.mark.parametrize("agent", ["rasfdqn", "rasfc51", "rasftd3"])
@pytest.mark.parametrize("stepped", [False, True])
def test_libraries_learn_save_and_look_ahead_in_their_own_model(tiny, agent, stepped, tmp_path):
    world = Push(edge=1.5) if agent == "rasftd3" else Walk(edge=1.5)
    options = SMALL | {"atoms": 5, "warmup": 0} if agent == "rasfc51" else SMALL | {"events": (1,)}
    env = (lambda: world_environment(world)) if stepped else world
    options |= {"agent": agent, "tasks": [OWN[0].w], "num_envs": 2 if stepped else 1}
    library = rasf.learn(env, steps_per_task=80, gamma=0.8, **options)
    assert any(note.startswith("the learned model explains") for note in library.notes)
    assert library.model.form.events == (() if agent == "rasfc51" else (1,))
    library.save(tmp_path / "a.rasf")
    again = rasf.load(tmp_path / "a.rasf")
    again.save(tmp_path / "b.rasf")
    assert (tmp_path / "a.rasf").read_bytes() == (tmp_path / "b.rasf").read_bytes()
    jax.tree.map(np.testing.assert_array_equal, again.model.parameters, library.model.parameters)
    obs = np.asarray(jax.vmap(world.observe)(states_of(world, 4)), np.float32)
    for risk in (NEUTRAL, rasf.MeanVariance(-1.0), *([rasf.CVaR(0.3)] if agent == "rasfc51" else [])):
        scores = []
        for one in (library, again):
            sources = one.rule(W, risk, ahead=3, particles=2).sources
            rows = sources.beside(np.atleast_2d(one.encode(obs)), np.zeros((4, 0)))
            scores.append(sources.scores(rows, W, risk).values)
        np.testing.assert_array_equal(*scores)
        np.testing.assert_array_equal(library.act(obs, W, risk), library.actor(W, risk, ahead=0).act(obs))
        named = library.actor(W, risk, model="learned", ahead=3, particles=2).act(obs)
        np.testing.assert_array_equal(again.actor(W, risk, ahead=3, particles=2).act(obs), named)


def test_a_model_changes_neither_training_nor_acting_without_steps(tiny):
    options = {"agent": "rasfdqn", "tasks": [OWN[0].w], "steps_per_task": 80, **SMALL}
    with_model, without = (rasf.learn(Walk(), **options | {"model": model}) for model in (True, False))
    for name, part in without.sources.arrays().items():
        np.testing.assert_array_equal(with_model.sources.arrays()[name], part)
    assert without.model is None


def test_policies_that_know_the_time_left_have_a_model_without_it(tiny):
    """The time inputs are no part of the model; steps at the limit, whose end is unknown, are left out."""
    world = Walk(episode_length=4)
    options = SMALL | {"horizon": "episode"}
    library = rasf.learn(world, agent="rasfdqn", tasks=[OWN[0].w], steps_per_task=60, gamma=1.0, **options)
    assert library.sources.limit == 4
    assert library.model.observation_size == 3
    assert library.model.parameters.high[2] <= 3.0  # ages after the steps that are kept
    state = jax.tree.map(lambda part: part[0], states_of(world, 1))
    assert library.actor(W, ahead=3, particles=2).act(np.asarray(world.observe(state), np.float32)) in range(3)


def test_predictions_are_close_to_those_of_the_true_world():
    """Random policies in a walk whose steps are known: scores with a model of 6,000 steps against the world's."""
    world = Walk(edge=1.2)
    library, rng = walk_library("rasfdqn", world), np.random.default_rng(0)
    states, rows = states_of(world, 6_000, seed=3), rng.integers(3, size=6_000)
    states = states._replace(at=1.6 * states.at, age=rng.integers(5, size=6_000).astype(np.float32))
    noise = jax.vmap(world.noise)(jax.random.split(jax.random.key(8), 6_000))
    after, phi = jax.vmap(world.advance)(states, rows, noise)
    seen = [np.asarray(jax.vmap(world.observe)(one), np.float32) for one in (states, after)]
    over = np.asarray(jax.vmap(world.terminated)(after))
    model, _ = fit(Transitions(seen[0], rows, np.asarray(phi, np.float32), seen[1], over), 3, (), seed=0)
    own = PolicyLibrary(library.sources, library.environment, library.policies, library.agents, {}, (), {}, None, model)
    starts, risk, options = states_of(world, 4, seed=9), rasf.MeanVariance(-1.0), {"ahead": 3, "particles": 400}
    obs = np.asarray(jax.vmap(world.observe)(starts), np.float32)
    true = library.rule(W, risk, model=world, **options).sources
    learned = own.rule(W, risk, **options).sources
    expected = true.scores(true.beside(obs, true.model.rows(starts, 4)), W, risk)
    found = learned.scores(learned.beside(obs, np.zeros((4, 0))), W, risk)
    plain = library.sources.scores(obs, W, risk)
    assert np.abs(found.mean - expected.mean).mean() < 0.25 * np.abs(plain.mean - expected.mean).mean()
    np.testing.assert_allclose(found.mean, expected.mean, atol=0.15)
    np.testing.assert_allclose(found.std, expected.std, rtol=0.25, atol=0.05)


def test_time_limits_and_truncations_are_no_ends():
    class Agent:
        inputs, time_inputs, action_size, limit = 3, 0, 0, 0

    from rasf.deep import replay

    steps = replay.Steps(
        np.ones((3, 3)), np.array([0, 1, 2]), np.zeros((3, 2)), np.ones((3, 3)), np.array([1.0, 0.0, 1.0]),
        np.zeros(3), np.array([0.0, 1.0, 1.0]),
    )  # fmt: skip
    found = transitions_of(Agent, np.asarray(replay.pack(steps), np.float32))
    assert found.terminated.tolist() == [False, True, False]
    assert found.action.tolist() == [0, 1, 2]


def test_moments_of_worlds_with_vector_actions():
    """A world with both vector actions and `step_moments` can be looked ahead in."""

    class Known(Push):
        def step_moments(self, state, action, next_state):
            return jnp.stack([jnp.tanh(next_state.at[0]), 0.5, action[1]]), jnp.diag(jnp.array([0.0, 1 / 12, 0.0]))

    library = walk_library("rasftd3", Known())
    sources = library.rule(W, NEUTRAL, model=Known(), ahead=2, particles=2).sources
    states = states_of(Known(), 2)
    obs = np.asarray(jax.vmap(Known().observe)(states), np.float32)
    first, form = sources.first_actions(obs), sources.model._followed.form
    paths = simulate(
        Known(), form, 1, 2, 0.8, False, sources.model._followed.arrays, obs, states, first, jax.random.key(0)
    )
    np.testing.assert_allclose(paths.features[0, :, :, 0, 2], first[:, :, 1], rtol=1e-6)
    np.testing.assert_allclose(paths.spread[..., 1, 1], 1 / 12, rtol=1e-6)


def test_what_cannot_be_is_refused_in_one_sentence(tiny, tmp_path):
    for agent, model, sentence in (
        ("rasfql", True, "model must be False for rasfql, because only rasf-model and networks learn a model"),
        ("rasfql", 1, "model must be True or False, got 1"),
    ):
        with pytest.raises(ValueError, match=rf"^{sentence}$"):
            rasf.learn("rasf/FourRoom-v0", agent=agent, tasks=1, steps_per_task=10, model=model)
    library = rasf.learn(Walk(), agent="rasfdqn", tasks=[OWN[0].w], steps_per_task=60, gamma=0.8, **SMALL)
    tables = rasf.learn("rasf/FourRoom-v0", agent="rasfql", tasks=1, steps_per_task=10)
    for model in (None, "learned"):
        with pytest.raises(ValueError, match=r"^model must be given to look ahead, because this library was trained w"):
            tables.actor(np.ones(tables.n_features), model=model, ahead=2)
    with pytest.raises(ValueError, match=r"^state must be left out, because observations are the states of the model$"):
        library.actor(W, ahead=2).act(np.zeros(3, np.float32), state=np.zeros(3))
    other, _ = fit(linear_steps(50), 3, (), 0)
    with pytest.raises(ValueError, match=r"^model must have the observation_size that the library was trained with, 3"):
        PolicyLibrary(library.sources, library.environment, library.policies, library.agents, {}, (), {}, None, other)
    with pytest.raises(ValueError, match=r"^model must be counts for tables, and networks for networks$"):
        PolicyLibrary(tables.sources, tables.environment, tables.policies, tables.agents, {}, (), {}, None, other)
    assert rasf.merge([library, walk_library("rasfdqn")]).model is library.model
