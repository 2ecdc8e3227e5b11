"""What a library says of the environment it was trained in; importable, and read from files, without Gymnasium."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from rasf.files import Header

_MOST = 2**53
_NOTHING = type(None)
INTERFACE = ("observations", "n_actions", "n_features")  # what must agree for policies to act in an environment
_JSON: dict[str, tuple[tuple[type, ...], int, int]] = {  # types in a file, and the range of whole numbers
    "id": ((str, _NOTHING), 0, 0),
    "kwargs": ((dict,), 0, 0),
    "observations": ((dict,), 0, 0),
    "n_actions": ((int,), 1, _MOST),
    "first_action": ((int,), -_MOST, _MOST),
    "n_features": ((int,), 1, _MOST),
    "bounds": ((list, _NOTHING), 0, 0),
    "phi": ((str, _NOTHING), 0, 0),
    "max_episode_steps": ((int, _NOTHING), 1, _MOST),
    "feature_names": ((list, _NOTHING), 0, 0),
}
_LATER = ("feature_names",)  # which older files do not have


@dataclass(frozen=True)
class EnvironmentDescription:
    """An environment as its policies know it.

    id, kwargs: what `gymnasium.make` was given; None without an id, and "<type>" for a value that is not JSON.
    observations: the space, as `rasf.envs.gymnasium.spaces.describe` writes it. first_action: the environment's own
    number of action 0. bounds: lowest and highest of each feature in a step, where all are declared. phi: the name of
    the function that computed the features; None if they are the environment's own reward. feature_names: what they are
    called, where somebody says.
    """

    id: str | None
    kwargs: Header
    observations: Header
    n_actions: int
    first_action: int
    n_features: int
    bounds: tuple[tuple[float, float], ...] | None
    phi: str | None
    max_episode_steps: int | None
    feature_names: tuple[str, ...] | None = None

    @property
    def title(self) -> str:
        return self.id or "an environment without id"

    def make_kwargs(self, **changes: object) -> Header:
        """The settings that make this environment again, or one that differs in some of them."""
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        settings = self.kwargs | limit | changes
        lost = [name for name, value in settings.items() if isinstance(value, str) and value.startswith("<")]
        if lost:
            raise ValueError(
                f"env must be an environment or a function that makes one: the library could not keep {', '.join(lost)}"
            )
        return settings

    def difference(self, other: EnvironmentDescription, names: Iterable[str] | None = None) -> str | None:
        """The first field, of all or of those named, in which two descriptions differ."""
        compared = [field.name for field in fields(self) if field.name not in _LATER] if names is None else names
        return next((name for name in compared if getattr(self, name) != getattr(other, name)), None)

    def to_json(self) -> Header:
        """As a file's header has it."""
        found = {name: getattr(self, name) for name in _JSON}
        bounds = None if self.bounds is None else [list(ends) for ends in self.bounds]
        names = {} if self.feature_names is None else {"feature_names": list(self.feature_names)}
        return {name: found[name] for name in found if name not in _LATER} | {"bounds": bounds} | names

    @classmethod
    def from_json(cls, header: Mapping[str, Any]) -> EnvironmentDescription:
        """What `to_json` wrote, or a stranger: all but the observations, which their `Encoder` checks, is checked."""
        for name, (kinds, least, most) in _JSON.items():
            value = header.get(name) if name in _LATER else header[name]
            if type(value) not in kinds or (type(value) is int and not least <= value <= most):
                raise ValueError(f"the {name} of its environment cannot be {value!r:.60}")
        if ":" in (header["id"] or ""):  # Gymnasium would import what stands before it
            raise ValueError(f"its environment's id must not name a module, got {header['id']!r:.60}")
        bounds = header["bounds"]
        if bounds is not None:
            if any(type(ends) is not list or len(ends) != 2 or {*map(type, ends)} - {int, float} for ends in bounds):
                raise ValueError(f"the bounds of its environment must be pairs of numbers, got {bounds!r:.60}")
            bounds = tuple(map(tuple, bounds))
        names = header.get("feature_names")
        if names is not None:
            each = all(type(name) is str for name in names)
            if not each or not len(names) == len({*names}) == header["n_features"]:
                raise ValueError(f"the feature_names of its environment must be a word for each, got {names!r:.60}")
            names = tuple(names)
        known: dict[str, Any] = {name: header[name] for name in _JSON if name not in _LATER}
        return cls(**known | {"bounds": bounds, "feature_names": names})


def plain(value: object) -> Any:
    """A value as JSON gives it back (a tuple becomes a list); "<type>" where it cannot be written."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"
