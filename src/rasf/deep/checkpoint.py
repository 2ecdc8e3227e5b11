"""Checkpoints of nested arrays: safetensors, with names from the nesting, and a description that must match to load.

What was saved comes back bit for bit. A file of another configuration, or a damaged one, is refused in one sentence and
left as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.files import write_atomically

Tree = TypeVar("Tree")
History = dict[str, npt.NDArray[Any]]


def save(path: Path, tree: Any, history: History, description: dict[str, Any]) -> None:
    """Write the arrays of `tree` and of `history`, whole or not at all."""
    from safetensors.numpy import save_file

    arrays = {f"tree{name}": np.asarray(part) for name, part in _named(tree)}
    arrays |= {f"history/{name}": np.ascontiguousarray(part) for name, part in history.items()}
    label = {"rasf": json.dumps(description, sort_keys=True)}
    write_atomically(path, lambda partial: save_file(arrays, partial, metadata=label))


def describe(path: Path) -> dict[str, Any]:
    """The description a checkpoint was saved with."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            return dict(json.loads((file.metadata() or {})["rasf"]))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a checkpoint of rasf, or it is damaged: {error}") from error


def load(path: Path, like: Tree) -> tuple[Tree, History]:
    """The tree, with the structure, shapes and types of `like`, and the history."""
    from safetensors import safe_open

    describe(path)
    with safe_open(path, "numpy") as file:
        names = set(file.keys())
        wanted = _named(like)
        parts = []
        for name, part in wanted:
            key = f"tree{name}"
            found = file.get_tensor(key) if key in names else None
            if found is None or found.shape != np.shape(part) or found.dtype != np.dtype(part.dtype):
                raise ValueError(
                    f"{path} does not fit: {name} should have shape {np.shape(part)} and type {part.dtype}"
                )
            parts.append(jnp.asarray(found))
        history = {
            name.removeprefix("history/"): file.get_tensor(name) for name in names if name.startswith("history/")
        }
    return jax.tree.unflatten(jax.tree.structure(like), parts), history


def _named(tree: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), part) for path, part in jax.tree_util.tree_leaves_with_path(tree)]
