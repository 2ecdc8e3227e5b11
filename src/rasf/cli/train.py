"""`rasf train`: train a library on an environment or from a log, show the progress, and save the library.

Training begins with a rehearsal: the same call with one step per task. The rehearsal finds errors that would otherwise
occur only after hours (weights of the wrong size, networks that do not fit the library of `--grow`), and shows how many
policies will be trained.

Ctrl-C stops training soon and saves the policies learned so far. A second Ctrl-C exits at once without a library. An
existing library is replaced only with `--overwrite`. Its training log stays in place until the new library is saved.
During training there are three more files: the unfinished log LOG.part, OUT.checkpoint, and a lock. If a run was
killed, the same command resumes from the checkpoint, with bit-identical results.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from rasf.cli.options import arguments_like, command, own_environment, silence_box_warnings
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
from rasf.files import Header, is_stream
from rasf.library.arguments.declared import FLAG, LEARN, LOG, TRAINING, given_at
from rasf.library.arguments.readers import import_environment
from rasf.risk.names import risk_to_text

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary
    from rasf.library.progress import TrainingProgress

_SCALARS = (
    "return", "failures", "reward_per_step", "episode_return", "episode_length", "greedy_return", "greedy_failures",
    "loss", "clipped", "steps_per_second", "environment_share",
)  # for TensorBoard  # fmt: skip


@command(TRAINING)
def train(values: Header) -> None:
    """Train a library of policies on an environment, or from a log with --from.

    Ctrl-C stops training and saves the policies learned so far. A second Ctrl-C exits at once. If a run was killed, the
    same command resumes from the last checkpoint.

    Example: `rasf train resource-gathering-v0 --tasks 8 --risk mean-variance:-4 --gamma .9 --out gathering.rasf`

    Example: `rasf train minecart-v0 --w 1,0,.1 --w 0,1,.1 --num-envs 8 --set widths=64,64 --out minecart.rasf`

    Example: `rasf train --config minecart.toml --seed 1 --tensorboard runs`

    Example: `rasf train --grow gathering.rasf --w 1,1,0 --out more.rasf`

    Example: `rasf train --from gathering-log --tasks 8 --risk mean-variance:-4 --gamma .9 --out gathering.rasf`
    """
    silence_box_warnings()
    if "data" in values:
        _train_from(values)
        return
    job = _job(values)
    with on_stderr().status(f"checking {printable(job.env)}"):
        rehearsed = job.learn(steps_per_task=1, learn_w=False, progress=False)
    known = 0 if job.base is None else len(job.base.policies)
    _train(job, len(rehearsed.policies) - known, job.steps or rehearsed.agents[-1].steps_per_task)


class _Job(NamedTuple):
    """The arguments of a training, and its files.

    During training the log is `running_log`, so that the log of an existing library stays until training ends.
    """

    env: str
    base: PolicyLibrary | None  # the library of --grow
    options: Header
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

    def learn(self, **more: object) -> PolicyLibrary:
        """Return the library of `rasf.learn`, or of the base library's `grow`."""
        from rasf.library.learn import learn

        grow = learn if self.base is None else self.base.grow
        return grow(self.env, **self.options | more)


def _train_from(values: Header) -> None:
    """Learn from a log, and print notes, such as how often the log tried each action, and predicted returns."""
    from rasf.library.logs.learn import learn_from

    known = given_at(TRAINING, LOG)
    useless = sorted(row.flag for row in TRAINING if FLAG in row.where and row.name in values and row.name not in known)
    if useless:
        raise ValueError(f"{', '.join(useless)} cannot be given with --from, because no environment is stepped")
    out, settings = _new_file(values), _settings(values)
    given = {name: value for name, value in values.items() if name not in ("out", "overwrite", "settings")}
    if "env" in given:
        given["env"] = import_environment(given["env"])
    with on_stderr().status(f"learning from {printable(values['data'])}"):
        library = learn_from(**given, **settings)
        library.save(out)
    for note in library.notes:
        say(f"note: {note}")
    say(f"wrote {out}, {counted_policies(len(library.policies))} of {library.agent}")
    held = library.history
    say("predicted discounted returns from the start states of the log's episodes, with 95 % intervals:")
    for k, policy in enumerate(library.policies):
        predicted = "{:.4g} [{:.4g}, {:.4g}]".format(*(held[f"value{end}"][k] for end in ("", "_low", "_high")))
        say(f"  policy {k}: {predicted} for w {','.join(f'{w:g}' for w in policy.w)}, {risk_to_text(policy.risk)}")
    say(f"see it with `rasf evaluate {out}`")


