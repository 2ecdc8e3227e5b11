"""`Recorder`: a wrapper that writes every step of an environment to a folder, for offline learning.

    part-000000.rasf, ..    parts of thousands of steps each, written atomically, with the checksums of `rasf.files`
    lock                    a file that is locked by the recording process

The header of a part describes the environment. A part of N steps has these arrays:

    obs, next_obs (N, n)    observations, each encoded as n numbers by an `Encoder`
    action                  actions counted from 0 (N,), or vectors in [-1, 1] (N, m)
    phi (N, d)              features
    terminated, truncated   flags (N,)
    episode (N,)            the number of each step's episode
    failure                 flags (N,), if the environment reports failures

A process that is killed loses the steps since the last part. A later recorder with the same environment can continue in
the same folder; an episode that was cut off counts as truncated. An action that the environment does not have raises
ValueError, and the episode goes on. If a log cannot contain the result of a step, for example features that are not
finite, the step raises ValueError, and the episode is cut off before this step.
"""

from __future__ import annotations

import copy
import re
import time
from os import PathLike
from pathlib import Path

import gymnasium
import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.envs.gymnasium import answers
from rasf.envs.gymnasium.actions import BoxActions
from rasf.envs.gymnasium.answers import Info, Phi
from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.envs.gymnasium.encoder import all_finite
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.files import Arrays, as_path, load_file, save_file

_PART = re.compile(r"part-(\d{6,})\.rasf")
_MOST_EPISODES = 2**53
_FLAGS = ("terminated", "truncated", "failure")


def parts_of(folder: Path) -> list[Path]:
    """Return the files of the parts of a log, in order."""
    found = {int(match[1]): path for path in folder.iterdir() if (match := _PART.fullmatch(path.name))}
    return [found[number] for number in sorted(found)]


def read_part(path: Path) -> tuple[EnvironmentDescription, Arrays]:
    """Return the description of the environment and the arrays in a part of a log."""
    header, arrays = load_file(path)
    if header.get("kind") != "log" or not isinstance(header.get("environment"), dict):
        raise ValueError(f"{path} is not a part of a log")
    try:
        return EnvironmentDescription.from_json(header["environment"]), arrays
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


