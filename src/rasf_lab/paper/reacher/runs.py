"""The reacher experiment (the paper's Figures 4, 6 and 10 to 14): all its runs, and `rasf reproduce reacher`.

A batch is a named group of runs. Runs are executed as an experiment of `rasf_lab.sweep`. On a GPU, many runs are lanes
(parallel trainings) of one program. On a CPU, each run is a program. A training step of RaSFC51 is limited by memory
bandwidth, so its time grows with the number of lanes. For RaSFC51, at most `LANES` runs form a program, which takes
half an hour and 4 GB on an H200; if several GPUs share the runs, a program has fewer. A training step of other agents
is limited by the number of small operations, so more lanes cost almost nothing. For other agents, at most `MANY_LANES`
runs form a program, which takes 140 s; more were not tried.

    OUT/reacher-sweep               the folder of the sweep, with a file for each finished run
    OUT/reacher-sweep/libraries     ID.rasf, the policies of runs that keep their policies
    OUT/reacher.npz                 the archive: runs of earlier sweeps, with the arrays that the summary reads. `pack`
                                    writes the archive. Archived runs are not executed again

The summary is made from the batches of which all runs are finished. A claim whose batches are missing is not measured.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path

import jax

from rasf.agents import AGENTS, LawKind
from rasf.checks import one_of
from rasf.files import Arrays, write_atomically
from rasf.library.progress import ScalarLog
from rasf_lab.common import runs as common
from rasf_lab.common.archive import load_archive, save_archive
from rasf_lab.common.results import Result
from rasf_lab.paper.reacher.claims import judge
from rasf_lab.paper.reacher.measures import kept, map_arrays, measures, summary
from rasf_lab.paper.reacher.readings import judged_readings
from rasf_lab.paper.reacher.training import BETAS, CHECKPOINT_EVERY_S, TARGETS, TRAINING, LaneProgram, ReacherRun
from rasf_lab.sweep import runs as sweep
from rasf_lab.sweep.engines import machine
from rasf_lab.sweep.spec import Spec
from rasf_lab.sweep.store import Finished, Store, report_progress, sweep_folder

LANES, MANY_LANES = 20, 120
_ARCHIVE = "reacher.npz"
_TENSORBOARD = "RASF_TENSORBOARD"  # environment variable that gives workers the folder for scalars
_PAPER = ReacherRun("rasfc51", 0.0, 0)
_RELU = replace(_PAPER, activation="relu")
_FINE = replace(_PAPER, map_points=61)
# with so few steps, agents differ after rasf's own training (`beyond`), but not after the paper's training
_QUICK = replace(
    _PAPER,
    beyond=True,
    steps_per_task=10_240,
    evaluate_every=5_120,
    rollouts=4,
    final_rollouts=20,
    width=64,
    target_period=256,
)


def batches(preset: str, seed: int) -> dict[str, list[ReacherRun]]:
    """Return the runs of a preset by batch; `seed` is the first seed."""
    if preset == "quick":
        three = range(seed, seed + 3)
        return {name: _runs(name, (-3.0, 0.0), three, _QUICK) for name in ("rasfdqn", "rac51")}
    seeds, others = range(seed, seed + 10), (-1.0, -2.0, -4.0)
    return {
        "rasfc51-main": _runs("rasfc51", (0.0, -3.0), seeds),
        "alone": _alone(seeds),
        "rac51": _runs("rac51", BETAS, seeds),
        "sfdqn": _runs("sfdqn", (0.0,), seeds),
        "residual": _runs("sfdqn-residual", (-3.0,), seeds[:5]),
        "relabelled": _runs("rac51-relabelled", (0.0, -3.0), seeds),
        "rasfc51-betas": _runs("rasfc51", others, seeds[:5]),
        "rasfc51-betas-more": _runs("rasfc51", others, seeds[5:9]),
        "rasfc51-betas-last": _runs("rasfc51", others, seeds[9:]),
        "residual-more": _runs("sfdqn-residual", (-3.0,), seeds[5:]),
        "residual-neutral": _runs("sfdqn-residual", (0.0,), seeds),
        "alone-averse": _alone(seeds, beta=-3.0),
        "fine-maps": _runs("rasfc51", (0.0, -3.0), seeds[:3], _FINE),
        "residual-fine-maps": _runs("sfdqn-residual", (-3.0,), seeds[:3], _FINE),
        "rasfc51-gpi": _runs("rasfc51", (-3.0,), seeds[:3], replace(_PAPER, bootstrap="gpi")),
        "rasfc51-separate-heads": _runs("rasfc51", (-3.0,), seeds[:3], replace(_PAPER, separate_heads=True)),
        "rasfc51-risky-last": _runs("rasfc51", (-3.0,), seeds[:3], replace(_PAPER, risky_last=True)),
        "rasfc51-late-tip": _runs("rasfc51", (-3.0,), seeds[:5], replace(_PAPER, late_tip=True)),
        "rasfc51-adam": _runs("rasfc51", (-3.0,), seeds[:5], replace(_PAPER, adam_epsilon=1e-7)),
        "rasfc51-atoms": _runs("rasfc51", (-3.0,), seeds[:5], replace(_PAPER, atoms=201)),
        "rac51-atoms": _runs("rac51", (0.0, -3.0), seeds[:5], replace(_PAPER, atoms=201)),
        "alone-relu": _alone(seeds[:5], _RELU),
        "rasfc51-relu": _runs("rasfc51", (0.0, -3.0), seeds[:5], _RELU),
        "rac51-relu": _runs("rac51", BETAS, seeds[:5], _RELU),
        "sfdqn-relu": _runs("sfdqn", (0.0,), seeds[:5], _RELU),
        "rasfc51-half": _runs("rasfc51", (-0.5, -1.5), seeds[:5]),
        "rac51-half": _runs("rac51", (-0.5, -1.5), seeds[:5]),
        "rasfc51-more": _runs("rasfc51", (-4.0,), range(seed + 10, seed + 20)),
        "rac51-more": _runs("rac51", (-4.0,), range(seed + 10, seed + 20)),
        "sfdqn-gpi": _runs("sfdqn", (0.0,), seeds, replace(_PAPER, bootstrap="gpi")),
        "sfdqn-no-target": _runs("sfdqn", (0.0,), seeds, replace(_PAPER, target_networks=False)),
    }


def _runs(agent: str, betas: Sequence[float], seeds: Sequence[int], like: ReacherRun = _PAPER) -> list[ReacherRun]:
    return [replace(like, agent=agent, beta=beta, seed=seed) for beta in betas for seed in seeds]


def _alone(seeds: Sequence[int], like: ReacherRun = _PAPER, beta: float = 0.0) -> list[ReacherRun]:
    return [replace(one, target=target) for one in _runs("rac51", (beta,), seeds, like) for target in TARGETS]


@dataclass(frozen=True)
class Options:
    """Options of `rasf reproduce reacher`.

    Args:
        only: the batches to run. Default: all.
        device: the device to require: "gpu", "cpu" or "any". Default: "any".
        tensorboard: the folder for TensorBoard's log of scalars. Default: none.
        library: the path for a library. The library has the policies of one run: from the first batch whose agent makes
            libraries, at the first seed and the most averse beta. Default: none.
    """

    only: tuple[str, ...] = ()
    device: str = "any"
    tensorboard: Path | None = None
    library: Path | None = None


_ALL = Options()


def chosen(preset: str, seed: int, options: Options) -> list[ReacherRun]:
    """Return the runs of the batches in `options.only`. If `options.library` is given, one run keeps its policies.

    Raises:
        ValueError: a batch is unknown, or no batch has an agent that makes libraries.
    """
    every = batches(preset, seed)
    for name in options.only:
        one_of("batch", name, every)
    groups = [runs for name, runs in every.items() if not options.only or name in options.only]
    if options.library is None:
        return list(chain(*groups))
    able = [group for group in groups if AGENTS[group[0].agent].makes_library]
    if not able:
        raise ValueError(
            "library needs a batch with an agent that learns distributions of feature returns, such as rasfc51"
        )
    kept = min(able[0], key=lambda one: (one.seed, one.beta))
    return [replace(one, library=one == kept) for one in chain(*groups)]


def total_ticks(preset: str, options: Options = _ALL) -> int:
    """Return the number of runs. Raise ValueError for options that cannot be met, before any run starts."""
    _gpus(options)
    return len(chosen(preset, 0, options))


def _gpus(options: Options) -> list[str]:
    """Return the GPUs to train on; raise ValueError if a GPU is required and there is none."""
    found = machine.gpus() if options.device in ("any", "gpu") else []
    if options.device == "gpu" and not found:
        raise ValueError("jax finds no gpu here; install rasf[cuda12] or rasf[cuda13], or leave --device out")
    return found


def run(preset: str, seed: int, tick: Callable[[], None], folder: Path, options: Options = _ALL) -> Result | str:
    """Execute the runs that are missing in `folder`, and return the result of `summarise`.

    Args:
        preset: "quick" or "paper".
        seed: the first seed.
        tick: called once for each run, also for runs that were finished before.
        folder: the folder of the sweep and the archive.
        options: batches, device and further files. Default: all batches on any device.
    """
    runs, results, gpus = chosen(preset, seed, options), Results(folder), _gpus(options)
    if preset == "paper" and options.device == "any" and not gpus and len(results.find(runs)) < len(runs):
        raise ValueError(
            "the reacher at the paper's size needs a GPU, and jax finds none here; use --preset quick, or --device cpu "
            "(a batch takes days)"
        )
    if options.tensorboard:
        ScalarLog(options.tensorboard)  # raises here, before training, if TensorBoard is not installed
    missing = [swept(results.as_kept(one)) for one in runs if swept(one) not in results.archived.runs]
    for _ in range(len(runs) - len(missing)):
        tick()
    if missing:
        with _scalars_of_workers(options.tensorboard):
            common.run_all(Spec("reacher", tuple(missing)), results.store.folder, tick, gpus)
    if options.library is not None:
        (made,) = (_library_path(swept(one), results.store.folder) for one in runs if one.library)
        write_atomically(options.library, lambda partial: shutil.copyfile(made, partial))
    return summarise(preset, seed, folder)


def summarise(preset: str, seed: int, folder: Path) -> Result | str:
    """Return the result of all batches that are complete in a folder, or a sentence that names the missing batch.

    Args:
        preset: "quick" or "paper".
        seed: the first seed.
        folder: the folder of the sweep and the archive.
    """
    results, groups = Results(folder), batches(preset, seed)
    there = {name: results.find(runs) for name, runs in groups.items()}
    complete = {name: group for name, group in there.items() if len(group) == len(groups[name])}
    found = {run: one.arrays for group in complete.values() for run, one in group.items()}
    if preset == "paper" and not any(one.target is not None and not one.beta for one in found):
        return f"to sum up {folder}, also run the batch 'alone', as its returns normalise the returns of other batches"
    if all(one.target is not None for one in found):
        return f"to sum up {folder}, also run another batch, as the batch 'alone' only normalises the returns of others"
    measured = measures(found)
    seconds = {name: float(sum(found[one]["seconds"][0] for one in group)) for name, group in complete.items()}
    lanes = {name: {"seconds": seconds[name], "lanes": len(group)} for name, group in complete.items()}
    devices = "; ".join(sorted({_device(one) for group in complete.values() for one in group.values()}))
    numbers = summary(measured, found) | {"batches": lanes, "readings": judged_readings(found)}
    spent, maps = sum(seconds.values()), map_arrays(measured, results.archived.shared)
    return Result("reacher", preset, seed, spent, numbers, judge(measured), device=devices, arrays=maps)


def _device(one: Finished) -> str:
    return ", jax ".join(map(str, filter(None, (one.provenance["device"], one.scalars.get("jax")))))


class Results:
    """The finished runs in a folder, from the sweep and the archive that the module's header describes."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "reacher-sweep")
        self.archived = load_archive(folder / _ARCHIVE)

    def find(self, runs: Iterable[ReacherRun]) -> dict[ReacherRun, Finished]:
        """Return the finished runs among `runs`, with their results."""
        archived = self.archived.runs
        found = {run: archived.get(swept(run)) or self.store.finished(swept(self.as_kept(run))) for run in runs}
        return {run: one for run, one in found.items() if one is not None}

    def as_kept(self, run: ReacherRun) -> ReacherRun:
        """Return the run with `library=True` if the sweep has finished that run, else the run unchanged."""
        able = AGENTS[run.agent].makes_library and run.activation == ReacherRun.activation
        other = replace(run, library=run.library or able)
        return other if other != run and self.store.is_finished(swept(other)) else run


