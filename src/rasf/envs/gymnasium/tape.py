"""`Tape`: what it takes to bring an environment back to its present state in another process, without its internals.

Gymnasium's environments are deterministic given the seed of `reset` and the actions. So a tape records the seed of the
first reset and all actions. For a single environment it also records the state of the environment's own generator
(`np_random`) before each later reset. Then only the running episode has to be replayed:

    restore    set the generator, reset, repeat the actions of the running episode, and compare
    else       if observation or generator differ: reset with the first seed, repeat all actions, and compare again

The first way is tried on a copy, because a wrapper may have a memory that outlives episodes, such as the mean of all
observations; an environment that cannot be copied repeats all actions. An environment that is still elsewhere is not
deterministic given its seed, and is refused.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import FeatureEnvironment
    from rasf.envs.gymnasium.vector import FeatureVector, VectorEnvAdapter

_ELSEWHERE = (
    "the environment cannot be brought back to where the checkpoint was written: the same seed and actions led to "
    "another state; remove the checkpoint to train from the start"
)


class Tape:
    """The seed and actions of one environment since its last reset with a seed; it records from now on.

    obs: the environment's last observation, as it gave it.
    """

    def __init__(self, env: FeatureEnvironment) -> None:
        self._env = env
        self.obs: Any = None
        self._seed = 0
        self._generator: Any = None  # its state before the last reset, if that had no seed
        self._actions, self._resets = array("i"), array("q")
        env.tape = self

    def begin(self, seed: int | None) -> None:
        """The environment is about to be reset."""
        if seed is not None:
            self._seed, self._generator = seed, None
            self._actions, self._resets = array("i"), array("q")
        else:
            self._generator = _generator(self._env)
        self._resets.append(len(self._actions))

    def add(self, action: int) -> None:
        """The environment took a step."""
        self._actions.append(action)

    def state(self) -> dict[str, Any]:
        """What `restore` needs."""
        return {
            "seed": self._seed,
            "generator": self._generator,
            "actions": np.array(self._actions, np.int32),
            "resets": np.array(self._resets, np.int64),
            "obs": self._env.encoder.key(self.obs),
            "generator_now": _generator(self._env),
            "reports_failures": self._env.reports_failures,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Bring the environment back to where another process had it."""
        resets, actions = state["resets"].tolist(), state["actions"].tolist()
        env, env.tape = self._env, None
        last_episode = resets[-1:], actions, None
        enough = state["generator"] is not None and self._replayed(_copy(env), state, *last_episode)
        if not self._replayed(env, state, *(last_episode if enough else (resets, actions, state["seed"]))):
            raise ValueError(_ELSEWHERE)
        self._seed, self._generator = state["seed"], state["generator"]
        self._actions, self._resets = array("i", actions), array("q", resets)
        env.reports_failures, env.tape = state["reports_failures"], self

    def _replayed(
        self,
        env: FeatureEnvironment | None,
        state: dict[str, Any],
        resets: Sequence[int],
        actions: Sequence[int],
        seed: int | None,
    ) -> bool:
        """Repeat the episodes that begin at these indices of the actions; whether they lead to the right state.

        seed: of the first of these resets; None for the generator's state before it.
        """
        if env is None:
            return False
        try:
            if seed is None:
                env.env.unwrapped.np_random.bit_generator.state = state["generator"]
            for begin, end in zip(resets, [*resets[1:], len(actions)], strict=True):
                self.obs, seed = env.reset(seed), None
                for action in actions[begin:end]:
                    self.obs = env.step(action).obs
        except ValueError:  # such as a step after an end that came too early
            return False
        same = np.array_equal(env.encoder.key(self.obs), state["obs"])
        return same and _generator(env) == state["generator_now"]


class VectorTape:
    """The seed and actions (T, n) of a vector environment of the user; all of them are replayed."""

    def __init__(self, env: VectorEnvAdapter) -> None:
        self._env, self._seed = env, 0
        self._actions: list[np.ndarray] = []
        self._resets: list[int] = []
        self.obs = np.zeros(0, np.float32)
        env.tape = self

    def begin(self, seed: int | None) -> None:
        """The environments are about to be reset."""
        if seed is not None:
            self._seed, self._actions, self._resets = seed, [], []
        self._resets.append(len(self._actions))

    def add(self, actions: np.ndarray) -> None:
        """The environments took a step."""
        self._actions.append(actions.astype(np.int32))

    def state(self) -> dict[str, Any]:
        """What `restore` needs."""
        return {
            "seed": self._seed,
            "actions": np.array(self._actions, np.int32).reshape(-1, self._env.num_envs),
            "resets": self._resets,
            "obs": self.obs,
            "reports_failures": self._env.reports_failures,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Bring the environments back to where another process had them."""
        env, env.tape = self._env, None
        resets, actions, seed = state["resets"], state["actions"], state["seed"]
        for begin, end in zip(resets, [*resets[1:], len(actions)], strict=True):
            self.obs, seed = env.reset(seed), None
            for step in actions[begin:end]:
                self.obs = env.step(step).obs
        if not np.array_equal(self.obs, state["obs"]):
            raise ValueError(_ELSEWHERE)
        self._seed, self._actions, self._resets = state["seed"], list(actions), list(resets)
        env.reports_failures, env.tape = state["reports_failures"], self


def tapes(env: FeatureVector) -> list[Tape] | list[VectorTape]:
    """Tapes for all environments that networks learn from."""
    from rasf.envs.gymnasium.vector import SyncEnvs

    return [Tape(one) for one in env.environments] if isinstance(env, SyncEnvs) else [VectorTape(env)]


def _copy(env: FeatureEnvironment) -> FeatureEnvironment | None:
    """A copy to try things on; None where the environment cannot be copied."""
    try:
        return copy.deepcopy(env)
    except Exception:  # whatever an environment holds: simulators raise errors of their own
        return None


def _generator(env: FeatureEnvironment) -> Any:
    """The state of the environment's generator, if it is the kind that Gymnasium gives to environments."""
    found = getattr(env.env.unwrapped.np_random, "bit_generator", None)
    return found.state if isinstance(found, np.random.PCG64) else None
