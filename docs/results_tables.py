"""The tables of pages and the README that come from the shipped results: `python docs/results_tables.py` writes them.

`tests/docs/test_results_page.py` checks that they are current.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rasf_lab.common.claims import further_readings, is_ours, table
from rasf_lab.common.results import shipped
from rasf_lab.suite.measures import by_environment

DOCS = Path(__file__).parent
_MARKS = {"holds": "**holds**", "does not hold": "does not", "not decided": "undecided", "not measured": "-"}
_PLURAL = {
    "holds": "hold",
    "does not hold": "do not",
    "not decided": "are undecided",
    "not measured": "are not measured",
}
_VERDICTS = {
    "holds": "holds",
    "does not hold": "does not hold",
    "not decided": "is undecided",
    "not measured": "is not measured",
}
_QUANTITIES = {  # what a number measures, where the claim's sentence does not say it
    "G2": "gap to the optimum: {}",
    "G3": "utility {}",
    "G4": "utility {}",
    "G5": "variance: {}",
    "F1": "return {}",
    "F2": "return: {}",
    "F3": "failures: {}",
    "F4": "failures: {}",
    "F5": "failures: {}",
    "F8": "failures, number of betas: {}",
    "F9": "failures: {}",
    "F10": "{} on traps",
    "F11": "failures a task: {}",
    "F12": "failures: {}",
    "F14": "return: {}",
    "F15": "overlap of visits: {}",
    "F16": "steps in danger saved: {}",
    "F17": "failures: {}",
    "R1": "return: {}",
    "R2": "return: {}",
    "R3": "return {}",
    "R4": "failures, last fifth of training: {}",
    "R5": "return: {}",
    "R6": "return: {}",
    "R7": "failures: {}",
    "R8": "failures: {}",
    "R10": "time in circles: {}",
    "R12": "{} of the variance",
    "R14": "failures: {}",
    "R15": "actions: {}",
    "R16": "{} of 8",
    "R17": "failures: {} for SFC51",
    "R18": "failures at the end: {}",
    "T6": "largest error: {}",
    "T7": "acting against training: {} (failures, four-room; utility, grid)",
}
_AGAINST_PRICES = {"as much": "equal", "more": "risk better", "less": "prices better", "-": "not tested"}
_LABELS = {
    "q-learning": "Q-learning",
    "sfql independent 0": "SFQL",
    "sfql independent -2": "RaSFQL (-2)",
    "prql 0": "PRQL",
    "prql -2": "RaPRQL (-2)",
    "prql -4": "RaPRQL (-4)",
    "rasfc51 -3": "RaSFC51 (-3)",
    "sfdqn 0": "SFDQN",
    "rac51 0": "C51",
    "rac51 -3": "RaC51 (-3)",
}


def glance() -> str:
    """Every claim in a line, and how many hold."""
    rows = [row for row in table(shipped()) if not is_ours(row)]
    lines = [_row(["claim", "the paper says", "verdict (further readings)", "measured"]), _rule(4)]
    for row in rows:
        further = ", ".join(f"{name}: {_MARKS[one['verdict']]}" for name, one in further_readings(row).items())
        link = f'<a id="{row["id"].lower()}"></a>{row["id"]}'
        verdict = _MARKS[row["verdict"]] + (f" ({further})" if further else "")
        number = _QUANTITIES.get(row["id"], "{}").format(row["number"].replace("0e+00", "0"))
        lines.append(_row([link, f"{row['short']} ({row['where']})", verdict, number]))
    count = f"Of {len(rows)} claims {_counted(rows)}"
    for name in ("second", "third"):
        again = [readings[name] for readings in map(further_readings, rows) if name in readings]
        count += f"; by a {name} reading of {len(again)}, {_counted(again)}"
    return "\n".join([f"{count}.", "", *lines])


def _row(cells: Iterable[str]) -> str:
    """A row without spaces around its bars, because the length of the pages is counted in words."""
    return f"|{'|'.join(cells)}|"


def _rule(columns: int) -> str:
    return "|---" * columns + "|"


def _counted(readings: Sequence[dict[str, Any]]) -> str:
    counts = Counter(reading["verdict"] for reading in readings)
    return ", ".join(f"{counts[verdict]} {words}" for verdict, words in _PLURAL.items() if counts[verdict])


def ours() -> str:
    """Our own goals."""
    lines = ["| | | | measured |", "| --- | --- | --- | --- |"]
    for row in table(shipped()):
        if is_ours(row):
            lines.append(f"| {row['id']} | {row['claim']} | {_MARKS[row['verdict']]} | {row['measured']} |")
    return "\n".join(lines)


def four_room_claims() -> str:
    """All numbers of the claims on four-room, by every reading."""
    lines = []
    for row in table(shipped()):
        if row["id"].startswith("F"):
            lines.append(f"- **{row['id']} {_in_full(row)}")
            lines += [f"  - {name} reading: **{_in_full(one)}" for name, one in further_readings(row).items()]
    return "\n".join(lines)


def _in_full(reading: dict[str, Any]) -> str:
    """The verdict, the seeds and all numbers of a reading. Large numbers are written without an exponent."""
    measured = re.sub(r"\d[.\d]*e\+\d+", lambda found: f"{float(found[0]):.0f}", reading["measured"])
    return f"{_VERDICTS[reading['verdict']]}** ({reading['seeds']} seeds){': ' * bool(measured)}{measured}."


def four_room_training_and_acting() -> str:
    """Failures an episode on the novel tasks, by the risk in training and in acting (T7)."""
    novel = shipped()["four-room"].numbers["novel"]
    lines = ["| | acting neutrally | acting at the paper's -2 |", "| --- | --- | --- |"]
    for trained, words in (("neutral", "trained neutrally"), ("averse", "trained at -2")):
        cells = [f"{novel[trained][acting]['failures']['mean']:.3f}" for acting in ("neutral", "averse")]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


def four_room_totals() -> str:
    """Mean and standard error of the totals of the paper's agents in four-room."""
    curves = shipped()["four-room"].numbers["curves"]
    lines = ["| | cumulative return | failures |", "| --- | --- | --- |"]
    for name in ("sfql independent 0", "sfql independent -2", "prql 0", "prql -2", "q-learning"):
        totals = [(one["cumulative_mean"][-1], one["cumulative_se"][-1]) for one in curves[name].values()]
        lines.append(f"| {_LABELS[name]} | {' | '.join(f'{mean:,.0f} +- {error:,.0f}' for mean, error in totals)} |")
    return "\n".join(lines)


