"""Batches of the reacher experiment: lanes of one program that differ in seed, risk and target; and their files.

A batch is data. A finished one is a file of arrays with a label that says what it is and where it was run.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import rasf
from rasf.arrays import Array
from rasf.deep.agent import Agent, Tasks, preset
from rasf.deep.train import RunConfig
from rasf.envs.reacher.world import TRAINING_TARGETS, Reacher
from rasf.files import write_atomically
from rasf.risk import MeanVariance

Arrays = dict[str, npt.NDArray[Any]]
TRAINING = tuple(range(len(TRAINING_TARGETS)))
TARGETS = tuple(range(len(Reacher().targets)))


@dataclass(frozen=True)
class Size:
    """How large the networks are, how long training and evaluation last."""

    steps_per_task: int = 200_000
    evaluate_every: int = 5_000
    rollouts: int = 5
    final_rollouts: int = 100
    widths: tuple[int, ...] = (256, 256)
    atoms: int = 51
    target_period: int = 1_000
    map_points: int = 31
    truth_rollouts: int = 48
    truth_steps: int = 80


@dataclass(frozen=True)
class Batch:
    """Runs of one agent; `betas` are the paper's (the bare factor of the variance).

    alone: C51 from scratch on every single target, without seeing it, for the normalisation of returns; on these
    `targets` only, if some are named.
    """

    name: str
    agent: str
    betas: tuple[float, ...]
    seeds: tuple[int, ...]
    size: Size
    alone: bool = False
    bootstrap: str = "own"
    target_networks: bool = True
    targets: tuple[int, ...] = ()

    def describe(self) -> dict[str, Any]:
        """What determines the batch's numbers."""
        described = json.loads(json.dumps(asdict(self)))
        if not self.targets:
            del described["targets"]  # files made before there was a choice stay good
        return {"batch": described, "version": rasf.__version__}


class Trial(NamedTuple):
    """One run of a batch; `target` is -1 unless it trains alone."""

    beta: float
    seed: int
    target: int


def trials(batch: Batch) -> list[Trial]:
    """The runs of a batch, in the order of its arrays."""
    targets = (batch.targets or TARGETS) if batch.alone else (-1,)
    return [Trial(beta, seed, target) for beta in batch.betas for seed in batch.seeds for target in targets]


@dataclass(frozen=True)
class Prepared:
    """A batch made ready: the agent, the world, every lane's plan and labels, and the tasks of evaluation."""

    agent: Agent
    world: Reacher
    plans: RunConfig
    betas: npt.NDArray[np.float64]
    seeds: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]  # of a lane that trains alone; else -1
    tasks: Tasks  # with an axis of lanes in front


def prepare(batch: Batch) -> Prepared:
    """The agent, the world and the lanes of a batch."""
    world, size = Reacher(), batch.size
    settings = preset(
        batch.agent,
        widths=size.widths,
        atoms=size.atoms,
        bootstrap=batch.bootstrap,
        target_period=size.target_period if batch.target_networks else 0,
    )
    runs = trials(batch)
    goals = [(run.target,) if batch.alone else TRAINING for run in runs]
    n_inputs = 0 if batch.alone else 2

    def tasks_of(targets: tuple[int, ...]) -> Tasks:
        return Tasks(world.tasks(targets), world.target_positions(targets)[:, :n_inputs])

    training = _stacked([tasks_of(goal) for goal in goals])
    evaluated = _stacked([tasks_of(goal if batch.alone else TARGETS) for goal in goals])
    agent = Agent.create(settings, world.observation_size, world.n_actions, world.feature_bounds, tasks_of(goals[0]))
    beta = jnp.array([MeanVariance.from_paper(run.beta).beta for run in runs], jnp.float32)
    return Prepared(
        agent,
        world,
        RunConfig(jnp.stack(list(map(_key, runs))), beta, beta, training),
        np.array([run.beta for run in runs]),
        np.array([run.seed for run in runs]),
        np.array([run.target for run in runs]),
        evaluated,
    )


def _key(run: Trial) -> Array:
    key = jax.random.key(run.seed)
    return key if run.target < 0 else jax.random.fold_in(key, run.target)


def _stacked(tasks: list[Tasks]) -> Tasks:
    return Tasks(*(jnp.array(np.stack(parts), jnp.float32) for parts in zip(*tasks, strict=True)))


def ticks(batch: Batch) -> int:
    """How often `run_batch` ticks."""
    tasks = 1 if batch.alone else len(TRAINING)
    return tasks * batch.size.steps_per_task // batch.size.evaluate_every


def first_seeds(batch: Batch) -> list[int]:
    """The first lane of every beta, of which more is kept."""
    betas = [run.beta for run in trials(batch)]
    return [betas.index(beta) for beta in batch.betas]


def save(batch: Batch, found: Arrays, folder: Path, device: str | None = None) -> None:
    """Write a batch's arrays, whole or not at all, with what they are and where they come from.

    device: on what it was run, if not in this process.
    """
    from safetensors.numpy import save_file

    label = {
        "describe": _described(batch),
        "device": f"{device or jax.devices()[0].device_kind}, jax {jax.__version__}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    whole = {name: np.ascontiguousarray(part) for name, part in found.items()}
    write_atomically(path_of(batch, folder), lambda partial: save_file(whole, partial, metadata=label))


def path_of(batch: Batch, folder: Path) -> Path:
    """Where a finished batch lies."""
    return folder / f"{batch.name}.safetensors"


def load(batch: Batch, folder: Path) -> Arrays | None:
    """A finished batch's arrays; None if it is not there, not whole, or of another batch or version."""
    from safetensors import safe_open

    if _label(batch, folder).get("describe") != _described(batch):
        return None
    with safe_open(path_of(batch, folder), "numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def is_taken(batch: Batch, folder: Path) -> bool:
    """Whether the place of the batch's file is that of another preset, seed or version of it."""
    return _label(batch, folder).get("describe", _described(batch)) != _described(batch)


def device_of(batch: Batch, folder: Path) -> str:
    """On what a finished batch was run."""
    return _label(batch, folder)["device"]


def _described(batch: Batch) -> str:
    return json.dumps(batch.describe(), sort_keys=True)


def _label(batch: Batch, folder: Path) -> dict[str, str]:
    """What the file at the batch's place says it is; nothing if there is none, or it is not whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path_of(batch, folder), "numpy") as file:
            return dict(file.metadata() or {})
    except (FileNotFoundError, SafetensorError):
        return {}
