"""`Log`: recorded transitions, checked, and how much of the states and actions they cover."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.envs.gymnasium.encoder import Encoder

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import Environment, Phi

MAX_BYTES = 2**30  # that a file of a log may declare, unless its reader says otherwise
_RECUR = 1.1  # visits a state, below which nothing can be learned by a table
_LARGEST_PHI = 1e100  # beyond it variances would not be finite
_FEW = 100  # steps, of which nothing can be said


@dataclass(frozen=True, repr=False)
class Log:
    """N transitions in episodes, one after the other; made by `Log.read`.

    obs, next_obs: (N, n) the numbers of an observation. actions: (N,) from 0. phi: (N, d) features. terminated: (N,),
    nothing follows. episode: (N,). failure: (N,), where failures are named.
    """

    environment: EnvironmentDescription
    obs: Floats
    actions: Ints
    phi: Floats
    next_obs: Floats
    terminated: Bools
    episode: Ints
    failure: Bools | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be a log, with the row where it shows."""
        n, known = len(self.actions), self.environment
        if n == 0:
            raise ValueError("a log must have one transition at least, got none")
        size = Encoder(known.observations).size
        for name, width in (("obs", size), ("next_obs", size), ("phi", known.n_features)):
            part = getattr(self, name)
            if part.shape != (n, width):
                raise ValueError(f"{name} must have shape ({n}, {width}), got {part.shape}")
            most = _LARGEST_PHI if name == "phi" else np.finfo(np.float64).max
            wrong = np.flatnonzero(~((part >= -most) & (part <= most)).all(axis=1))
            if len(wrong):
                wanted = "finite" if name != "phi" else f"finite and at most {most:g} in size"
                raise ValueError(
                    f"{name} must be {wanted}; row {wrong[0]} of the log is not: {part[wrong[0]].tolist()!r:.80}"
                )
        outside = np.flatnonzero((self.actions < 0) | (self.actions >= known.n_actions))
        if len(outside):
            first = known.first_action
            raise ValueError(
                f"actions must be {first} to {first + known.n_actions - 1}; row {outside[0]} of the log has "
                f"{self.actions[outside[0]] + first}"
            )
        self._check_episodes()

    def _check_episodes(self) -> None:
        ends = self.last
        began = np.sort(self.episode[self.first])
        again = began[1:][began[1:] == began[:-1]]
        if len(again):
            raise ValueError(f"the steps of an episode must follow one another; episode {again[0]} comes back")
        early = np.flatnonzero(self.terminated & ~ends)
        if len(early):
            raise ValueError(f"nothing can follow the end of an episode; row {early[0]} of the log terminated")
        holes = np.flatnonzero(~ends[:-1] & (self.next_obs[:-1] != self.obs[1:]).any(axis=1))
        if len(holes):
            raise ValueError(
                f"the log has a hole after row {holes[0]}: the next step of episode {self.episode[holes[0]]} begins "
                "elsewhere; mark a cut as truncated, or as another episode"
            )

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        return f"<Log: {len(self)} steps in {self.episodes} episodes of {self.environment.title}>"

    @property
    def last(self) -> Bools:
        """Which transitions (N,) are the last of their episode."""
        return np.append(self.episode[1:] != self.episode[:-1], True)

    @property
    def first(self) -> Bools:
        """Which transitions (N,) are the first of their episode."""
        return np.append(True, self.last[:-1])

    @property
    def episodes(self) -> int:
        return int(self.last.sum())

    @staticmethod
    def read(
        data: object, *, env: Environment | None = None, phi: Phi | None = None, max_bytes: int = MAX_BYTES
    ) -> Log:
        """Read a log.

        Args:
            data: a recorder's folder, a .npz or .parquet file, "minari:ID" or a Minari dataset, a dict of arrays, or a
                log.
            env: an id or an environment that the log must come from; by default that which the log names, if any.
            phi: phi(obs, action, next_obs, info), where the log has no features.
            max_bytes: the most memory that the numbers of a file may take, 1 GiB by default. A file that declares more
                is refused before it is read; reading takes a few times as much for a moment.

        Returns:
            The log, checked.

        Raises:
            ValueError: `data` is not a log, is damaged or larger than `max_bytes`, or is of another environment.
            FileNotFoundError: there is no such file.
        """
        from rasf.library.logs.formats import read

        return read(data, env=env, phi=phi, max_bytes=max_bytes)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the log, whole or not at all.

        Args:
            path: a file that ends in .npz or .parquet.

        Raises:
            ValueError: `path` ends otherwise or cannot be a file.
            OSError: the file cannot be written; the error names it.
        """
        from rasf.library.logs.formats import save

        save(self, path)

    def coverage(self) -> Coverage:
        """What the log can tell."""
        return States.of(self).coverage(self)


@dataclass(frozen=True)
class States:
    """The states of a log: their keys (S, n), and the row of every transition's state and successor, -1 for an end."""

    keys: Floats
    row: Ints
    next_row: Ints

    @classmethod
    def of(cls, log: Log) -> States:
        """Numbered by their numbers, in order."""
        follows = ~log.terminated
        keys, which = np.unique(np.concatenate([log.obs, log.next_obs[follows]]) + 0.0, axis=0, return_inverse=True)
        which = which.ravel()
        next_row = np.full(len(log), -1)
        next_row[follows] = which[len(log) :]
        return cls(keys, which[: len(log)], next_row)

    def tries(self, log: Log) -> Ints:
        """How often each action was taken in each state (S, A)."""
        A = log.environment.n_actions
        return np.bincount(self.row * A + log.actions, minlength=len(self.keys) * A).reshape(-1, A)

    def coverage(self, log: Log) -> Coverage:
        """What the log can tell."""
        A = log.environment.n_actions
        tries = np.unique(self.row * A + log.actions, return_counts=True)[1]  # of the pairs that were tried at all
        visits = np.bincount(self.row, minlength=len(self.keys))
        pairs = A * int((visits > 0).sum())
        return Coverage(
            steps=len(log),
            episodes=log.episodes,
            states=len(self.keys),
            once=int((visits == 1).sum()),
            never_left=int((visits == 0).sum()),
            untried=(pairs - len(tries)) / pairs,
            tried_once=int((tries == 1).sum()) / pairs,
            most_tries=int(tries.max()),
        )

    def check_recurring(self, log: Log) -> None:
        """Refuse a log whose states hardly ever come back."""
        states = len(np.unique(self.row))
        if _FEW <= len(log) < _RECUR * states:
            wanted = "the observations of a log must recur for a table to learn"
            raise ValueError(f"{wanted}: {len(log)} steps were in {states} different states")


