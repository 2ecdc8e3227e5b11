"""The claims of the paper, and the verdicts of our runs on these claims. `claims.toml` has the texts and the rules.

A reading is one interpretation of a claim. Some claims have two or three readings, each with a rule.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources

from rasf_lab.common.results import FURTHER_READINGS, Finding, Numbers, Result
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
    third_rule: str = ""
    third_reason: str = ""
    figure: str = ""


def is_ours(row: Numbers) -> bool:
    """Return whether a row of `table` is a goal of this project rather than a claim of the paper."""
    return bool(row["where"] == "ours")


def further_readings(row: Numbers) -> dict[str, Numbers]:
    """Return the second and the third reading of a row of `table`, if any, by name: "second", "third"."""
    return {name.removesuffix("_reading"): row[name] for name in FURTHER_READINGS if row[name]}


def _read() -> tuple[tuple[Claim, ...], dict[str, dict[str, ClaimRule]]]:
    """Return the claims of `claims.toml`, and their rules by reading ("first", "second", "third") and id."""
    written = tomllib.loads((resources.files("rasf_lab.common") / "claims.toml").read_text("utf-8"))
    claims: list[Claim] = []
    rules: dict[str, dict[str, ClaimRule]] = {"first": {}, "second": {}, "third": {}}
    for id, given in written.items():
        own = {reading: given.pop(reading) for reading in rules if reading in given}
        claims.append(Claim(id, **given))
        for reading, rule in own.items():
            rules[reading][id] = as_rule(own.get("first", {}) | rule)
    return tuple(claims), rules


CLAIMS, RULES = _read()
FIRST, SECOND = RULES["first"], RULES["second"]


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
        outcome = asdict(found) if found else _WITHOUT_RUNS | {"sample": ""} | dict.fromkeys(FURTHER_READINGS)
        for name in FURTHER_READINGS:
            words = {part: texts.pop(name.replace("reading", part)) for part in ("rule", "reason")}
            if words["rule"]:
                outcome[name] = words | (outcome[name] or _WITHOUT_RUNS)
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