def pack(folder: Path, preset: str = "paper", seed: int = 0) -> None:
    """Rewrite the archive `folder`/reacher.npz with all finished runs of a preset, from the archive and the sweep.

    Args:
        folder: the folder of the sweep and the archive.
        preset: the preset whose runs are kept. Default: "paper".
        seed: the first seed. Default: 0.
    """
    results, runs = Results(folder), list(chain(*batches(preset, seed).values()))
    found = results.find(runs)
    every = {run: one.arrays for run, one in found.items()}
    small = [
        Finished(swept(run), found[run].scalars, found[run].provenance, arrays) for run, arrays in kept(every).items()
    ]
    save_archive(folder / _ARCHIVE, small, map_arrays(measures(every), results.archived.shared))


class ReacherExperiment:
    """The experiment `kind = "reacher"` of a sweep. Its parameters are the fields of `ReacherRun`."""

    def __init__(self, checkpoint_every_s: float = CHECKPOINT_EVERY_S) -> None:
        self._checkpoint_every_s = checkpoint_every_s

    def check(self, parameters: Mapping[str, sweep.Parameter]) -> Mapping[str, sweep.Parameter]:
        """Return the parameters that differ from those of the paper; refuse unknown names and invalid values."""
        return swept(ReacherRun(seed=0, **common.with_defaults(ReacherRun, parameters))).parameters

    def uses_gpus(self, runs: Sequence[sweep.Run]) -> bool:
        return True

    def pack(self, runs: Sequence[sweep.Run], gpus: int) -> list[list[sweep.Run]]:
        """Return jobs: groups of runs that can be lanes of one program. Without a GPU, each run is a job."""
        if not gpus:
            return sweep.alone(runs)
        groups: dict[ReacherRun, list[sweep.Run]] = defaultdict(list)
        for each in runs:
            one = unswept(each)
            beta = one.beta if one.beyond else 0.0  # with `beyond`, the number of policies depends on beta
            alike = replace(one, beta=beta, seed=0, target=None if one.target is None else 0, library=False)
            groups[alike].append(each)
        jobs = []
        for alike, group in groups.items():
            is_large = AGENTS[alike.agent].law is LawKind.HISTOGRAM
            most = min(LANES, -(-len(group) // gpus)) if is_large else MANY_LANES
            jobs += [group[begin : begin + most] for begin in range(0, len(group), most)]
        return jobs

    def execute(self, runs: Sequence[sweep.Run], scratch: Path) -> list[sweep.RunResult]:
        """Train runs as lanes of one program. A killed job resumes from its last checkpoint.

        Progress is counted in chunks: a chunk is the training between two evaluations.
        """
        log = os.environ.get(_TENSORBOARD)
        lanes = [unswept(each) for each in runs]
        program = LaneProgram(lanes, ScalarLog(Path(log)) if log else None)
        one, done = lanes[0], 0
        chunks = len(one.training) * one.steps_per_task // one.evaluate_every

        def tick() -> None:
            nonlocal done
            done += 1
            self.say(f"{one.variant}, lanes {len(runs)}: {done} of {chunks} chunks of training are done")
            report_progress(scratch, done / (chunks + 1))  # the final evaluation counts as a chunk

        found = program.train(scratch / "lanes.checkpoint", tick, self._checkpoint_every_s)
        for lane, each in enumerate(runs):
            if lanes[lane].library:
                path = _library_path(each, sweep_folder(scratch))
                program.library(lane, found[lane]).save(path, precision="half")
        return [sweep.RunResult(_scalars(arrays) | {"jax": jax.__version__}, arrays) for arrays in found]

    def say(self, sentence: str) -> None:
        """Write a line to the log of the sweep's workers."""
        sys.stdout.write(f"{sentence}\n")
        sys.stdout.flush()


REACHER = ReacherExperiment()


def swept(run: ReacherRun) -> sweep.Run:
    """Return the run as a `Run` of `rasf_lab.sweep`, with the parameters that differ from those of the paper."""
    usual = {one.name: one.default for one in fields(ReacherRun)}
    parameters = {name: value for name, value in asdict(run).items() if name != "seed" and value != usual[name]}
    return sweep.Run("reacher", parameters, run.seed)


def unswept(run: sweep.Run) -> ReacherRun:
    """Return the `ReacherRun` of a run of the sweep: the inverse of `swept`."""
    return ReacherRun(seed=run.seed, **run.parameters)  # type: ignore[arg-type]


def _library_path(run: sweep.Run, folder: Path) -> Path:
    return folder / "libraries" / f"{run.id}.rasf"


def _scalars(found: Arrays) -> dict[str, sweep.Value]:
    """Return a run's numbers for the sweep's table."""
    returns, failures = found["final_return"], found["final_failures"]
    if len(returns) == 1:
        return {"return": float(returns[0]), "failures": float(failures[0])}
    n = len(TRAINING)
    return {
        "test_return": float(returns[n:].mean()),
        "test_failures": float(failures[n:].sum()),
        "train_return": float(returns[:n].mean()),
    }


@contextmanager
def _scalars_of_workers(tensorboard: Path | None) -> Iterator[None]:
    """Within the context, set the environment variable that gives new processes the folder for scalars."""
    before = os.environ.get(_TENSORBOARD)
    if tensorboard is not None:
        os.environ[_TENSORBOARD] = str(tensorboard.resolve())
    try:
        yield
    finally:
        os.environ.pop(_TENSORBOARD, None)
        if before is not None:
            os.environ[_TENSORBOARD] = before
