"""Any Gymnasium environment as a source of features: phi(s, a, s') beside what Gymnasium says of a step.

The features are the environment's own vector reward (MO-Gymnasium's convention), or a function
`phi(obs, action, next_obs, info)` that turns any environment into one with features; `action` is then the
environment's own number. Actions are 0 to n_actions - 1 here, whatever the space starts with.

    bounds          (d, 2), lowest and highest of each feature in a step: from `reward_space`, or from an attribute
                    `bounds` of the function phi; None where a feature has none
    failure         what the environment names in info["failure"]; `names_failures` says whether it ever did
    terminated      a true end, nothing is earned after it; `truncated` only stops the clock. Both are passed on as is.

What an environment gets wrong (nan, another shape than declared) is refused in the step where it happens.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.envs.gymnasium.encoder import Encoder

Phi = Callable[[Any, Any, Any, dict[str, Any]], npt.ArrayLike]
LEAST_WIDENING = 1e-3
_ANSWERS = {"reset": ("obs", "info"), "step": ("obs", "reward", "terminated", "truncated", "info")}


class Step(NamedTuple):
    """What one step led to; phi is float64 (d,)."""

    obs: Any
    phi: Floats
    terminated: bool
    truncated: bool
    failure: bool


class FeatureEnvironment:
    """One environment with features; made by `open_environment`."""

    def __init__(self, env: Any, phi: Phi | None = None) -> None:
        self.env = env
        self.encoder = Encoder.of(env.observation_space)
        self._actions = actions_of(env.action_space)
        self.n_actions = len(self._actions)
        spec = env.spec
        self.id: str | None = None if spec is None else spec.id
        self.max_episode_steps: int | None = None if spec is None else spec.max_episode_steps
        self.names_failures = False
        self._phi = checked_phi(phi)
        self._obs: Any = None
        self._running = False
        declared = declared_bounds(env, phi)
        if declared is None:
            declared = np.tile([-np.inf, np.inf], (self._probe(), 1))
        self.declared_bounds = declared
        self.n_features = len(declared)
        self.bounds: Floats | None = declared if np.isfinite(declared).all() else None

    @property
    def has_phi(self) -> bool:
        """Whether the features come from a function, not from the reward."""
        return self._phi is not None

    def reset(self, seed: int | None = None) -> Any:
        """Begin an episode; the first observation."""
        obs, info = first_answer(self.env, seed)
        own_randomness(self.env)
        self._check(obs)
        self.names_failures |= "failure" in info
        self._running = True
        self._keep(obs)
        return obs

    def step(self, action: int) -> Step:
        """Take one of the actions 0 to n_actions - 1."""
        obs, features, terminated, truncated, info = self._advance(action)
        if features.shape != (self.n_features,):
            raise ValueError(wrong_features(features.shape, self.n_features, self._phi))
        if not np.isfinite(features).all():
            raise ValueError(f"the features of a step must be finite, the environment gave {features.tolist()}")
        return Step(obs, features, terminated, truncated, bool(info.get("failure", False)))

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def describe(self) -> dict[str, Any]:
        """What a file's header says of the environment, as JSON."""
        kwargs = {} if self.env.spec is None else self.env.spec.kwargs
        return describe_environment(self, kwargs, int(self._actions[0]), self._phi)

    def _advance(self, action: int) -> tuple[Any, Floats, bool, bool, dict[str, Any]]:
        if not self._running:
            raise ValueError("no episode is running: call reset() before step()")
        if not 0 <= action < self.n_actions:
            raise ValueError(f"action must be 0 to {self.n_actions - 1}, got {action!r}")
        taken = self._actions[action]
        obs, reward, terminated, truncated, info = answer("step", self.env.step(taken))
        self._check(obs)
        features = reward if self._phi is None else self._phi(self._obs, taken, obs, info)
        self.names_failures |= "failure" in info
        self._running = not (terminated or truncated)
        self._keep(obs)
        return obs, numbers_of(features), bool(terminated), bool(truncated), info

    def _probe(self) -> int:
        """The number of features, where only a step can tell."""
        self.reset(seed=0)
        _, features, *_ = self._advance(0)
        if features.ndim != 1 or features.size == 0:
            raise ValueError(wrong_features(features.shape, None, self._phi))
        self._running = False
        return len(features)

    def _check(self, obs: Any) -> None:
        try:
            self.encoder.check(obs)
        except ValueError as error:
            raise ValueError(f"the environment gave an observation that its space does not allow: {error}") from None

    def _keep(self, obs: Any) -> None:
        if self._phi is not None:
            self._obs = copy.deepcopy(obs)  # an environment may write its next observation into the same array


