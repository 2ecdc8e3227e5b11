"""`Log`: recorded transitions, which are checked, and how many states and actions they cover."""

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

MAX_BYTES = 2**30  # default of the largest number of bytes that a log file may declare
_RECUR = 1.1  # a table can learn only if a state is visited at least this often on average
_LARGEST_PHI = 1e100  # the variances of larger features would overflow
_FEW = 100  # logs with fewer steps are not checked for recurring states


@dataclass(frozen=True, repr=False)
class Log:
    """N recorded transitions, episode by episode; made by `Log.read`.

    Attributes:
        environment: Description of the environment that the transitions come from.
        obs: Observations (N, n) as numbers.
        actions: Actions (N,), counted from 0.
        phi: Features (N, d).
        next_obs: Next observations (N, n).
        terminated: Whether each step terminated its episode (N,).
        episode: Number of the episode to which each step belongs (N,).
        failure: Whether each step was a failure (N,); None if the log does not record failures.
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
        """Check shapes, ranges and episodes; error messages give the first wrong row."""
        n, known = len(self.actions), self.environment
        if n == 0:
            raise ValueError("a log must have at least one transition, got none")
        size = Encoder(known.observations).size
        for name, width in (("obs", size), ("next_obs", size), ("phi", known.n_features)):
            part = getattr(self, name)
            if part.shape != (n, width):
                raise ValueError(f"{name} must have shape ({n}, {width}), got {part.shape}")
            most = _LARGEST_PHI if name == "phi" else np.finfo(np.float64).max
            wrong = np.flatnonzero(~((part >= -most) & (part <= most)).all(axis=1))
            if len(wrong):
                wanted = "finite" if name != "phi" else f"finite and at most {most:g} in absolute value"
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
            raise ValueError(f"the steps of an episode must be consecutive; other steps interrupt episode {again[0]}")
        early = np.flatnonzero(self.terminated & ~ends)
        if len(early):
            raise ValueError(
                f"terminated can be true only in an episode's last step; row {early[0]} of the log is an earlier step"
            )
        holes = np.flatnonzero(~ends[:-1] & (self.next_obs[:-1] != self.obs[1:]).any(axis=1))
        if len(holes):
            raise ValueError(
                f"next_obs must be the obs of the next row within an episode, but row {holes[0]} of the log, in "
                f"episode {self.episode[holes[0]]}, has another next_obs; mark the row "
                "before a gap as truncated, or give the rows after it another episode number"
            )

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        return f"<Log: {len(self)} steps in {self.episodes} episodes of {self.environment.title}>"

    @property
    def last(self) -> Bools:
        """Whether each transition is the last of its episode (N,)."""
        return np.append(self.episode[1:] != self.episode[:-1], True)

    @property
    def first(self) -> Bools:
        """Whether each transition is the first of its episode (N,)."""
        return np.append(True, self.last[:-1])

    @property
    def episodes(self) -> int:
        return int(self.last.sum())

    @staticmethod
    def read(
        data: object, *, env: Environment | None = None, phi: Phi | None = None, max_bytes: int = MAX_BYTES
    ) -> Log:
        """Read and check a log.

        Args:
            data: A `Recorder`'s folder, a .npz or .parquet file, "minari:ID" or a Minari dataset, a dict of arrays, or
                a `Log`.
            env: The id of the environment that the log must come from, or an environment. Default: none, which accepts
                any environment.
            phi: `phi(obs, action, next_obs, info)` gives the features (d,), for a log without features. Default: none.
            max_bytes: Largest memory in bytes for the numbers of a file. This is checked before the file is read. While
                a file is read, a few times this memory is needed for a short time. Default: 1 GiB.

        Returns:
            The log.

        Raises:
            ValueError: `data` is not a log, is damaged, is larger than `max_bytes`, or comes from another environment.
            FileNotFoundError: The file does not exist.
        """
        from rasf.library.logs.formats import read

        return read(data, env=env, phi=phi, max_bytes=max_bytes)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the log to a file. If writing fails, an existing file is unchanged.

        Args:
            path: A file name that ends in .npz or .parquet.

        Raises:
            ValueError: `path` has another ending or cannot be a file.
            OSError: The file cannot be written; the error names the file.
        """
        from rasf.library.logs.formats import save

        save(self, path)

    def coverage(self) -> Coverage:
        """Return how many states and actions the log covers."""
        return States.of(self).coverage(self)


