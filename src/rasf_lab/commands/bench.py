"""`rasf bench`: run the benchmarks of a checkout on this machine, and compare the results with earlier runs.

Benchmarks are scripts in `lab/benchmarks/`. Each script runs in its own process. A measure is a number, such as a time.
Some scripts also measure another implementation, the reference. The table then shows the ratio reference / ours of the
times. On a shared machine, this ratio is more reliable than a time. The history is a file with one line per call of
`rasf bench`. A measure is marked if its value is more than `SLOWER` times worse than the median of earlier calls on the
same machine and at the same size, quick or full.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.table import Table

import rasf
from rasf.cli.terminal import console, interruptible, on_stderr, say

if TYPE_CHECKING:
    from rasf_lab.common.results import Numbers

SLOWER = 1.3
_FEWEST = 3  # a comparison needs at least this many earlier runs


class Measure(NamedTuple):
    """A number in the JSON of a benchmark. `path` is the sequence of keys that leads to the number.

    `reference` is the path of the ratio reference / ours. The ratio is missing from the JSON if the package of the
    reference implementation is not installed.
    """

    label: str
    path: tuple[str, ...]
    unit: str
    reference: tuple[str, ...] = ()
    higher_is_better: bool = False


class Benchmark(NamedTuple):
    """A script, its arguments at quick and full size, the measures in its JSON, and whether the script needs a GPU."""

    name: str
    script: str
    quick: tuple[str, ...]
    measures: tuple[Measure, ...]
    full: tuple[str, ...] = ()
    on_gpu: bool = False


_ONE = ("one", "MeanVariance")
BENCHMARKS = (
    Benchmark(
        "planning",
        "planning.py",
        ("--states", "20000", "--repeats", "1"),
        (
            Measure("value iteration", ("neutral", "ms_per_sweep"), "ms/sweep", ("quantecon_over_neutral_per_sweep",)),
            Measure("nested entropic", ("nested", "ms_per_sweep"), "ms/sweep"),
        ),
    ),
    Benchmark(
        "tabular",
        "four_room.py",
        ("--tasks", "16"),
        (
            Measure("RaSFQL", ("RaSFQL independent", "us_per_step"), "us/step", ("dense_over_ours",)),
            Measure("SFQL", ("SFQL independent", "us_per_step"), "us/step"),
            Measure("RaPRQL, all steps", ("RaPRQL", "seconds"), "s"),
        ),
    ),
    Benchmark(
        "acting-tables",
        "acting.py",
        ("--policies", "16"),
        (
            Measure("first action for a new w and risk", (*_ONE, "us_new_w_and_risk"), "us", (*_ONE, "dense_over_new")),
            Measure(
                "first actions of a batch for a new risk",
                ("batch", "MeanVariance", "decisions_per_s_first"),
                "actions/s",
                higher_is_better=True,
            ),
        ),
    ),
    Benchmark(
        "acting-networks",
        "acting_deep.py",
        ("--policies", "2", "--steps", "100"),
        (
            Measure("one action, networks of means", ("point", "one_us"), "us"),
            Measure("one action, networks of histograms", ("histogram", "one_us"), "us"),
        ),
    ),
    Benchmark(
        "deep-step",
        "deep.py",
        ("--steps", "100", "--agents", "sfdqn"),
        (
            Measure("training step of SFDQN", ("sfdqn", "ms"), "ms"),
            Measure("share of the memory bandwidth", ("sfdqn", "fraction_of_bandwidth"), "", higher_is_better=True),
        ),
        full=("--steps", "1000", "--agents", "sfdqn"),
    ),
    Benchmark(
        "deep-step-gpu",
        "deep.py",
        ("--steps", "200", "--lanes", "10", "--agents", "rasfc51"),
        (
            Measure("training step of ten RaSFC51 in parallel", ("rasfc51", "ms"), "ms"),
            Measure("share of the memory bandwidth", ("rasfc51", "fraction_of_bandwidth"), "", higher_is_better=True),
        ),
        full=("--steps", "2000", "--lanes", "10", "--agents", "rasfc51"),
        on_gpu=True,
    ),
    Benchmark(
        "files",
        "storage.py",
        ("--gigabytes", "0.05", "--repeats", "2"),
        (Measure("load with checksums", ("load", "gigabytes_per_second"), "GB/s", higher_is_better=True),),
    ),
)  # fmt: skip


class Row(NamedTuple):
    """A row of the table: the value of a measure, `ratio` (reference / ours), and a comparison with earlier runs.

    `worse` is the factor by which the value is worse than the median of earlier runs: 2 for twice the time, 1 for equal
    values, None if there are too few earlier runs.
    """

    benchmark: str
    label: str
    value: float
    unit: str
    ratio: float | None
    worse: float | None

    @property
    def slow(self) -> bool:
        return self.worse is not None and self.worse > SLOWER


def checkout() -> Path:
    """Return the folder of the benchmark scripts.

    Raises:
        ValueError: rasf does not run from a checkout.
    """
    folder = Path(rasf.__file__).resolve().parents[2] / "lab" / "benchmarks"
    if not (folder / BENCHMARKS[0].script).is_file():
        raise ValueError("benchmarks need a checkout of rasf, but this rasf is an installed package")
    return folder


def measure(chosen: Iterable[Benchmark], quick: bool, history: Path) -> tuple[list[Row], Numbers]:
    """Run benchmarks, compare the results with the history, and append the results to the history.

    Args:
        chosen: the benchmarks.
        quick: whether to run the benchmarks at quick size.
        history: the file of earlier runs.

    Returns:
        The rows of the table, and the new line of the history as a dict.
    """
    from rasf_lab.sweep.worker import commit

    progress, folder, answers = on_stderr(), checkout(), {}
    for benchmark in chosen:
        progress.print(f"measuring {benchmark.name}")
        answers[benchmark.name] = _answer(folder, benchmark, quick)
    entry = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": platform.node(),
        "quick": quick,
        "version": rasf.__version__,
        "commit": commit(),
        "answers": answers,
    }
    earlier = [old for old in read_history(history) if old["machine"] == entry["machine"] and old["quick"] == quick]
    rows = [
        _row(benchmark, one, answers[benchmark.name], earlier) for benchmark in chosen for one in benchmark.measures
    ]
    history.parent.mkdir(parents=True, exist_ok=True)
    with history.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    return rows, entry


def read_history(path: Path) -> list[Numbers]:
    """Return the lines of a history file as dicts, without damaged lines. A missing file has no lines."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and {"machine", "quick", "answers"} <= set(entry):
            found.append(entry)
    return found


