"""`Recorder`: a wrapper that keeps every step of an environment in a folder, to learn from it later.

    part-000000.rasf, ..    some thousand steps each, whole or absent, in the checksummed container of `rasf.files`
    lock                    held by the one process that records

A part holds obs and next_obs (N, n) as an `Encoder`'s keys, action (N,) counted from 0, phi (N, d), terminated,
truncated and episode (N,), and failure (N,) where the environment names failures; its header describes the environment.
Whoever is killed loses the steps since the last part. A later recorder goes on in the same folder, if its environment
is the same; an episode that was cut off counts as truncated.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rasf import checks
from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.envs.gymnasium.single import FeatureEnvironment, Info, Phi, numbers_of, wrong_features
from rasf.files import Arrays, load_file, save_file

PART = re.compile(r"part-(\d{6,})\.rasf")
_FLAGS = ("terminated", "truncated", "failure")


def parts_of(folder: Path) -> list[Path]:
    """The parts of a log, in order."""
    found = {int(match[1]): path for path in folder.iterdir() if (match := PART.fullmatch(path.name))}
    return [found[number] for number in sorted(found)]


def read_parts(folder: Path) -> Iterator[tuple[EnvironmentDescription, Arrays]]:
    """Part after part, with the environment that it says it comes from."""
    for path in parts_of(folder):
        header, arrays = load_file(path)
        if header.get("kind") != "log" or not isinstance(header.get("environment"), dict):
            raise ValueError(f"{path} is not a part of a log")
        try:
            yield EnvironmentDescription.from_json(header["environment"]), arrays
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None


class Recorder(gymnasium.Wrapper):
    """Passes everything through, and keeps it in `folder`; `close` (or a `with` block) writes what is left.

    phi: as for `learn`, where the features are not the environment's own reward; that reward is passed on as it is.
    steps_per_part, seconds_per_part: when a part is written, whichever comes first.
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

        super().__init__(env)
        self.folder, self._phi = Path(folder), phi
        self._most = checks.whole("steps_per_part", steps_per_part)
        self._longest = checks.number("seconds_per_part", seconds_per_part, 0.0)
        features = FeatureEnvironment(env, phi)
        self._encoder, self.description = features.encoder, features.describe()
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"folder must be a folder for a log; {self.folder} is a file")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / "lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(
                f"folder must be for one recorder at a time; another one writes to {self.folder}"
            ) from None
        try:
            self._part, self._episode = self._go_on()
        except BaseException:
            self._lock.release()
            raise
        self._rows: list[tuple[Any, ...]] = []
        self._since, self._obs, self._names_failures = time.monotonic(), None, False

    def _go_on(self) -> tuple[int, int]:
        """The numbers of the next part and episode; another environment than before is refused."""
        last = parts_of(self.folder)[-1:]
        if not last:
            return 0, 0
        header, arrays = load_file(last[0])
        recorded = EnvironmentDescription.from_json(header["environment"])
        different = recorded.difference(self.description)
        if different is not None:
            before, now = getattr(recorded, different), getattr(self.description, different)
            raise ValueError(
                f"{self.folder} is a log of another environment: its {different} was {before!r:.60}, now {now!r:.60}"
            )
        match = PART.fullmatch(last[0].name)
        assert match is not None
        return int(match[1]) + 1, int(arrays["episode"].max(initial=-1)) + 1

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode; one that was not over is cut off."""
        if self._obs is not None:
            self._episode += 1
        obs, info = self.env.reset(seed=seed, options=options)
        self._obs = copy.deepcopy(obs)  # an environment may write its next observation into the same array
        self._names_failures |= "failure" in info
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """The environment's step, kept."""
        if self._obs is None:
            raise ValueError("no episode is running: call reset() before step()")
        obs, reward, terminated, truncated, info = self.env.step(action)
        phi = numbers_of(reward if self._phi is None else self._phi(self._obs, action, obs, info))
        if phi.shape != (self.description.n_features,):
            raise ValueError(wrong_features(phi.shape, self.description.n_features, self._phi))
        self._names_failures |= "failure" in info
        ends = (bool(terminated), bool(truncated), bool(info.get("failure", False)))
        keys = self._encoder.key(self._obs), self._encoder.key(obs)
        self._rows.append((*keys, int(action) - self.description.first_action, phi, *ends, self._episode))
        self._obs = copy.deepcopy(obs)
        if terminated or truncated:
            self._episode, self._obs = self._episode + 1, None
        if len(self._rows) >= self._most or time.monotonic() - self._since > self._longest:
            self.flush()
        return obs, reward, terminated, truncated, info

    def flush(self) -> None:
        """Write the steps since the last part."""
        if self._rows:
            obs, next_obs, action, phi, *flags, episode = zip(*self._rows, strict=True)
            arrays: Arrays = {"obs": np.array(obs), "next_obs": np.array(next_obs), "phi": np.array(phi)}
            arrays |= {"action": np.array(action, np.int32), "episode": np.array(episode, np.int64)}
            arrays |= {name: np.array(flag) for name, flag in zip(_FLAGS, flags, strict=True)}
            if not self._names_failures:
                del arrays["failure"]
            header = {"kind": "log", "environment": self.description.to_json()}
            save_file(self.folder / f"part-{self._part:06d}.rasf", header, arrays)
            self._part, self._rows = self._part + 1, []
        self._since = time.monotonic()

    def close(self) -> None:
        """Write what is left, and close the environment."""
        if self._lock.is_locked:
            self.flush()
            self._lock.release()
        super().close()
