"""DQN and QR-DQN as in Stable-Baselines3, with ten trainings in one program.

These agents are rivals: the suite compares policy libraries with them. In one program, the rivals are trained so fast
that they can have as many steps as the libraries.

Stable-Baselines3 trains one network at a time. A step takes 4 to 6 ms (DQN) or 36 ms (QR-DQN) on a core, mainly for the
update. Here one JAX program updates ten networks, each with its own environment. Each worker process of the suite has
one core. If JAX_PLATFORMS=cuda and XLA_PYTHON_CLIENT_PREALLOCATE=false are set, the workers share a GPU. After a step
of the environments, the operations are those of Stable-Baselines3, in the same order:

    store        Store the transition in the replay buffer. Targets bootstrap after truncation, not after termination.
    copy         Every `target_update_interval` steps, copy the network to the target network.
    learn        After `learning_starts` steps, every `train_freq` steps: take one step of Adam on a batch from the
                 buffer.
    choose       Choose a random action with probability epsilon, else the greedy action. Epsilon is 1 until learning
                 starts, then falls linearly to its final value.

The losses, for the network q and the target network q':

    DQN          Huber's loss of r + gamma max_a q'(s', a) - q(s, a). Gradients are clipped to a norm of 10.
    QR-DQN       The networks have quantiles theta_i(s, a) and theta'_i(s, a), i = 1 .. Q, with means q(s, a) and
                 q'(s, a). With a* = argmax_a q'(s', a) and d_ij = r + gamma theta'_j(s', a*) - theta_i(s, a), the loss
                 is the sum over i and mean over j of |(i - 1/2) / Q - [d_ij < 0]| Huber(d_ij). Gradients are not
                 clipped.

Hidden layers have ReLU units. Weights are initialised as in torch. Random numbers differ from those of
Stable-Baselines3, so results agree only in distribution. A test compares one update with that of Stable-Baselines3,
and lab/notes/driving.md compares trainings.

Shapes: L networks (lanes), B transitions in a batch, o numbers in an observation, A actions, Q quantiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from optax import OptState

from rasf.arrays import Array
from rasf.checks import one_of

if TYPE_CHECKING:
    from gymnasium.spaces import Box, Discrete

_TELL_EVERY = 1_000

Layers = tuple[tuple[Array, Array], ...]  # for each layer of a network: weights (inputs, outputs) and biases (outputs,)
Vector = npt.NDArray[np.float32]


class Recipe(NamedTuple):
    """Settings of DQN or QR-DQN, with the names of Stable-Baselines3 and its defaults for DQN.

    `adam_eps` is the epsilon of Adam.
    """

    gamma: float = 0.99
    net_arch: tuple[int, ...] = (64, 64)
    learning_rate: float = 1e-4
    buffer_size: int = 1_000_000
    learning_starts: int = 100
    batch_size: int = 32
    train_freq: int = 4
    gradient_steps: int = 1
    target_update_interval: int = 10_000
    exploration_fraction: float = 0.1
    exploration_final_eps: float = 0.05
    max_grad_norm: float | None = 10.0
    adam_eps: float = 1e-8
    n_quantiles: int | None = None  # the number of quantiles of QR-DQN; None for DQN

    @classmethod
    def read(cls, quantiles: bool, settings: Mapping[str, Any]) -> Recipe:
        """Return the recipe for the settings of a case of the suite (`Case.rival`).

        Args:
            quantiles: True for the defaults of QR-DQN, False for those of DQN.
            settings: values that differ from the defaults, by name.

        Raises:
            ValueError: a setting is unknown or not supported.
        """
        given = dict(settings)
        given |= given.pop("policy_kwargs", {})
        for name in given:
            one_of("setting", name, [one for one in cls._fields if one != "adam_eps"])
        if "net_arch" in given:
            given["net_arch"] = tuple(given["net_arch"])
        usual: dict[str, Any] = {}
        if quantiles:
            usual = {"learning_rate": 5e-5, "exploration_fraction": 0.005, "exploration_final_eps": 0.01}
            usual |= {"max_grad_norm": None, "n_quantiles": 200, "adam_eps": 0.01 / given.get("batch_size", 32)}
        recipe = cls(**(usual | given))
        if not isinstance(recipe.train_freq, int) or recipe.gradient_steps != 1:
            raise ValueError("train_freq must be a number of steps and gradient_steps must be 1 for batched trainings")
        return recipe

    def epsilon(self, step: int, steps: int) -> float:
        """Return the probability of a random action after `step` of `steps` training steps."""
        if step < self.learning_starts:
            return 1.0
        if step / steps > self.exploration_fraction:
            return self.exploration_final_eps
        return 1.0 + step / steps / self.exploration_fraction * (self.exploration_final_eps - 1.0)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        adam = optax.adam(self.learning_rate, eps=self.adam_eps)
        if self.max_grad_norm is None:
            return adam
        return optax.chain(optax.clip_by_global_norm(self.max_grad_norm), adam)


class Learner(NamedTuple):
    """The state of L trainings. Axis 0 of every array is the training."""

    layers: Layers
    target: Layers
    optimiser: OptState
    replay: Array  # (L, capacity, 2 o + 3): obs (o), next obs (o), action, reward, termination
    keys: Array  # (L,)


class World(Protocol):
    """The environment of a training: flat observations and a scalar reward."""

    action_space: Discrete
    observation_space: Box

    def reset(self, *, seed: int | None = None) -> tuple[Vector, object]: ...

    def step(self, action: int) -> tuple[Vector, float, bool, bool, object]: ...


def init_layers(key: Array, sizes: Sequence[int]) -> Layers:
    """Return weights and biases for layers of these sizes, drawn uniformly from +-1 / sqrt(inputs) as in torch."""
    layers = []
    for one, n, m in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
        weights, biases = jax.random.split(one)
        most = n**-0.5
        layers.append(
            (
                jax.random.uniform(weights, (n, m), minval=-most, maxval=most),
                jax.random.uniform(biases, (m,), minval=-most, maxval=most),
            )
        )
    return tuple(layers)


def outputs(layers: Layers, x: Array) -> Array:
    """Return the outputs (.., A Q) of one network for observations (.., o)."""
    *hidden, (weight, bias) = layers
    times = partial(jnp.matmul, precision="highest")  # without this, a GPU rounds factors to TF32
    for w, b in hidden:
        x = jax.nn.relu(times(x, w) + b)
    return times(x, weight) + bias


def quantiles(layers: Layers, x: Array, recipe: Recipe) -> Array:
    """Return the quantiles (.., Q, A) of the return for observations (.., o). DQN has Q = 1 output, the mean."""
    found = outputs(layers, x)
    return found.reshape(*found.shape[:-1], recipe.n_quantiles or 1, -1)


def loss(layers: Layers, target: Layers, rows: Array, recipe: Recipe) -> Array:
    """Return the loss of one network on a batch of transitions (B, 2 o + 3), with the columns of `Learner.replay`."""
    n = (rows.shape[1] - 3) // 2
    obs, next_obs = rows[:, :n], rows[:, n : 2 * n]
    action, reward, terminated = rows[:, -3].astype(int), rows[:, -2:-1], rows[:, -1:]
    ahead = quantiles(target, next_obs, recipe)
    best = ahead.mean(axis=1).argmax(axis=1)
    targets = reward + (1 - terminated) * recipe.gamma * _of_action(ahead, best)
    predicted = _of_action(quantiles(layers, obs, recipe), action)
    if recipe.n_quantiles is None:
        return optax.huber_loss(predicted, targets).mean()
    differences = targets[:, None, :] - predicted[:, :, None]
    middles = (jnp.arange(recipe.n_quantiles) + 0.5) / recipe.n_quantiles
    tilted = jnp.abs(middles[:, None] - (differences < 0)) * optax.huber_loss(differences)
    return tilted.sum(axis=1).mean()


def _of_action(found: Array, action: Array) -> Array:
    """Return the quantiles (B, Q) of the actions (B,), out of the quantiles (B, Q, A) of all actions."""
    return jnp.take_along_axis(found, action[:, None, None], axis=2)[:, :, 0]


def update(layers: Layers, target: Layers, state: OptState, rows: Array, recipe: Recipe) -> tuple[Layers, OptState]:
    """Return one network and the state of its optimiser after a step of Adam."""
    slopes = jax.grad(loss)(layers, target, rows, recipe)
    changes, state = recipe.optimiser.update(slopes, state)
    return optax.apply_updates(layers, changes), state


def _init(keys: Array, recipe: Recipe, observation: int, actions: int, steps: int) -> Learner:
    sizes = (observation, *recipe.net_arch, actions * (recipe.n_quantiles or 1))
    # Layer i is initialised with `split(key, n)[i]`. Step i uses `fold_in(key, i)`, which is the same key. This is
    # harmless, because the first steps draw no batches, and split the key again before they draw actions.
    layers = jax.vmap(lambda key: init_layers(key, sizes))(keys)
    replay = jnp.zeros((len(keys), min(recipe.buffer_size, steps), 2 * observation + 3))
    return Learner(layers, jax.tree.map(jnp.copy, layers), jax.vmap(recipe.optimiser.init)(layers), replay, keys)


@partial(jax.jit, static_argnames=("recipe", "learns", "copies"), donate_argnums=0)
def _advance(
    learner: Learner, rows: Array, obs: Array, step: Array, epsilon: Array, recipe: Recipe, learns: bool, copies: bool
) -> tuple[Learner, Array]:
    """Do the operations of the module's header after step `step`; return the learner and the next actions (L,)."""
    layers, target, state, replay, keys = learner
    capacity = replay.shape[1]
    replay = jax.lax.dynamic_update_slice_in_dim(replay, rows[:, None], step % capacity, axis=1)
    if copies:
        target = layers
    now = jax.vmap(jax.random.fold_in, (0, None))(keys, step)
    drawn, exploring = jnp.unstack(jax.vmap(jax.random.split)(now), axis=1)
    if learns:

        def learn(key: Array, kept: Array, layers: Layers, target: Layers, state: OptState) -> tuple[Layers, OptState]:
            chosen = jax.random.randint(key, (recipe.batch_size,), 0, jnp.minimum(step + 1, capacity))
            return update(layers, target, state, kept[chosen], recipe)

        layers, state = jax.vmap(learn)(drawn, replay, layers, target, state)
    actions = jax.vmap(partial(_choose, recipe=recipe), (0, 0, 0, None))(layers, obs, exploring, epsilon)
    return Learner(layers, target, state, replay, keys), actions


