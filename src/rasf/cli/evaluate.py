"""`rasf evaluate`: evaluate a library for given weights and risks, which all begin in the same start states.

Without weights, the command describes the library.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rasf.cli.options import arguments_like, command, own_environment, silence_box_warnings
from rasf.cli.reports import print_comparison, print_library
from rasf.cli.terminal import check_plot, check_writable, counted, say
from rasf.files import Header
from rasf.library.arguments.declared import EVALUATION
from rasf.library.arguments.readers import import_environment

if TYPE_CHECKING:
    from rasf.arrays import Floats
    from rasf.library.evaluation import Comparison, Report
    from rasf.library.policy_library import PolicyLibrary
    from rasf.risk import Risk

_EPISODES = 100
_LIMITS = {"limit": "at_most", "floor": "at_least"}
# accepted only with --w
_LOOKING = ("ahead", "particles", "milliseconds")
_OPTIONS = ("episodes", "seed", "max_steps", "discount_aware", "static", "phi", "failure", *_LOOKING)
_STANDARD_OUTPUT = Path("-")


@command(EVALUATION)
def evaluate(values: Header) -> None:
    """Act with a library for given weights and risks, and compare the results. Without --w, describe the library.

    Example: `rasf evaluate gathering.rasf`

    Example: `rasf evaluate gathering.rasf --w 1,1,1 --risk neutral --risk mean-variance:-4 --plot returns.png`

    Example: `rasf evaluate gathering.rasf --w 1,1,1 --w 2,1,0 --risk cvar:0.1 --episodes 500 --json -`

    Example: `rasf evaluate rooms.rasf --w 1,1,1,1,-2 --limit failure=0.02`

    Example: `rasf evaluate rooms.rasf --w 1,1,1,1,-2 --risk neutral --risk mean-variance:-4 --price failure=4,10`

    Example: `rasf evaluate arm.rasf --w 1,0,-3 --ahead 8`
    """
    job = _job(values)
    silence_box_warnings()
    compared = _compare(job)
    if job.plot is not None:
        from rasf import drawing

        drawing.save(drawing.comparison(compared, job.discounted, _source(job)), job.plot)
    if job.json is not None:
        _write_json(job, compared)
    if job.json != _STANDARD_OUTPUT:
        if compared:
            say(_source(job))
        else:
            print_library(job.file, job.library)
        for each in compared:
            print_comparison(each, job.discounted)
        for path in (job.plot, job.json):
            if path is not None:
                say(f"wrote {path}")


class _Job(NamedTuple):
    """A library, the options for acting with it, and the files for the results."""

    file: Path
    library: PolicyLibrary
    env: str
    env_kwargs: dict[str, object]  # if empty, the keyword arguments of training are used
    w: Floats | list[Floats]  # (n, d); if empty, the library is only described
    risks: list[Risk]
    options: Header
    json: Path | None
    plot: Path | None

    @property
    def discounted(self) -> bool:
        """Whether discounted returns are shown."""
        return bool(self.options["discount_aware"] or self.options["static"])


def _job(values: Header) -> _Job:
    """Return the checked arguments; raise ValueError for invalid arguments, before acting."""
    from rasf.library.file import load
    from rasf.limits import Limit
    from rasf.risk.certainty import static_risk

    if "file" not in values:
        raise ValueError("file must be given: a library made by `rasf train`")
    target, plot, weights = values.get("json"), values.get("plot"), values.get("w", [])
    if target not in (None, _STANDARD_OUTPUT):
        check_writable("json", target)
    if plot is not None:
        from rasf.drawing import MOST_PANELS

        check_plot(plot)
        if not 1 <= len(weights) <= MOST_PANELS:
            raise ValueError(f"plot is for 1 to {MOST_PANELS} tasks, got {len(weights)} by --w")
    library = load(values["file"])
    unused = [name for name in ("env", "env_kwargs", "risk", "price", *_OPTIONS, *_LIMITS) if name in values]
    if not len(weights) and unused:
        flag = next(row.flag for row in EVALUATION if row.name == unused[0])
        raise ValueError(f"{flag} is for acting, which needs weights: give {library.n_features} numbers by --w")
    if len(weights) and weights.shape[1] != library.n_features:
        raise ValueError(f"w must be {library.n_features} numbers, got {weights.shape[1]}")
    risks = values.get("risk") or library.risks()
    for risk in risks:
        static_risk(risk) if values.get("static") else library.sources.check(risk)
    twice = values.get("limit", {}).keys() & values.get("floor", {}).keys()
    if twice:
        raise ValueError(f"a feature can have a limit or a floor, not both, and {min(twice)} has both")
    limits = {
        feature: Limit(**{side: bound}, per_episode=per_episode)
        for name, side in _LIMITS.items()
        for feature, (bound, per_episode) in values.get(name, {}).items()
    }
    options: Header = {"episodes": _EPISODES, "seed": 0, "discount_aware": False, "static": False}
    options |= {"limits": limits} if limits else {}
    options |= {"prices": values["price"]} if "price" in values else {}
    options |= {name: values[name] for name in _OPTIONS if name in values}
    env, kwargs = "", values.get("env_kwargs", {})
    if len(weights):
        if library.environment.phi is not None and "phi" not in values:
            trained = f"the library was trained with the function phi {library.environment.phi}"
            raise ValueError(f"{trained}: give the function by --phi MODULE:NAME, or by evaluate(.., phi=..) in Python")
        env = import_environment(values["env"]) if "env" in values else own_environment(library)
        kwargs = arguments_like(library, env, kwargs) if kwargs else {}
    return _Job(values["file"], library, env, kwargs, weights, risks, options, target, plot)


def _compare(job: _Job) -> list[Comparison]:
    """Return a comparison for each task. All comparisons have the same seed and therefore the same start states."""
    if not len(job.w):
        return []
    from rasf.envs.gymnasium.single import make

    env = partial(make, job.env, job.env_kwargs) if job.env_kwargs else job.env
    found: list[Comparison] = []
    begun: list[tuple[int, str]] = []
    episodes = job.options["episodes"]
    rows = len(job.risks) + sum(map(len, job.options.get("prices", {}).values()))
    with counted() as bar:
        task = bar.add_task("acting (episodes)", total=len(job.w) * rows * episodes)

        def callback(weighting: int, row: str, over: int) -> None:
            if (weighting, row) not in begun[-1:]:
                begun.append((weighting, row))
            bar.update(task, completed=(len(begun) - 1) * episodes + over)

        for i, w in enumerate(job.w):
            shown = partial(callback, i)
            found.append(job.library.compare(env, w, job.risks, callback=shown, **job.options))
    return found


def _source(job: _Job) -> str:
    return f"{job.file.name} on {job.env}, {job.options['episodes']} episodes each, seed {job.options['seed']}"


def _write_json(job: _Job, compared: list[Comparison]) -> None:
    from rasf.files import write_text

    results = {
        "file": str(job.file),
        "library": job.library.describe() | {"gamma": job.library.gamma},
        "env": job.env or None,
        "env_kwargs": job.env_kwargs,
        **{name: _printed(value) for name, value in job.options.items()},
        "comparisons": [
            {"w": list(w), "risks": {name: _every_number(report) for name, report in each.reports.items()}}
            for w, each in zip(job.w, compared, strict=True)
        ],
    }
    # JSON has no nan and no infinity: both become null
    finite = json.loads(json.dumps(results), parse_constant=lambda _: None)
    text = json.dumps(finite, indent=1) + "\n"
    if job.json == _STANDARD_OUTPUT:
        sys.stdout.write(text)
    elif job.json is not None:
        write_text(job.json, text)


def _printed(value: object) -> object:
    """Return a value for JSON: the name of a function, limits as text, and other values unchanged."""
    if isinstance(value, dict):
        return {name: part if isinstance(part, list) else str(part) for name, part in value.items()}
    return f"{value.__module__}:{getattr(value, '__name__', type(value).__name__)}" if callable(value) else value


def _every_number(report: Report) -> dict[str, object]:
    episodes = {
        "returns": report.returns,
        "discounted_returns": report.discounted,
        "lengths": report.lengths,
        "features": report.phi,
    }
    failures = None if report.failures is None else report.failures.tolist()
    return report.describe() | {name: part.tolist() for name, part in episodes.items()} | {"failures": failures}
