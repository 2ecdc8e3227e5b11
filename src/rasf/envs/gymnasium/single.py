"""A Gymnasium environment with features: every step returns the vector phi(s, a, s') instead of the reward.

The features are the environment's own vector reward (MO-Gymnasium's convention). `FeatureReward` gives any environment
such a reward, from a function `phi(obs, action, next_obs, info)`, where `action` is as in the environment's action
space. If phi also has parameters named `reward`, `terminated` or `truncated`, these are passed by name. The actions of
a `FeatureEnvironment` are those of `rasf.envs.gymnasium.actions`: 0 to n_actions - 1, or vectors in [-1, 1]. This
module uses these words:

    bounds          lowest and highest value (d, 2) of each feature in a step, from `reward_space`; None unless all
                    bounds are known
    failure         info["failure"] of a step; `reports_failures` is whether any `info` so far had this key
    terminated      whether the task ended, so that further rewards would be zero
    truncated       whether a time limit ended the episode

A wrong value (nan, or a shape other than the declared shape) raises ValueError in the step in which it occurs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.checks import is_whole, number, whole
from rasf.envs.gymnasium import answers
from rasf.envs.gymnasium.actions import BoxActions, DiscreteActions, actions_of
from rasf.envs.gymnasium.answers import Info, Phi
from rasf.envs.gymnasium.declarations import FeatureSource
from rasf.envs.gymnasium.description import EnvironmentDescription, spec_fields
from rasf.envs.gymnasium.encoder import Encoder
from rasf.envs.registration import is_registered, require_supported_gymnasium
from rasf.world import World, is_world

require_supported_gymnasium()

if TYPE_CHECKING:
    from rasf.envs.gymnasium.tape import Tape

Environment: TypeAlias = str | gymnasium.Env | Callable[[], gymnasium.Env] | World
_WRAPPERS = gymnasium.Wrapper | gymnasium.vector.VectorWrapper
_LEAST_WIDENING = 1e-3


class FeatureReward(gymnasium.Wrapper):
    """An environment whose reward is the vector of features phi(obs, action, next_obs, info), float64 (d,).

    Args:
        env: the environment, with any reward.
        phi: function of (obs, action, next_obs, info) that returns the features. Parameters named `reward`,
            `terminated` or `truncated` are passed by name.
        bounds: lowest and highest value (d, 2) of each feature in a step, infinite if unknown. The bounds become the
            `reward_space`. Default: the attribute `bounds` of phi. If phi has no such attribute, the constructor takes
            one step to count the features.

    Raises:
        ValueError: if phi is not such a function, phi does not return a vector, or the bounds are not (d, 2).
    """

    def __init__(self, env: gymnasium.Env, phi: Phi, bounds: npt.ArrayLike | None = None) -> None:
        if not isinstance(env, gymnasium.Env):
            raise ValueError(f"env must be a gymnasium.Env, got {type(env).__name__}")
        super().__init__(env)
        self.phi, self._features, self._obs = phi, answers.phi_caller(phi), None
        declared = answers.phi_bounds(phi, bounds)
        if declared is None:
            declared = _open_bounds(self, phi)
        self.reward_space = gymnasium.spaces.Box(declared[:, 0], declared[:, 1], dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[object, Info]:
        """Begin an episode."""
        given: Info = {} if options is None else {"options": options}
        obs, info = answers.checked("reset", self.env.reset(seed=seed, **given))
        self._obs = answers.kept(obs)
        return obs, info

    def step(self, action: object) -> tuple[object, Floats, bool, bool, Info]:
        """Take a step, and return the features instead of the reward."""
        obs, reward, terminated, truncated, info = answers.checked("step", self.env.step(action))
        features = answers.numbers_of(self._features(self._obs, action, obs, info, reward, terminated, truncated))
        self._obs = answers.kept(obs)
        return obs, features, terminated, truncated, info


class Step(NamedTuple):
    """The result of a step: the observation after the step, features phi (d,) as float64, flags and `info`."""

    obs: Any
    phi: Floats
    terminated: bool
    truncated: bool
    failure: bool
    info: Info = {}  # noqa: RUF012, never changed


FailureRule: TypeAlias = Callable[[Step], bool]


class FeatureEnvironment(FeatureSource):
    """A single environment with features, made by `open_environment`."""

    def __init__(self, env: gymnasium.Env, phi: Phi | None = None) -> None:
        self.env = env
        self.encoder = Encoder.of(answers.space_of(env, "observation_space"))
        self.actions = actions_of(answers.space_of(env, "action_space"))
        self._stepped = env if phi is None else FeatureReward(env, phi)
        self.owners = tuple(owners_of(self._stepped))
        self._phi = next((each.phi for each in layers_of(self._stepped) if isinstance(each, FeatureReward)), None)
        self.has_phi = self._phi is not None  # if False, the features are the environment's own reward
        # `counts_failures` is whether a rule, not the environment, decides which steps are failures
        self.reports_failures = self.counts_failures = self._running = False
        self.tape: Tape | None = None  # records resets and actions if training writes checkpoints
        self._failure: FailureRule | None = None
        declared = declared_bounds(self._stepped)
        self.declared_bounds = answers.checked_bounds(_open_bounds(env, None) if declared is None else declared)

    @property
    def featured(self) -> gymnasium.Env:
        """The environment whose reward is phi."""
        return self._stepped

    def reset(self, seed: int | None = None) -> Any:
        """Begin an episode and return the first observation."""
        if self.tape is not None:
            self.tape.begin(seed)
        obs, info = answers.checked_reset(self._stepped, seed)
        answers.own_randomness(self.env)
        answers.allowed(self.encoder.check, obs)
        self.reports_failures |= "failure" in info
        self._running = True
        if self.tape is not None:
            self.tape.obs = obs
        return obs

    def step(self, action: Any) -> Step:
        """Take a step.

        Args:
            action: 0 to n_actions - 1, or a vector (m,) in [-1, 1].

        Raises:
            ValueError: if no episode is running, the action is out of range, or the environment returns an observation
                of a wrong shape or with nan, features that are not d finite numbers, or a flag that is not True or
                False.
        """
        if not self._running:
            raise ValueError("no episode is running: call reset() before step()")
        own = self.actions.own(action)
        obs, reward, terminated, truncated, info = answers.checked("step", self._stepped.step(own))
        answers.allowed(self.encoder.check, obs)
        if self.tape is not None:
            self.tape.add([action])
            self.tape.obs = obs
        if type(terminated) is not bool:
            terminated = answers.flag("the environment's terminated", terminated)
        if type(truncated) is not bool:
            truncated = answers.flag("the environment's truncated", truncated)
        failed = False
        if "failure" in info:
            self.reports_failures, failed = True, info["failure"]
            if type(failed) is not bool:
                failed = answers.flag("""the environment's info["failure"]""", failed)
        self._running = not (terminated or truncated)
        features = answers.numbers_of(reward)
        if features.shape != (self.n_features,):
            raise ValueError(answers.wrong_features(features.shape, self.n_features, self._phi))
        answers.check_features(features)
        return judged(Step(obs, features, terminated, truncated, failed, info), self._failure)

    def count_failures(self, rule: FailureRule) -> None:
        """Define failures by a rule, instead of the environment's own info["failure"]."""
        self._failure, self.reports_failures, self.counts_failures = checked_rule(rule), True, True

    def close(self) -> None:
        self.env.close()

    @property
    def time_limit(self) -> int | None:
        """The number of steps after which an episode is truncated, None if unknown."""
        return time_limit_of(self.env)

    def describe(self) -> EnvironmentDescription:
        """Return the description of the environment, for the file of a library."""
        return describe_environment(self, self.env.spec, self._phi)