def _choose(layers: Layers, obs: Array, key: Array, epsilon: Array, recipe: Recipe) -> Array:
    values = quantiles(layers, obs, recipe).mean(axis=0)
    whether, which = jax.random.split(key)
    random = jax.random.randint(which, (), 0, len(values))
    return jnp.where(jax.random.uniform(whether) < epsilon, random, values.argmax())


def train(
    worlds: Sequence[World],
    seeds: Sequence[int],
    recipe: Recipe,
    steps: int,
    lanes: int,
    tell: Callable[[float], None] = lambda share: None,
) -> list[Layers]:
    """Train a network for each world, and return the networks as numpy arrays.

    Args:
        worlds: the environments, with equal observation and action spaces.
        seeds: for each world, the seed of the world and of its training.
        recipe: settings of all trainings.
        steps: the number of steps of each training.
        lanes: the number L of networks in the program, at least the number of worlds. For a fixed number of lanes, a
            trained network does not depend on the other worlds in the program, not even in its last bit.
        tell: called every 1,000 steps with the share of the training that is done. Default: no call.

    Raises:
        ValueError: there are no worlds, or more than `lanes`.
    """
    count = len(worlds)
    if not 1 <= count <= lanes:
        raise ValueError(f"worlds must have 1 to {lanes} environments, got {count}")
    of_lanes = np.array([*seeds, *[0] * (lanes - count)])
    n = worlds[0].observation_space.shape[0]
    learner = _init(jax.vmap(jax.random.key)(of_lanes), recipe, n, int(worlds[0].action_space.n), steps)
    obs, rows = np.zeros((lanes, n), np.float32), np.zeros((lanes, 2 * n + 3), np.float32)
    for i, world in enumerate(worlds):
        obs[i] = world.reset(seed=seeds[i])[0]
    # the first actions use the number `steps` for `fold_in`: later draws use 0 .. steps - 1, so no key is used twice
    fresh = jax.vmap(jax.random.fold_in, (0, None))(learner.keys, steps)
    choose = jax.vmap(partial(_choose, recipe=recipe), (0, 0, 0, None))
    actions = np.asarray(choose(learner.layers, obs, fresh, recipe.epsilon(0, steps)))
    for step in range(steps):
        rows[:, :n], rows[:, -3] = obs, actions
        for i, world in enumerate(worlds):
            seen, reward, terminated, truncated, _ = world.step(int(actions[i]))
            rows[i, n : 2 * n], rows[i, -2], rows[i, -1] = seen, reward, terminated
            obs[i] = world.reset()[0] if terminated or truncated else seen
        done = step + 1
        learns = done > recipe.learning_starts and done % recipe.train_freq == 0
        copies = done % recipe.target_update_interval == 0
        epsilon = np.float32(recipe.epsilon(done, steps))
        learner, chosen = _advance(learner, rows, obs, np.int32(step), epsilon, recipe, learns, copies)
        actions = np.asarray(chosen)
        if done % _TELL_EVERY == 0:
            tell(done / steps)
    layers = jax.tree.map(np.asarray, learner.layers)
    return [tuple((w[i], b[i]) for w, b in layers) for i in range(count)]


def greedy(layers: Layers, obs: Vector, recipe: Recipe) -> int:
    """Return the greedy action for one observation (o,). Numpy is faster here than a compiled program."""
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        obs = np.maximum(obs @ w + b, 0)
    return int((obs @ weight + bias).reshape(recipe.n_quantiles or 1, -1).mean(axis=0).argmax())
