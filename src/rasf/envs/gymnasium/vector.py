"""Several environments that are stepped together, to train networks or to run episodes in parallel.

A step of n environments has observations (n, m) of m numbers each, and d features (n, d). Both arrays are float32.
`open_vector` takes an id or a factory and steps n copies in this process (`SyncEnvs`), or it takes a vector environment
of Gymnasium (`VectorEnvAdapter`). When an episode ends, its environment is reset in one of four ways. A vector
environment declares in metadata["autoreset_mode"] which of the last three it uses. A step that only resets is not
*valid*.

    SyncEnvs     resets in the last step of an episode; every step is valid
    SAME_STEP    resets in the last step of an episode; every step is valid. info["final_obs"] and info["final_info"]
                 are about the last step, and the other entries of `info` are about the new episode
    NEXT_STEP    resets in an additional step after the episode. This step ignores its action and is not valid
    DISABLED     the adapter resets after the last step of an episode, with options={"reset_mask": ...}

In all four cases, `next_obs` is the observation after the step, also at the end of an episode, and `obs` is the
observation for the next action.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Floats32
from rasf.checks import whole
from rasf.envs.gymnasium import answers
from rasf.envs.gymnasium.actions import actions_of
from rasf.envs.gymnasium.answers import Info, Phi
from rasf.envs.gymnasium.declarations import FeatureSource
from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.envs.gymnasium.encoder import Encoder
from rasf.envs.gymnasium.single import (
    Environment,
    FailureRule,
    FeatureEnvironment,
    Step,
    checked_rule,
    declared_bounds,
    describe_environment,
    judged,
    open_environment,
    owners_of,
    seeds_from,
    time_limit_of,
)

if TYPE_CHECKING:
    from rasf.envs.gymnasium.tape import Tape

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"
_Answer = tuple[object, npt.ArrayLike, Bools, Bools, Info]  # result of a vector environment's step
_MOST_ENVS = 10_000  # largest number of copies of an environment in this process


class VectorStep(NamedTuple):
    """The result of a step of n environments: next_obs and obs (n, m), phi (n, d), and four masks (n,)."""

    next_obs: Floats32
    phi: Floats32
    terminated: Bools
    truncated: Bools
    failure: Bools
    valid: Bools
    obs: Floats32


class _Vector(FeatureSource):
    """Base class of n environments, for learning (`reset`, `step`) or parallel episodes (`reset_each`, `step_each`).

    With `step_each`, only the first episode of each environment after a reset is used, so that short episodes are not
    counted more often than long episodes. `SyncEnvs` does not step an environment whose episode has ended. A vector
    environment also steps these environments, and their steps are ignored.
    """

    num_envs: int

    def __len__(self) -> int:
        return self.num_envs

    def _counted(self, actions: npt.ArrayLike) -> np.ndarray:
        chosen = self.actions.checked(actions)
        if len(chosen) != self.num_envs:
            raise ValueError(f"actions must be one for each of {self.num_envs} environments, got {len(chosen)}")
        return chosen


class SyncEnvs(_Vector):
    """Single environments that are stepped one after another, and reset when an episode ends."""

    def __init__(self, environments: Sequence[FeatureEnvironment]) -> None:
        self.environments = environments
        first = environments[0]
        self.num_envs, self.encoder, self.actions = len(environments), first.encoder, first.actions
        self.declared_bounds, self.owners = first.declared_bounds, first.owners
        self._valid = np.ones(self.num_envs, np.bool_)
        self._valid.flags.writeable = False  # read-only, because all steps return this array

    @property
    def time_limit(self) -> int | None:
        return self.environments[0].time_limit

    @property
    def reports_failures(self) -> bool:
        return any(environment.reports_failures for environment in self.environments)

    def reset(self, seed: int | None = None) -> Floats32:
        """Begin n episodes with seeds derived from `seed`, and return the first observations (n, m)."""
        seeds = [None] * self.num_envs if seed is None else seeds_from(seed, self.num_envs)
        pairs = zip(self.environments, seeds, strict=True)
        return np.stack([self.encoder.vector(environment.reset(seed)) for environment, seed in pairs])

    def step(self, actions: npt.ArrayLike) -> VectorStep:
        """Take a step in every environment, given actions (n,); `valid` is True everywhere."""
        n, over = self.num_envs, []
        next_obs = obs = np.empty((n, self.encoder.vector_size), np.float32)
        phi = np.empty((n, self.n_features), np.float32)
        terminated, truncated, failure = np.empty((3, n), np.bool_)
        for i, action in enumerate(self._counted(actions)):
            step = self.environments[i].step(action)
            next_obs[i], phi[i] = self.encoder.vector(step.obs), step.phi
            terminated[i], truncated[i], failure[i] = step.terminated, step.truncated, step.failure
            if step.terminated or step.truncated:
                over.append(i)
        if over:
            obs = next_obs.copy()
            for i in over:
                obs[i] = self.encoder.vector(self.environments[i].reset())
        return VectorStep(next_obs, phi, terminated, truncated, failure, self._valid, obs)

    def reset_each(self, seeds: Sequence[int]) -> list[object]:
        """Begin an episode for each of at most n seeds, and return the first observations of the episodes."""
        return [environment.reset(seed) for environment, seed in zip(self.environments, seeds, strict=False)]

    def step_each(self, actions: Mapping[int, Any]) -> dict[int, Step]:
        """Take a step in some environments, given their actions by index, and return the steps."""
        return {i: self.environments[i].step(action) for i, action in actions.items()}

    def close(self) -> None:
        for environment in self.environments:
            environment.close()

    def describe(self) -> EnvironmentDescription:
        return self.environments[0].describe()


class VectorEnvAdapter(_Vector):
    """A vector environment of the user, a `gymnasium.vector.VectorEnv` with any of Gymnasium's modes of reset."""

    def __init__(self, env: gymnasium.vector.VectorEnv, phi: Phi | None) -> None:
        mode = env.metadata.get("autoreset_mode")
        self._mode = getattr(mode, "value", mode)
        if self._mode not in (NEXT_STEP, SAME_STEP, DISABLED):
            raise ValueError(
                f"a vector environment must declare in metadata['autoreset_mode'] how it resets, got {self._mode!r}"
            )
        if phi is None and self._mode == NEXT_STEP and isinstance(env.unwrapped, gymnasium.vector.AsyncVectorEnv):
            # AsyncVectorEnv stacks the rewards of all environments. The reward of a step that only resets is the
            # number 0, which cannot be stacked with vectors.
            raise ValueError(
                "an asynchronous vector environment supports rewards that are vectors only if it resets in the last "
                "step of an episode: make it with autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP"
            )
        self.env, self.num_envs, self._phi = env, int(env.num_envs), phi
        self._phi_of_step = None if phi is None else answers.phi_caller(phi)
        self.owners = tuple(owners_of(env)) if phi is None else (phi,)
        self.encoder = Encoder.of(answers.space_of(env, "single_observation_space"))
        self.actions = actions_of(answers.space_of(env, "single_action_space"))
        self.reports_failures = self._running = False
        self._ended = np.zeros(self.num_envs, np.bool_)
        self._raw: object = None
        self._rule: FailureRule | None = None
        self.tape: Tape | None = None  # records resets and actions if training writes checkpoints
        declared = declared_bounds(env) if phi is None else answers.phi_bounds(phi)
        if declared is None:
            declared = np.tile([-np.inf, np.inf], (self._probe(), 1))
        self.declared_bounds = answers.checked_bounds(declared)

    def reset(self, seed: int | None = None) -> Floats32:
        """Begin n episodes and return the first observations (n, m); the vector environment derives the n seeds."""
        if self.tape is not None:
            self.tape.begin(seed)
        obs = self._observed(self._reset(seed), as_vectors=True)
        if self.tape is not None:
            self.tape.obs = obs
        return obs

    def step(self, actions: npt.ArrayLike) -> VectorStep:
        """Take a step, given actions (n,); in a step that is not valid, features are 0 and flags are False."""
        step, _ = self._step(actions, as_vectors=True)
        if self.tape is not None:
            self.tape.add(np.asarray(actions).tolist())
            self.tape.obs = step.obs
        return step._replace(phi=step.phi.astype(np.float32))

    def reset_each(self, seeds: Sequence[int]) -> list[object]:
        """Begin an episode for each of at most n seeds, and return the first observations of the episodes.

        If the class of the vector environment is not from Gymnasium, only the first seed is used.
        """
        own = isinstance(self.env.unwrapped, gymnasium.vector.SyncVectorEnv | gymnasium.vector.AsyncVectorEnv)
        listed = [*seeds, *[seeds[-1]] * (self.num_envs - len(seeds))]
        return self._observed(self._reset(listed if own else seeds[0]), as_vectors=False)[: len(seeds)]

    def step_each(self, actions: Mapping[int, Any]) -> dict[int, Step]:
        """Take a step in all environments, and return the steps of the environments in `actions`."""
        waiting = next(iter(actions.values()))  # the other environments take this action, and their steps are dropped
        step, info = self._step([actions.get(i, waiting) for i in range(self.num_envs)], as_vectors=False)
        parts, ended = (step.next_obs, step.phi, *map(np.ndarray.tolist, step[2:5])), step.terminated | step.truncated
        steps = zip(*parts, (self._info_of(info, i, over) for i, over in enumerate(ended.tolist())), strict=True)
        return {i: judged(Step(*each), self._rule) for i, each in enumerate(steps) if i in actions}

    def judge_each(self, rule: FailureRule) -> None:
        """Define the failures of `step_each` by a rule instead of info["failure"]."""
        self._rule, self.reports_failures = checked_rule(rule), True

    def _reset(self, seed: int | list[int] | None) -> object:
        raw, info = answers.checked_reset(self.env, seed)
        for environment in getattr(self.env.unwrapped, "envs", ()):
            answers.own_randomness(environment)
        self.reports_failures |= "failure" in info
        self._running = True
        self._ended[:] = False
        self._keep(raw)
        return raw

    def _step(self, actions: npt.ArrayLike, as_vectors: bool) -> tuple[VectorStep, Info]:
        """Take a step; observations are network inputs (n, m) if `as_vectors`, otherwise a list of n observations."""
        taken = self.actions.own_batch(self._counted(actions))
        answer = self._advance(taken)
        next_raw, _, terminated, truncated, info = answer
        valid, ended = ~self._ended, terminated | truncated
        next_obs = obs = self._observed(next_raw, as_vectors)
        if self._mode == SAME_STEP and ended.any():
            next_obs = copy.copy(obs)
            for i in np.flatnonzero(ended).tolist():
                final = self._final(info, i)
                next_obs[i] = answers.allowed(self.encoder.vector, final) if as_vectors else final
        phi: Any = self._features(taken, answer, valid)
        failure = self._failures(info, ended) & valid
        if self._mode == DISABLED and ended.any():
            next_raw, _ = self.env.reset(options={"reset_mask": ended.copy()})
            obs = self._observed(next_raw, as_vectors)
        self._ended = ended if self._mode == NEXT_STEP else np.zeros(self.num_envs, np.bool_)
        self._keep(next_raw)
        return VectorStep(next_obs, phi, terminated & valid, truncated & valid, failure, valid, obs), info

    def close(self) -> None:
        self.env.close()

    @property
    def time_limit(self) -> int | None:
        return time_limit_of(self.env)

    def describe(self) -> EnvironmentDescription:
        """Return the description of one of the environments; their keyword arguments are not known."""
        return replace(describe_environment(self, self.env.spec, self._phi), kwargs={})

    def _advance(self, actions: np.ndarray) -> _Answer:
        if not self._running:
            raise ValueError("no episode is running: call reset() before step()")
        try:
            raw, reward, terminated, truncated, info = answers.checked("step", self.env.step(actions))
        except (TypeError, ValueError) as error:
            if "array element with a sequence" not in str(error):
                raise
            raise ValueError(
                "this vector environment does not support rewards that are vectors; give an id with num_envs, or "
                "MO-Gymnasium's MOSyncVectorEnv"
            ) from error
        ends = self._flags("terminated", terminated), self._flags("truncated", truncated)
        return raw, reward, *ends, info

    def _flags(self, name: str, given: npt.ArrayLike) -> Bools:
        """Check flags of the environments and return them as booleans (n,)."""
        found = np.array(given)
        if found.shape != (self.num_envs,):
            raise ValueError(f"the environment's {name} must be {self.num_envs} flags, got shape {found.shape}")
        if found.dtype == np.bool_:
            return found
        return np.array([answers.flag(f"the environment's {name}", each) for each in found.tolist()])

    def _features(self, actions: np.ndarray, answer: _Answer, valid: Bools) -> Floats:
        """Return the features (n, d) of a step; 0 where the step only resets."""
        phi, wanted = np.zeros((self.num_envs, self.n_features)), (self.n_features,)
        if self._phi_of_step is None:
            reward = answers.numbers_of(answer[1])
            if reward.shape != phi.shape:
                raise ValueError(answers.wrong_features(reward.shape[1:], self.n_features, None))
            phi[valid] = reward[valid]
        else:
            which = np.flatnonzero(valid).tolist()
            for i, features in zip(which, self._phi_rows(which, actions, answer), strict=True):
                if features.shape != wanted:
                    raise ValueError(answers.wrong_features(features.shape, self.n_features, self._phi))
                phi[i] = features
        answers.check_features(phi)
        return phi

    def _phi_rows(self, which: Sequence[int], actions: np.ndarray, answer: _Answer) -> Iterator[Floats]:
        """Yield the features (d,) that phi computes for a step, for each environment in `which`."""
        assert self._phi_of_step is not None
        next_raw, reward, terminated, truncated, info = answer
        before, after, rewards = self._rows(self._raw), self._rows(next_raw), np.asarray(reward)
        for i in which:
            ends = bool(terminated[i]), bool(truncated[i])
            seen = self._final(info, i) if self._mode == SAME_STEP and any(ends) else after[i]
            info_i = self._info_of(info, i, any(ends))
            features = self._phi_of_step(before[i], actions[i], seen, info_i, rewards[i], *ends)
            yield answers.numbers_of(features)

    def _failures(self, info: Info, ended: Bools) -> Bools:
        """Return the failures (n,) of a step; under SAME_STEP, the failures of ended episodes are in `final_info`."""
        failure = self._failures_in(info)
        if self._mode == SAME_STEP and ended.any():
            failure = np.where(ended, self._failures_in(info.get("final_info", {})), failure)
        return failure

    def _failures_in(self, info: Info) -> Bools:
        if "failure" not in info:
            return np.zeros(self.num_envs, np.bool_)
        self.reports_failures = True
        failure = np.asarray(info["failure"])
        if failure.shape == (self.num_envs,):
            failure = np.where(info.get("_failure", True), failure, False)
        return self._flags("info['failure']", failure)

    def _info_of(self, info: Info, i: int, ended: bool) -> Info:
        """Return the info of environment i for a step; after an episode's end under SAME_STEP, that is `final_info`."""
        info_i = _row(info, i)
        return info_i.get("final_info", {}) if self._mode == SAME_STEP and ended else info_i

    def _final(self, info: Info, i: int) -> object:
        """Return the last observation of the episode that ended in environment i."""
        final = _row(info, i).get("final_obs")
        if final is None:
            raise ValueError("a vector environment that resets in an episode's last step must return info['final_obs']")
        return final

    def _observed(self, raw: object, as_vectors: bool) -> Any:
        """Check the n observations of a batch and return them as network inputs (n, m) or as a list."""
        if as_vectors:
            found: Any = answers.allowed(self.encoder.batch_vectors, raw)
        else:
            found = copy.deepcopy(self._rows(raw))  # a vector environment may reuse its arrays
            for row in found:
                answers.allowed(self.encoder.check, row)
        if len(found) != self.num_envs:
            raise ValueError(f"the environment must give {self.num_envs} observations, got {len(found)}")
        return found

    def _probe(self) -> int:
        """Take a step and return the number of features."""
        self.reset(seed=0)
        actions = self.actions.own_batch(self.actions.first_of(self.num_envs))
        answer = self._advance(actions)
        reward = answer[1] if self._phi_of_step is None else [*self._phi_rows([0], actions, answer)]
        features = answers.numbers_of(reward)
        if features.ndim != 2 or features.size == 0:
            raise ValueError(answers.wrong_features(features.shape[1:], None, self._phi))
        self._running = False
        return features.shape[1]

    def _rows(self, raw: object) -> list[object]:
        """Return the single observations of a batch."""
        return list(gymnasium.vector.utils.iterate(self.env.observation_space, raw))

    def _keep(self, raw: object) -> None:
        self._raw = None if self._phi is None else copy.deepcopy(raw)  # a vector environment may reuse its arrays