def open_environment(env: Any, phi: Phi | None = None, **kwargs: Any) -> FeatureEnvironment:
    """An environment with features from an id (`kwargs` go to `gymnasium.make`) or from a `gymnasium.Env`."""
    import gymnasium

    if isinstance(env, str):
        return FeatureEnvironment(make(env, kwargs), phi)
    if kwargs:
        raise ValueError(f"{', '.join(kwargs)} can only be given with an environment's id, not with an environment")
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"env must be an environment's id or a gymnasium.Env, got {type(env).__name__}")
    return FeatureEnvironment(env, phi)


def estimate_bounds(env: FeatureEnvironment, steps: int = 2000, seed: int = 0, margin: float = 0.5) -> Floats:
    """Bounds (d, 2) of the features from `steps` random steps, where the environment declares none.

    What was seen is widened on both sides by `margin` times its range, at least by a thousandth of its size or of 1.
    Declared ends are kept: a short random walk may never see the rare feature that matters.
    """
    if steps < 1 or not (np.isfinite(margin) and margin >= 0):
        raise ValueError(f"steps must be positive and margin not negative, got {steps} and {margin}")
    rng = np.random.default_rng(seed)
    low, high = np.full(env.n_features, np.inf), np.full(env.n_features, -np.inf)
    env.reset(seed=seed)
    for _ in range(steps):
        step = env.step(int(rng.integers(env.n_actions)))
        low, high = np.minimum(low, step.phi), np.maximum(high, step.phi)
        if step.terminated or step.truncated:
            env.reset()
    size = np.maximum(np.maximum(np.abs(low), np.abs(high)), 1.0)
    widening = np.maximum(margin * (high - low), LEAST_WIDENING * size)
    seen = np.stack([low - widening, high + widening], axis=1)
    return np.where(np.isfinite(env.declared_bounds), env.declared_bounds, seen)


def make(env_id: str, kwargs: dict[str, Any]) -> Any:
    """`gymnasium.make`, with MO-Gymnasium's ids; the checker is off because it does not know vector rewards."""
    import gymnasium

    try:
        try:
            return gymnasium.make(env_id, disable_env_checker=True, **kwargs)
        except gymnasium.error.UnregisteredEnv:
            _import_mo_gymnasium(env_id)
            return gymnasium.make(env_id, disable_env_checker=True, **kwargs)
    except gymnasium.error.UnregisteredEnv:
        raise ValueError(
            f"env must be an id that Gymnasium or MO-Gymnasium knows, or MODULE:ID to import its module, got {env_id!r}"
        ) from None
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"env {env_id!r} cannot be made: {reason}") from error


def _import_mo_gymnasium(env_id: str) -> None:
    try:
        import mo_gymnasium  # noqa: F401  (registers its ids)
    except ModuleNotFoundError:
        raise ValueError(
            f"env must be an id that Gymnasium knows, got {env_id!r}; for MO-Gymnasium's ids install rasf[mo]"
        ) from None


def first_answer(env: Any, seed: int | None) -> Any:
    """What `env.reset` gives, if it is as Gymnasium has it."""
    try:
        return answer("reset", env.reset(seed=seed))
    except TypeError as error:
        if "argument 'seed'" not in str(error):
            raise
        raise ValueError(f"the environment's reset must take a seed, as Gymnasium has it: {error}") from None


