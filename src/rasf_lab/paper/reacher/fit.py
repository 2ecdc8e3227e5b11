"""`fit`: train lanes with the fused driver from the first step to the last, with evaluations and checkpoints.

A lane is the state of one run. Several lanes are trained in one compiled program. A chunk is the training between two
evaluations. `evaluate` is called with the lanes before training and after each chunk. The history has the arrays that
`evaluate` returned so far, and the training loss, clipped mass and mean features of each chunk. Each array is stacked
on axis 0.

A checkpoint has lanes and history. A killed run resumes from the checkpoint. On the same device, a resumed run and an
uninterrupted run have identical results. A checkpoint also has digests of the agent, the world, the schedule and the
configs, and is refused if a digest differs. Agents, worlds and schedules are compared by their `repr`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from rasf.arrays import Array
from rasf.deep.agent import Agent
from rasf.deep.fused import Lane, RunConfig, Schedule, chunks, period_of, start_lanes
from rasf.files import Arrays, Header, load_file, save_file
from rasf.world import World

Evaluate = Callable[[int, Lane], dict[str, Array]]  # (steps so far, lanes) -> arrays for the history, by name


def fit(
    agent: Agent,
    world: World,
    configs: RunConfig,
    schedule: Schedule,
    evaluate: Evaluate,
    *,
    description: Header,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every_s: float = 600.0,
    tick: Callable[[], None] = lambda: None,
) -> tuple[Lane, Arrays]:
    """Train lanes.

    Args:
        agent: the agent.
        world: the world.
        configs: the configs of the lanes, with lanes on axis 0 of each array.
        schedule: the number of tasks, the number of steps for each task, and the number of steps between evaluations.
        evaluate: (steps so far, lanes) -> arrays for the history; called before training and after each chunk.
        description: everything else that determines the results, such as the version of `evaluate`.
        checkpoint: the path of the checkpoint. An existing checkpoint is resumed. Default: none.
        checkpoint_every_s: seconds between checkpoints. Default: 600.
        tick: function called once per chunk, also for the chunks that a resumed checkpoint covers. Default: none.

    Returns:
        The trained lanes, and the arrays of the history by name.

    Raises:
        ValueError: the checkpoint has another agent, world, schedule, configs or description.
    """
    period, length = period_of(agent, schedule.tasks), schedule.evaluate_every
    stretch = schedule.steps if agent.settings.interleaved else schedule.steps_per_task
    if length % period or stretch % length:
        raise ValueError(f"evaluate_every must be a multiple of {period} and divide {stretch}, got {length}")
    step, lanes, history = 0, start_lanes(agent, world, configs, schedule), Arrays()
    label = _label(agent, world, configs, schedule, description)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        step, lanes, history = _resume(path, lanes, label)
        for _ in range(step // length):
            tick()
    else:
        history = _extended(history, evaluate(0, lanes))
    saved_at = time.monotonic()
    for chunk in chunks(agent, world, configs, schedule, lanes, step):
        lanes = chunk.lanes
        seen = {"loss": chunk.loss, "clipped": chunk.clipped, "training_phi": jnp.mean(chunk.phi, axis=1)}
        history = _extended(history, seen | evaluate(chunk.step, lanes))
        if path is not None and time.monotonic() - saved_at > checkpoint_every_s:
            _save(path, lanes, history, label | {"step": chunk.step})
            saved_at = time.monotonic()
        tick()
    return lanes, history


def _label(agent: Agent, world: World, configs: RunConfig, schedule: Schedule, description: Header) -> Header:
    """Return the header of a checkpoint: digests of the arguments, and the description converted to JSON and back."""
    keys = configs._replace(key=jax.random.key_data(configs.key))
    plain = jax.tree.map(lambda part: jnp.asarray(part).tolist(), keys)
    parts = {"agent": agent, "world": world, "schedule": schedule, "configs": plain}
    # remove memory addresses, which the `repr` of functions and of some objects has
    printed = {name: re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part)) for name, part in parts.items()}
    digests = {name: sha256(text.encode()).hexdigest() for name, text in printed.items()}
    return dict(json.loads(json.dumps(digests | {"description": description})))


def _save(path: Path, lanes: Lane, history: Arrays, label: Header) -> None:
    """Write a checkpoint. The name of an array of the lanes is the path of the array in the tree `Lane`."""
    arrays = {f"lanes{name}": np.asarray(part) for name, part in _named(lanes)}
    save_file(path, label, arrays | {f"history/{name}": part for name, part in history.items()})


def _resume(path: Path, like: Lane, label: Header) -> tuple[int, Lane, Arrays]:
    """Return step, lanes and history of a checkpoint. Refuse a checkpoint that does not fit `label` or `like`."""
    found, arrays = load_file(path)
    step = found.get("step")
    if not label.keys() <= found.keys() or not isinstance(step, int):
        raise ValueError(f"{path} is a checkpoint of another version of rasf; remove it")
    other = [name for name in label if found[name] != label[name]]
    if other:
        raise ValueError(
            f"{path} is a checkpoint of another configuration (different: {', '.join(other)}); remove it or choose "
            "another folder"
        )
    parts = []
    for name, part in _named(like):
        held = arrays.get(f"lanes{name}")
        if held is None or (held.shape, held.dtype) != (np.shape(part), part.dtype):
            wanted = f"{name} must have shape {np.shape(part)} and type {part.dtype}"
            raise ValueError(f"{path} does not fit this training: {wanted}")
        parts.append(jnp.asarray(held))
    history = {name.removeprefix("history/"): part for name, part in arrays.items() if name.startswith("history/")}
    return step, jax.tree.unflatten(jax.tree.structure(like), parts), history


def _named(tree: Lane) -> list[tuple[str, Array]]:
    return [(jax.tree_util.keystr(path), part) for path, part in jax.tree_util.tree_leaves_with_path(tree)]


def _extended(history: Arrays, found: dict[str, Array]) -> Arrays:
    rows = {name: np.asarray(part)[None] for name, part in found.items()}
    return history | {
        name: np.concatenate([history[name], row]) if name in history else row for name, row in rows.items()
    }