def _answer(folder: Path, benchmark: Benchmark, quick: bool) -> Numbers:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "answer.json"
        arguments = benchmark.quick if quick else benchmark.full
        command = [sys.executable, str(folder / benchmark.script), *arguments, "--json", str(path)]
        environment = dict(os.environ) if benchmark.on_gpu else {**os.environ, "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"the benchmark {benchmark.script} failed: {last}")
        return dict(json.loads(path.read_text()))


def _row(benchmark: Benchmark, one: Measure, answer: Numbers, earlier: Sequence[Numbers]) -> Row:
    value = _number(answer, one.path)
    if value is None:
        raise ValueError(f"the benchmark {benchmark.script} must write the number {'/'.join(one.path)}, but did not")
    answers = (_number(old["answers"].get(benchmark.name), one.path) for old in earlier)
    before = [number for number in answers if number is not None]
    worse = None
    if len(before) >= _FEWEST:
        usual = statistics.median(before)
        worse = usual / value if one.higher_is_better else value / usual
    return Row(benchmark.name, one.label, value, one.unit, _number(answer, one.reference), worse)


def _number(answer: object, path: tuple[str, ...]) -> float | None:
    """Return the number at a path in a benchmark's JSON, or None if the path leads to no number."""
    for name in path:
        answer = answer.get(name) if isinstance(answer, dict) else None
    return float(answer) if isinstance(answer, int | float) else None


def bench(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Run at small sizes, which takes about a minute.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Run only this benchmark; may be repeated.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="File of all runs; lab/benchmarks/history.jsonl by default.")
    ] = None,
) -> None:
    """Measure the speed of rasf: planning, tables, acting, a training step of networks on CPU and GPU, and files.

    The column "reference / ours" is the time of another implementation, divided by that of rasf in the same run. The
    last column compares this run with earlier runs on this machine.

    Example: `rasf bench --quick --only planning`
    """
    interruptible()
    names = {benchmark.name: benchmark for benchmark in BENCHMARKS if not benchmark.on_gpu or _gpus()}
    unknown = sorted(set(only or ()) - set(names))
    if unknown:
        raise ValueError(f"only must be one of {', '.join(names)}, got {', '.join(unknown)}")
    kept = history or checkout() / "history.jsonl"
    chosen = [benchmark for name, benchmark in names.items() if not only or name in only]
    rows, entry = measure(chosen, quick, kept)
    if as_json:
        sys.stdout.write(json.dumps(entry | {"rows": [row._asdict() for row in rows]}, indent=1) + "\n")
        return
    shown = Table(title="benchmarks on this machine", title_justify="left")
    for heading in ("benchmark", "measure", "value", "reference / ours", "against earlier runs"):
        named = heading in ("benchmark", "measure")
        shown.add_column(heading, justify="left" if named else "right", no_wrap=heading == "benchmark")
    for row in rows:
        against = "-" if row.worse is None else f"{row.worse:.2f} x" + (" slower!" if row.slow else "")
        ratio = "-" if row.ratio is None else f"{row.ratio:.1f}"
        shown.add_row(row.benchmark, row.label, f"{_short(row.value)} {row.unit}", ratio, against)
    console.print(shown)
    say(f"added this run to {kept}")


def _gpus() -> list[str]:
    """Return the ids of the GPUs that jax can use."""
    from rasf_lab.sweep.engines.machine import gpus

    return gpus()


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
