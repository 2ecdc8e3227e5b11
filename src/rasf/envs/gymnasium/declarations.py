"""`FeatureSource`: declarations about the features, as attributes of an environment, of its wrappers, or of phi.

Phi is the function that computes the features of a step, if the features are not the environment's own reward.

    signs            signs (d,) of the weights: 1 (more is better), -1 (a cost), 0 (either sign)
    feature_names    d different words
    events           indices of rare features that are never negative, such as failures
    random_tasks     function random_tasks(count, rng) that returns weights (count, d) of tasks of the environment

Each attribute is searched in the outermost wrapper first, then in the wrappers inside it, down to the wrapper or
environment that makes the reward (`owners`). Objects further inside describe another reward, and are not searched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.checks import is_whole, task_weights
from rasf.envs.gymnasium.actions import Actions
from rasf.envs.gymnasium.encoder import Encoder

# in MO-Gymnasium, features that are costs are at most 0, so larger values of all features are better
_MAXIMISED = "mo_gymnasium"


def checked_signs(given: object, n_features: int) -> Ints:
    """Return signs (d,) as integers, or raise ValueError if they are not d numbers that are 1, -1 or 0."""
    try:
        signs = np.array(given)
    except ValueError:  # rows of different lengths
        signs = np.zeros(0)
    if signs.shape != (n_features,) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(f"signs must be {n_features} numbers, each 1, -1, or 0 for either sign, got {given!r:.60}")
    return signs.astype(np.int64)


def _entries(found: object) -> list[object] | None:
    """Return the entries of a list, a tuple or an array, or None for other values."""
    return [*found] if isinstance(found, list | tuple | np.ndarray) else None


class FeatureSource:
    """Base of single and vector environments with features. A wrong declaration raises ValueError."""

    encoder: Encoder
    actions: Actions
    declared_bounds: Floats  # (d, 2) bounds of the features in a step, infinite where none is declared
    owners: Sequence[object]  # objects with declarations, outermost first

    @property
    def n_actions(self) -> int:
        """The number of actions; 0 if actions are vectors."""
        return self.actions.n

    @property
    def n_features(self) -> int:
        return len(self.declared_bounds)

    @property
    def bounds(self) -> Floats | None:
        """Bounds (d, 2) of the features in a step, or None if a bound is not declared."""
        return self.declared_bounds if np.isfinite(self.declared_bounds).all() else None

    def _declared(self, name: str) -> object:
        """Return the attribute `name` of the outermost owner in which it is not None, or None if no owner has it."""
        return next((found for owner in self.owners if (found := getattr(owner, name, None)) is not None), None)

    @property
    def signs(self) -> Ints | None:
        """Signs (d,) of the weights: 1, -1, or 0 for either sign; None if the signs are not known."""
        found = self._declared("signs")
        if found is not None:
            return checked_signs(found, self.n_features)
        innermost = type(self.owners[-1]).__module__.partition(".")[0]
        return np.ones(self.n_features, np.int64) if innermost == _MAXIMISED else None

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The declared names of the features, or None."""
        found, d = self._declared("feature_names"), self.n_features
        if found is None:
            return None
        listed = _entries(found)
        names = [str(name) for name in listed or () if isinstance(name, str)]
        if listed is None or not len(listed) == len({*names}) == d:
            raise ValueError(f"feature_names must be {d} different words, got {found!r:.60}")
        return tuple(names)

    @property
    def events(self) -> tuple[int, ...]:
        """The indices of the features that are declared to be nonzero at most once per episode."""
        found, d = self._declared("events"), self.n_features
        if found is None:
            return ()
        listed = _entries(found)
        indices = [int(i) for i in listed or () if is_whole(i) and 0 <= i < d]
        if listed is None or len({*indices}) < len(listed):
            raise ValueError(
                f"the environment's attribute events must list different indices from 0 to {d - 1}, got {found!r:.60}"
            )
        return tuple(indices)

    def random_tasks(self, count: int, rng: np.random.Generator) -> Floats | None:
        """Return weights (count, d) from the environment's own `random_tasks`, None if it is not declared."""
        draw, name = self._declared("random_tasks"), "the environment's random_tasks"
        if draw is None:
            return None
        if not callable(draw):
            raise ValueError(f"{name} must be a function random_tasks(count, rng), got {type(draw).__name__}")
        found = task_weights(name, draw(count, rng), self.n_features)
        if len(found) != count:
            raise ValueError(
                f"{name} must return weights of shape ({count}, {self.n_features}), got shape {found.shape}"
            )
        return found
