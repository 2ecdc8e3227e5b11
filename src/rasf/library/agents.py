"""The agents a library can be trained with, and which of them suits an environment.

    sfql, rasfql                    tables: psi, and for rasfql its covariance
    sfc51, rasfc51                  networks: a histogram for every feature
    sfdqn, sfdqn-residual           networks: psi, and for the second its covariance from residuals

The names without `ra` are risk-neutral, as in the paper; asking them for a risk is a contradiction. C51 and (Ra)PRQL
keep no law of the features, so they make no library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from rasf.envs.adapters import FeatureEnvironment
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.risk.names import is_neutral, risk_to_text

TABULAR = ("sfql", "rasfql")
DEEP = ("sfc51", "rasfc51", "sfdqn", "sfdqn-residual")
HISTOGRAMS = ("sfc51", "rasfc51")
NEUTRAL = ("sfql", "sfc51", "sfdqn")
_FEW = 100_000  # observations that surely fit a table
_LARGE = 1_000  # numbers of an observation, each state's key in a table: images are not for tables
_WALK = 2_000  # steps of the random walk that looks for recurring observations


class AutoChoice(NamedTuple):
    """An agent's name, and why."""

    name: str
    reason: str


def choose_agent(env: FeatureEnvironment, seed: int) -> AutoChoice:
    """A tabular agent where observations are few and recur, else networks."""
    coder = env.coder
    if not coder.integers:
        return AutoChoice("rasfc51", "its observations are not whole numbers of a bounded range, which recur exactly")
    if coder.size > _LARGE:
        return AutoChoice("rasfc51", f"its observations have {coder.size} numbers each, too many for a table's keys")
    if coder.few is not None and coder.few <= _FEW:
        return AutoChoice("rasfql", f"it has at most {coder.few} observations")
    rng, seen = np.random.default_rng(seed), set()
    obs = env.reset(seed)
    for _ in range(_WALK):
        seen.add(coder.numbers(obs).tobytes())
        step = env.step(int(rng.integers(env.n_actions)))
        obs = env.reset() if step.terminated or step.truncated else step.obs
    found = f"{len(seen)} different observations in {_WALK} random steps"
    if len(seen) <= _WALK // 2:
        return AutoChoice("rasfql", f"observations recur: {found}")
    return AutoChoice("rasfc51", f"observations hardly recur: {found}")


def check_agent(name: str, risks: list[Risk]) -> None:
    """Refuse an unknown agent, and risks that contradict its name or that it cannot learn for."""
    if name not in TABULAR + DEEP:
        raise ValueError(f"agent must be auto, {', '.join(TABULAR + DEEP)}, got {name!r}")
    for risk in risks:
        if not isinstance(risk, Risk):
            raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), or several, got {risk!r}")
        if name in NEUTRAL and not is_neutral(risk):
            risky = {"sfql": "rasfql", "sfc51": "rasfc51", "sfdqn": "sfdqn-residual"}[name]
            raise ValueError(f"agent {name!r} is risk-neutral; for {risk_to_text(risk)} use {risky!r}")
        accepted = (MeanVariance,) if name in (*TABULAR, "sfdqn-residual") else (MeanVariance, Entropic)
        if not isinstance(risk, accepted):
            names = " or ".join(kind.__name__ for kind in accepted)
            can_act = ("independent" if name in HISTOGRAMS else "moments") in risk.supports
            then = "; it can act, though" if can_act else ""
            raise ValueError(f"risk must be {names} to train {name}, got {risk_to_text(risk)}{then}")


def with_settings(base: Any, given: Mapping[str, Any]) -> Any:
    """Settings with changes by name; unknown names are refused."""
    known = {one.name for one in fields(base)} - {"risk", "law", "conditioned", "relabel", "bounds"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"settings must be among {', '.join(sorted(known))}, got {', '.join(unknown)}")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        changed = replace(base, **plain)
        hash(changed)  # an agent is a key of what jax has made for it
    except TypeError as error:
        raise ValueError(f"settings must be numbers, or sizes such as widths=(64, 64): {error}") from None
    return changed
