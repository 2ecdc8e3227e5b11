"""`rasf train`: learn a library on an environment, watch it learn, keep it.

Before the work, a rehearsal: the same call with one step per task. It finds what would fail after hours (weights of the
wrong size, networks that do not fit the library they should join), draws the tasks and chooses the agent.

Ctrl-C stops soon and keeps what was learned; a second one leaves at once and writes no library. An existing library is
replaced only with `--overwrite`, and keeps its log if the new one is not saved.
"""

from __future__ import annotations

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
    stepped,
)
from rasf.files import write_atomically
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
    "from": arguments.text,
}
_FROM_LOG = {"env", *_TASKS, "risk", "gamma", "seed", "set", "out", "overwrite", "from"}  # what a log can do with
_SCALARS = (
    "return", "failures", "reward_per_step", "episode_return", "episode_length", "greedy_return", "greedy_failures",
    "loss", "clipped", "steps_per_second", "environment_share",
)  # for TensorBoard  # fmt: skip
_MUCH_CLIPPED = 0.01
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

    Ctrl-C stops and saves what was learned so far; a second Ctrl-C leaves at once.

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
        rehearsed = job.learn(steps_per_task=1, learn_w=False)
    known = 0 if job.base is None else len(job.base.policies)
    _train(job, len(rehearsed.policies) - known, job.steps or rehearsed.agents[-1].steps_per_task)


class _Job(NamedTuple):
    """What is to be learned, and where it is written."""

    env: str
    base: PolicyLibrary | None  # to grow
    options: dict[str, Any]
    steps: int | None
    out: Path
    log: Path
    tensorboard: Path | None

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
    _check_settings(values.get("set", {}), {*signature(learn_from).parameters} - {"least_tries", "resamples"})
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
    return _Job(env, base, _options(values, env, base), values.get("steps-per-task"), out, log, folder)


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
    from rasf.library.progress import ScalarLog, TrainingLog

    board, risks = None if job.tensorboard is None else ScalarLog(job.tensorboard), len(job.options.get("risk", [None]))
    total = policies // risks * steps
    all_from_one = f", {risks} risks from one stream" if risks > 1 else ""
    say(f"{job.env}: {counted_policies(policies)}, {steps:,} steps a task{all_from_one}")
    with stepped() as bar, _log_of_old(job) as undo, Interrupt(bar, undo) as interrupt, TrainingLog(job.log) as log:
        task = bar.add_task("compiling", total=total)

        def callback(progress: TrainingProgress) -> bool:
            line = log.add(progress)
            if board is not None:
                known = {name: line[name] for name in _SCALARS if line[name] is not None}
                board.write(f"policy_{progress.policy:03d}", progress.step, known)
            doing = f"policy {progress.policy + 1} of {policies}"
            told = f"{doing}{_in_words(line)}"
            bar.update(task, completed=round(progress.share * total), description=told)
            interrupt.at = f"{doing}, step {progress.step:,} of {max(1, steps // risks):,}"
            interrupt.stopped = interrupt.asked and progress.share < 1
            return interrupt.stopped

        library = job.learn(steps_per_task=steps, callback=callback)
        interrupt.saving = True
        library.save(job.out)
    old = () if job.base is None else job.base.notes
    for note in library.notes:
        if note not in old:
            say(f"note: {note}")
    say(f"wrote {job.out}, {counted_policies(len(library.policies))} of {library.agent}, and {job.log}")
    if interrupt.stopped:
        say(f"stopped at {interrupt.at}; what was learned so far is saved and can be used")
        raise typer.Exit(INTERRUPTED)
    say(f"see it with `rasf evaluate {job.out}`")


def _in_words(line: dict[str, Any]) -> str:
    """What a line of the log shows beside the bar: how good the policies are, what is wrong with them."""
    told = ""
    if line["greedy_return"] is not None:
        failures = "" if line["greedy_failures"] is None else f", {line['greedy_failures']:.2g} failures"
        told += f"; greedy {line['greedy_return']:.4g} an episode{failures} (random {line['random_return']:.4g})"
    elif line["episode_return"] is not None:
        told += f"; {line['episode_return']:.4g} an episode"
    if (line["clipped"] or 0.0) > _MUCH_CLIPPED:
        told += f"; {line['clipped']:.0%} clipped"
    return told


@contextmanager
def _log_of_old(job: _Job) -> Iterator[Callable[[], None]]:
    """Restore the log of an existing library unless a new one is saved; gives the function that restores it."""
    log = job.log.absolute()  # whoever puts it back may be in another folder by then
    kept = log.read_bytes() if job.out.exists() and log.exists() else None

    def put_back() -> None:
        if kept is not None:
            write_atomically(log, lambda partial: Path(partial).write_bytes(kept))

    try:
        yield put_back
    except BaseException:
        put_back()
        raise
