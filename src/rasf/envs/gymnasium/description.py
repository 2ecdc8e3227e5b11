"""Descriptions of training environments in the files of libraries; a description can be read without Gymnasium."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from reprlib import repr as short

import numpy as np

from rasf.arrays import Floats32
from rasf.envs.gymnasium.actions import Actions, BoxActions, DiscreteActions
from rasf.envs.gymnasium.file_settings import refused
from rasf.envs.gymnasium.spaces import describe_box
from rasf.files import Header
from rasf.world import World, action_size

_MOST = 2**53
_NOTHING = type(None)
# policies can act in another environment if these fields are equal
INTERFACE = ("observations", "n_actions", "box", "n_features")
# the types of the fields in a file; whole numbers are at least 1, but first_action may be any whole number, and
# n_actions must be 0 if there is a box
_JSON: dict[str, tuple[type, ...]] = {
    "id": (str, _NOTHING),
    "kwargs": (dict,),
    "observations": (dict,),
    "n_actions": (int,),
    "first_action": (int,),
    "n_features": (int,),
    "bounds": (list, _NOTHING),
    "phi": (str, _NOTHING),
    "max_episode_steps": (int, _NOTHING),
}
_LATER = {"feature_names": (list, _NOTHING), "box": (dict, _NOTHING)}  # fields that older files do not have


@dataclass(frozen=True)
class EnvironmentDescription:
    """The properties of an environment that its policies depend on.

    Attributes:
        id: The id given to `gymnasium.make`, or None.
        kwargs: The keyword arguments given to `gymnasium.make`; "<type>" stands for a value that JSON cannot store.
        observations: The observation space, as `rasf.envs.gymnasium.spaces.describe` returns it.
        n_actions: The number of actions; 0 if actions are vectors.
        first_action: The number in the environment's action space that action 0 stands for.
        n_features: The number d of features.
        bounds: Lowest and highest value of each feature in a step; None unless all features have declared bounds.
        phi: The name of the function that computed the features; None if they are the environment's own reward.
        max_episode_steps: The time limit in Gymnasium's registration, None if there is none.
        feature_names: The declared names of the features, None if there are none. Default: None.
        box: The bounds, shape and type of the actions if they are vectors, else None. Default: None.
        from_file: Whether the description was read from a file, which is not trusted. Default: False.
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
    box: BoxActions | None = None
    from_file: bool = field(default=False, compare=False, repr=False)

    @property
    def actions(self) -> Actions:
        """The actions of the environment."""
        return DiscreteActions(self.n_actions, self.first_action) if self.box is None else self.box

    @property
    def title(self) -> str:
        return self.id or "an environment without id"

    def make_kwargs(self, **changes: object) -> Header:
        """Return the keyword arguments of `gymnasium.make` that make this environment again.

        All settings from a file pass through this method before they reach `gymnasium.make`. Only settings that
        `rasf.envs.gymnasium.file_settings` accepts are taken from a file.

        Args:
            changes: settings of the user, which replace those of the description.

        Returns:
            The keyword arguments. For a description from a file, arguments with the same value as in the registration
            of the id are left out.

        Raises:
            ValueError: if the file could not store the value of a setting, or has a setting that only users may choose.
        """
        limit = {} if self.max_episode_steps is None else {"max_episode_steps": self.max_episode_steps}
        kept = {name: value for name, value in self.kwargs.items() if name not in changes}
        lost = [name for name, value in kept.items() if isinstance(value, str) and value.startswith("<")]
        if lost:
            raise ValueError(
                "env must be an environment or a function that makes one: the library could not store the value of "
                f"{', '.join(lost)}"
            )
        if self.from_file and self.id is not None:
            kept = self._accepted(self.id, kept)
        return kept | limit | changes

    def _accepted(self, env_id: str, settings: Header) -> Header:
        from rasf.envs.registration import registered_kwargs

        if ":" in env_id:  # Gymnasium would import the module before the colon
            raise ValueError(f"env must be given by you: the file's id names a module to import, {env_id!r:.60}")
        registered = registered_kwargs(env_id)
        changed = {
            name: value
            for name, value in settings.items()
            if name not in registered or plain(registered[name]) != value
        }
        found = refused(env_id, changed)
        if found is not None:
            raise ValueError(
                f"the file sets {found[0]} of {env_id} to {short(found[1])}, and rasf does not take this setting "
                "from a file: set it yourself by env_kwargs (--env-arg), or give env as an object"
            )
        return changed

    def difference(self, other: EnvironmentDescription, names: Iterable[str] | None = None) -> str | None:
        """Return the name of the first field in which two descriptions differ, None if they are equal.

        Args:
            other: the other description.
            names: names of the fields to compare. Default: all fields except `feature_names`.
        """
        return next((name for name in names or (*_JSON, "box") if getattr(self, name) != getattr(other, name)), None)

    def to_json(self) -> Header:
        """Return the description as JSON, for the header of a file."""
        bounds = None if self.bounds is None else [list(ends) for ends in self.bounds]
        names = {} if self.feature_names is None else {"feature_names": list(self.feature_names)}
        box = {} if self.box is None else {"box": self.box.to_json()}
        return {name: getattr(self, name) for name in _JSON} | {"bounds": bounds} | names | box

    @classmethod
    def from_json(cls, header: Header) -> EnvironmentDescription:
        """Return the description in the header of a file, which is not trusted.

        Args:
            header: the JSON of a description. All fields are checked here, except the content of
                `observations`, which `Encoder` checks.

        Raises:
            ValueError: if a field is wrong.
            KeyError: if a field is missing.
        """
        for name, kinds in (_JSON | _LATER).items():
            value = header.get(name) if name in _LATER else header[name]
            vectors = name == "n_actions" and header.get("box") is not None
            least, most = (-_MOST if name == "first_action" else 1 - vectors), _MOST * (not vectors)
            if type(value) not in kinds or (type(value) is int and not least <= value <= most):
                raise ValueError(f"the {name} of its environment cannot be {value!r:.60}")
        if ":" in (header["id"] or ""):  # Gymnasium would import the module before the colon
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
                raise ValueError(f"the feature_names of its environment must be different strings, got {names!r:.60}")
            names = tuple(names)
        known: Header = {name: header[name] for name in _JSON}
        box = None if header.get("box") is None else BoxActions.from_json(header["box"])
        return cls(**known | {"bounds": bounds, "feature_names": names, "box": box, "from_file": True})


