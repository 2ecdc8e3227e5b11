"""A user's vector environment with features: each way to reset after an end, told apart by metadata["autoreset_mode"].

`vector.py` says what a step holds in each mode. Under SAME_STEP the features, the failure and the successor of a last
step come from info["final_obs"] and info["final_info"], because the rest of `info` is already about the new episode.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rasf.envs.gymnasium.encoder import Encoder
from rasf.envs.gymnasium.feature_vector import FeatureVector, Inputs, Mask, VectorStep
from rasf.envs.gymnasium.single import (
    Phi,
    actions_of,
    answer,
    checked_phi,
    declared_bounds,
    describe_environment,
    first_answer,
    numbers_of,
    own_randomness,
    wrong_features,
)

NEXT_STEP, SAME_STEP, DISABLED = "NextStep", "SameStep", "Disabled"


class Native(FeatureVector):
    """A user's `gymnasium.vector.VectorEnv`, in whichever way it resets."""

    def __init__(self, env: Any, phi: Phi | None) -> None:
        mode = env.metadata.get("autoreset_mode")
        self._mode = getattr(mode, "value", mode)
        if self._mode not in (NEXT_STEP, SAME_STEP, DISABLED):
            raise ValueError(
                f"a vector environment must say in metadata['autoreset_mode'] how it resets, got {self._mode!r}"
            )
        self.env, self.num_envs, self._phi = env, int(env.num_envs), checked_phi(phi)
        self.encoder = Encoder.of(env.single_observation_space)
        self._start = actions_of(env.single_action_space)[0]
        self.n_actions = int(env.single_action_space.n)
        self.id = None if env.spec is None else env.spec.id
        self.max_episode_steps = None if env.spec is None else env.spec.max_episode_steps
        self._named = self._running = False
        self._ended = np.zeros(self.num_envs, np.bool_)
        self._raw: Any = None
        declared = declared_bounds(env, phi)
        self.n_features = self._probe() if declared is None else len(declared)
        self.bounds = declared if declared is not None and np.isfinite(declared).all() else None

    @property
    def names_failures(self) -> bool:
        """Whether an info has named failures so far."""
        return self._named

    def reset(self, seed: int | None = None) -> Inputs:
        """Begin n episodes; the vector environment deals out the seed."""
        raw, info = first_answer(self.env, seed)
        for environment in getattr(self.env.unwrapped, "envs", ()):
            own_randomness(environment)
        self._named |= "failure" in info
        self._running = True
        self._ended[:] = False
        self._keep(raw)
        return self._flat(raw)

    def step(self, actions: npt.ArrayLike) -> VectorStep:
        """One step; empty steps have no features, no end and no failure."""
        taken = self._checked(actions)
        next_raw, reward, terminated, truncated, info = self._advance(taken)
        valid, ended = ~self._ended, terminated | truncated
        obs = self._flat(next_raw)
        next_obs = obs
        if self._mode == SAME_STEP and ended.any():
            next_obs = obs.copy()
            for i in np.flatnonzero(ended).tolist():
                next_obs[i] = self._final(info, i)
        phi = self._features(reward, taken, next_raw, info, ended, valid)
        failure = self._failures(info, ended) & valid
        if self._mode == DISABLED and ended.any():
            next_raw, _ = self.env.reset(options={"reset_mask": ended.copy()})
            obs = self._flat(next_raw)
        self._ended = ended if self._mode == NEXT_STEP else np.zeros(self.num_envs, np.bool_)
        self._keep(next_raw)
        return VectorStep(next_obs, phi, terminated & valid, truncated & valid, failure, valid, obs)

    def close(self) -> None:
        """Close the vector environment."""
        self.env.close()

    def describe(self) -> dict[str, Any]:
        """As of a single environment; the settings of a vector environment are not known."""
        return describe_environment(self, {}, int(self._start), self._phi)

    def _advance(self, actions: npt.NDArray[np.int64]) -> tuple[Any, Any, Mask, Mask, dict[str, Any]]:
        if not self._running:
            raise ValueError("no episode is running: call reset() before step()")
        try:
            raw, reward, terminated, truncated, info = answer("step", self.env.step(actions + self._start))
        except (TypeError, ValueError) as error:
            if "array element with a sequence" not in str(error):
                raise
            raise ValueError(
                "this vector environment has no room for rewards that are vectors; give an id with num_envs, or "
                "MO-Gymnasium's MOSyncVectorEnv"
            ) from error
        return raw, reward, np.array(terminated, np.bool_), np.array(truncated, np.bool_), info

    def _features(
        self, reward: Any, actions: npt.NDArray[np.int64], next_raw: Any, info: dict[str, Any], ended: Mask, valid: Mask
    ) -> Inputs:
        if self._phi is None:
            phi = numbers_of(reward)
            if phi.shape != (self.num_envs, self.n_features):
                raise ValueError(wrong_features(phi.shape[1:], self.n_features, None))
            phi = np.where(valid[:, None], phi, 0.0)
        else:
            phi = np.zeros((self.num_envs, self.n_features))
            before, after = self._rows(self._raw), self._rows(next_raw)
            for i in np.flatnonzero(valid).tolist():
                said, seen = _row(info, i), after[i]
                if self._mode == SAME_STEP and ended[i]:
                    said, seen = said.get("final_info", {}), said["final_obs"]
                features = numbers_of(self._phi(before[i], actions[i] + self._start, seen, said))
                if features.shape != (self.n_features,):
                    raise ValueError(wrong_features(features.shape, self.n_features, self._phi))
                phi[i] = features
        if not np.isfinite(phi).all():
            raise ValueError(f"the features of a step must be finite, the environments gave {phi.tolist()}")
        return phi.astype(np.float32)

    def _failures(self, info: dict[str, Any], ended: Mask) -> Mask:
        """What was named in this step; under SAME_STEP, `info` is about the new episode where the old one ended."""
        failure = self._named_in(info)
        if self._mode == SAME_STEP and ended.any():
            failure = np.where(ended, self._named_in(info.get("final_info", {})), failure)
        return failure

    def _named_in(self, info: dict[str, Any]) -> Mask:
        if "failure" not in info:
            return np.zeros(self.num_envs, np.bool_)
        self._named = True
        return np.asarray(info["failure"]).astype(np.bool_) & info.get("_failure", True)

    def _final(self, info: dict[str, Any], i: int) -> Inputs:
        """The successor that ended episode i."""
        final = _row(info, i).get("final_obs")
        if final is None:
            raise ValueError("a vector environment that resets in the same step must give info['final_obs'] at an end")
        return self._allowed(self.encoder.vector, final)

    def _flat(self, raw: Any) -> Inputs:
        inputs = self._allowed(self.encoder.batch_vectors, raw)
        if len(inputs) != self.num_envs:
            raise ValueError(f"the environment must give {self.num_envs} observations, got {len(inputs)}")
        return inputs

    def _allowed(self, code: Callable[[Any], Inputs], obs: Any) -> Inputs:
        try:
            return code(obs)
        except ValueError as error:
            raise ValueError(f"the environment gave an observation that its space does not allow: {error}") from None

    def _probe(self) -> int:
        """The number of features, where only a step can tell."""
        self.reset(seed=0)
        actions = np.zeros(self.num_envs, np.int64)
        next_raw, reward, _, _, info = self._advance(actions)
        if self._phi is not None:
            reward = [self._phi(self._rows(self._raw)[0], self._start, self._rows(next_raw)[0], _row(info, 0))]
        features = numbers_of(reward)
        if features.ndim != 2 or features.size == 0:
            raise ValueError(wrong_features(features.shape[1:], None, self._phi))
        self._running = False
        return features.shape[1]

    def _rows(self, raw: Any) -> list[Any]:
        """The single observations of a batch."""
        from gymnasium.vector.utils import iterate

        return list(iterate(self.env.observation_space, raw))

    def _keep(self, raw: Any) -> None:
        if self._phi is not None:
            self._raw = copy.deepcopy(raw)  # a vector environment may reuse its arrays


def _row(info: dict[str, Any], i: int) -> dict[str, Any]:
    """What a vector environment's info says of environment i; `_key` masks those that said anything."""
    said: dict[str, Any] = {}
    for key, value in info.items():
        if not (key.startswith("_") and key[1:] in info) and (f"_{key}" not in info or info[f"_{key}"][i]):
            said[key] = _row(value, i) if isinstance(value, dict) else value[i]
    return said
