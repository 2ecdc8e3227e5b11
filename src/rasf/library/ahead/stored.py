"""A library's own model in its file: the header entry `model`, and the arrays model/..

The entry `kind` is "networks" for a `LearnedModel`, and "counts" for a `CountedModel`. A file is not trusted: sizes,
types and numbers are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from rasf.checks import one_of, whole
from rasf.files import Arrays
from rasf.library.ahead.counted import CountedModel

OwnModel: TypeAlias = Any  # LearnedModel, which is imported only for networks because it needs jax, or CountedModel


def described(model: OwnModel) -> dict[str, object]:
    """Return what a file says of a model, as JSON."""
    if isinstance(model, CountedModel):
        return model.describe()
    form, parameters = model.form, model.parameters
    return {
        "kind": "networks", "observation": form.observation_size, "actions": form.n_actions,
        "action_size": form.action_size, "features": form.n_features, "events": list(form.events),
        "members": form.members, "widths": _widths(parameters.dynamics), "narrow": _widths(parameters.before),
    }  # fmt: skip


def arrays_of(model: OwnModel) -> Arrays:
    """Return the arrays of a model, by name."""
    if isinstance(model, CountedModel):
        return model.arrays()
    import jax

    return {_name(path): np.asarray(part) for path, part in jax.tree_util.tree_leaves_with_path(model.parameters)}


def restored(description: Mapping[str, object], arrays: Arrays) -> OwnModel:
    """Return the model that a file stores.

    Args:
        description: As `described` returns it.
        arrays: As `arrays_of` returns them.

    Raises:
        ValueError: An entry or an array is missing, invalid, or does not fit.
    """
    one_of("kind", description.get("kind"), ("networks", "counts"))
    kinds = {"networks": _restored_networks, "counts": CountedModel.restore}
    return kinds[str(description["kind"])](description, arrays)


def _restored_networks(description: Mapping[str, object], arrays: Arrays) -> OwnModel:
    import jax

    from rasf.library.ahead.fitting import parameters_like
    from rasf.library.ahead.learned import Form, LearnedModel
    from rasf.library.networks.policies import checked, sizes

    n, A, P, d, M = (
        whole(name, description.get(name), least)
        for name, least in (("observation", 1), ("actions", 0), ("action_size", 0), ("features", 1), ("members", 1))
    )
    events = description.get("events")
    if not isinstance(events, list) or sorted({*events}) != events or not all(e in range(d) for e in events):
        raise ValueError(f"events of its model must be increasing indices of the {d} features, got {events!r:.60}")
    if (A > 0) == (P > 0):
        raise ValueError(f"its model must have actions or an action_size, got {A} and {P}")
    form = Form(n, A, P, d, tuple(events), M)
    wanted = parameters_like(
        form, sizes("widths", description.get("widths")), sizes("narrow", description.get("narrow"))
    )
    found = jax.tree_util.tree_map_with_path(
        lambda path, leaf: checked(arrays, _name(path), leaf.shape, (np.dtype(np.float32),)), wanted
    )
    if len(arrays) != len(jax.tree.leaves(wanted)):
        raise ValueError(f"its model must have {len(jax.tree.leaves(wanted))} arrays, got {len(arrays)}")
    return LearnedModel(form, found)


def _widths(network: Any) -> list[int]:
    return [int(layer.bias.shape[1]) for layer in network.hidden]


def _name(path: tuple[Any, ...]) -> str:
    return "/".join(str(getattr(key, "name", getattr(key, "idx", key))) for key in path)