def world_description(world: World) -> EnvironmentDescription:
    """Return the description of a world; its id is None if the world is not in Gymnasium's registry."""
    bounds = np.asarray(world.feature_bounds, np.float32).tolist()
    env_id, kwargs = getattr(world, "registered", (None, {}))
    names, size = getattr(world, "feature_names", None), action_size(world)
    return EnvironmentDescription(
        id=env_id,
        kwargs={name: plain(value) for name, value in kwargs.items()},
        observations=describe_box(*observation_bounds(world)),
        n_actions=world.n_actions,
        first_action=0,
        n_features=len(bounds),
        bounds=tuple((lowest, highest) for lowest, highest in bounds),
        phi=None,
        max_episode_steps=None,
        feature_names=None if names is None else tuple(names),
        box=None if not size else BoxActions((-1.0,) * size, (1.0,) * size, (size,), "float32"),
    )


def observation_bounds(world: World) -> tuple[Floats32, Floats32]:
    """Return the lowest and highest observations (n,) of a world; infinite if the world declares no bounds."""
    unbounded = np.tile([-np.inf, np.inf], (world.observation_size, 1))
    low, high = np.asarray(getattr(world, "observation_bounds", unbounded), np.float32).T
    return low, high


def plain(value: object) -> object:
    """Return a value as JSON would restore it (a tuple becomes a list), or "<type>" if it cannot be stored as JSON."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"


def spec_fields(spec: object, phi: object) -> Header:
    """Return the fields of a description that come from Gymnasium's `EnvSpec` and from phi; both may be None."""
    return {
        "id": getattr(spec, "id", None),
        "kwargs": {str(name): plain(value) for name, value in getattr(spec, "kwargs", {}).items()},
        "phi": None if phi is None else getattr(phi, "__name__", type(phi).__name__),
        "max_episode_steps": getattr(spec, "max_episode_steps", None),
    }
