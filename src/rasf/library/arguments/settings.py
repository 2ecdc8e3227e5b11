"""The settings of an agent, changed by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Settings = TypeVar("_Settings", bound="DataclassInstance")


def setting_names(base: DataclassInstance) -> list[str]:
    """Return the settings that a caller may choose."""
    return sorted(one.name for one in fields(base))


def with_settings(base: _Settings, given: Mapping[str, object]) -> _Settings:
    """Return settings with changes by name; unknown names are refused."""
    known = setting_names(base)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"settings must be among {', '.join(known)}, got {', '.join(unknown)}")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        changed = replace(base, **plain)
        hash(changed)  # an agent is a key of what jax has made for it
    except TypeError as error:
        raise ValueError(f"settings must be numbers, or sizes such as widths=(64, 64): {error}") from None
    return changed
