"""Any Gymnasium environment as a source of features: phi(s, a, s') beside what Gymnasium says of a step.

The features are the environment's own vector reward (MO-Gymnasium's convention). `FeatureReward` gives any environment
such a reward, from a function `phi(obs, action, next_obs, info)`; `action` is the environment's own number there.
Actions of a `FeatureEnvironment` are 0 to n_actions - 1, whatever the space starts with.

    bounds          (d, 2), lowest and highest of each feature in a step, from `reward_space`; None where one has none
    failure         what the environment names in info["failure"]; `reports_failures` says whether it ever did
    terminated      a true end, nothing is earned after it; `truncated` only stops the clock. Both are passed on as is.

What an environment gets wrong (nan, another shape than declared) is refused in the step where it happens.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.checks import number, whole
from rasf.envs.gymnasium.description import EnvironmentDescription, plain
from rasf.envs.gymnasium.encoder import Encoder, all_finite
from rasf.envs.registration import is_registered

if TYPE_CHECKING:
    from rasf.envs.gymnasium.tape import Tape

Info: TypeAlias = dict[str, Any]
Phi: TypeAlias = Callable[[Any, Any, Any, Info], npt.ArrayLike]
Environment: TypeAlias = str | gymnasium.Env | Callable[[], gymnasium.Env]
T = TypeVar("T")
LEAST_WIDENING = 1e-3
_ANSWERS = {"reset": ("obs", "info"), "step": ("obs", "reward", "terminated", "truncated", "info")}


class FeatureReward(gymnasium.Wrapper):
    """An environment whose reward is the vector of features phi(obs, action, next_obs, info), float64 (d,).

    bounds: (d, 2), lowest and highest of each feature in a step, infinite where open; by default those that the
    function has as an attribute `bounds`. They become the `reward_space`. Without any, one step is taken here, to count
    the features.
    """

    def __init__(self, env: gymnasium.Env, phi: Phi, bounds: npt.ArrayLike | None = None) -> None:
        super().__init__(env)
        self.phi, self._obs = phi, None
        declared = phi_bounds(phi, bounds)
        if declared is None:
            declared = _open_bounds(self, phi)
        self.reward_space = gymnasium.spaces.Box(declared[:, 0], declared[:, 1], dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode."""
        obs, info = checked("reset", self.env.reset(seed=seed, **({} if options is None else {"options": options})))
        self._obs = _kept(obs)
        return obs, info

    def step(self, action: object) -> tuple[Any, Floats, bool, bool, Info]:
        """The environment's step, with the features in place of its reward."""
        obs, _, terminated, truncated, info = checked("step", self.env.step(action))
        features = numbers_of(self.phi(self._obs, action, obs, info))
        self._obs = _kept(obs)
        return obs, features, terminated, truncated, info


class Step(NamedTuple):
    """What one step led to; phi is float64 (d,), info what else the environment said."""

    obs: Any
    phi: Floats
    terminated: bool
    truncated: bool
    failure: bool
    info: Info = {}  # noqa: RUF012, a default that nobody writes to


FailureRule: TypeAlias = Callable[[Step], bool]


class FeatureSource:
    """What one environment with features and several have in common."""

    encoder: Encoder
    n_actions: int
    declared_bounds: Floats  # (d, 2) of the features in a step, infinite where open

    @property
    def n_features(self) -> int:
        return len(self.declared_bounds)

    @property
    def bounds(self) -> Floats | None:
        """Bounds (d, 2) of the features, where all of them are declared."""
        return self.declared_bounds if np.isfinite(self.declared_bounds).all() else None

    @property
    def signs(self) -> Ints | None:
        """Of the weights (d,) that make sense: 1, -1, or 0 for either; None where nobody knows."""
        return None

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """What the features are called; None where nobody says."""
        return None

    def random_tasks(self, count: int, rng: np.random.Generator) -> Floats | None:
        """Weights (count, d) from the environment's own distribution of tasks; None where it has none."""
        return None


