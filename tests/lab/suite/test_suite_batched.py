"""Batched DQN and QR-DQN: losses and updates beside plain ones and Stable-Baselines3's, loops beside a plain loop."""

import copy
import types

import jax
import numpy as np
import pytest

from rasf_lab.rivals.batched import Recipe, greedy, init_layers, loss, train, update
from rasf_lab.suite.cases import DQN_ON_ROADS

SMALL = Recipe(gamma=0.9, net_arch=(8, 6), learning_rate=0.01, learning_starts=5, batch_size=7, train_freq=1)
KINDS = {
    "dqn": SMALL._replace(max_grad_norm=0.05),
    "qr-dqn": SMALL._replace(n_quantiles=5, max_grad_norm=None, adam_eps=0.01 / 7),
}


def layers_of(seed, recipe, observation=3, actions=2):
    sizes = (observation, *recipe.net_arch, actions * (recipe.n_quantiles or 1))
    return jax.tree.map(np.asarray, init_layers(jax.random.key(seed), sizes))


def transitions(seed, n=7, observation=3, actions=2):
    rng = np.random.default_rng(seed)
    numbers = (rng.integers(actions, size=(n, 1)), 2 * rng.normal(size=(n, 1)), rng.random((n, 1)) < 0.3)
    return np.hstack([rng.normal(size=(n, 2 * observation)), *numbers]).astype(np.float32)


# --- plain versions


def plain_quantiles(layers, obs, recipe):
    x = obs.astype(float)
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.astype(float) + bias
        if i < len(layers) - 1:
            x = np.maximum(x, 0)
    return x.reshape(recipe.n_quantiles or 1, -1)


def huber(x):
    return 0.5 * x * x if abs(x) <= 1 else abs(x) - 0.5


def plain_loss(layers, target, rows, recipe):
    total = 0.0
    for row in rows:
        obs, ahead, action, reward, terminated = row[:3], row[3:6], int(row[-3]), row[-2], row[-1]
        theirs = plain_quantiles(target, ahead, recipe)
        best = theirs.mean(axis=0).argmax()
        wanted = [reward + (0.0 if terminated else recipe.gamma * value) for value in theirs[:, best]]
        said = plain_quantiles(layers, obs, recipe)[:, action]
        if recipe.n_quantiles is None:
            total += huber(wanted[0] - said[0])
            continue
        for i, mine in enumerate(said):
            for value in wanted:
                d = value - mine
                total += abs((i + 0.5) / len(said) - (d < 0)) * huber(d) / len(wanted)
    return total / len(rows)


