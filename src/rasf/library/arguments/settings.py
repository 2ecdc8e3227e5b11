"""The settings of agents: their defaults, changed by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rasf.agents import AgentSpec, Family
from rasf.library.policy_library import NEUTRAL
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import is_neutral

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from rasf.deep.agent import AgentSettings
    from rasf.tabular.learner import SuccessorSettings
    from rasf.tabular.model import ModelSettings

    Settings: TypeAlias = AgentSettings | ModelSettings | list[SuccessorSettings]

_Settings = TypeVar("_Settings", bound="DataclassInstance")
_NOT_CHOSEN = {"risk", "law", "conditioned", "relabel", "bounds"}  # fields that follow from the agent or the risks


def default_settings(spec: AgentSpec) -> AgentSettings | ModelSettings | SuccessorSettings:
    """Return the settings of an agent as it is."""
    if spec.plans:
        from rasf.tabular.model import ModelSettings

        return ModelSettings(**spec.constants)
    if spec.family is Family.TABLES:
        from rasf.tabular.learner import SuccessorSettings

        return SuccessorSettings(**spec.constants)
    from rasf.deep.agent import preset

    return preset(spec.name)


def setting_names(base: DataclassInstance) -> list[str]:
    """Return the settings of an agent that a caller may choose."""
    return sorted({one.name for one in fields(base)} - _NOT_CHOSEN)


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


def chosen_settings(spec: AgentSpec, risks: Sequence[Risk], given: Mapping[str, object], learn_w: bool) -> Settings:
    """Return the settings of a training: of the model, of each risk's tables, or of networks for all risks.

    Args:
        spec: The agent.
        risks: That the policies are trained for.
        given: The settings that a caller chose, by name.
        learn_w: Whether tables learn the weights from the rewards.

    Raises:
        ValueError: A setting is unknown or wrong, or networks cannot learn these risks together.
    """
    plain = default_settings(spec)
    if spec.plans:
        from rasf.tabular.model import ModelSettings

        assert isinstance(plain, ModelSettings)
        return with_settings(replace(plain, learn_w=learn_w), given)
    if spec.family is Family.TABLES:
        from rasf.tabular.learner import SuccessorSettings

        assert isinstance(plain, SuccessorSettings)
        trained_for = (one for one in risks if isinstance(one, MeanVariance))  # `check_risks` refused any other
        return [with_settings(replace(plain, learn_w=learn_w, risk=one), given) for one in trained_for]
    from rasf.deep.agent import AgentSettings

    assert isinstance(plain, AgentSettings)
    if learn_w:
        raise ValueError(f"learn_w is for tables; {spec} is told the weights")
    kinds = {type(one) for one in risks if not is_neutral(one)} or {type(NEUTRAL)}
    if len(kinds) > 1:
        raise ValueError("risk must be of one kind for networks, which learn all risks together, got several")
    return with_settings(replace(plain, risk=kinds.pop()), given)