class FeatureEnvironment(FeatureSource):
    """One environment with features; made by `open_environment`."""

    def __init__(self, env: gymnasium.Env, phi: Phi | None = None) -> None:
        self.env = env
        self.encoder = Encoder.of(env.observation_space)
        self._actions = actions_of(env.action_space)
        self.n_actions = len(self._actions)
        self._stepped = env if phi is None else FeatureReward(env, phi)
        self._phi = _phi_of(self._stepped)
        self.reports_failures = self._running = False
        self.tape: Tape | None = None  # records resets and actions, where training writes checkpoints
        self._failure: FailureRule | None = None
        declared = declared_bounds(self._stepped)
        self.declared_bounds = _open_bounds(env, None) if declared is None else declared

    @property
    def has_phi(self) -> bool:
        """Whether the features come from a function, not from the environment's own reward."""
        return self._phi is not None

    def reset(self, seed: int | None = None) -> Any:
        """Begin an episode; the first observation."""
        if self.tape is not None:
            self.tape.begin(seed)
        obs, info = checked_reset(self._stepped, seed)
        own_randomness(self.env)
        allowed(self.encoder.check, obs)
        self.reports_failures |= "failure" in info
        self._running = True
        if self.tape is not None:
            self.tape.obs = obs
        return obs

    def step(self, action: int) -> Step:
        """Take one of the actions 0 to n_actions - 1."""
        if not self._running:
            raise ValueError("no episode is running: call reset() before step()")
        if not 0 <= action < self.n_actions:
            raise ValueError(f"action must be 0 to {self.n_actions - 1}, got {action!r}")
        obs, reward, terminated, truncated, info = checked("step", self._stepped.step(self._actions[action]))
        allowed(self.encoder.check, obs)
        if self.tape is not None:
            self.tape.add(action)
            self.tape.obs = obs
        self.reports_failures |= "failure" in info
        self._running = not (terminated or truncated)
        features = numbers_of(reward)
        if features.shape != (self.n_features,):
            raise ValueError(wrong_features(features.shape, self.n_features, self._phi))
        if not all_finite(features):
            raise ValueError(f"the features of a step must be finite, the environment gave {features.tolist()}")
        step = Step(obs, features, bool(terminated), bool(truncated), bool(info.get("failure", False)), info)
        return step if self._failure is None else step._replace(failure=bool(self._failure(step)))

    def count_failures(self, rule: FailureRule) -> None:
        """Call those steps failures that a rule says, from now on, whatever the environment names."""
        if not callable(rule):
            raise ValueError(f"failure must be a function of a step, got {type(rule).__name__}")
        self._failure, self.reports_failures = rule, True

    @property
    def counts_failures(self) -> bool:
        """Whether a rule does."""
        return self._failure is not None

    def close(self) -> None:
        self.env.close()

    @property
    def signs(self) -> Ints | None:
        """Those that phi or the environment has as an attribute; the parts of a vector reward are there to be had."""
        if self._phi is not None:
            return declared_signs(self._phi, self.n_features)
        found = declared_signs(self.env.unwrapped, self.n_features)
        return np.ones(self.n_features, np.int64) if found is None else found

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Those that phi or the environment has as an attribute."""
        return declared_names(self.env.unwrapped if self._phi is None else self._phi, self.n_features)

    def random_tasks(self, count: int, rng: np.random.Generator) -> Floats | None:
        own = None if self.has_phi else getattr(self.env.unwrapped, "random_tasks", None)
        return None if own is None else own(count, rng)

    def describe(self) -> EnvironmentDescription:
        """What a library keeps of the environment."""
        return describe_environment(self, self.env.spec, self._actions[0], self._phi)


def open_environment(env: Environment, phi: Phi | None = None, **kwargs: Any) -> FeatureEnvironment:
    """An environment with features: from an id (`kwargs` go to `gymnasium.make`), a function, or a `gymnasium.Env`."""
    if kwargs and not isinstance(env, str):
        raise ValueError(f"{', '.join(kwargs)} can only be given with an environment's id")
    if isinstance(env, str):
        env = make(env, kwargs)
    elif callable(env):
        env = env()
    if not isinstance(env, gymnasium.Env):
        raise ValueError(f"env must be an id, a gymnasium.Env or a function that makes one, got {type(env).__name__}")
    return FeatureEnvironment(env, phi)


def estimate_bounds(env: FeatureEnvironment, steps: int = 2000, seed: int = 0, margin: float = 0.5) -> Floats:
    """Bounds (d, 2) of the features from `steps` random steps, where the environment declares none.

    What was seen is widened on both sides by `margin` times its range, at least by a thousandth of its size or of 1.
    Declared ends are kept: a short random walk may never see the rare feature that matters.
    """
    steps, margin = whole("steps", steps), number("margin", margin, 0.0)
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


def make(env_id: str, kwargs: dict[str, Any]) -> gymnasium.Env:
    """`gymnasium.make`, with MO-Gymnasium's ids; the checker is off because it does not know vector rewards."""
    if ":" not in env_id:
        is_registered(env_id)  # which imports MO-Gymnasium if need be
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **kwargs)
    except gymnasium.error.UnregisteredEnv:
        hint = "" if find_spec("mo_gymnasium") else "; for MO-Gymnasium's ids install rasf[mo]"
        known = "an id that Gymnasium or MO-Gymnasium knows, or MODULE:ID to import its module"
        raise ValueError(f"env must be {known}, got {env_id!r}{hint}") from None
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"env {env_id!r} cannot be made: {reason}") from error