def open_environment(env: Environment, phi: Phi | None = None, **kwargs: object) -> FeatureEnvironment:
    """Open an environment with features.

    Args:
        env: an id, a `gymnasium.Env`, a function that makes one, or a `rasf.World`.
        phi: function that computes the features of a step, as for `FeatureReward`. Default: None; the features are
            then the environment's own vector reward.
        **kwargs: arguments of `gymnasium.make`, only for an id.

    Raises:
        ValueError: if the environment cannot be made, has no features, or has a space of actions or observations that
            is not supported.
    """
    if kwargs and not isinstance(env, str):
        raise ValueError(f"{', '.join(kwargs)} can only be given with an environment's id")
    if isinstance(env, str):
        env = make(env, kwargs)
    elif is_world(env):
        from rasf.envs.gymnasium.worlds import world_environment

        env = world_environment(env)
    elif callable(env):
        try:
            inspect.signature(env).bind()
        except ValueError:  # some compiled functions have no signature
            pass
        except TypeError as error:
            raise ValueError(f"env must be a function or class that needs no arguments: {error}") from None
        env = env()
    if not isinstance(env, gymnasium.Env):
        wanted = "an id, a gymnasium.Env, a function that makes one, or a rasf.World"
        raise ValueError(f"env must be {wanted}, got {type(env).__name__}")
    return FeatureEnvironment(env, phi)