def answer(call: str, given: Any) -> Any:
    """What an environment gives, unless it is not as Gymnasium has it, as in the old Gym."""
    wanted = _ANSWERS[call]
    if not isinstance(given, tuple | list) or len(given) != len(wanted) or not isinstance(given[-1], Mapping):
        got = f"{len(given)} values" if isinstance(given, tuple) else type(given).__name__
        raise ValueError(f"the environment's {call} must return ({', '.join(wanted)}), as Gymnasium has it, got {got}")
    return given


def own_randomness(env: Any) -> None:
    """Make minecart draw its ores from its own generator; its scipy distributions use numpy's global one, unseeded."""
    for mine in getattr(env.unwrapped, "mines", ()):
        for law in getattr(mine, "distributions", ()):
            law.random_state = env.unwrapped.np_random


def actions_of(space: Any) -> list[np.int64]:
    """The environment's own numbers of the actions 0, 1, .."""
    from gymnasium.spaces import Discrete

    if not isinstance(space, Discrete):
        raise ValueError(f"the action space must be Discrete, got {type(space).__name__}: no other actions are served")
    return [np.int64(space.start + i) for i in range(int(space.n))]


def checked_phi(phi: Phi | None) -> Phi | None:
    """Refuse what cannot be called."""
    if phi is not None and not callable(phi):
        raise ValueError(f"phi must be a function phi(obs, action, next_obs, info), got {type(phi).__name__}")
    return phi


def declared_bounds(env: Any, phi: Phi | None) -> Floats | None:
    """Bounds (d, 2), infinite where open, of the function phi or of a vector reward; None where nothing is declared.

    A wrapper that changes the reward may declare its own `reward_space`: the outermost one counts.
    """
    if phi is not None:
        given = getattr(phi, "bounds", None)
        if given is None:
            return None
        bounds = np.asarray(given, np.float64)
        if bounds.ndim != 2 or bounds.shape[1] != 2 or not (bounds[:, 0] <= bounds[:, 1]).all():
            raise ValueError(f"phi.bounds must be (d, 2), lowest and highest of each feature, got {given!r}")
        return bounds
    while not hasattr(env, "reward_space") and env is not env.unwrapped:
        env = getattr(env, "env", env.unwrapped)
    reward_space = getattr(env, "reward_space", None)
    low, high = getattr(reward_space, "low", None), getattr(reward_space, "high", None)
    if low is None or high is None or np.ndim(low) != 1:
        return None
    return np.stack([low, high], axis=1).astype(np.float64)


def numbers_of(features: Any) -> Floats:
    """Features or a reward as float64, whatever the environment wrote them in."""
    try:
        return np.asarray(features, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the features of a step must be numbers, got {type(features).__name__}") from None


def wrong_features(shape: tuple[int, ...], n_features: int | None, phi: Phi | None) -> str:
    """What to say of features of another shape than (d,)."""
    wanted = "(d,)" if n_features is None else f"({n_features},)"
    if phi is not None:
        return f"phi must return features of shape {wanted}, got shape {shape}"
    if shape == ():
        return "the environment's reward is one number, not a vector of features; give phi(obs, action, next_obs, info)"
    return f"the environment's reward must be features of shape {wanted}, got shape {shape}"


def describe_environment(env: Any, kwargs: dict[str, Any], first_action: int, phi: Phi | None) -> dict[str, Any]:
    """The description, as JSON, of a `FeatureEnvironment` or a `FeatureVector`."""
    return {
        "id": env.id,
        "kwargs": {str(name): _plain(value) for name, value in kwargs.items()},
        "observations": env.encoder.describe(),
        "n_actions": env.n_actions,
        "first_action": first_action,
        "n_features": env.n_features,
        "bounds": None if env.bounds is None else env.bounds.tolist(),
        "phi": None if phi is None else getattr(phi, "__name__", type(phi).__name__),
        "max_episode_steps": env.max_episode_steps,
    }


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))  # a tuple becomes the list that a file gives back
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"
