"""Running a batch of the reacher experiment, on whatever device jax finds.

It is saved when it is complete, so an interrupted experiment goes on with the batch where it stopped, from its last
checkpoint.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from rasf.deep import checkpoint as checkpoints
from rasf.deep import fit
from rasf.deep.train import Lane
from rasf.experiments.reacher_batches import TRAINING, Arrays, Batch, Prepared, load, prepare, save, ticks
from rasf.experiments.reacher_look import Look
from rasf.experiments.tensorboard_log import ScalarLog


def run_batch(
    batch: Batch,
    folder: Path,
    tick: Callable[[], None] = lambda: None,
    log: ScalarLog | None = None,
    checkpoint_every_s: float = 600.0,
) -> Arrays:
    """Train the batch, or go on from its checkpoint; save and return its arrays.

    All have lanes in front, but `tips` (betas in front), `seconds` (of training, and in all) and `peak_gb`.
    """
    done = load(batch, folder)
    if done is not None:
        for _ in range(ticks(batch)):
            tick()
        return done
    begin = time.perf_counter()
    made = prepare(batch)
    look = Look(batch, made, log)
    schedule = fit.Schedule(batch.size.steps_per_task, 1 if batch.alone else len(TRAINING), batch.size.evaluate_every)
    checkpoint = folder / f"{batch.name}.checkpoint"
    lanes, history = fit.fit(
        made.agent,
        made.world,
        made.plans,
        schedule,
        look,
        description=batch.describe(),
        checkpoint=checkpoint,
        checkpoint_every_s=checkpoint_every_s,
        tick=tick,
    )
    trained = time.perf_counter() - begin
    found = {name: np.moveaxis(part, 0, 1) for name, part in history.items()}  # lanes in front
    found |= look.final(lanes) | {"beta": made.betas, "seed": made.seeds, "target": made.targets}
    found["seconds"] = np.array([trained, time.perf_counter() - begin])
    found["peak_gb"] = np.array([peak_memory() / 1e9])
    save(batch, found, folder)
    if look.has_maps:
        save_networks(batch, made, lanes, folder)
    checkpoint.unlink(missing_ok=True)
    return found


def peak_memory() -> int:
    """Bytes in use at most so far: on the device where it counts them, else of this process."""
    device = jax.config.jax_default_device or jax.devices()[0]
    counted = device.memory_stats()
    return int(counted["peak_bytes_in_use"]) if counted else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def save_networks(batch: Batch, made: Prepared, lanes: Lane, folder: Path) -> None:
    """Keep the networks of the first seed at every beta, in half precision: small enough to take elsewhere."""
    for beta in batch.betas:
        lane = int(np.flatnonzero(made.betas == beta)[0])
        networks = jax.tree.map(lambda part, lane=lane: part[lane].astype(jnp.float16), lanes.learner.online)
        checkpoints.save(folder / f"{batch.name}_{beta:g}.networks", networks, {}, batch.describe() | {"beta": beta})
