"""The paper's reacher in pure JAX: an arm moves its tip to a target; some targets lie in risky circles.

There are nine actions, one for each pair of torques -1, 0 or 1 on the two joints. With `continuous`, an action is
instead the vector of both torques, in [-1, 1]^2. Gaussian noise is added to the torques, which are then clipped to
[-1, 1]. The features phi in R^13 depend on the tip after the step. For each of 12 targets g, a feature is
1 - 4 |tip - target_g|; the last feature is 1 in a failure, else 0. In every task, if the tip is in a risky circle after
a step, the step is a failure with probability `failure_probability`. A failure does not end the episode. The task of
target g is w = e_g - 3 e_13 (unit vectors e).

A state (q1, q2, w1, w2) has the angles and angular velocities of shoulder and elbow. `Reacher` contains the parameters.
`step` takes a random key. It calls `noise`, which draws the random numbers of the step, and then `advance`, which takes
the step. Loops that draw the random numbers of many steps at once call `noise` and `advance` themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rasf import checks
from rasf.arrays import Array, Floats, array_namespace
from rasf.envs.reacher.arm import DT, ELBOW_LIMIT, LINK, MAX_SPEED, TIP, physics, tip_position
from rasf.files import Header

TRAINING_TARGETS = ((0.14, 0.0), (-0.14, 0.0), (0.0, 0.14), (0.0, -0.14))
_FAR = ((0.22, 0.0), (-0.22, 0.0), (0.0, 0.22), (0.0, -0.22))
TEST_TARGETS = (*_FAR, (0.1, 0.1), (0.1, -0.1), (-0.1, 0.1), (-0.1, -0.1))
RISKY_TARGETS = (0, 1, 4, 5, 9, 10)
OBSERVATIONS = ("raw", "wrapped", "sincos")
TORQUES = np.array([(first, second) for first in (-1.0, 0.0, 1.0) for second in (-1.0, 0.0, 1.0)])
START_ANGLES = np.array([(-np.pi, np.pi), (-np.pi / 2, np.pi / 2)])  # ranges of the start angles of shoulder and elbow
_ELBOW_SCALE, _SPEED_SCALE = 3.0, 0.1


class Noise(NamedTuple):
    """The random numbers of a step: noise of the torques (2,), and a uniform number that decides on a failure."""

    torque: Array
    failure: Array


@dataclass(frozen=True)
class Reacher:
    """The reacher with its parameters.

    Attributes:
        targets: Positions (x, y) of the targets, in metres. Default: the paper's 4 training and 8 test targets.
        risky: Indices of the targets at the centres of risky circles. Default: the paper's six targets.
        radius: Radius of the risky circles, in metres. Default: 0.06.
        failure_probability: Probability that a step is a failure if the tip is in a risky circle after the step.
            Default: 0.035.
        failure_cost: Cost of a failure, used by `tasks`. Default: 3.
        action_noise: Standard deviation of the noise of each torque. Default: 0.03.
        episode_length: Number of steps after which an episode is truncated. Default: 500.
        observation: "raw" is (q1, 0.1 w1, q2 / 3, 0.1 w2) with unbounded q1, as in the paper's code; "wrapped" has q1
            in [-pi, pi); "sincos" has the sines and cosines of both angles in place of the angles. Default: "raw".
        continuous: Whether an action is a vector of two torques, instead of an index from 0 to 8. Default: False.
    """

    targets: tuple[tuple[float, float], ...] = TRAINING_TARGETS + TEST_TARGETS
    risky: tuple[int, ...] = RISKY_TARGETS
    radius: float = 0.06
    failure_probability: float = 0.035
    failure_cost: float = 3.0
    action_noise: float = 0.03
    episode_length: int = 500
    observation: str = "raw"
    continuous: bool = False

    def __post_init__(self) -> None:
        checks.one_of("observation", self.observation, OBSERVATIONS)
        if not isinstance(self.continuous, bool):
            raise ValueError(f"continuous must be True or False, got {self.continuous!r:.60}")
        targets, risky = _listed(self.targets), _listed(self.risky)
        try:
            positions = np.array(targets)
        except ValueError:  # rows of different lengths
            positions = np.zeros(0)
        pairs = positions.ndim == 2 and positions.shape[1] == 2 and positions.dtype.kind in "iuf"
        if not (pairs and np.isfinite(positions).all()):
            raise ValueError(f"targets must be a non-empty tuple of finite (x, y) pairs, got {targets!r}")
        n = len(positions)
        if not (isinstance(risky, Sequence) and all(checks.is_whole(index) and 0 <= index < n for index in risky)):
            raise ValueError(f"risky must hold indices of the {n} targets, got {risky!r}")
        # tuples make the world hashable
        object.__setattr__(self, "targets", tuple((float(x), float(y)) for x, y in positions))
        object.__setattr__(self, "risky", tuple(map(int, risky)))
        checks.number("failure_probability", self.failure_probability, 0.0, 1.0)
        for name in ("radius", "action_noise", "failure_cost"):
            checks.number(name, getattr(self, name), 0.0)
        checks.whole("episode_length", self.episode_length)

    @property
    def preferred_agent(self) -> str:
        """The agent that `agent="auto"` chooses; for the paper's nine actions, it is the paper's agent."""
        return "rasftd3" if self.continuous else "rasfc51"

    @property
    def n_actions(self) -> int:
        """The number of actions; 0 if actions are vectors."""
        return 0 if self.continuous else len(TORQUES)

    @property
    def action_size(self) -> int:
        """The number of torques in an action if actions are vectors, else 0."""
        return 2 if self.continuous else 0

    @property
    def n_features(self) -> int:
        return len(self.targets) + 1

    @property
    def observation_size(self) -> int:
        return 6 if self.observation == "sincos" else 4

    @property
    def feature_bounds(self) -> Floats:
        """Bounds (d, 2) of the features: [low, 1] for a target, where low is at most -1, and [0, 1] for failure."""
        lowest = 1 - 4 * (np.hypot(*self.target_positions().T) + LINK + TIP)
        return np.array([*((min(-1.0, low), 1.0) for low in lowest), (0.0, 1.0)])

    @property
    def observation_bounds(self) -> Floats:
        """Bounds (n, 2) of the n numbers of an observation within an episode."""
        # `turn` is the largest change of an angle in a step; the elbow may exceed its limit by this angle
        turn, speed = DT * MAX_SPEED, _SPEED_SCALE * MAX_SPEED
        shoulder = np.pi if self.observation == "wrapped" else np.pi + self.episode_length * turn
        high = [shoulder, speed, (ELBOW_LIMIT + turn) / _ELBOW_SCALE, speed]
        if self.observation == "sincos":
            high = [1.0, 1.0, speed, 1.0, 1.0, speed]
        return np.array([(-bound, bound) for bound in high])

    def tasks(self, targets: tuple[int, ...] | None = None) -> Floats:
        """Return the weights (n, d) of the tasks that have these targets.

        Args:
            targets: indices (n,) of the targets. Default: all.
        """
        chosen = range(len(self.targets)) if targets is None else targets
        weights = np.zeros((len(chosen), self.n_features))
        weights[np.arange(len(chosen)), list(chosen)] = 1.0
        weights[:, -1] = -self.failure_cost
        return weights

    @property
    def signs(self) -> tuple[int, ...]:
        """Signs (d,) of the weights: 1 for closeness to a target, -1 for failure."""
        return (*(1 for _ in self.targets), -1)

    @property
    def failure_feature(self) -> int:
        """The index of the feature that counts failures."""
        return self.n_features - 1

    @property
    def registered(self) -> tuple[str | None, Header]:
        """The id and keyword arguments with which `gymnasium.make` makes this world; (None, {}) for a subclass."""
        if type(self) is not Reacher:
            return None, {}
        return "rasf/Reacher-v0", {
            one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default
        }

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features: "target 1", "target 2" and so on, and "failure"."""
        return (*(f"target {i + 1}" for i in range(len(self.targets))), "failure")

    @property
    def events(self) -> tuple[int, ...]:
        """The indices of events, which are rare features that are never negative: only the index of failure."""
        return (self.n_features - 1,)

    def target_positions(self, targets: tuple[int, ...] | None = None) -> Floats:
        """Return the positions (n, 2) of some targets.

        Args:
            targets: indices (n,) of the targets. Default: all.
        """
        positions = np.array(self.targets)
        return positions if targets is None else positions[list(targets)]

    def reset(self, key: Array) -> Array:
        """Return a start state (4,) with random angles and zero velocities.

        Args:
            key: random key.
        """
        low, high = jnp.asarray(START_ANGLES.T)
        angles = jax.random.uniform(key, (2,), minval=low, maxval=high)
        return jnp.concatenate([angles, jnp.zeros(2)])

    def noise(self, key: Array) -> Noise:
        """Draw the random numbers of a step.

        Args:
            key: random key.
        """
        torque_key, failure_key = jax.random.split(key)
        return Noise(self.action_noise * jax.random.normal(torque_key, (2,)), jax.random.uniform(failure_key))

    def advance(
        self, state: Array, action: Array, noise: Noise, physics: Callable[[Array, Array], Array] = physics
    ) -> tuple[Array, Array]:
        """Take a step with given noise.

        Args:
            state: state (4,) of the arm.
            action: index of the action, or the vector of torques (2,).
            noise: the random numbers of the step.
            physics: function of state and torques (2,) that returns the next state. Default: the closed-form motion of
                the arm, `rasf.envs.reacher.arm.physics`.

        Returns:
            The next state (4,) and the features (d,).
        """
        xp = array_namespace(state, noise.torque)
        torque = xp.asarray(action, state.dtype) if self.continuous else xp.asarray(TORQUES, state.dtype)[action]
        next_state = physics(state, xp.clip(torque + noise.torque, -1.0, 1.0))
        return next_state, self.features(self.tip(state, next_state), noise.failure)

    def tip(self, state: Array, next_state: Array) -> Array:
        """Return the position (.., 2) of the tip that determines a step's features: that in the next state.

        Args:
            state: states (.., 4) before the step. Only subclasses use them.
            next_state: states (.., 4) after the step.
        """
        return tip_position(next_state)

    def terminated(self, state: Array) -> Array:
        """Return False, because episodes end only at `episode_length`.

        Args:
            state: state (4,) of the arm, which is not used.
        """
        return array_namespace(state).zeros((), bool)

    def step(self, key: Array, state: Array, action: Array) -> tuple[Array, Array]:
        """Take a step with random noise, and return the next state (4,) and the features (d,).

        Args:
            key: random key of the noise.
            state: state (4,) of the arm.
            action: index of the action, or the vector of torques (2,).
        """
        return self.advance(state, action, self.noise(key))

    def features(self, tip: Array, chance: Array) -> Array:
        """Return the features (.., d) of a step.

        Args:
            tip: positions (.., 2) of the tip.
            chance: uniform numbers (..) in [0, 1) that decide whether a step into a risky circle is a failure.
        """
        xp = array_namespace(tip)
        distances = self.distances(tip)
        failed = self.in_circle(tip) & (xp.asarray(chance) < self.failure_probability)
        return xp.concatenate([1 - 4 * distances, failed[..., None] * xp.ones_like(distances[..., :1])], axis=-1)

    def step_moments(self, state: Array, action: Array, next_state: Array) -> tuple[Array, Array]:
        """Return mean (.., d) and covariance (.., d, d) of the features of a step, given the states before and after.

        Only the failure is random then. With the moments, a simulation need not sample failures.

        Args:
            state: states (.., 4) before the step.
            action: actions, which are not used.
            next_state: states (.., 4) after the step.
        """
        xp, tip = array_namespace(next_state), self.tip(state, next_state)
        distances, chance = self.distances(tip), self.failure_probability * self.in_circle(tip)
        mean = xp.concatenate([1 - 4 * distances, chance[..., None] * xp.ones_like(distances[..., :1])], axis=-1)
        of_failure = xp.asarray(np.diag(np.arange(self.n_features) == self.failure_feature), mean.dtype)
        return mean, (chance * (1 - chance))[..., None, None] * of_failure

    def distances(self, tip: Array) -> Array:
        """Return the distances (.., n) from the tip to every target.

        Args:
            tip: positions (.., 2) of the tip.
        """
        xp = array_namespace(tip)
        away = tip[..., None, :] - xp.asarray(np.array(self.targets), tip.dtype)
        return xp.sqrt(xp.sum(away**2, axis=-1))

    def in_circle(self, tip: Array) -> Array:
        """Return whether the tip is in a risky circle, as booleans (..).

        Args:
            tip: positions (.., 2) of the tip.
        """
        xp = array_namespace(tip)
        if not self.risky:
            return xp.zeros(tip.shape[:-1], bool)
        return xp.any(self.distances(tip)[..., np.array(self.risky)] <= self.radius, axis=-1)

    def observe(self, state: Array) -> Array:
        """Return the observations (.., n) of states.

        Args:
            state: states (.., 4) of the arm.
        """
        xp = array_namespace(state)
        q1, q2, w1, w2 = (state[..., i] for i in range(4))
        speeds = [_SPEED_SCALE * w1, _SPEED_SCALE * w2]
        if self.observation == "sincos":
            return xp.stack([xp.sin(q1), xp.cos(q1), speeds[0], xp.sin(q2), xp.cos(q2), speeds[1]], axis=-1)
        if self.observation == "wrapped":
            q1 = (q1 + np.pi) % (2 * np.pi) - np.pi
        return xp.stack([q1, speeds[0], q2 / _ELBOW_SCALE, speeds[1]], axis=-1)


def _listed(given: object) -> object:
    return given.tolist() if isinstance(given, np.ndarray) else given
