"""The tables of docs/results.md that come from the shipped results: `python docs/results_tables.py` writes them anew.

`tests/docs/test_results_page.py` checks that they are current.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rasf.experiments.common.claims import table
from rasf.experiments.common.results import shipped

PAGE = Path(__file__).parent / "results.md"
_MARKS = {"holds": "**holds**", "does not hold": "does not", "not decided": "undecided", "not measured": "-"}
_SECTIONS = {"G": "the-motivating-example", "F": "four-room", "R": "reacher", "T": "the-theorems"}
_PLURAL = {
    "holds": "hold",
    "does not hold": "do not",
    "not decided": "are undecided",
    "not measured": "are not measured",
}
_LABELS = {
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
    rows = table(shipped())
    lines = ["| | the paper says | first reading | second | measured |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        second = row["second_reading"]
        link = f"[{row['id']}](#{_SECTIONS[row['id'][0]]})"
        verdicts = (_MARKS[row["verdict"]], _MARKS[second["verdict"]] if second else "")
        lines.append(f"| {link} | {row['short']} ({row['where']}) | {' | '.join(verdicts)} | {row['number']} |")
    seconds = [row["second_reading"] for row in rows if row["second_reading"]]
    count = f"Of {len(rows)} claims {_counted(rows)}; by a second reading of {len(seconds)}, {_counted(seconds)}."
    return "\n".join([count, "", *lines])


def _counted(readings: Sequence[dict[str, Any]]) -> str:
    counts = Counter(reading["verdict"] for reading in readings)
    return ", ".join(f"{counts[verdict]} {words}" for verdict, words in _PLURAL.items() if counts[verdict])


def four_room_choices() -> str:
    """What each other reading of four-room changes."""
    return _choices("four-room", {"return": "return", "failures": "failures"}, "{:,.0f}", "{:+,.0f} [{:,.0f}, {:,.0f}]")


def reacher_choices() -> str:
    """What each other reading of the reacher changes."""
    shown = {"train_return": "training return", "test_return": "test return", "test_failures": "test failures"}
    return _choices("reacher", shown, "{:.3g}", "{:+.3g} [{:.3g}, {:.3g}]")


def _choices(experiment: str, shown: dict[str, str], plain: str, interval: str) -> str:
    lines = [
        f"| what is chosen otherwise | of | seeds | {' | '.join(shown.values())} |",
        "| --- | --- | --- |" + " --- |" * len(shown),
    ]
    for row in shipped()[experiment].numbers["choices"]:
        cells = [
            f"{plain.format(row[what]['before'])} to {plain.format(row[what]['after'])}: "
            + interval.format(*row[what]["change"])
            for what in shown
        ]
        lines.append(f"| {row['choice']} | {_LABELS[row['of']]} | {row['seeds']} | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "glance": glance,
    "four-room choices": four_room_choices,
    "reacher choices": reacher_choices,
}


def with_tables(page: str) -> str:
    """The page with every table between its marks written anew."""
    for name, make in TABLES.items():
        begin, end = f"<!-- {name}: written by docs/results_tables.py -->\n", f"\n<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"the page must have the marks of the table {name!r}")
        page = f"{before}{begin}\n{make()}\n{end}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