@dataclass(frozen=True)
class States:
    """The distinct states of a log.

    Attributes:
        keys: Observations (S, n) of the states, in lexicographic order.
        row: Index of each transition's state (N,).
        next_row: Index of each transition's next state (N,); -1 if the transition terminated the episode.
    """

    keys: Floats
    row: Ints
    next_row: Ints

    @classmethod
    def of(cls, log: Log) -> States:
        """Return the states of a log."""
        follows = ~log.terminated
        keys, which = np.unique(np.concatenate([log.obs, log.next_obs[follows]]) + 0.0, axis=0, return_inverse=True)
        which = which.ravel()
        next_row = np.full(len(log), -1)
        next_row[follows] = which[len(log) :]
        return cls(keys, which[: len(log)], next_row)

    def tries(self, log: Log) -> Ints:
        """Return how often each action was taken in each state (S, A)."""
        A = log.environment.n_actions
        return np.bincount(self.row * A + log.actions, minlength=len(self.keys) * A).reshape(-1, A)

    def coverage(self, log: Log) -> Coverage:
        """Return how many states and actions the log covers."""
        A = log.environment.n_actions
        # the number of tries of each pair of state and action with at least one try
        tries = np.unique(self.row * A + log.actions, return_counts=True)[1]
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
        """Raise ValueError if the states of a log hardly ever recur."""
        states = len(np.unique(self.row))
        if _FEW <= len(log) < _RECUR * states:
            wanted = "the observations of a log must recur, so that a table can learn"
            raise ValueError(f"{wanted}, got {len(log)} steps in {states} different states")


@dataclass(frozen=True)
class Coverage:
    """How many states and actions a log covers.

    Attributes:
        steps: Number of transitions.
        episodes: Number of episodes.
        states: Number of distinct states.
        once: Number of states with exactly one recorded action.
        never_left: Number of states without a recorded action, which occur only at the end of an episode.
        untried: Share of state-action pairs that were never tried, among states with a recorded action.
        tried_once: Share of state-action pairs that were tried once, among states with a recorded action.
        most_tries: Largest number of tries of a state-action pair.
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
            f"of them with one recorded action and {self.never_left:,} with none; of all actions in the states with a "
            f"recorded action, {self.untried:.0%} were never tried and {self.tried_once:.0%} were tried once"
        )


def plain_description(n: int, actions: int, features: int, first_action: int = 0) -> EnvironmentDescription:
    """Return the description of an environment that is known only from the arrays of a log.

    Args:
        n: Size of an observation. Its numbers have no bounds.
        actions: Number of actions.
        features: Number of features.
        first_action: The number that the environment gives to the action that logs count as 0. Default: 0.

    Returns:
        The description, without an id.
    """
    space = {"kind": "box", "shape": [n], "dtype": "float64", "low": None, "high": None}
    return EnvironmentDescription(None, {}, space, actions, first_action, features, None, None, None)


def as_array(name: str, given: object) -> np.ndarray:
    """Convert to an array; raise ValueError for ragged lists and masked entries."""
    if np.ma.is_masked(given):
        raise ValueError(f"{name} must have no masked entries; leave out transitions with missing numbers")
    try:
        return np.asarray(given)
    except ValueError:
        raise ValueError(f"{name} must be an array, got a ragged {type(given).__name__}") from None


def as_floats(array: np.ndarray) -> Floats:
    """Convert to float64; numbers beyond the range of float64 become infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def as_flags(name: str, given: npt.ArrayLike, n: int) -> Bools:
    """Convert to an array of flags (n,)."""
    flags = as_array(name, given)
    if flags.shape != (n,) or flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise ValueError(f"{name} must be {n} flags, true or false, got {flags.dtype} of shape {flags.shape}")
    return flags.astype(np.bool_)


def whole_numbers(name: str, given: npt.ArrayLike, n: int | None, largest: int) -> Ints:
    """Convert to an array (n,) of whole numbers in [-largest, largest]; if n is None, of any length."""
    found, wanted = as_array(name, given), f"{name} must be {'' if n is None else f'{n} '}whole numbers"
    if found.ndim != 1 or n not in (None, len(found)) or found.dtype.kind not in "iuf":
        raise ValueError(f"{wanted}, one for each transition, got {found.dtype} of shape {found.shape}")
    wrong = np.flatnonzero(~((found == np.rint(found)) & (found >= -largest) & (found <= largest)))
    if len(wrong):
        raise ValueError(f"{wanted} from {-largest} to {largest}; row {wrong[0]} of the log has {found[wrong[0]]}")
    return found.astype(np.int64)