class Recorder(gymnasium.Wrapper):
    """A wrapper that writes every step to a folder and does not change the environment.

    `close`, or the end of a `with` block, writes the remaining steps. A closed recorder cannot take steps.

    Args:
        env: the environment. `learn_from` reads logs of discrete actions only.
        folder: the folder for the parts of the log, which is made if it does not exist.
        phi: function that computes the features of a step, as for `rasf.learn`; `step` still returns the environment's
            own reward. Default: None; the features are then the environment's own vector reward.
        steps_per_part: number of steps after which a part is written. Default: 5,000.
        seconds_per_part: a step also writes a part if the last part is older than this number of seconds. Default: 30.

    Raises:
        ValueError: if an argument is invalid, another recorder writes to the folder, or the folder contains the log of
            another environment.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        folder: str | PathLike[str],
        *,
        phi: Phi | None = None,
        steps_per_part: int = 5_000,
        seconds_per_part: float = 30.0,
    ) -> None:
        from filelock import FileLock, Timeout

        if not isinstance(env, gymnasium.Env):
            raise ValueError(f"env must be a gymnasium.Env, got {type(env).__name__}")
        super().__init__(env)
        self.folder, self._phi = as_path(folder), phi
        self._features = None if phi is None else answers.phi_caller(phi)
        self._most = checks.whole("steps_per_part", steps_per_part)
        self._longest = checks.number("seconds_per_part", seconds_per_part, 0.0)
        features = FeatureEnvironment(env, phi)
        self._encoder, self.description = features.encoder, features.describe()
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"folder must be a folder for a log; {self.folder} is a file")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / "lock", thread_local=False)  # any thread may step or close
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            busy = f"folder must be for one recorder at a time; another recorder writes to {self.folder}"
            raise ValueError(busy) from None
        try:
            self._part, self._episode = self._resume()
        except BaseException:
            self._lock.release()
            raise
        self._rows: list[tuple[object, ...]] = []
        self._since, self._obs, self._reports_failures = time.monotonic(), None, False

    def _resume(self) -> tuple[int, int]:
        """Return the numbers of the next part and of the last episode; refuse a log of another environment."""
        last = parts_of(self.folder)[-1:]
        if not last:
            return 0, -1
        recorded, arrays = read_part(last[0])
        different = recorded.difference(self.description)
        if different is not None:
            before, now = getattr(recorded, different), getattr(self.description, different)
            raise ValueError(
                f"{self.folder} is a log of another environment: its {different} was {before!r:.60}, now {now!r:.60}"
            )
        episode = arrays.get("episode", np.zeros(0)).reshape(-1)
        if episode.dtype != np.int64 or not 0 <= episode.max(initial=0) < _MOST_EPISODES:
            raise ValueError(f"{last[0]} is damaged: it must give every step the number of its episode")
        return int(last[0].stem.removeprefix("part-")) + 1, int(episode.max(initial=-1))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[object, Info]:
        """Begin an episode; if an episode is running, it is cut off."""
        self._require_open()
        self._obs = None
        obs, info = answers.checked("reset", self.env.reset(seed=seed, options=options))
        self._episode += 1
        self._obs = copy.deepcopy(obs)  # an environment may write its next observation into the same array
        self._reports_failures |= "failure" in info
        return obs, info

    def step(self, action: object) -> tuple[object, object, bool, bool, Info]:
        """Take a step in the environment and record it.

        Args:
            action: one of the environment's own actions.

        Returns:
            The result of the environment's step.

        Raises:
            ValueError: if the recorder is closed, no episode is running, the environment does not have the action, or a
                log cannot contain the result of the step. In the first three cases the environment is not stepped.
            OSError: if a part cannot be written.
        """
        self._require_open()
        if self._obs is None:
            raise ValueError("no episode is running: call reset() before step()")
        number = self._number_of(action)
        before, self._obs = self._obs, None  # if an error is raised below, the episode is cut off before this step
        obs, reward, terminated, truncated, info = answers.checked("step", self.env.step(action))
        given = {"terminated": terminated, "truncated": truncated, 'info["failure"]': info.get("failure", False)}
        ends = tuple(answers.flag(f"the environment's {name}", value) for name, value in given.items())
        made = reward if self._features is None else self._features(before, action, obs, info, reward, *ends[:2])
        phi = answers.numbers_of(made)
        if phi.shape != (self.description.n_features,):
            raise ValueError(answers.wrong_features(phi.shape, self.description.n_features, self._phi))
        if not all_finite(phi):
            raise ValueError(f"the features of a step must be finite, got {phi.tolist()!r:.80}")
        keys = answers.allowed(self._encoder.key, before), answers.allowed(self._encoder.key, obs)
        self._reports_failures |= "failure" in info
        self._rows.append((*keys, number, phi, *ends, self._episode))
        if not (ends[0] or ends[1]):
            self._obs = copy.deepcopy(obs)
        if len(self._rows) >= self._most or time.monotonic() - self._since > self._longest:
            self.flush()
        return obs, reward, terminated, truncated, info

    def _vector_of(self, action: object, box: BoxActions) -> npt.NDArray[np.float32]:
        """Return an action of a Box as a vector (m,) in [-1, 1]."""
        try:
            given = np.asarray(action, np.float64)
        except (TypeError, ValueError):
            given = np.zeros(0)
        if given.shape != box.shape or not np.isfinite(given).all():
            raise ValueError(f"action must be finite numbers of shape {box.shape}, got {action!r:.60}")
        return box.unit(given[None])[0].astype(np.float32)

    def _number_of(self, action: object) -> int | npt.NDArray[np.float32]:
        """Return an action as the log stores it: counted from 0, or as a vector (m,) in [-1, 1] for a Box.

        A discrete action may be a number of Python, numpy or a similar package.
        """
        first, last = self.description.first_action, self.description.first_action + self.description.n_actions - 1
        if self.description.box is not None:
            return self._vector_of(action, self.description.box)
        try:
            array = np.asarray(action)
            if not array.shape and array.dtype.kind in "biuf" and first <= array == np.rint(array) <= last:
                return int(array) - first
        except (TypeError, ValueError):  # for example a ragged list, or a tensor on a device
            pass
        raise ValueError(f"action must be a whole number from {first} to {last}, got {action!r:.60}")

    def _require_open(self) -> None:
        if not self._lock.is_locked:
            raise ValueError(f"the recorder of {self.folder} is closed; make a new recorder to record more")

    def flush(self) -> None:
        """Write the steps that no part contains yet, as a new part.

        Raises:
            ValueError: if the recorder is closed.
            OSError: if the part cannot be written; the error names the part, and the steps are kept for another try.
        """
        self._require_open()
        if self._rows:
            obs, next_obs, action, phi, *flags, episode = zip(*self._rows, strict=True)
            arrays: Arrays = {"obs": np.array(obs), "next_obs": np.array(next_obs), "phi": np.array(phi)}
            arrays |= {
                "action": np.array(action, np.int32 if self.description.box is None else np.float32),
                "episode": np.array(episode, np.int64),
            }
            arrays |= {name: np.array(flag) for name, flag in zip(_FLAGS, flags, strict=True)}
            if not self._reports_failures:
                del arrays["failure"]
            header = {"kind": "log", "environment": self.description.to_json()}
            save_file(self.folder / f"part-{self._part:06d}.rasf", header, arrays)
            self._part, self._rows = self._part + 1, []
        self._since = time.monotonic()

    def close(self) -> None:
        """Write the remaining steps, and close the environment even if writing fails.

        Raises:
            OSError: if the last part cannot be written; the error names the part, and its steps are lost.
        """
        try:
            if self._lock.is_locked:
                try:
                    self.flush()
                finally:
                    self._lock.release()
        finally:
            super().close()
