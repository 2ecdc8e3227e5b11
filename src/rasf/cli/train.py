"""`rasf train`: learn a library on an environment, callback it learn, keep it.

Before the work, a rehearsal: the same call with one step a task. It finds what would fail after hours (weights of the
wrong size, networks that do not fit the library they should join), draws the tasks and chooses the agent.

Ctrl-C stops soon and keeps what was learned; a second one leaves at once and writes no library. A library
that is there is replaced only if that is asked for, and keeps its log where its successor does not come about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console

from rasf.agents import AGENTS
from rasf.cli import options as read
from rasf.cli.inputs import arguments_like, own_environment, read_weights, silence_box_warnings, typed_environment
from rasf.cli.terminal import (
    INTERRUPTED,
    Interrupt,
    check_folder,
    check_writable,
    counted_policies,
    printable,
    say,
    stepped,
)
from rasf.files import write_atomically

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary, SourcePolicy
    from rasf.library.progress import TrainingProgress

_TASKS = ("tasks", "tasks-file", "w")
_READERS: dict[str, read.Reader] = {
    "env": read.text,
    "tasks": read.whole(1),
    "tasks-file": read.path,
    "w": read.rows,
    "agent": read.text,
    "risk": read.risks,
    "steps-per-task": read.whole(1),
    "gamma": read.number,
    "seed": read.seed,
    "num-envs": read.whole(1),
    "set": read.assignments,
    "env-arg": read.assignments,
    "support": read.pairs,
    "grow": read.path,
    "out": read.path,
    "overwrite": read.flag,
    "log": read.path,
    "tensorboard": read.path,
}


def train(
    env: Annotated[str | None, typer.Argument(metavar="ENV_ID", help="A Gymnasium or MO-Gymnasium id.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many weightings to draw.")] = None,
    tasks_file: Annotated[Path | None, typer.Option(help="Weightings, a row each: .csv, .json or .npy.")] = None,
    w: Annotated[list[str] | None, typer.Option(metavar="1,0,.1", help="A weighting; may be repeated.")] = None,
    agent: Annotated[
        str | None, typer.Option(help="auto, sfql, rasfql, sfc51, rasfc51, sfdqn or sfdqn-residual. Default: auto.")
    ] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="mean-variance:-4", help="What policies are trained for; may be repeated. Default: neutral."
        ),
    ] = None,
    steps_per_task: Annotated[int | None, typer.Option(help="Default: 20000 for tables, 200000 for networks.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount. Default: 0.95 for tables, 0.9 for networks.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random. Default: 0.")] = None,
    num_envs: Annotated[int | None, typer.Option(help="Environments side by side, for networks. Default: 1.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="name=value", help="A setting of the agent: epsilon=.2, widths=32,32; may be repeated."
        ),
    ] = None,
    env_arg: Annotated[
        list[str] | None, typer.Option(metavar="name=value", help="An argument of the environment; may be repeated.")
    ] = None,
    support: Annotated[
        list[str] | None,
        typer.Option(metavar="LOW,HIGH", help="Bounds of a feature's discounted return, for histograms; one each."),
    ] = None,
    grow: Annotated[Path | None, typer.Option(help="A library to add policies to; those it has help to learn.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to save the library, such as gathering.rasf.")] = None,
    overwrite: Annotated[
        bool | None, typer.Option("--overwrite", help="Replace a library that --out names, if there is one.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="JSON lines of training. Default: beside --out.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard scalars.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these names; flags win over it.")] = None,
) -> None:
    """Train a library of policies on an environment with discrete actions.

    Ctrl-C stops and saves what was learned so far; a second Ctrl-C leaves at once.

    Example: `rasf train resource-gathering-v0 --tasks 8 --risk mean-variance:-4 --gamma .9 --out gathering.rasf`

    Example: `rasf train minecart-v0 --w 1,0,.1 --w 0,1,.1 --num-envs 8 --set widths=64,64 --out minecart.rasf`

    Example: `rasf train --config minecart.toml --seed 1 --tensorboard runs`

    Example: `rasf train --grow gathering.rasf --w 1,1,0 --out more.rasf`
    """
    given = {
        "env": env, "tasks": tasks, "tasks-file": tasks_file, "w": w, "agent": agent, "risk": risk,
        "steps-per-task": steps_per_task, "gamma": gamma, "seed": seed, "num-envs": num_envs, "set": settings,
        "env-arg": env_arg, "support": support, "grow": grow, "out": out, "overwrite": overwrite, "log": log,
        "tensorboard": tensorboard,
    }  # fmt: skip
    job = _job(read.gather(_READERS, config, given, _TASKS))
    silence_box_warnings()
    with Console(stderr=True).status(f"looking at {printable(job.env)}"):
        rehearsed = job.learn(steps_per_task=1, learn_w=False)
    known = 0 if job.elders is None else len(job.elders.policies)
    steps = job.steps or AGENTS[rehearsed.agent].steps_per_task
    _train(job, rehearsed.policies[known:], steps)


class _Job(NamedTuple):
    """What is to be learned, and where it is written."""

    env: str
    elders: PolicyLibrary | None
    options: dict[str, Any]
    steps: int | None
    out: Path
    log: Path
    tensorboard: Path | None

    def learn(self, **more: Any) -> PolicyLibrary:
        """`rasf.learn`, or `grow` of the library that is there."""
        from rasf.library.learn import learn

        grow = learn if self.elders is None else self.elders.grow
        return grow(self.env, **self.options | more)


def _job(values: dict[str, Any]) -> _Job:
    """Everything that is known to be wrong without the environment is refused here."""
    if "out" not in values:
        raise ValueError("out must say where to save the library, such as --out gathering.rasf")
    if not any(name in values for name in _TASKS):
        raise ValueError("tasks must be given: --tasks 8 draws them, --w 1,0,.1 or --tasks-file FILE name them")
    out = check_writable("out", values["out"])
    grown = "grow" in values and values["grow"].resolve() == out.resolve()
    if out.exists() and not (grown or values.get("overwrite")):
        raise ValueError(
            f"out must be a new file, and {out} exists; replace it with --overwrite, or go on from it with "
            f"--grow {out} --out OTHER"
        )
    beside = out.with_suffix(".log.jsonl") if out.suffix == ".rasf" else out.with_name(f"{out.name}.log.jsonl")
    log = check_writable("log", values.get("log", beside))
    if log.resolve() == out.resolve():
        raise ValueError(f"log must be another file than out, got {log} for both")
    elders = None
    if "grow" in values:
        from rasf.library.file import load

        elders = load(values["grow"])
    if "env" in values:
        env = typed_environment(values["env"])
    elif elders is not None:
        env = own_environment(elders)
    else:
        raise ValueError("env must be given, the id of an environment, such as resource-gathering-v0")
    given, folder = values.get("env-arg", {}), values.get("tensorboard")
    return _Job(
        env,
        elders,
        _options(values, given if elders is None else arguments_like(elders, env, given)),
        values.get("steps-per-task"),
        out,
        log,
        None if folder is None else check_folder("tensorboard", folder),
    )


def _options(values: dict[str, Any], env_kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `rasf.learn`."""
    tasks = values.get("tasks") or values.get("w") or read_weights(values["tasks-file"])
    options = {
        "tasks": tasks if isinstance(tasks, int) else np.array(tasks),
        "seed": values.get("seed", 0),
        "env_kwargs": env_kwargs,
        "num_envs": values.get("num-envs", 1),
    }
    for name in ("risk", "agent", "gamma", "support"):
        if name in values:
            options[name] = values[name]
    return options | _settings(values.get("set", {}))


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Settings of agents, of the type of their defaults; names that no agent knows are left for the agent to refuse."""
    from rasf.deep.agent import AgentSettings
    from rasf.library.learn import learn
    from rasf.tabular.learner import SuccessorSettings

    defaults = {one.name: one.default for kind in (AgentSettings, SuccessorSettings) for one in fields(kind)}
    found = {}
    for name, value in given.items():
        if name != "learn_w" and name in (*signature(learn).parameters, "gamma"):
            raise ValueError(f"set must name a setting of the agent; {name} is none, or has an option of its own")
        found[name] = _like(defaults[name], name, value) if name in defaults else value
    return found


def _like(default: Any, name: str, value: Any) -> Any:
    if isinstance(default, bool):
        return read.flag(name, value)
    if isinstance(default, int):
        return read.whole(0)(name, value)
    if isinstance(default, float):
        return read.number(name, value)
    if isinstance(default, tuple):
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
        try:
            return tuple(read.whole(1)(name, int(part) if isinstance(part, str) else part) for part in parts)
        except ValueError:
            raise ValueError(f"{name} must be whole numbers from 1 on, such as 32,32, got {value!r}") from None
    return read.text(name, value)


def _train(job: _Job, policies: tuple[SourcePolicy, ...], steps: int) -> None:
    from rasf.library.training_log import TrainingLog

    scalars = _scalars(job.tensorboard)
    total = len(policies) * steps
    say(f"{job.env}: {counted_policies(len(policies))}, {steps:,} steps each")
    with stepped() as bar, _log_of_old(job) as undo, Interrupt(bar, undo) as interrupt, TrainingLog(job.log) as log:
        task = bar.add_task("compiling", total=total)

        def callback(record: TrainingProgress) -> bool:
            scalars(log.add(record))
            doing = f"policy {record.policy + 1} of {len(policies)}"
            bar.update(task, completed=record.policy * steps + min(record.step, steps), description=doing)
            interrupt.at = f"{doing}, step {record.step:,} of {steps:,}"
            interrupt.stopped = interrupt.asked and record.policy * steps + record.step < total
            return interrupt.stopped

        library = job.learn(steps_per_task=steps, callback=callback)
        interrupt.saving = True
        library.save(job.out)
    old = () if job.elders is None else job.elders.notes
    for note in library.notes:
        if note not in old:
            say(f"note: {note}")
    say(f"wrote {job.out}, {counted_policies(len(library.policies))} of {library.agent}, and {job.log}")
    if interrupt.stopped:
        say(f"stopped at {interrupt.at}; what was learned so far is saved and can be used")
        raise typer.Exit(INTERRUPTED)
    say(f"see it with `rasf evaluate {job.out}`")


@contextmanager
def _log_of_old(job: _Job) -> Iterator[Callable[[], None]]:
    """Put the log of a library that is there back if no other takes its place; how, for who leaves without a word."""
    kept = job.log.read_bytes() if job.out.exists() and job.log.exists() else None

    def put_back() -> None:
        if kept is not None:
            write_atomically(job.log, lambda partial: Path(partial).write_bytes(kept))

    try:
        yield put_back
    except BaseException:
        put_back()
        raise


def _scalars(folder: Path | None) -> Callable[[dict[str, Any]], None]:
    """What to do with a line of the log besides writing it."""
    if folder is None:
        return lambda line: None
    from rasf.experiments.reacher.tensorboard_log import ScalarLog

    board = ScalarLog(folder)
    names = ("return", "failures", "reward_per_step", "loss", "clipped", "steps_per_second")

    def write(line: dict[str, Any]) -> None:
        known = {name: line[name] for name in names if line[name] is not None}
        board.write(f"policy_{line['policy']:03d}", line["step"], known)

    return write
