"""`rasf evaluate`: what acting with a library leads to, for weightings and risks chosen now, on the same beginnings.

Without weightings it says what the library is.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rasf.cli import options as read
from rasf.cli.inputs import arguments_like, own_environment, silence_box_warnings, typed_environment
from rasf.cli.reports import print_comparison, print_library
from rasf.cli.terminal import check_writable, counted, say

if TYPE_CHECKING:
    from rasf.library.evaluation import Comparison
    from rasf.library.policy_library import PolicyLibrary
    from rasf.risk import Risk

_EPISODES = 100
_READERS: dict[str, read.Reader] = {
    "file": read.path,
    "env": read.text,
    "env-arg": read.assignments,
    "w": read.rows,
    "risk": read.risks,
    "episodes": read.whole(2),
    "max-steps": read.whole(1),
    "seed": read.seed,
    "discount-aware": read.flag,
    "json": read.path,
    "plot": read.path,
}
_STANDARD_OUTPUT = Path("-")


def evaluate(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A library made by `rasf train`.")] = None,
    env: Annotated[str | None, typer.Option(help="Where to act. Default: where the library was trained.")] = None,
    env_arg: Annotated[
        list[str] | None, typer.Option(metavar="name=value", help="An argument of the environment; may be repeated.")
    ] = None,
    w: Annotated[list[str] | None, typer.Option(metavar="1,0,.1", help="A weighting; may be repeated.")] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="cvar:0.1",
            help="What to act for; may be repeated. Default: neutral, and what the policies were trained for.",
        ),
    ] = None,
    episodes: Annotated[int | None, typer.Option(help=f"For each weighting and risk. Default: {_EPISODES}.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Cut episodes that go on for longer.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the beginnings. Default: 0.")] = None,
    discount_aware: Annotated[
        bool | None,
        typer.Option(
            "--discount-aware", help="Let risk fade as gamma^t, as in the paper's guarantee; shows discounted returns."
        ),
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE|-", help="Write the numbers as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the returns.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these names; flags win over it.")] = None,
) -> None:
    """Act with a library on weightings and risks chosen now, and compare; without --w, say what the library is.

    Example: `rasf evaluate gathering.rasf`

    Example: `rasf evaluate gathering.rasf --w 1,1,1 --risk neutral --risk mean-variance:-4 --plot returns.png`

    Example: `rasf evaluate gathering.rasf --w 1,1,1 --w 2,1,0 --risk cvar:0.1 --episodes 500 --json -`
    """
    given = {
        "file": file, "env": env, "env-arg": env_arg, "w": w, "risk": risk, "episodes": episodes,
        "max-steps": max_steps, "seed": seed, "discount-aware": discount_aware, "json": as_json, "plot": plot,
    }  # fmt: skip
    job = _job(read.gather(_READERS, config, given))
    silence_box_warnings()
    compared = _compare(job) if job.w else []
    if job.plot is not None:
        from rasf.experiments.common import comparison_figure, drawing

        drawing.save(comparison_figure.draw(compared, job.discount_aware, _source(job)), job.plot)
    if job.json is not None:
        _write_json(job, compared)
    if job.json != _STANDARD_OUTPUT:
        if compared:
            say(_source(job))
        else:
            print_library(job.file, job.library)
        for each in compared:
            print_comparison(each, job.discount_aware)
        for path in (job.plot, job.json):
            if path is not None:
                say(f"wrote {path}")


class _Job(NamedTuple):
    """A library, what it is asked to do and where the answer goes."""

    file: Path
    library: PolicyLibrary
    env: str
    env_kwargs: dict[str, Any]  # empty: as in training
    w: read.Rows
    risks: list[Risk]
    options: dict[str, Any]
    discount_aware: bool
    json: Path | None
    plot: Path | None


def _job(values: dict[str, Any]) -> _Job:
    """Everything that is known to be wrong before acting is refused here."""
    from rasf.library.file import load

    if "file" not in values:
        raise ValueError("file must be given, a library made by `rasf train`")
    weights: read.Rows = values.get("w", ())
    target, plot = values.get("json"), values.get("plot")
    if target not in (None, _STANDARD_OUTPUT):
        check_writable("json", target)
    if plot is not None:
        _check_plot(plot, len(weights))
    library = load(values["file"])
    if weights and len(weights[0]) != library.n_features:
        raise ValueError(f"w must be {library.n_features} numbers, got {len(weights[0])}")
    risks = values.get("risk") or _risks_of(library)
    for risk in risks:
        library.sources.check(risk)
    aware = values.get("discount-aware", False)
    options = {"episodes": values.get("episodes", _EPISODES), "seed": values.get("seed", 0), "discount_aware": aware}
    if "max-steps" in values:
        options["max_steps"] = values["max-steps"]
    env, kwargs, phi = "", values.get("env-arg", {}), library.environment["phi"]
    if weights and phi is not None:
        raise ValueError(
            f"file was trained with phi, {phi}, and can be evaluated only from Python: evaluate(.., phi=..)"
        )
    if weights:
        env = typed_environment(values["env"]) if "env" in values else own_environment(library)
        kwargs = arguments_like(library, env, kwargs) if kwargs else {}
    return _Job(values["file"], library, env, kwargs, weights, risks, options, aware, target, plot)


def _check_plot(plot: Path, weightings: int) -> None:
    from rasf.experiments.common.comparison_figure import MOST

    if plot.suffix != ".png":
        raise ValueError(f"plot must end in .png, got {plot}")
    if not 1 <= weightings <= MOST:
        raise ValueError(f"plot shows 1 to {MOST} weightings, got {weightings} by --w")
    check_writable("plot", plot)


def _risks_of(library: PolicyLibrary) -> list[Risk]:
    """Neutral, and what the policies were trained for, as far as it can be written and the library can act so."""
    from rasf.risk.names import risk_from_text

    found = []
    for text in dict.fromkeys(["neutral", *(policy.risk for policy in library.policies)]):
        with contextlib.suppress(ValueError):
            risk = risk_from_text(text)
            library.sources.check(risk)
            found.append(risk)
    return found


def _compare(job: _Job) -> list[Comparison]:
    """A comparison for each weighting; the seed gives all of them the same beginnings."""
    from rasf.envs.gymnasium.single import make
    from rasf.risk.names import risk_to_text

    env = partial(make, job.env, job.env_kwargs) if job.env_kwargs else job.env
    risks, episodes, found = [risk_to_text(risk) for risk in job.risks], job.options["episodes"], []
    with counted() as bar:
        task = bar.add_task("acting, episodes", total=len(job.w) * len(risks) * episodes)

        def callback(before: int, risk: str, over: int) -> None:
            bar.update(task, completed=(before + risks.index(risk)) * episodes + over)

        for i, w in enumerate(job.w):
            told = partial(callback, i * len(risks))
            found.append(job.library.compare(env, w, job.risks, callback=told, **job.options))
    return found


def _source(job: _Job) -> str:
    return f"{job.file.name} on {job.env}, {job.options['episodes']} episodes each, seed {job.options['seed']}"


def _write_json(job: _Job, compared: list[Comparison]) -> None:
    from rasf.files import write_text

    library = job.library
    told = {
        "file": str(job.file),
        "library": {
            "environment": library.environment,
            "agent": library.agent,
            "gamma": library.gamma,
            "policies": [policy._asdict() for policy in library.policies],
            "notes": list(library.notes),
            "provenance": library.provenance,
        },
        "env": job.env or None,
        "env_kwargs": job.env_kwargs,
        **job.options,
        "comparisons": [
            {
                "w": list(w),
                "risks": {
                    name: report.describe()
                    | {
                        "returns": report.returns.tolist(),
                        "discounted_returns": report.discounted.tolist(),
                        "lengths": report.lengths.tolist(),
                        "failures": None if report.failures is None else report.failures.tolist(),
                    }
                    for name, report in each.reports.items()
                },
            }
            for w, each in zip(job.w, compared, strict=True)
        ],
    }
    text = json.dumps(_finite(told), indent=1, allow_nan=False) + "\n"
    if job.json == _STANDARD_OUTPUT:
        sys.stdout.write(text)
    elif job.json is not None:
        write_text(job.json, text)


def _finite(value: Any) -> Any:
    """JSON knows no nan."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
