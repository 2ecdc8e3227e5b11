"""What an environment, its wrappers or phi declare of the features, by attributes:

    signs            (d,) of the weights that make sense: 1 (more is better), -1 (a cost), 0 (either)
    feature_names    d different words
    events           indices of the features that occur at most once an episode
    random_tasks     random_tasks(count, rng), weights (count, d) from the environment's own distribution

Each is looked up in `owners`, outermost first: the wrappers down to the one that makes the reward. What lies below that
wrapper describes another reward, so it is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.checks import is_whole, task_weights

_MAXIMISED = "mo_gymnasium"  # in this package's environments costs are negative, so that more of each is better


def declared(owners: Sequence[object], name: str) -> Any:
    """Return the outermost attribute of this name that is not None; None where no owner has one."""
    return next((found for owner in owners if (found := getattr(owner, name, None)) is not None), None)


def declared_signs(owners: Sequence[object], n_features: int) -> Ints | None:
    """Return the declared signs (d,), or 1 for each feature of MO-Gymnasium's environments; None where unknown.

    Raises:
        ValueError: if the attribute `signs` is not -1, 0 or 1 for each feature.
    """
    found = declared(owners, "signs")
    if found is None:
        innermost = type(owners[-1]).__module__.partition(".")[0]
        return np.ones(n_features, np.int64) if innermost == _MAXIMISED else None
    return checked_signs(found, n_features)


def checked_signs(given: Any, n_features: int) -> Ints:
    """Return signs (d,) as integers, or refuse them."""
    try:
        signs = np.asarray(given)
    except ValueError:  # ragged
        signs = np.zeros(0)
    if signs.shape != (n_features,) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(f"signs must be {n_features} numbers, each 1, -1, or 0 for either, got {given!r:.60}")
    return signs.astype(np.int64)


def declared_names(owners: Sequence[object], n_features: int) -> tuple[str, ...] | None:
    """Return the declared feature names; None where there are none.

    Raises:
        ValueError: if the attribute `feature_names` is not d different words.
    """
    found = declared(owners, "feature_names")
    if found is None:
        return None
    listed = isinstance(found, list | tuple | np.ndarray) and all(isinstance(name, str) for name in found)
    if not listed or len(found) != n_features or len({*found}) < n_features:
        raise ValueError(f"feature_names must be {n_features} different words, got {found!r:.60}")
    return tuple(map(str, found))


def declared_events(owners: Sequence[object], n_features: int) -> tuple[int, ...]:
    """Return the indices of the features that are declared to occur at most once an episode.

    Raises:
        ValueError: if the attribute `events` does not list different indices of features.
    """
    found = declared(owners, "events")
    if found is None:
        return ()
    listed = isinstance(found, list | tuple | np.ndarray) and all(is_whole(i) and 0 <= i < n_features for i in found)
    if not listed or len({*found}) < len(found):
        raise ValueError(
            f"the environment's attribute events must list different indices of its {n_features} features, from 0, got "
            f"{found!r:.60}"
        )
    return tuple(map(int, found))


def declared_tasks(owners: Sequence[object], n_features: int, count: int, rng: np.random.Generator) -> Floats | None:
    """Return weights (count, d) from the declared distribution of tasks; None where there is none.

    Raises:
        ValueError: if the attribute `random_tasks` is no function or does not return such weights.
    """
    draw: Callable[[int, np.random.Generator], Any] | None = declared(owners, "random_tasks")
    if draw is None:
        return None
    name = "the environment's random_tasks"
    if not callable(draw):
        raise ValueError(f"{name} must be a function random_tasks(count, rng), got {type(draw).__name__}")
    found = task_weights(name, draw(count, rng), n_features)
    if len(found) != count:
        raise ValueError(f"{name} must return weights of shape ({count}, {n_features}), got shape {found.shape}")
    return found