# --- what single and vector environments share


def checked_reset(env: gymnasium.Env | gymnasium.vector.VectorEnv, seed: int | None) -> Any:
    """What `env.reset` gives, if it is as Gymnasium has it."""
    try:
        return checked("reset", env.reset(seed=seed))
    except TypeError as error:
        if "argument 'seed'" not in str(error):
            raise
        raise ValueError(f"the environment's reset must take a seed, as Gymnasium has it: {error}") from None


def checked(call: str, answer: object) -> Any:
    """What an environment's reset or step gave, unless it is not as Gymnasium has it, as in the old Gym."""
    wanted = _ANSWERS[call]
    if not isinstance(answer, tuple | list) or len(answer) != len(wanted) or not isinstance(answer[-1], Mapping):
        got = f"{len(answer)} values" if isinstance(answer, tuple) else type(answer).__name__
        raise ValueError(f"the environment's {call} must return ({', '.join(wanted)}), as Gymnasium has it, got {got}")
    return answer


def _kept(obs: Any) -> Any:
    """A copy: an environment may write its next observation into the same array."""
    return obs.copy() if type(obs) is np.ndarray else copy.deepcopy(obs)  # the same for an array, and quicker


def allowed(encode: Callable[[object], T], obs: object) -> T:
    """What an encoder makes of an environment's observation, unless its space does not allow it."""
    try:
        return encode(obs)
    except ValueError as error:
        raise ValueError(f"the environment gave an observation that its space does not allow: {error}") from None


def seeds_from(seed: int, n: int) -> list[int]:
    """n seeds, of environments or episodes, from one; fewer are the first of them."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(n)]


def own_randomness(env: gymnasium.Env) -> None:
    """Make minecart draw its ores from its own generator; its scipy distributions use numpy's global one, unseeded."""
    for mine in getattr(env.unwrapped, "mines", ()):
        for law in getattr(mine, "distributions", ()):
            law.random_state = env.unwrapped.np_random


def actions_of(space: gymnasium.Space) -> list[np.int64]:
    """The environment's own numbers of the actions 0, 1, .."""
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise ValueError(f"the action space must be Discrete, got {type(space).__name__}: no other actions are served")
    return [np.int64(space.start + i) for i in range(int(space.n))]