@dataclass(frozen=True)
class Coverage:
    """What a log can tell: how many states, how much of them was tried.

    once: states visited once. never_left: states that were only arrived at. untried, tried_once: shares of the actions
    of visited states.
    """

    steps: int
    episodes: int
    states: int
    once: int
    never_left: int
    untried: float
    tried_once: float
    most_tries: int

    def __str__(self) -> str:
        return (
            f"the log has {self.steps:,} steps in {self.episodes:,} episodes and {self.states:,} states, {self.once:,} "
            f"of them visited once and {self.never_left:,} never left; of the actions in visited states "
            f"{self.untried:.0%} were never tried and {self.tried_once:.0%} once"
        )


def plain_description(n: int, actions: int, features: int, first_action: int = 0) -> EnvironmentDescription:
    """Of an environment of which only arrays are known: n numbers an observation, any."""
    space = {"kind": "box", "shape": [n], "dtype": "float64", "low": None, "high": None}
    return EnvironmentDescription(None, {}, space, actions, first_action, features, None, None, None)


def as_array(name: str, given: object) -> np.ndarray:
    """What was given as an array, unless it is ragged or has masked entries."""
    if np.ma.is_masked(given):
        raise ValueError(f"{name} must have no masked entries; leave out the transitions whose numbers are missing")
    try:
        return np.asarray(given)
    except ValueError:
        raise ValueError(f"{name} must be an array, got a ragged {type(given).__name__}") from None


def as_floats(array: np.ndarray) -> Floats:
    """Numbers as float64, infinite where they are too large for it."""
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def as_flags(name: str, given: npt.ArrayLike, n: int) -> Bools:
    """An array of flags (n,)."""
    flags = as_array(name, given)
    if flags.shape != (n,) or flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise ValueError(f"{name} must be {n} flags, true or false, got {flags.dtype} of shape {flags.shape}")
    return flags.astype(np.bool_)


def whole_numbers(name: str, given: npt.ArrayLike, n: int | None, largest: int) -> Ints:
    """An array of whole numbers (n,), or of any length where n is None, each at most `largest` in size."""
    found, wanted = as_array(name, given), f"{name} must be {'' if n is None else f'{n} '}whole numbers"
    if found.ndim != 1 or n not in (None, len(found)) or found.dtype.kind not in "iuf":
        raise ValueError(f"{wanted}, one a transition, got {found.dtype} of shape {found.shape}")
    wrong = np.flatnonzero(~((found == np.rint(found)) & (found >= -largest) & (found <= largest)))
    if len(wrong):
        raise ValueError(f"{wanted} from {-largest} to {largest}; row {wrong[0]} of the log has {found[wrong[0]]}")
    return found.astype(np.int64)
