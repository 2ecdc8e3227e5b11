"""The paper's claims, and what our runs say about each; `claims.toml` has the words and the rules."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources

from rasf_lab.common.results import Finding, Numbers, Result
from rasf_lab.common.rules import ClaimRule, as_rule

NOT_MEASURED = "not measured"
_SILENCE: Numbers = {"verdict": NOT_MEASURED, "measured": "", "seeds": 0, "number": ""}


@dataclass(frozen=True)
class Claim:
    """One claim: where the paper makes it and in which words, what is measured, which rule decides; see claims.toml."""

    id: str
    where: str
    short: str
    claim: str
    sentence: str
    metric: str
    rule: str
    second_rule: str = ""
    second_reason: str = ""
    figure: str = ""


def is_ours(row: Numbers) -> bool:
    """Whether a row of `table` is a goal of our own, not a claim of the paper."""
    return bool(row["where"] == "ours")


def _read() -> tuple[tuple[Claim, ...], dict[str, ClaimRule], dict[str, ClaimRule]]:
    """The claims, and the rules of both readings that are data."""
    written = tomllib.loads((resources.files("rasf_lab.common") / "claims.toml").read_text("utf-8"))
    claims, first, second = [], {}, {}
    for id, given in written.items():
        readings = [given.pop(reading, {}) for reading in ("first", "second")]
        claims.append(Claim(id, **given))
        if readings[0]:
            first[id] = as_rule(readings[0])
        if readings[1]:
            second[id] = as_rule(readings[0] | readings[1])
    return tuple(claims), first, second


CLAIMS, FIRST, SECOND = _read()


def table(results: Mapping[str, Result]) -> list[Numbers]:
    """One row per claim: its words, and verdict, measured, seeds, second_reading from the results.

    Where no result speaks, the verdict is that it is not measured.
    """
    rows = []
    for claim in CLAIMS:
        found = together([result.findings[claim.id] for result in results.values() if claim.id in result.findings])
        words = asdict(claim)
        second_words = {"rule": words.pop("second_rule"), "reason": words.pop("second_reason")}
        spoken = asdict(found) if found else _SILENCE | {"sample": "", "second_reading": None}
        if claim.second_rule:
            spoken["second_reading"] = second_words | (spoken["second_reading"] or _SILENCE)
        rows.append(words | spoken)
    return rows


def together(findings: list[Finding]) -> Finding | None:
    """What several experiments say about one claim: undecided where they disagree."""
    if len(findings) < 2:
        return findings[0] if findings else None
    verdicts = {finding.verdict for finding in findings}
    return Finding(
        verdicts.pop() if len(verdicts) == 1 else "not decided",
        "; ".join(f"{finding.measured}: {finding.verdict}" for finding in findings),
        max(finding.seeds for finding in findings),
        "; ".join(filter(None, (finding.number for finding in findings))),
        "; ".join(finding.sample for finding in findings),
    )