def phi_bounds(phi: Phi, given: npt.ArrayLike | None = None) -> Floats | None:
    """Bounds (d, 2), given or the function's own, infinite where open; None where nothing is declared."""
    if not callable(phi):
        raise ValueError(f"phi must be a function phi(obs, action, next_obs, info), got {type(phi).__name__}")
    name, found = ("phi.bounds", getattr(phi, "bounds", None)) if given is None else ("bounds", given)
    if found is None:
        return None
    bounds = np.asarray(found, np.float64)
    if bounds.ndim != 2 or bounds.shape[1] != 2 or not (bounds[:, 0] <= bounds[:, 1]).all():
        raise ValueError(f"{name} must be (d, 2), lowest and highest of each feature, got {found!r}")
    return bounds


def declared_bounds(env: gymnasium.Env | gymnasium.vector.VectorEnv) -> Floats | None:
    """Bounds (d, 2), infinite where open, of a vector reward; None where nothing is declared.

    A wrapper that changes the reward may declare its own `reward_space`: the outermost one counts.
    """
    while not hasattr(env, "reward_space") and env is not env.unwrapped:
        env = getattr(env, "env", env.unwrapped)
    reward_space = getattr(env, "reward_space", None)
    low, high = getattr(reward_space, "low", None), getattr(reward_space, "high", None)
    if low is None or high is None or np.ndim(low) != 1:
        return None
    return np.stack([low, high], axis=1).astype(np.float64)


def declared_signs(of: object, n_features: int) -> Ints | None:
    """The attribute `signs` of an environment or of phi, if it has one: 1, -1, or 0 for either, of each weight."""
    found = getattr(of, "signs", None)
    if found is None:
        return None
    signs = np.asarray(found)
    if signs.shape != (n_features,) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(f"signs must be {n_features} numbers, each 1, -1, or 0 for either, got {found!r}")
    return signs.astype(np.int64)


def declared_names(of: object, n_features: int) -> tuple[str, ...] | None:
    """The attribute `feature_names` of an environment or of phi, if it has one: different words, one for each."""
    found = getattr(of, "feature_names", None)
    if found is None:
        return None
    names = tuple(found)
    if len(names) != n_features or len(set(names)) < n_features or not all(isinstance(name, str) for name in names):
        raise ValueError(f"feature_names must be {n_features} different words, got {found!r}")
    return names


def _open_bounds(env: gymnasium.Env, phi: Phi | None) -> Floats:
    """Infinite bounds (d, 2) of the features, which only a step can count."""
    checked_reset(env, 0)
    features = numbers_of(checked("step", env.step(actions_of(env.action_space)[0]))[1])
    if features.ndim != 1 or features.size == 0:
        raise ValueError(wrong_features(features.shape, None, phi))
    return np.tile([-np.inf, np.inf], (len(features), 1))


def _phi_of(env: gymnasium.Env) -> Phi | None:
    """The function of the outermost `FeatureReward` around an environment."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, FeatureReward):
            return env.phi
        env = env.env
    return None


def numbers_of(features: npt.ArrayLike) -> Floats:
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


def describe_environment(
    env: FeatureSource, spec: gymnasium.envs.registration.EnvSpec | None, first_action: np.int64, phi: Phi | None
) -> EnvironmentDescription:
    """The description of environments that Gymnasium made by this spec, or by none."""
    return EnvironmentDescription(
        id=None if spec is None else spec.id,
        kwargs={} if spec is None else {str(name): plain(value) for name, value in spec.kwargs.items()},
        observations=env.encoder.describe(),
        n_actions=env.n_actions,
        first_action=int(first_action),
        n_features=env.n_features,
        bounds=None if env.bounds is None else tuple(map(tuple, env.bounds.tolist())),
        phi=None if phi is None else getattr(phi, "__name__", type(phi).__name__),
        max_episode_steps=None if spec is None else spec.max_episode_steps,
        feature_names=env.feature_names,
    )