def four_room_choices() -> str:
    """What each other reading of four-room changes."""
    return _choices("four-room", {"return": ("return", ",.0f"), "failures": ("failures", ",.0f")})


def reacher_choices() -> str:
    """What each other reading of the reacher changes."""
    shown = {
        "train_return": ("training return", ".2f"),
        "test_return": ("test return", ".2f"),
        "test_failures": ("test failures", ".1f"),
    }
    return _choices("reacher", shown)


def reacher_readings() -> str:
    """The paper's claims under each other reading of the reacher, beside our runs of the same agents and seeds."""
    lines = [_row(["reading", "claim", "seeds", "ours", "this reading", "measured"]), _rule(6)]
    for told in shipped()["reacher"].numbers["readings"].values():
        for claim, row in told["claims"].items():
            verdicts = [", ".join(_MARKS[one] for one in row[way]) for way in ("ours", "theirs")]
            lines.append(_row([told["words"], claim, str(row["seeds"]), *verdicts, row["number"]]))
    return "\n".join(lines)


def _choices(experiment: str, shown: dict[str, tuple[str, str]]) -> str:
    """shown: for each measure its heading and how its numbers are written."""
    headings = " | ".join(heading for heading, _ in shown.values())
    lines = [f"| what is chosen otherwise | of | seeds | {headings} |", "| --- | --- | --- |" + " --- |" * len(shown)]
    for row in shipped()[experiment].numbers["choices"]:
        cells = []
        for what, (_, form) in shown.items():
            before, after, (change, low, high) = (row[what][name] for name in ("before", "after", "change"))
            written = [format(number, form) for number in (before, after, low, high)]
            cells.append(f"{written[0]} to {written[1]}: {change:+{form}} [{written[2]}, {written[3]}]")
        lines.append(f"| {row['choice']} | {_LABELS[row['of']]} | {row['seeds']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def suite_glance() -> str:
    """One row per environment of the suite."""
    lines = [
        "| environment | failures | helps? | beside prices | neutral | dial | at | return | mean off | spread |",
        "| --- " * 10 + "|",
    ]
    for env, told in by_environment(shipped()["suite"].numbers).items():
        found, way = told["verdict"], told["ways"]
        neutral, dial = (_interval(one) for one in found["failures"])
        before, after = (f"{one[0]:.3g}" for one in found["return"])
        helps = "**yes**" if found["helps"] else "no"
        off, spread = (way[found["level"]][name][0] for name in ("off", "spread_ratio"))
        known = (env.removeprefix("rasf/"), told["failures"], helps, found.get("than_prices", "-"))
        numbers = (neutral, dial, _level(found["level"]), f"{before} to {after}")
        told_off = ("-", "-") if off is None else (f"{off:+.2f}", f"{spread:.2f}")  # returns do not vary
        lines.append(f"| {' | '.join((*known, *numbers, *told_off))} |")
    return "\n".join(lines)


def suite_brief() -> str:
    """The suite in six columns; bold where failures are fewer with 95 % certainty."""
    heads = (
        "environment",
        "what is a failure",
        "failures, neutral",
        "failures, risk-aware",
        "return",
        "against prices",
    )
    lines = [_row(heads), _rule(len(heads))]
    for env, told in by_environment(shipped()["suite"].numbers).items():
        found = told["verdict"]
        neutral, dial = (_interval(one) for one in found["failures"])
        dial = f"**{dial}**" if found["helps"] else "the same" if dial == neutral else dial
        before, after = (f"{one[0]:.3g}" for one in found["return"])
        level = _level(found["level"])
        at = "CVaR(0.1)" if level == "cvar:0.1" else f"beta {level}"
        earned = before if before == after else f"{before} to {after}"
        cells = (env.removeprefix("rasf/"), told["failures"], neutral, f"{dial} at {at}", earned)
        lines.append(_row([*cells, _AGAINST_PRICES[found.get("than_prices", "-")]]))
    return "\n".join(lines)


def _interval(told: Sequence[Any]) -> str:
    estimate, low, high = told
    if low is None:  # of a single seed
        return f"{estimate:.3g}"
    return f"{estimate:.3g} [{low:.3g}, {high:.3g}]"


def _percent(told: Sequence[Any]) -> str:
    estimate, *ends = (None if number is None else f"{100 * number:.1f}" for number in told)
    return f"{estimate} %" if None in ends else f"{estimate} % [{', '.join(ends)}]"


def _level(text: str) -> str:
    return text.replace("mean-variance:", "")


def suite_roads() -> str:
    """All ways to act on the roads."""
    lines = ["| road | acting | collisions | m/s | return | CVaR |", "| --- " * 6 + "|"]
    for name, told in shipped()["suite"].numbers.items():
        if told["gauge"] is None:
            continue
        for text, way in told["ways"].items():
            cells = (
                _percent(way["failures"]),
                f"{way['gauge'][0]:.1f}",
                _interval(way["return"]),
                f"{way['cvar'][0]:.3g}",
            )
            lines.append(f"| {name} | {_level(text)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def suite_roads_brief() -> str:
    """Collisions and speed on each road, by five ways to act."""
    words = {
        "neutral": "neutral",
        "mean-variance:-1": "mean-variance, beta -1",
        "cvar:0.1": "CVaR(0.1)",
        "limit 0.02": "limit: 0.02 discounted collisions",
        "price 4": "control: a collision costs 4 more",
    }
    lines = [_row(["road", *words.values()]), _rule(1 + len(words))]
    for name, told in shipped()["suite"].numbers.items():
        if told["gauge"] is None:
            continue
        ways = [told["ways"][text] for text in words]
        cells = [f"{_percent(way['failures'])}, {way['gauge'][0]:.1f} m/s" for way in ways]
        lines.append(_row([name, *cells]))
    return "\n".join(lines)


def suite_rivals_brief() -> str:
    """The main rivals on the roads, beside the library's neutral acting."""
    words = {"dqn-documented": "DQN", "dqn-batched": "DQN, batched", "envelope": "Envelope"}
    heads = ("road", "rival", "training steps", "seeds", "collisions", "m/s", "return")
    heads += ("ratio: collisions", "ratio: speed", "ratio: return")
    lines = [_row(heads), _rule(len(heads))]
    for road, told in shipped()["suite"].numbers.items():
        for name, said in words.items():
            theirs = told["rivals"].get(name)
            if told["gauge"] is None or theirs is None:
                continue
            ratios = (f"{theirs['beside']['neutral'][part]:.2f}" for part in ("failures", "gauge", "return"))
            numbers = (_percent(theirs["failures"]), f"{theirs['gauge'][0]:.1f}", f"{theirs['return'][0]:.3g}")
            cells = (road, said, _training_steps(theirs), str(len(theirs["seeds"])), *numbers, *ratios)
            lines.append(_row(cells))
    return "\n".join(lines)


def _training_steps(rival: dict[str, Any]) -> str:
    """The steps of a rival, with one training for all weightings or one for each."""
    each = f"{rival['steps']:,}"
    return each if rival["trainings"] == 1 else f"{rival['trainings']} x {each}"


def suite_rivals() -> str:
    """Rivals on the roads, and our collisions, speed and return over theirs."""
    ways = ("neutral", "mean-variance:-0.3", "cvar:0.1", "price 4")
    first = ["road", "rival", "seeds", "trainings a seed", "steps each", "seconds each", "collisions", "m/s", "return"]
    heads = [*first, *(f"ours, {_level(way)}" for way in ways)]
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for road, told in shipped()["suite"].numbers.items():
        if told["gauge"] is None:
            continue
        for name, theirs in told["rivals"].items():
            cells = [road, name, str(len(theirs["seeds"])), str(theirs["trainings"])]
            cells += [f"{theirs['steps']:,}", f"{theirs['seconds']:,.0f}"]
            cells += [_percent(theirs["failures"]), f"{theirs['gauge'][0]:.1f}", f"{theirs['return'][0]:.3g}"]
            for way in ways:
                failures, speed, earned = (theirs["beside"][way][part] for part in ("failures", "gauge", "return"))
                cells.append("-" if failures is None else f"{failures:.2f} at {speed:.2f}, {earned:.2f}")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def driving() -> str:
    """The README's table: ways to act on the highway."""
    told, words = shipped()["suite"].numbers["highway"], {
        "neutral": "neutral",
        "mean-variance:-1": "mean-variance, beta -1",
        "cvar:0.1": "CVaR of the worst tenth",
        "limit 0.02": "neutral, with a limit: 0.02 expected discounted collisions",
        "price 4": "*control*: neutral, a collision costs 4 more",
        "price 10": "*control*: neutral, a collision costs 10 more",
    }  # fmt: skip
    heads = ("acting", "training steps in all", "episodes with a collision", "speed", "return")
    lines = [f"| {' | '.join(heads)} |", _rule(len(heads))]
    rows = {said: (f"{told['steps']:,}", told["ways"][text]) for text, said in words.items()}
    for name in ("dqn-documented", "dqn-batched"):
        rival = told["rivals"][name]
        rows[f"*rival*: DQN, retrained for each weighting, {len(rival['seeds'])} seeds"] = _training_steps(rival), rival
    for said, (steps, way) in rows.items():
        share, low, high = (f"{100 * number:.0f}" for number in way["failures"])
        speed = f"{way['gauge'][0]:.1f} m/s"
        lines.append(f"| {said} | {steps} | {share} % [{low}, {high}] | {speed} | {way['return'][0]:.1f} |")
    return "\n".join(lines)


Tables = dict[str, Callable[[], str]]
PAGES: dict[str, Tables] = {
    "results.md": {"glance": glance},
    "../lab/notes/four_room.md": {
        "four-room totals": four_room_totals,
        "four-room choices": four_room_choices,
        "ours": ours,
    },
    "../lab/notes/claims.md": {
        "four-room claims": four_room_claims,
        "four-room training and acting": four_room_training_and_acting,
    },
    "../lab/notes/reacher.md": {"reacher choices": reacher_choices, "reacher readings": reacher_readings},
    "../README.md": {"driving": driving},
    "suite.md": {
        "suite in brief": suite_brief,
        "roads in brief": suite_roads_brief,
        "rivals in brief": suite_rivals_brief,
    },
    "../lab/notes/suite.md": {"suite at a glance": suite_glance},
    "../lab/notes/driving.md": {"roads": suite_roads, "rivals": suite_rivals},
}


def with_tables(page: str, tables: Tables) -> str:
    """The page with every table between its marks written anew."""
    for name, make in tables.items():
        begin, end = f"<!-- {name}: written by docs/results_tables.py -->", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"the page must have the marks of the table {name!r}")
        page = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    for name, tables in PAGES.items():
        (DOCS / name).write_text(with_tables((DOCS / name).read_text(), tables))
