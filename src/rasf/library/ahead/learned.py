"""`LearnedModel`: an ensemble of networks in which a library looks ahead, learned from the steps of training.

M members, each trained on its own bootstrap sample (`rasf.library.ahead.fitting`), predict from the encoded observation
x and the action a

    x' - x and phi      Gaussian, with mean and variance from the `dynamics` network of (x, a)
    end, events         probability sigmoid(f(x') + g(x, a)), with the networks f (`after`) and g (`before`)

An event is a rare feature, such as a failure: it is 0, or has a size that is estimated by the mean size in the data. f
reads only the next observation, in a first layer of sines, so that the edges of a hazardous region are sharp.

A simulated path follows one random member, so that the paths differ by what the members do not know. A hazard must be
over- rather than underestimated: the probability of an event is the 0.9 quantile over all members. This is no
protection where data are few and all members expect too little. An episode ends with the probability of the
path's own member, because an end may be good or bad.

The state of a simulation begins with the observation. The class has the methods of a `rasf.World` that a simulation
calls. `form` is fixed in compiled programs, `parameters` are their arguments. In shapes, M is the number of members,
B of observations, n of numbers of an observation, p of inputs for an action, d of features, e of events, and
t = n + d - e.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rasf.arrays import Array
from rasf.deep.networks import Heads, Network, encode, read_heads

QUANTILE = 0.9  # quantile over members that is the probability of an event
_LEAST, _MOST = -10.0, 4.0  # bounds of the logarithm of a variance, in units of the variance in the data


class Scale(NamedTuple):
    """Means and standard deviations, (n,) each, by which numbers are standardised; 0 where the data are constant."""

    mean: Array
    std: Array

    def standard(self, x: Array) -> Array:
        """Return standardised numbers (.., n); a constant number becomes 0 wherever it is as in the data."""
        return (x - self.mean) / jnp.where(self.std > 0, self.std, 1.0)

    def own(self, z: Array) -> Array:
        """Return numbers (.., n) in their own units."""
        return self.mean + self.std * z


class Parameters(NamedTuple):
    """The numbers of a learned model.

    Attributes:
        dynamics: Networks of (x, a) with t means and t logarithms of variances, standardised by `targets`.
        after: Networks f of x' with 1 + e logits: the end of the episode, and the events.
        before: Networks g of (x, a) with 1 + e logits.
        inputs: The scale of x, (n,).
        targets: The scale of x' - x and of the features that are no events, (t,).
        low, high: Lowest and highest numbers (n,) of observations in the data; simulated ones stay within them.
        least, most: Lowest and highest features (d,) in the data.
        sizes: Mean values (2, e) of an event's feature and of its square, where it occurs.
    """

    dynamics: Network
    after: Network
    before: Network
    inputs: Scale
    targets: Scale
    low: Array
    high: Array
    least: Array
    most: Array
    sizes: Array


@dataclass(frozen=True)
class Form:
    """What is fixed in a compiled program.

    Attributes:
        observation_size: Number n of an observation's numbers, without time inputs.
        n_actions: Number of actions; 0 if actions are vectors.
        action_size: Number of entries of an action that is a vector, else 0.
        n_features: Number d of features.
        events: Indices of the features that are events.
        members: Number M of members.
        quantile: The quantile over the members that is the probability of an event. Default: 0.9.
    """

    observation_size: int
    n_actions: int
    action_size: int
    n_features: int
    events: tuple[int, ...]
    members: int
    quantile: float = QUANTILE

    @property
    def others(self) -> tuple[int, ...]:
        """Indices of the features that are no events."""
        return tuple(i for i in range(self.n_features) if i not in self.events)

    @property
    def targets(self) -> int:
        """Number t of the numbers that the dynamics predict."""
        return self.observation_size + len(self.others)

    @property
    def inputs(self) -> int:
        """Number n + p of inputs of networks of (x, a)."""
        return self.observation_size + (self.action_size or self.n_actions)

    def encoded(self, action: Array) -> Array:
        """Return the inputs (.., p) for actions (..), one-hot, or for actions (.., p) that are vectors."""
        return jnp.asarray(action, jnp.float32) if self.action_size else jax.nn.one_hot(action, self.n_actions)

    def dynamics(self, parameters: Parameters, x: Array, action: Array) -> tuple[Array, Array]:
        """Return standardised means, and logarithms of variances, (M, B, t) each.

        Args:
            parameters: The parameters.
            x: Standardised observations, (B, n) or (M, B, n).
            action: Inputs for actions, (B, p) or (M, B, p).
        """
        found = _outputs(parameters.dynamics, jnp.concatenate([x, action], axis=-1), 2 * self.targets)
        mean, log_variance = jnp.split(found, 2, axis=-1)
        upper = _MOST - jax.nn.softplus(_MOST - log_variance)
        return mean, _LEAST + jax.nn.softplus(upper - _LEAST)

    def logits(self, parameters: Parameters, x: Array, action: Array, after: Array) -> Array:
        """Return the logits (M, B, 1 + e) of the end of the episode and of the events.

        Args:
            parameters, x, action: As for `dynamics`.
            after: Standardised next observations, of the shape of `x`.
        """
        outcomes = 1 + len(self.events)
        late = _outputs(parameters.after, after, outcomes)
        return late + _outputs(parameters.before, jnp.concatenate([x, action], axis=-1), outcomes)


def _outputs(network: Network, x: Array, size: int) -> Array:
    """Return the outputs (M, B, size) of networks."""
    return read_heads(network.heads, encode(network, x, jax.nn.silu), Heads(1, size))[:, :, 0, 0]


class Simulated(NamedTuple):
    """The state of a simulated path: `member` is -1 before the first step; `mean`, `variance` (d,) of the last phi."""

    obs: Array
    member: Array
    over: Array
    mean: Array
    variance: Array


class Noise(NamedTuple):
    """The random numbers of a step: normal ones (t,), uniform ones (1 + e,), and the member of a path that begins."""

    normal: Array
    uniform: Array
    member: Array


@dataclass(frozen=True)
class LearnedModel:
    """An ensemble in which a library looks ahead; see the module's header.

    Attributes:
        form: Sizes.
        parameters: The numbers; None while the model is a static argument of a compiled program.
    """

    form: Form
    parameters: Any

    def __hash__(self) -> int:
        return hash(self.form)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LearnedModel) and self.form == other.form and self.parameters is other.parameters

    def having(self, parameters: Parameters | None) -> LearnedModel:
        """Return the model with these parameters."""
        return replace(self, parameters=parameters)

    @property
    def n_actions(self) -> int:
        return self.form.n_actions

    @property
    def action_size(self) -> int:
        return self.form.action_size

    @property
    def observation_size(self) -> int:
        return self.form.observation_size

    @property
    def n_features(self) -> int:
        return self.form.n_features

    def begin(self, obs: Array) -> Simulated:
        """Return the states (B, ..) in which paths begin at observations (B, n)."""
        nothing = jnp.zeros((len(obs), self.form.n_features), jnp.float32)
        return Simulated(
            jnp.asarray(obs, jnp.float32), jnp.full(len(obs), -1), jnp.zeros(len(obs), bool), nothing, nothing
        )

    def noise(self, key: Array) -> Noise:
        """Return the random numbers of one step."""
        normal, uniform, member = jax.random.split(key, 3)
        form = self.form
        return Noise(
            jax.random.normal(normal, (form.targets,)),
            jax.random.uniform(uniform, (1 + len(form.events),)),
            jax.random.randint(member, (), 0, form.members),
        )

    def advance(self, state: Simulated, action: Array, noise: Noise) -> tuple[Simulated, Array]:
        """Return the next state and features (d,), in which events are sampled.

        Args:
            state: The state.
            action: The index of the action, or a vector (p,).
            noise: The random numbers of the step.
        """
        form, own, n = self.form, self.parameters, self.form.observation_size
        member = jnp.where(state.member < 0, noise.member, state.member)
        x, given = own.inputs.standard(state.obs)[None], form.encoded(action)[None]
        mean, log_variance = (_of_member(part[:, 0], member) for part in form.dynamics(own, x, given))
        spread = own.targets.std * jnp.exp(0.5 * log_variance)
        mean = own.targets.own(mean)
        drawn = mean + spread * noise.normal
        after = jnp.clip(state.obs + drawn[:n], own.low, own.high)
        chance = jax.nn.sigmoid(form.logits(own, x, given, own.inputs.standard(after)[None]))[:, 0]  # (M, 1 + e)
        over = noise.uniform[0] < _of_member(chance, member)[0]
        likely = jnp.quantile(chance[:, 1:], form.quantile, axis=0)
        size, square = own.sizes
        expected = self._features(mean[n:], likely * size)
        variance = self._features(spread[n:] ** 2, likely * square - (likely * size) ** 2, bounded=False)
        phi = self._features(drawn[n:], (noise.uniform[1:] < likely) * size)
        return Simulated(after, member, over, expected, variance), phi

    def _features(self, others: Array, events: Array, bounded: bool = True) -> Array:
        """Return numbers (d,) in the order of the features, within those of the data if `bounded`."""
        order = np.argsort(np.array(self.form.others + self.form.events, np.int64))
        found = jnp.concatenate([others, events])[order]
        return jnp.clip(found, self.parameters.least, self.parameters.most) if bounded else jnp.maximum(found, 0.0)

    def observe(self, state: Simulated) -> Array:
        """Return the observation (n,) of a state."""
        return state.obs

    def terminated(self, state: Simulated) -> Array:
        """Return whether the episode has ended."""
        return state.over

    def step_moments(self, state: Simulated, action: Array, next_state: Simulated) -> tuple[Array, Array]:
        """Return mean (d,) and covariance (d, d) of the features of the step to `next_state`."""
        return next_state.mean, jnp.diag(next_state.variance)


def _of_member(parts: Array, member: Array) -> Array:
    """Return the row of a member; a sum is faster than a gather, and equal, because other rows count 0 times."""
    taken = jnp.arange(len(parts)) == member
    return jnp.sum(jnp.where(taken[:, None], parts, 0.0), axis=0)
