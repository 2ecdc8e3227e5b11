"""`Tape`: a record from which an environment is restored in another process, without access to its internals.

Gymnasium's environments are deterministic given the seed of `reset` and the actions. So a tape records the seed of the
last reset with a seed, and all actions since then. For a single environment, the tape also records the state of the
environment's generator (`np_random`) before the last reset. Then it is usually enough to repeat the running episode:

    1. set the generator, reset, repeat the actions of the running episode, and compare the observation and the
       generator with the recorded observation and generator
    2. if they differ, reset with the recorded seed, repeat all recorded actions, and compare again

Step 1 is tried on a copy first. If it fails on the copy, step 2 starts from the original environment, which is not yet
stepped. This matters for wrappers whose state outlives episodes, such as the mean of all observations. For vector
environments, and for environments that cannot be copied, only step 2 is taken. If the result differs after step 2,
the environment is not deterministic given its seed, and ValueError is raised.
"""

from __future__ import annotations

import copy
import math
from array import array
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import FeatureEnvironment
    from rasf.envs.gymnasium.vector import FeatureVector, VectorEnvAdapter
    from rasf.files import Header

    _Env: TypeAlias = FeatureEnvironment | VectorEnvAdapter

_NOT_RESTORED = (
    "the environment cannot be restored to the state of the checkpoint: the same seed and actions led to "
    "another state; remove the checkpoint to train from the start"
)


class Tape:
    """The seed and actions of a single or vector environment since its last reset with a seed.

    Recording begins when the tape is made. `obs` is the last observation of the environment.
    """

    def __init__(self, env: _Env) -> None:
        self._env = env
        self._each = (env.num_envs,) if hasattr(env, "num_envs") else ()  # shape of the actions in a step
        self.obs: object = None
        self._seed = 0
        self._generator: Header | None = None  # its state before the last reset; None if that reset had a seed
        self._size, self._actions, self._resets = env.actions.size, _empty(env), array("q")
        env.tape = self

    def begin(self, seed: int | None) -> None:
        """Record a reset; must be called before the environment is reset."""
        if seed is not None:
            self._seed, self._generator = seed, None
            self._actions, self._resets = _empty(self._env), array("q")
        else:
            self._generator = _generator(self._env)
        self._resets.append(len(self._actions) // (math.prod(self._each) * max(1, self._size)))

    def add(self, actions: npt.ArrayLike) -> None:
        """Record the actions of a step, one for each environment."""
        self._actions.extend(np.asarray(actions).ravel().tolist())

    def state(self) -> Header:
        """Return the data that `restore` needs."""
        return {
            "seed": self._seed,
            "generator": self._generator,
            "actions": np.array(self._actions).reshape(-1, *self._each, *(self._size,) * (self._size > 0)),
            "resets": np.array(self._resets, np.int64),
            "obs": self._numbers(self._env),
            "generator_now": _generator(self._env),
            "reports_failures": self._env.reports_failures,
        }

    def restore(self, state: Header) -> None:
        """Bring the environment to a state that a tape has recorded, perhaps in another process."""
        env, env.tape = self._env, None
        generator = state.get("generator")
        episode_suffices = generator is not None and self._replayed(_copy(env), state, generator)
        if not self._replayed(env, state, generator if episode_suffices else None):
            raise ValueError(_NOT_RESTORED)
        self._seed, self._generator = state["seed"], generator
        self._actions = array(self._actions.typecode, state["actions"].ravel().tolist())
        self._resets = array("q", np.asarray(state["resets"]).tolist())
        env.reports_failures, env.tape = state["reports_failures"], self

    def _replayed(self, env: _Env | None, state: Header, generator: Header | None) -> bool:
        """Repeat the recorded actions in an environment, and return whether this leads to the recorded state.

        If the state of a generator is given, only the running episode is repeated. The result is False if env is None.
        """
        if env is None:
            return False
        resets, actions, seed = np.asarray(state["resets"]).tolist(), state["actions"].tolist(), state["seed"]
        try:
            if generator is not None:
                resets, seed = resets[-1:], None
                env.env.unwrapped.np_random.bit_generator.state = generator
            for begin, end in zip(resets, [*resets[1:], len(actions)], strict=True):
                self.obs, seed = env.reset(seed), None
                for action in actions[begin:end]:
                    self.obs = env.step(action).obs
        except ValueError:  # for example, the episode ended earlier than in the record
            return False
        return np.array_equal(self._numbers(env), state["obs"]) and _generator(env) == state.get("generator_now")

    def _numbers(self, env: _Env) -> np.ndarray:
        """Return the last observation as an array.

        The observation of a single environment is encoded first; those of a vector environment are already encoded.
        """
        return env.encoder.key(self.obs) if _is_single(env) else np.asarray(self.obs)


def tapes(env: FeatureVector) -> list[Tape]:
    """Return a tape for each single environment, or one tape for a vector environment."""
    return [Tape(one) for one in env.environments] if hasattr(env, "environments") else [Tape(env)]


def _empty(env: _Env) -> array[Any]:
    return array("d" if env.actions.size else "i")


def _copy(env: _Env) -> _Env | None:
    """Return a copy of the environment, or None if it cannot be copied."""
    try:
        return copy.deepcopy(env)
    except Exception:  # a simulator may raise errors of any type
        return None


def _is_single(env: _Env) -> TypeGuard[FeatureEnvironment]:
    return not hasattr(env, "num_envs")


def _generator(env: _Env) -> Header | None:
    """Return the state of a single environment's generator if this is a PCG64, Gymnasium's generator, else None."""
    found = getattr(env.env.unwrapped.np_random, "bit_generator", None) if _is_single(env) else None
    return dict(found.state) if isinstance(found, np.random.PCG64) else None
