"""The claims of the paper, and the verdicts of our runs on these claims. `claims.toml` has the texts and the rules.

A reading is one interpretation of a claim. Some claims have two readings, each with a rule.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources

from rasf_lab.common.results import Finding, Numbers, Result
from rasf_lab.common.rules import ClaimRule, as_rule

NOT_MEASURED = "not measured"
_WITHOUT_RUNS: Numbers = {"verdict": NOT_MEASURED, "measured": "", "seeds": 0, "number": ""}


@dataclass(frozen=True)
class Claim:
    """The texts of a claim in `claims.toml`: where and how the paper states it, its metric, and its rules in words."""

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
    """Return whether a row of `table` is a goal of this project rather than a claim of the paper."""
    return bool(row["where"] == "ours")


def _read() -> tuple[tuple[Claim, ...], dict[str, ClaimRule], dict[str, ClaimRule]]:
    """Return the claims of `claims.toml`, the rules of the first readings, and the rules of the second readings."""
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
    """Return one row for each claim, in the order of `claims.toml`.

    Args:
        results: the results, by experiment.

    Returns:
        For each claim, its texts and the fields of its finding (`Finding`). The verdict of a claim without a finding
        is "not measured".
    """
    rows = []
    for claim in CLAIMS:
        found = together([result.findings[claim.id] for result in results.values() if claim.id in result.findings])
        texts = asdict(claim)
        second_texts = {"rule": texts.pop("second_rule"), "reason": texts.pop("second_reason")}
        outcome = asdict(found) if found else _WITHOUT_RUNS | {"sample": "", "second_reading": None}
        if claim.second_rule:
            outcome["second_reading"] = second_texts | (outcome["second_reading"] or _WITHOUT_RUNS)
        rows.append(texts | outcome)
    return rows


def together(findings: list[Finding]) -> Finding | None:
    """Merge the findings on one claim; None if there are none. If verdicts differ, the verdict is "not decided"."""
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