def estimate_bounds(env: FeatureEnvironment, steps: int = 2000, seed: int = 0, margin: float = 0.5) -> Floats:
    """Estimate the bounds (d, 2) of the features from random steps; declared bounds are not changed.

    The range of the observed features is widened on both sides. A short random walk may miss rare features, so declared
    bounds are more reliable.

    Args:
        env: the environment, which is reset.
        steps: number of steps. Default: 2,000.
        seed: seed of the episodes and actions. Default: 0.
        margin: widening on each side, as a multiple of the feature's observed range. The widening is at least 0.001,
            and at least 0.001 times the feature's largest observed absolute value. Default: 0.5.
    """
    steps, margin = whole("steps", steps), number("margin", margin, 0.0)
    rng = np.random.default_rng(seed)
    low, high = np.full(env.n_features, np.inf), np.full(env.n_features, -np.inf)
    env.reset(seed=seed)
    for _ in range(steps):
        step = env.step(env.actions.sample(rng))
        low, high = np.minimum(low, step.phi), np.maximum(high, step.phi)
        if step.terminated or step.truncated:
            env.reset()
    size = np.maximum(np.maximum(np.abs(low), np.abs(high)), 1.0)
    widening = np.maximum(margin * (high - low), _LEAST_WIDENING * size)
    seen = np.stack([low - widening, high + widening], axis=1)
    return np.where(np.isfinite(env.declared_bounds), env.declared_bounds, seen)


def make(env_id: str, kwargs: Info) -> gymnasium.Env:
    """Make an environment by its id, without Gymnasium's checker, which rejects vector rewards."""
    if ":" not in env_id:
        is_registered(env_id)  # this call imports MO-Gymnasium if the id is unknown
    try:
        return gymnasium.make(env_id, disable_env_checker=True, **kwargs)
    except gymnasium.error.UnregisteredEnv:
        hint = "" if find_spec("mo_gymnasium") else "; for MO-Gymnasium's ids install rasf[mo]"
        known = "an id that Gymnasium or MO-Gymnasium knows, or MODULE:ID to import its module"
        raise ValueError(f"env must be {known}, got {env_id!r:.80}{hint}") from None
    except Exception as error:  # the environment's own code may raise any error
        reason = " ".join(str(error).split())
        if isinstance(error, LookupError) or not reason:
            reason = f"{type(error).__name__} {reason}".rstrip()
        raise ValueError(f"env {env_id!r} cannot be made: {reason}") from error


# --- functions for single and vector environments


def checked_rule(rule: FailureRule) -> FailureRule:
    """Return a rule for failures, or raise ValueError if it is not a function."""
    if not callable(rule):
        raise ValueError(f"failure must be a function of a step, got {type(rule).__name__}")
    return rule


def judged(step: Step, rule: FailureRule | None) -> Step:
    """Return the step; if there is a rule, it decides whether the step is a failure."""
    return step if rule is None else step._replace(failure=answers.flag("the result of failure(step)", rule(step)))