def plain_adam(layers, slopes, state, recipe):
    """The new numbers, and moments and count."""
    moments, squares, count = state
    norm = np.sqrt(sum((slope.astype(float) ** 2).sum() for slope in slopes))
    if recipe.max_grad_norm is not None and norm > recipe.max_grad_norm:
        slopes = [slope * recipe.max_grad_norm / norm for slope in slopes]
    moments = [0.9 * m + 0.1 * g for m, g in zip(moments, slopes, strict=True)]
    squares = [0.999 * v + 0.001 * g * g for v, g in zip(squares, slopes, strict=True)]
    count += 1
    new = [
        x - recipe.learning_rate * (m / (1 - 0.9**count)) / (np.sqrt(v / (1 - 0.999**count)) + recipe.adam_eps)
        for x, m, v in zip(layers, moments, squares, strict=True)
    ]
    return new, (moments, squares, count)


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_the_plain_ones(kind):
    recipe = KINDS[kind]
    layers, target, rows = layers_of(0, recipe), layers_of(1, recipe), transitions(2)
    assert loss(layers, target, rows, recipe) == pytest.approx(plain_loss(layers, target, rows, recipe), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_updates_are_adams_on_clipped_gradients(kind):
    recipe = KINDS[kind]
    layers, target = layers_of(0, recipe), layers_of(1, recipe)
    numbers = jax.tree.leaves(layers)
    state, mine = recipe.optimiser.init(layers), layers
    plain_state = [np.zeros_like(x) for x in numbers], [np.zeros_like(x) for x in numbers], 0
    for seed in range(3):
        rows = transitions(seed)
        slopes = jax.tree.leaves(jax.grad(loss)(mine, target, rows, recipe))
        numbers, plain_state = plain_adam(numbers, slopes, plain_state, recipe)
        mine, state = update(mine, target, state, rows, recipe)
        for a, b in zip(jax.tree.leaves(mine), numbers, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("module", "name", "net"), [
    ("stable_baselines3", "DQN", "q_net"), ("sb3_contrib", "QRDQN", "quantile_net"),
])  # fmt: skip
def test_updates_are_stable_baselines_own(module, name, net):
    """Where it is installed: the extra `bench`."""
    found, gymnasium = pytest.importorskip(module), pytest.importorskip("gymnasium")
    torch = pytest.importorskip("torch")

    class Nowhere(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

    settings = dict(DQN_ON_ROADS) | {"buffer_size": 200}
    model = getattr(found, name)("MlpPolicy", Nowhere(), seed=0, device="cpu", **copy.deepcopy(settings))
    recipe = Recipe.read(name == "QRDQN", settings)

    def numbers(network):
        told = [each.detach().numpy().copy() for each in network.parameters()]
        return tuple((weight.T, bias) for weight, bias in zip(told[::2], told[1::2], strict=True))

    layers, target = numbers(getattr(model, net)), numbers(getattr(model, f"{net}_target"))
    state, rows = recipe.optimiser.init(layers), transitions(5, 64)
    model._logger = types.SimpleNamespace(record=lambda *told, **more: None)
    for some in (rows[:32], rows[32:]):
        data = torch.tensor(some)
        batch = types.SimpleNamespace(
            observations=data[:, :3], next_observations=data[:, 3:6], actions=data[:, -3:-2].long(),
            rewards=data[:, -2:-1], dones=data[:, -1:], discounts=None,
        )  # fmt: skip
        model.replay_buffer = types.SimpleNamespace(sample=lambda size, env, batch=batch: batch)
        model.train(1, 32)
        layers, state = update(layers, target, state, some, recipe)
    for a, b in zip(jax.tree.leaves(layers), jax.tree.leaves(numbers(getattr(model, net))), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=3e-6)
        assert a.shape == b.shape
    assert model.exploration_schedule(1 - 0.002) == pytest.approx(recipe.epsilon(200, 100_000))


# --- the loop


class Walk:
    """Seven places in a row. Right pays at its end, which terminates; an episode is cut after nine steps."""

    def __init__(self, pays=1.0):
        self.observation_space = types.SimpleNamespace(shape=(3,))
        self.action_space, self.pays, self.asked = types.SimpleNamespace(n=2), pays, []

    def reset(self, *, seed=None):
        self.asked.append(seed)
        self.at, self.steps = 3, 0
        return self.seen(), {}

    def step(self, action):
        self.at, self.steps = max(self.at + 2 * action - 1, 0), self.steps + 1
        ended = self.at == 6
        return self.seen(), self.pays * ended - 0.01, ended, not ended and self.steps == 9, {}

    def seen(self):
        return np.array([self.at / 6, (self.at / 6) ** 2, self.steps / 9], np.float32)


def plain_training(world, seed, recipe, steps):
    """One training, a step after the other."""
    key = jax.random.key(seed)
    layers = init_layers(key, (3, *recipe.net_arch, 2 * (recipe.n_quantiles or 1)))
    target, state, kept = layers, recipe.optimiser.init(layers), []

    def choose(obs, key, step):
        whether, which = jax.random.split(key)
        values = plain_quantiles(jax.tree.map(np.asarray, layers), obs, recipe).mean(axis=0)
        explores = jax.random.uniform(whether) < np.float32(recipe.epsilon(step, steps))
        return int(jax.random.randint(which, (), 0, 2)) if explores else int(values.argmax())

    obs, _ = world.reset(seed=seed)
    action = choose(obs, jax.random.fold_in(key, steps), 0)
    for step in range(steps):
        seen, reward, terminated, truncated, _ = world.step(action)
        kept.append(np.array([*obs, *seen, action, reward, terminated], np.float32))
        obs = world.reset()[0] if terminated or truncated else seen
        if (step + 1) % recipe.target_update_interval == 0:
            target = layers
        drawn, exploring = jax.random.split(jax.random.fold_in(key, step))
        if step + 1 > recipe.learning_starts and (step + 1) % recipe.train_freq == 0:
            newest = len(kept) - 1
            held = kept[-recipe.buffer_size :]
            places = {(newest - i) % recipe.buffer_size: held[-1 - i] for i in range(len(held))}
            chosen = jax.random.randint(drawn, (recipe.batch_size,), 0, len(held))
            rows = np.array([places[int(i)] for i in chosen])
            layers, state = update(layers, target, state, rows, recipe)
        action = choose(obs, exploring, step + 1)
    return layers


@pytest.mark.parametrize("kind", ["dqn", pytest.param("qr-dqn", marks=pytest.mark.slow)])
def test_the_loop_is_the_plain_one(kind):
    recipe = KINDS[kind]._replace(buffer_size=13, target_update_interval=11, train_freq=2, exploration_fraction=0.5)
    worlds, shares = [Walk(), Walk(5.0)], []
    found = train(worlds, [3, 4], recipe, 30, 2, shares.append)
    assert worlds[0].asked[0] == 3
    assert set(worlds[0].asked[1:]) == {None}  # one stream of random numbers, as there
    for layers, pays, seed in zip(found, (1.0, 5.0), (3, 4), strict=True):
        plain = plain_training(Walk(pays), seed, recipe, 30)
        for a, b in zip(jax.tree.leaves(layers), jax.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dqn", "qr-dqn"])
def test_what_is_learned_is_right(kind):
    recipe = KINDS[kind]._replace(target_update_interval=50, max_grad_norm=10.0, exploration_fraction=0.5)
    (layers,) = train([Walk()], [0], recipe, 1_500, 1)
    for at in range(6):
        obs = np.array([at / 6, (at / 6) ** 2, 0.3], np.float32)
        assert greedy(layers, obs, recipe) == 1
    near = plain_quantiles(layers, np.array([5 / 6, (5 / 6) ** 2, 0.3], np.float32), recipe).mean(axis=0)
    assert near[1] == pytest.approx(0.99, abs=0.15)
    assert near[0] == pytest.approx(0.9**2 * 0.99 - 0.01 - 0.009, abs=0.2)


def test_no_training_depends_on_its_neighbours():
    recipe = KINDS["dqn"]._replace(target_update_interval=11)
    alone = train([Walk()], [3], recipe, 40, 3)[0]
    beside = train([Walk(5.0), Walk()], [7, 3], recipe, 40, 3)[1]
    other = train([Walk()], [4], recipe, 40, 3)[0]
    for a, b, c in zip(*map(jax.tree.leaves, (alone, beside, other)), strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)


def test_recipes_have_the_defaults_of_stable_baselines():
    dqn, quantile = (Recipe.read(quantiles, dict(DQN_ON_ROADS)) for quantiles in (False, True))
    assert dqn.net_arch == (256, 256)
    assert (dqn.max_grad_norm, dqn.exploration_fraction, dqn.exploration_final_eps) == (10.0, 0.1, 0.05)
    assert (quantile.n_quantiles, quantile.max_grad_norm, quantile.adam_eps) == (200, None, 0.01 / 32)
    assert quantile.learning_rate == dqn.learning_rate == 5e-4
    assert [dqn.epsilon(step, 20_000) for step in (0, 199, 1_000, 2_000, 2_001, 20_000)] == pytest.approx(
        [1.0, 1.0, 0.525, 0.05, 0.05, 0.05]
    )


@pytest.mark.parametrize("wrong", [{"tau": 0.5}, {"train_freq": (1, "episode")}, {"gradient_steps": 2}])
def test_settings_that_it_does_not_know_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Recipe.read(False, wrong)


def test_as_many_worlds_as_lanes():
    with pytest.raises(ValueError, match="worlds"):
        train([Walk(), Walk()], [0, 1], SMALL, 10, 1)