def _row(info: Info, i: int) -> Info:
    """Return the info of environment i; the mask info["_key"] says which environments have a value in info["key"]."""
    found: Info = {}
    for key, value in info.items():
        if not (key.startswith("_") and key[1:] in info) and (f"_{key}" not in info or info[f"_{key}"][i]):
            found[key] = _row(value, i) if isinstance(value, dict) else value[i]
    return found


FeatureVector = SyncEnvs | VectorEnvAdapter


def open_vector(
    env: Environment | gymnasium.vector.VectorEnv, num_envs: int | None = None, phi: Phi | None = None, **kwargs: object
) -> FeatureVector:
    """Open environments with features that are stepped together.

    Args:
        env: an id, a function that makes an environment, an environment, or a `VectorEnv`.
        num_envs: number of environments. Default: that of a `VectorEnv`, otherwise 1. If `env` is a single environment,
            only 1 is possible.
        phi: function that computes the features of a step, as for `FeatureReward`. Default: None; the features are
            then the environment's own vector reward.
        **kwargs: arguments of `gymnasium.make`, only for an id.

    Raises:
        ValueError: if the environments cannot be opened.
    """
    if not isinstance(env, gymnasium.vector.VectorEnv):
        n = 1 if num_envs is None else whole("num_envs", num_envs)
        return sync_envs(open_environment(env, phi, **kwargs), n, env, phi, kwargs)
    if kwargs:
        raise ValueError(f"{', '.join(kwargs)} can only be given with an environment's id")
    if num_envs not in (None, env.num_envs):
        raise ValueError(f"num_envs must equal the vector environment's num_envs, {env.num_envs}, got {num_envs}")
    return VectorEnvAdapter(env, phi)


def sync_envs(first: FeatureEnvironment, n: int, env: Environment, phi: Phi | None, kwargs: Info) -> SyncEnvs:
    """Return n environments: `first`, and n - 1 environments opened in the same way from an id or a factory."""
    if n > _MOST_ENVS:
        raise ValueError(f"num_envs must be at most {_MOST_ENVS}, got {n}")
    if n > 1 and isinstance(env, gymnasium.Env):
        raise ValueError(f"num_envs={n} needs an environment's id or a function that makes it, got an environment")
    environments = [first, *(open_environment(env, phi, **kwargs) for _ in range(n - 1))]
    if any(other.describe() != first.describe() for other in environments[1:]):
        raise ValueError("env must make the same environment every time, got two that differ")
    return SyncEnvs(environments)
