"""Before and after training: choose a trainer, collect its inputs (`Training`), make a library from its results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rasf.agents import AgentSpec, Family
from rasf.arrays import Floats
from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.files import Header
from rasf.library.checkpoint import Checkpoint
from rasf.library.file import versions
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.policy_library import PolicyLibrary, SourcePolicy, merge
from rasf.library.progress import Reporter, Trained
from rasf.risk import Risk

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from rasf.envs.gymnasium.single import FeatureEnvironment
    from rasf.envs.gymnasium.vector import FeatureVector
    from rasf.library.greedy import GreedyCheck
    from rasf.library.networks.worlds import WorldAdapter

    Opened: TypeAlias = FeatureEnvironment | FeatureVector | WorldAdapter

_Settings = TypeVar("_Settings", bound="DataclassInstance")


@dataclass(frozen=True)
class Training:
    """The inputs of a trainer, for all agents.

    world: One environment for tables. For networks, several environments or a world written in jax.
    tasks: Weights (n, d) of the tasks, which are learned in this order or interleaved.
    extra_tasks: Weights (m, d) of additional tasks that networks learn off-policy.
    risks: The risks. There is a policy for each task and risk. The policies of each risk act in an equal share of
        `steps_per_task`.
    reports: A reporter for each risk.
    notes: A list to which trainers append a sentence for each automatic choice.
    base: Policies of a base library, which do not change. The behaviour policy acts by GPI over these and the new ones.
    greedy: Evaluates the policies without exploration periodically; None if no second environment can be made for it.
    model: Whether a model of the environment is learned too.
    """

    world: Opened
    tasks: Floats
    extra_tasks: Floats
    risks: Sequence[Risk]
    steps_per_task: int
    seed: int
    reports: Sequence[Reporter]
    notes: list[str]
    checkpoint: Checkpoint
    base: FrozenPolicies | None
    greedy: GreedyCheck | None
    model: bool = False


def trainer_of(
    spec: AgentSpec, given: Mapping[str, object], learn_w: bool = False
) -> tuple[DataclassInstance, Callable[..., list[Trained]]]:
    """Return the settings of an agent, and the function that trains it.

    Args:
        spec: The agent.
        given: The settings that the caller chose, by name.
        learn_w: Whether tables learn the weights from the rewards. Default: False.

    Returns:
        The settings, and a function from a `Training` to a `Trained` for each risk.

    Raises:
        ValueError: A setting is unknown or invalid, or `learn_w` is True for networks.
    """
    if spec.plans:
        from rasf.library.tables.model import ModelSettings, train_model

        model = with_settings(ModelSettings(**spec.constants, learn_w=learn_w), given)
        return model, partial(train_model, settings=model)
    if spec.family is Family.TABLES:
        from rasf.library.tables.train import TableSettings, train_tables

        tables = with_settings(TableSettings(**spec.constants, learn_w=learn_w), given)
        return tables, partial(train_tables, settings=tables)
    from rasf.deep.settings import network_settings
    from rasf.library.networks.train import train_networks

    if learn_w:
        raise ValueError(f"learn_w is for tables; {spec} is an agent of networks")
    networks = with_settings(network_settings(spec.name), given)
    return networks, partial(train_networks, settings=networks)


_RENAMED = {
    "imagined": "extra_tasks",
    "lasting": "epsilon_z",
    "settle": "freeze",
    "side_by_side": "interleaved",
    "surprise": "prioritised",
}


def setting_names(base: DataclassInstance) -> list[str]:
    """Return the names of the settings, sorted."""
    return sorted(one.name for one in fields(base))


def with_settings(base: _Settings, given: Mapping[str, object]) -> _Settings:
    """Return `base` with the given settings changed; raise ValueError for an unknown name."""
    known = setting_names(base)
    unknown = sorted(set(given) - set(known))
    for name in unknown:
        if name in _RENAMED:
            raise ValueError(f"setting {name} has the new name {_RENAMED[name]}")
    if unknown:
        raise ValueError(f"settings must be among {', '.join(known)}, got {', '.join(unknown)}")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        changed = replace(base, **plain)
        hash(changed)  # settings must be hashable, because they are part of the cache key of compiled functions
    except TypeError as error:
        raise ValueError(f"settings must be numbers, or sizes such as widths=(64, 64): {error}") from None
    return changed


def provenance_of(
    seed: int, settings: Mapping[str, object], seconds: float, complete: bool = True, **more: object
) -> Header:
    """Return the provenance of a library: time, versions, seed, settings given by the caller, and duration."""
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    chosen = {name: repr(value) for name, value in settings.items()}
    of_training = {"settings": chosen, "seconds": round(seconds, 1), "complete": complete}
    return {"made": made, "versions": versions(), "seed": seed} | more | of_training


def library_of(
    trained: Sequence[Trained],
    risks: Sequence[Risk],
    spec: AgentSpec,
    environment: EnvironmentDescription,
    notes: Sequence[str],
    provenance: Header,
) -> PolicyLibrary:
    """Return one library with the policies of all risks. After an early stop, the last risks may have no policies."""
    libraries = [
        PolicyLibrary(
            found.sources, environment, tuple(SourcePolicy(tuple(w), risk) for w in found.weights.tolist()), (spec,),
            found.history, tuple(notes), provenance, model=found.model,
        )
        for risk, found in zip(risks, trained, strict=False)
    ]  # fmt: skip
    return merge(libraries) if len(libraries) > 1 else libraries[0]
