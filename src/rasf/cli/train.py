"""`rasf train`: learn a library on an environment, watch it learn, keep it.

Before the work, a rehearsal: the same call with one step per task. It finds what would fail after hours (weights of the
wrong size, networks that do not fit the library they should join), draws the tasks and chooses the agent.

Ctrl-C stops soon and keeps what was learned; a second one leaves at once and writes no library. An existing library is
replaced only with `--overwrite`, and keeps its log until the new one is saved. While training runs there are three
more files beside `--out`: the log under the name LOG.part, OUT.checkpoint, and a lock. A run that was killed goes on
from the checkpoint when the same command is given again, to the same bits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rasf.agents import AGENTS
from rasf.checks import number, whole
from rasf.cli import options as read
from rasf.cli.terminal import (
    INTERRUPTED,
    Interrupt,
    check_folder,
    check_writable,
    counted_policies,
    on_stderr,
    printable,
    say,
)
from rasf.files import is_stream
from rasf.risk.names import risk_to_text
from rasf.sweep import arguments

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary
    from rasf.library.progress import TrainingProgress

_TASKS = ("tasks", "tasks-file", "w")
_READERS: dict[str, arguments.Reader] = {
    "env": arguments.text,
    "tasks": whole,
    "tasks-file": lambda name, value: arguments.weights_in_file(name, read.path(name, value)),
    "w": arguments.weights,
    "agent": arguments.text,
    "risk": arguments.risks,
    "steps-per-task": whole,
    "gamma": number,
    "seed": arguments.seed,
    "num-envs": whole,
    "set": read.assignments,
    "env-arg": read.assignments,
    "support": arguments.weights,
    "once": arguments.indices,
    "imagined": partial(whole, least=0),
    "phi": arguments.function,
    "failure": arguments.function,
    "grow": read.path,
    "out": read.path,
    "overwrite": arguments.flag,
    "log": read.path,
    "tensorboard": read.path,
    "checkpoint-seconds": partial(number, low=0.0),
    "from": arguments.text,
}
_FROM_LOG = {"env", *_TASKS, "risk", "gamma", "seed", "set", "out", "overwrite", "from"}  # what a log can do with
_SCALARS = (
    "return", "failures", "reward_per_step", "episode_return", "episode_length", "greedy_return", "greedy_failures",
    "loss", "clipped", "steps_per_second", "environment_share",
)  # for TensorBoard  # fmt: skip
_LIBRARY_AGENTS = ", ".join(agent.name for agent in AGENTS.values() if agent.makes_library)


def train(
    ctx: typer.Context,
    env: Annotated[str | None, typer.Argument(metavar="ENV_ID", help="A Gymnasium or MO-Gymnasium id.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many weightings to draw.")] = None,
    tasks_file: Annotated[Path | None, typer.Option(help="Weightings, a row each: .csv, .json or .npy.")] = None,
    w: Annotated[list[str] | None, typer.Option(metavar="1,0,.1", help="A weighting; may be repeated.")] = None,
    agent: Annotated[str | None, typer.Option(help=f"auto, {_LIBRARY_AGENTS}. Default: auto.")] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="mean-variance:-4", help="What policies are trained for; may be repeated. Default: neutral."
        ),
    ] = None,
    steps_per_task: Annotated[int | None, typer.Option(help="Default: the agent's, from 20000 to 200000.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Discount. Default: the agent's, from 0.9 to 0.99.")] = None,
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
    once: Annotated[
        str | None, typer.Option(metavar="2,3", help="Features that come at most once an episode, for histograms.")
    ] = None,
    imagined: Annotated[
        int | None, typer.Option(help="Further weightings that networks learn for from the same steps. Default: 0.")
    ] = None,
    phi: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME", help="A function phi(obs, action, next_obs, info) that gives the features."
        ),
    ] = None,
    failure: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="A function failure(step) that says on which steps there was one."),
    ] = None,
    grow: Annotated[Path | None, typer.Option(help="A library to add policies to; those it has help to learn.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to save the library, such as gathering.rasf.")] = None,
    overwrite: Annotated[
        bool | None, typer.Option("--overwrite", help="Replace a library that --out names, if there is one.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="JSON lines of training. Default: beside --out.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard scalars.")] = None,
    checkpoint_seconds: Annotated[
        float | None, typer.Option(help="Seconds between checkpoints, from which a killed run goes on. Default: 120.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="LOG",
            help="A log to learn from, in place of an environment: a Recorder's folder, .npz, .parquet, minari:ID.",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these names; flags win over it.")] = None,
) -> None:
    """Train a library of policies on an environment with discrete actions.

    Ctrl-C stops and saves what was learned so far; a second Ctrl-C leaves at once. A run that was killed goes on from
    its last checkpoint when the same command is given again.

    Example: `rasf train resource-gathering-v0 --tasks 8 --risk mean-variance:-4 --gamma .9 --out gathering.rasf`

    Example: `rasf train minecart-v0 --w 1,0,.1 --w 0,1,.1 --num-envs 8 --set widths=64,64 --out minecart.rasf`

    Example: `rasf train --config minecart.toml --seed 1 --tensorboard runs`

    Example: `rasf train --grow gathering.rasf --w 1,1,0 --out more.rasf`

    Example: `rasf train --from gathering-log --tasks 8 --risk mean-variance:-4 --gamma .9 --out gathering.rasf`
    """
    values = read.gather(ctx, _READERS, _TASKS)
    read.silence_box_warnings()
    if "from" in values:
        _train_from(values)
        return
    job = _job(values)
    with on_stderr().status(f"looking at {printable(job.env)}"):
        rehearsed = job.learn(steps_per_task=1, learn_w=False, progress=False)
    known = 0 if job.base is None else len(job.base.policies)
    _train(job, len(rehearsed.policies) - known, job.steps or rehearsed.agents[-1].steps_per_task)


class _Job(NamedTuple):
    """What is to be learned, and where it is written.

    The log has another name while training runs, so that an existing library keeps its own until it is replaced.
    """

    env: str
    base: PolicyLibrary | None  # to grow
    options: dict[str, Any]
    steps: int | None
    out: Path
    overwrite: bool
    log: Path
    tensorboard: Path | None
    checkpoint_seconds: float

    @property
    def running_log(self) -> Path:
        return self.log if is_stream(self.log) else self.log.with_name(f"{self.log.name}.part")

    @property
    def checkpoint(self) -> Path:
        return self.out.with_name(f"{self.out.name}.checkpoint")

    def learn(self, **more: Any) -> PolicyLibrary:
        """`rasf.learn`, or `grow` of the library that is there."""
        from rasf.library.learn import learn

        grow = learn if self.base is None else self.base.grow
        return grow(self.env, **self.options | more)


def _train_from(values: dict[str, Any]) -> None:
    """Learn from a log, and say what it covers and what is promised."""
    from rasf.library.logs.learn import learn_from

    useless = values.keys() - _FROM_LOG
    if useless:
        raise ValueError(f"{', '.join(sorted(useless))} cannot be given with --from: a log was recorded already")
    _check_settings(
        values.get("set", {}), {*signature(learn_from).parameters} - {"least_tries", "resamples", "max_bytes"}
    )
    out = _new_file(values)
    given = {name: values[name] for name in ("risk", "gamma", "seed") if name in values}
    env = arguments.import_environment(values["env"]) if "env" in values else None
    tasks = next(values[name] for name in _TASKS if name in values)
    with on_stderr().status(f"learning from {printable(values['from'])}"):
        library = learn_from(values["from"], tasks=tasks, env=env, **given, **values.get("set", {}))
        library.save(out)
    for note in library.notes:
        say(f"note: {note}")
    say(f"wrote {out}, {counted_policies(len(library.policies))} of {library.agent}")
    held = library.history
    say("what the policies promise, discounted, from where the log's episodes began:")
    for k, policy in enumerate(library.policies):
        promised = "{:.4g} [{:.4g}, {:.4g}]".format(*(held[f"value{end}"][k] for end in ("", "_low", "_high")))
        say(f"  policy {k}: {promised} for w {','.join(f'{w:g}' for w in policy.w)}, {risk_to_text(policy.risk)}")
    say(f"see it with `rasf evaluate {out}`")


def _new_file(values: dict[str, Any]) -> Path:
    """Where the library goes; what must be there to begin is."""
    if "out" not in values:
        raise ValueError("out must say where to save the library, such as --out gathering.rasf")
    if not any(name in values for name in _TASKS):
        raise ValueError("tasks must be given: --tasks 8 draws them, --w 1,0,.1 or --tasks-file FILE name them")
    out = check_writable("out", values["out"])
    if is_stream(out):
        raise ValueError(f"out must be a file in a folder, got {out}")
    grown = "grow" in values and values["grow"].resolve() == out.resolve()
    if out.exists() and not (grown or values.get("overwrite")):
        raise ValueError(
            f"out must be a new file, and {out} exists; replace it with --overwrite, or go on from it with "
            f"--grow {out} --out OTHER"
        )
    return out


def _job(values: dict[str, Any]) -> _Job:
    """Everything that is known to be wrong without the environment is refused here."""
    out = _new_file(values)
    beside = out.with_suffix(".log.jsonl") if out.suffix == ".rasf" else out.with_name(f"{out.name}.log.jsonl")
    log = check_writable("log", values.get("log", beside))
    if log.resolve() == out.resolve():
        raise ValueError(f"log must be another file than out, got {log} for both")
    base, folder = None, values.get("tensorboard")
    if "grow" in values:
        from rasf.library.file import load

        base = load(values["grow"])
    if "env" not in values and base is None:
        raise ValueError("env must be given, the id of an environment, such as resource-gathering-v0")
    env = arguments.import_environment(values["env"]) if base is None or "env" in values else read.own_environment(base)
    if folder is not None:
        check_folder("tensorboard", folder)
    options, every = _options(values, env, base), values.get("checkpoint-seconds", 120.0)
    return _Job(
        env, base, options, values.get("steps-per-task"), out, values.get("overwrite", False), log, folder, every
    )


def _options(values: dict[str, Any], env: str, base: PolicyLibrary | None) -> dict[str, Any]:
    """The arguments of `rasf.learn`."""
    from rasf.library.learn import learn

    kwargs, settings = values.get("env-arg", {}), values.get("set", {})
    _check_settings(settings, {*signature(learn).parameters} - {"learn_w"})
    if isinstance(settings.get("widths"), int):  # of --set widths=64
        settings |= {"widths": [settings["widths"]]}
    options = {
        "tasks": next(values[name] for name in _TASKS if name in values),
        "env_kwargs": kwargs if base is None else read.arguments_like(base, env, kwargs),
    }
    named = {
        "imagined",
        "risk",
        "agent",
        "gamma",
        "support",
        "once",
        "phi",
        "failure",
        "seed",
        "num-envs",
    } & values.keys()
    return options | {name.replace("-", "_"): values[name] for name in named} | settings


def _check_settings(settings: dict[str, Any], taken: set[str]) -> None:
    for name in settings:
        if name in taken:
            raise ValueError(f"set must name a setting of the agent; {name} is none, or has an option of its own")


def _train(job: _Job, policies: int, steps: int) -> None:
    from rasf.library.checkpoint import OtherTraining

    risks = len(job.options.get("risk", [None]))
    all_from_one = f", {risks} risks from one stream" if risks > 1 else ""
    say(f"{job.env}: {counted_policies(policies)}, {steps:,} steps a task{all_from_one}")
    with _lock(job.out) as unlock:
        if job.checkpoint.exists():
            say(f"an earlier run of this training was interrupted: it goes on from {job.checkpoint}")
        try:
            library, stopped_at = _learned(job, policies, steps, unlock)
        except OtherTraining as error:
            if not job.overwrite:
                raise ValueError(f"{error}, or start anew with --overwrite") from None
            job.checkpoint.unlink()
            library, stopped_at = _learned(job, policies, steps, unlock)
        job.checkpoint.unlink(missing_ok=True)
        if job.running_log != job.log:
            os.replace(job.running_log, job.log)
    old = () if job.base is None else job.base.notes
    for note in library.notes:
        if note not in old:
            say(f"note: {note}")
    say(f"wrote {job.out}, {counted_policies(len(library.policies))} of {library.agent}, and {job.log}")
    if stopped_at:
        say(f"stopped at {stopped_at}; what was learned so far is saved and can be used")
        raise typer.Exit(INTERRUPTED)
    say(f"see it with `rasf evaluate {job.out}`")


def _learned(job: _Job, policies: int, steps: int, unlock: Callable[[], None]) -> tuple[PolicyLibrary, str]:
    """Train and save the library; the library, and where Ctrl-C stopped it, "" if it did not."""
    from rasf.library.checkpoint import Checkpoint
    from rasf.library.progress import ScalarLog, TrainingLog
    from rasf.library.progress_bar import in_words, training_bar

    board = None if job.tensorboard is None else ScalarLog(job.tensorboard)
    risks = len(job.options.get("risk", [None]))
    total = policies // risks * steps
    with (
        training_bar(on_stderr()) as bar,
        Interrupt(bar, unlock) as interrupt,
        TrainingLog(job.running_log) as log,
    ):
        task = bar.add_task("compiling", total=total)

        def callback(progress: TrainingProgress) -> bool:
            line = log.add(progress)
            if board is not None:
                known = {name: line[name] for name in _SCALARS if line[name] is not None}
                board.write(f"policy_{progress.policy:03d}", progress.step, known)
            bar.update(task, completed=round(progress.share * total), description=in_words(progress, policies))
            at = f"step {progress.step:,} of {max(1, steps // risks):,}"
            interrupt.at = f"policy {progress.policy + 1} of {policies}, {at}"
            interrupt.stopped = interrupt.asked and progress.share < 1
            return interrupt.stopped

        saver = Checkpoint(job.checkpoint, job.checkpoint_seconds, {"log": log}, keep=True)
        library = job.learn(steps_per_task=steps, callback=callback, checkpoint=saver, progress=False)
        interrupt.saving = True
        _save(library, job.out)
    return library, interrupt.at if interrupt.stopped else ""


def _save(library: PolicyLibrary, out: Path) -> None:
    """Save a library; where that fails, as on a full disk, save it in a temporary folder and say so."""
    try:
        library.save(out)
    except OSError as error:
        spare = Path(tempfile.mkdtemp(prefix="rasf-")) / out.name
        library.save(spare)
        raise ValueError(f"{out}: {error.strerror or error}; the library was saved as {spare}") from None


@contextmanager
def _lock(out: Path) -> Iterator[Callable[[], None]]:
    """Hold the right to write a library; gives the function that ends it at once. A killed process holds nothing."""
    from filelock import FileLock, Timeout

    path = out.absolute().with_name(f".{out.name}.lock")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"out must be for one training at a time; another one writes to {out}") from None

    def unlock() -> None:
        path.unlink(missing_ok=True)
        lock.release()

    try:
        yield unlock
    finally:
        unlock()