def seeds_from(seed: int, n: int) -> list[int]:
    """Return n seeds derived from one seed; the first seeds do not depend on n."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(n)]


def layers_of(env: gymnasium.Env | gymnasium.vector.VectorEnv) -> Iterator[gymnasium.Env | gymnasium.vector.VectorEnv]:
    """Yield the wrappers around an environment, outermost first, and finally the environment itself."""
    while isinstance(env, _WRAPPERS):
        yield env
        env = env.env
    yield env


def time_limit_of(env: gymnasium.Env | gymnasium.vector.VectorEnv) -> int | None:
    """Return the number of steps after which an episode is truncated, None if unknown.

    The result is the smallest limit found in `gymnasium.wrappers.TimeLimit`, in the registration, and in the attributes
    `max_episode_steps` and `max_steps` of the environment and its wrappers.
    """
    layers = list(layers_of(env))
    if isinstance(layers[-1], gymnasium.vector.SyncVectorEnv):
        return time_limit_of(layers[-1].envs[0])
    names = ("_max_episode_steps", "max_episode_steps", "max_steps")
    limits: list[Any] = [getattr(each, name, None) for name in names for each in (*layers, env.spec)]
    return min((int(limit) for limit in limits if is_whole(limit) and limit > 0), default=None)


def owners_of(env: gymnasium.Env | gymnasium.vector.VectorEnv) -> Iterator[object]:
    """Yield the objects whose attributes may describe the reward (`FeatureSource`), outermost first.

    These objects are the wrappers down to the wrapper that makes the reward, which is a `FeatureReward` (followed by
    its phi) or a wrapper with its own `reward_space`. Without such a wrapper, the last object is the environment
    itself. A `SyncVectorEnv` is followed by the owners of its first environment.
    """
    for layer in layers_of(env):
        yield layer
        if isinstance(layer, FeatureReward):
            yield layer.phi
        if isinstance(layer, _WRAPPERS) and hasattr(layer, "reward_space"):
            return
        if isinstance(layer, gymnasium.vector.SyncVectorEnv):
            yield from owners_of(layer.envs[0])


def declared_bounds(env: gymnasium.Env | gymnasium.vector.VectorEnv) -> Floats | None:
    """Return the bounds (d, 2) of a vector reward, infinite where unknown; None if there is no `reward_space`.

    Wrappers that change the reward may have their own `reward_space`. The outermost `reward_space` is used.
    """
    reward_space = next((each.reward_space for each in layers_of(env) if hasattr(each, "reward_space")), None)
    low, high = getattr(reward_space, "low", None), getattr(reward_space, "high", None)
    if low is None or high is None or np.ndim(low) != 1:
        return None
    return np.stack([low, high], axis=1).astype(np.float64)


def _open_bounds(env: gymnasium.Env, phi: Phi | None) -> Floats:
    """Take a step to count the features, and return infinite bounds (d, 2)."""
    actions = actions_of(env.action_space)
    answers.checked_reset(env, 0)
    features = answers.numbers_of(answers.checked("step", env.step(actions.own(actions.first_of(1)[0])))[1])
    if features.ndim != 1 or features.size == 0:
        raise ValueError(answers.wrong_features(features.shape, None, phi))
    return np.tile([-np.inf, np.inf], (len(features), 1))


def describe_environment(
    env: FeatureSource, spec: gymnasium.envs.registration.EnvSpec | None, phi: Phi | None
) -> EnvironmentDescription:
    """Return the description of an environment; `spec` is None if `gymnasium.make` did not make the environment."""
    return EnvironmentDescription(
        **spec_fields(spec, phi),
        observations=env.encoder.describe(),
        n_actions=env.n_actions,
        first_action=env.actions.first if isinstance(env.actions, DiscreteActions) else 0,
        n_features=env.n_features,
        bounds=None if env.bounds is None else tuple(map(tuple, env.bounds.tolist())),
        feature_names=env.feature_names,
        box=env.actions if isinstance(env.actions, BoxActions) else None,
    )
