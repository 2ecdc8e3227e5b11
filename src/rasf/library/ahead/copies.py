"""Looking ahead in copies of a Gymnasium environment.

A state is the environment itself. It is copied once for each simulated path. The random generator of particle n gets
the same new state in all copies, so that all policies and first actions have the same random numbers. This concerns
environments whose randomness is `np_random`, as Gymnasium requires. A path ends early if the environment truncates its
episode. In shapes, K is the number of policies, B of observations, A of first actions, N of particles, and n of inputs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import EzPickle

from rasf.arrays import Bools, Floats
from rasf.envs.gymnasium.single import layers_of
from rasf.library.ahead.followed import Followed
from rasf.library.ahead.returns import Paths

Encode = Callable[[object, int], np.ndarray]  # encodes an observation after t steps of the episode


class CopiedModel:
    """Copies of environments in which a library looks ahead.

    Args:
        followed: The source policies.
        gamma: The discount of the policies.
        own: Converts an action of the policies to an action that the environment takes.
        encode: Encodes an observation after t steps of the episode.
        features: Number of features.
        limit: Number of steps after which the learned returns end; 0 for continuing returns.
        env: The environment that is copied if no state is given. Default: none.
    """

    numbers = 1  # the number of the environment in `_held`
    sampled = True

    def __init__(
        self, followed: Followed, gamma: float, own: Callable[[Any], Any], encode: Encode, features: int,
        limit: int, env: gymnasium.Env | None = None,
    ) -> None:  # fmt: skip
        self._followed, self._gamma, self._own, self._encode, self._env = followed, gamma, own, encode, env
        self._features, self._limit = features, limit
        self._held: dict[int, tuple[gymnasium.Env, int]] = {}
        self._next = 0

    def rows(self, state: object, batch: int | None, ages: Sequence[int]) -> Floats:
        """Return a row (B, 1) for each environment, which is valid until the next call.

        Args:
            state: An environment, or for a batch a list of B environments. None for the environment of the model.
            batch: B, or None for a single environment.
            ages: Steps of each episode so far.
        """
        given = [self._env if state is None else state] if batch is None else state
        if not isinstance(given, list | tuple) or len(given) != (batch or 1):
            raise ValueError(f"state must be a list of {batch} environments, got {state!r:.60}")
        if not all(isinstance(env, gymnasium.Env) for env in given):
            raise ValueError(f"state must be a Gymnasium environment, or a list for a batch, got {state!r:.60}")
        begin, self._next = self._next, self._next + len(given)
        self._held = dict(enumerate(zip(given, ages, strict=True), begin))
        return np.arange(begin, self._next, dtype=np.float64)[:, None]

    def usable(self, rows: Floats) -> Bools:
        """Return whether each row (B, 1) is an environment that can be copied now."""
        return np.array([number in self._held for number in rows[:, 0]])

    def paths(
        self, obs: npt.NDArray[Any], rows: Floats, first: npt.NDArray[Any], ahead: int, particles: int, turn: int,
        sampled: bool,
    ) -> Paths:  # fmt: skip
        """Simulate paths; arguments as for `WorldModel.paths`. Features are always sampled."""
        (B, A), K, N = first.shape[:2], self._followed.policies, particles
        shape = K, B, A, N
        features, z = np.zeros((*shape, self._features)), np.ones(shape)
        ends = np.zeros((*shape, obs.shape[1]), obs.dtype)
        copies: dict[tuple[int, ...], gymnasium.Env] = {}
        for b, number in enumerate(rows[:, 0]):
            env, age = self._held[int(number)]
            for a, n in np.ndindex(A, N):
                one = _copied(env, [turn, b, n])
                found, x, on, cut = self._step(one, first[b, a], age + 1)
                features[:, b, a, n], ends[:, b, a, n], z[:, b, a, n] = found, x, self._gamma * on
                if on and not cut:
                    each = [one, *(copied(one) for _ in range(K - 1))]
                    copies |= {(i, b, a, n): env for i, env in enumerate(each)}
        for t in range(1, ahead):
            if not copies:
                break
            actions = self._actions(ends)
            for at, env in list(copies.items()):
                age = self._held[int(rows[at[1], 0])][1]
                found, ends[at], on, cut = self._step(env, actions[at], age + t + 1)
                features[at] += z[at] * found
                z[at] *= self._gamma * on
                if cut or not on:
                    del copies[at]
        x = ends.reshape(K, B * A * N, -1)
        return Paths(features, None, z, x, np.asarray(self._followed.actions(x)))

    def _actions(self, ends: npt.NDArray[Any]) -> npt.NDArray[Any]:
        K, B, A, N = ends.shape[:4]
        found = np.asarray(self._followed.actions(ends.reshape(K, B * A * N, -1)))
        return found.reshape(K, B, A, N, *found.shape[2:])

    def _step(self, env: gymnasium.Env, action: Any, age: int) -> tuple[Floats, np.ndarray, bool, bool]:
        """Return features, the encoded observation, and whether the return goes on, and the episode is truncated."""
        obs, reward, terminated, truncated, _ = env.step(self._own(action))
        features = np.asarray(reward, np.float64).ravel()
        if features.shape != (self._features,):
            raise ValueError(f"model must return {self._features} features as its reward, got {features.shape}")
        over = bool(terminated) or 0 < self._limit <= age
        return features, self._encode(obs, age), not over, bool(truncated)


def _copied(env: gymnasium.Env, seed: Sequence[int]) -> gymnasium.Env:
    """Return a copy of an environment in its present state, with other random numbers."""
    try:
        found = copied(env)
    except Exception as error:  # the environment's own code may raise any error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"model must be an environment that copy.deepcopy copies, but: {reason}") from error
    # the generator is changed in place, because parts of the environment may hold it too; otherwise they would have the
    # random numbers of the true future
    bits = found.unwrapped.np_random.bit_generator
    bits.state = type(bits)(np.random.SeedSequence(seed)).state
    return found


def copied(env: gymnasium.Env) -> gymnasium.Env:
    """Return a deep copy of an environment in its present state.

    If a class derives from Gymnasium's `EzPickle`, as those of MuJoCo do, `copy.deepcopy` alone makes a new environment
    in another state. So the attributes of such a class are copied one by one. Copies share MuJoCo's description of the
    bodies, which does not change within an episode.

    Args:
        env: The environment.
    """
    memo: dict[int, Any] = {}
    for layer in [*layers_of(env)][::-1]:
        memo |= {id(part): part for part in vars(layer).values() if type(part).__name__ == "MjModel"}
        if isinstance(layer, EzPickle):
            new = memo[id(layer)] = object.__new__(type(layer))
            vars(new).update(copy.deepcopy(vars(layer), memo))
    return copy.deepcopy(env, memo)
