"""Risks as text, for files and command lines: `neutral`, `mean-variance:-4`, `entropic:-1`, `cvar:0.1`.

Every risk for which policies can be trained has such a text. Any other risk is written as its `repr`. A `repr` cannot
be turned back into a risk, because a file must not execute code. A `repr` is read as an `UnknownRisk`, which keeps the
text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rasf.risk.base import BetaRisk, Risk, concrete
from rasf.risk.cvar import CVaR
from rasf.risk.entropic import Entropic, NestedEntropic
from rasf.risk.mean_variance import MeanVariance
from rasf.risk.monotone import MonotoneMeanVariance

_BY_BETA: dict[str, type[BetaRisk]] = {
    "mean-variance": MeanVariance,
    "monotone": MonotoneMeanVariance,
    "entropic": Entropic,
    "nested-entropic": NestedEntropic,
}
_MADE_BY: dict[str, Callable[[float], Risk]] = {**_BY_BETA, "cvar": CVaR}
EXAMPLES = "neutral, monotone:-4, mean-variance:-4, entropic:-1 or cvar:0.1"


@dataclass(frozen=True)
class UnknownRisk(Risk):
    """A risk that is known only by its text in a file, such as a risk of a user's class. It cannot compute scores."""

    text: str

    def __str__(self) -> str:
        return self.text


def is_neutral(risk: Risk) -> bool:
    """Return whether a risk scores every return distribution by its mean."""
    if isinstance(risk, CVaR):
        return risk.alpha == 1
    return isinstance(risk, MeanVariance | MonotoneMeanVariance | Entropic) and concrete(risk.beta) == 0


def risk_from_text(text: str) -> Risk:
    """Return the risk that a text names."""
    if not isinstance(text, str):
        raise ValueError(f"risk must be written as {EXAMPLES}, got {text!r}")
    name, colon, number = text.strip().partition(":")
    if name == "neutral" and not colon:
        return MeanVariance(0.0)
    if name not in _MADE_BY or not number:
        raise ValueError(f"risk must be written as {EXAMPLES}, got {text!r}")
    try:
        return _MADE_BY[name](float(number))
    except ValueError as error:
        raise ValueError(f"risk {text!r} cannot be made: {error}") from None


def stored_risk(text: str) -> Risk:
    """Return the risk that a file names, or an `UnknownRisk` if its text cannot be read."""
    try:
        return risk_from_text(text)
    except ValueError:
        return UnknownRisk(text)


def risk_to_text(risk: Risk) -> str:
    """Return the text of a risk, or its `repr` if it has no text."""
    if isinstance(risk, CVaR):
        return f"cvar:{float(risk.alpha)!r}"
    if isinstance(risk, UnknownRisk):
        return risk.text
    for name, kind in _BY_BETA.items():
        if isinstance(risk, kind):
            return "neutral" if is_neutral(risk) else f"{name}:{float(risk.beta)!r}"
    return repr(risk)


def short_risk(text: str) -> str:
    """Return the text of a risk without a final .0, such as mean-variance:-4 for mean-variance:-4.0."""
    return text.removesuffix(".0")