def _new_file(values: Header) -> Path:
    """Return the path of the library; raise ValueError if it cannot be written, or if tasks are missing."""
    if "out" not in values:
        raise ValueError("out must be given: the file for the library, such as --out gathering.rasf")
    if "tasks" not in values:
        raise ValueError("tasks must be given: a number by --tasks 8, or weights by --w 1,0,.1 or --tasks-file")
    out = check_writable("out", values["out"])
    if is_stream(out):
        raise ValueError(f"out must be an ordinary file, not a pipe or a device, got {out}")
    grown = "base_library" in values and values["base_library"].resolve() == out.resolve()
    if out.exists() and not (grown or values.get("overwrite")):
        raise ValueError(
            f"out must be a new file, and {out} exists; replace it with --overwrite, or add to its policies with "
            f"--grow {out} --out OTHER"
        )
    return out


def _job(values: Header) -> _Job:
    """Return the checked arguments; raise ValueError for invalid arguments, before the environment is opened."""
    out = _new_file(values)
    beside = out.with_suffix(".log.jsonl") if out.suffix == ".rasf" else out.with_name(f"{out.name}.log.jsonl")
    log = check_writable("log", values.get("log", beside))
    if log.resolve() == out.resolve():
        raise ValueError(f"log must be another file than out, got {log} for both")
    base, folder = None, values.get("tensorboard")
    if "base_library" in values:
        from rasf.library.file import load

        base = load(values["base_library"])
    if "env" not in values and base is None:
        raise ValueError("env must be given: the id of an environment, such as resource-gathering-v0")
    env = import_environment(values["env"]) if base is None or "env" in values else own_environment(base)
    if folder is not None:
        check_folder("tensorboard", folder)
    own = ("env", "base_library", "steps_per_task", "checkpoint_seconds", "settings")
    options = {name: values[name] for name in given_at(TRAINING, LEARN) if name in values and name not in own}
    if base is not None:
        options["env_kwargs"] = arguments_like(base, env, values.get("env_kwargs", {}))
    options |= _settings(values)
    overwrite, every = values.get("overwrite", False), values.get("checkpoint_seconds", 120.0)
    return _Job(env, base, options, values.get("steps_per_task"), out, overwrite, log, folder, every)


def _settings(values: Header) -> Header:
    """Return the settings that --set gives.

    Raise ValueError for a name that is not a setting, because it has its own option or can be given only in Python.
    """
    settings: Header = values.get("settings", {})
    taken = {row.name for row in TRAINING if FLAG in row.where or row.read is None}
    for name in settings:
        if name in taken:
            raise ValueError(f"set must name a setting of the agent; {name} is not a setting, or has its own option")
    if isinstance(settings.get("widths"), int):  # --set widths=64 gives a number
        settings |= {"widths": [settings["widths"]]}
    return settings


def _train(job: _Job, policies: int, steps: int) -> None:
    from rasf.library.checkpoint import OtherTraining

    risks = len(job.options.get("risk", [None]))
    of_risks = f" for {risks} risks together" if risks > 1 else ""
    say(f"{job.env}: {counted_policies(policies)}, {steps:,} steps per task{of_risks}")
    with _lock(job.out) as unlock:
        if job.checkpoint.exists():
            say(f"an earlier run of this training was interrupted; this run resumes from {job.checkpoint}")
        try:
            library, stopped_at = _learned(job, policies, steps, unlock)
        except OtherTraining as error:
            if not job.overwrite:
                raise ValueError(f"{error}, or start again with --overwrite") from None
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
        say(f"stopped at {stopped_at}; the policies learned so far are saved and can be used")
        raise typer.Exit(INTERRUPTED)
    say(f"see it with `rasf evaluate {job.out}`")


def _learned(job: _Job, policies: int, steps: int, unlock: Callable[[], None]) -> tuple[PolicyLibrary, str]:
    """Train and save the library; return it, and the step at which Ctrl-C stopped training, or "" without Ctrl-C."""
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
    """Save a library. If this fails, for example on a full disk, save it in a temporary folder and raise ValueError."""
    try:
        library.save(out)
    except OSError as error:
        spare = Path(tempfile.mkdtemp(prefix="rasf-")) / out.name
        library.save(spare)
        raise ValueError(f"{out}: {error.strerror or error}; the library was saved as {spare}") from None


@contextmanager
def _lock(out: Path) -> Iterator[Callable[[], None]]:
    """Lock the path of a library; yield a function that unlocks the path. A killed process releases its lock."""
    from filelock import FileLock, Timeout

    path = out.absolute().with_name(f".{out.name}.lock")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"out must not be in use; another training is writing to {out}") from None

    def unlock() -> None:
        path.unlink(missing_ok=True)
        lock.release()

    try:
        yield unlock
    finally:
        unlock()
