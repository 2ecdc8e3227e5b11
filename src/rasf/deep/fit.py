"""Training from the first step to the last: task after task, evaluation in between, checkpoints, checks.

`chunks` drives the compiled loop of `train`, some target periods at a time. After each chunk the features it saw are
held to their declared bounds and the loss must be finite. `fit` adds evaluation and checkpoints: after each chunk the
caller's `evaluate` may look at the lanes, and what it returns is kept as history, stacked on axis 0. A checkpoint holds
lanes and history, so that a killed run goes on from its last one, to the same bits on the same device; and digests of
the agent, the world, the schedule and the configs, so that it does so only where they are the same. Agents, worlds and
schedules are told apart by what they print.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rasf.agents import LawKind
from rasf.arrays import Array, Floats
from rasf.checks import whole
from rasf.deep import train
from rasf.deep.agent import Agent
from rasf.deep.train import Lane, PeriodStats, RunConfig, World
from rasf.files import Arrays, Header, load_file, save_file

Evaluate = Callable[[int, Lane], dict[str, Array]]  # (steps so far, lanes) -> arrays to keep
_PLAIN_PERIOD = 1_000  # where no target networks set one


@dataclass(frozen=True)
class Schedule:
    """How long to train on each task, in steps, and how often to evaluate."""

    steps_per_task: int
    tasks: int
    evaluate_every: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            whole(name, value)

    @property
    def steps(self) -> int:
        """Of all tasks."""
        return self.steps_per_task * self.tasks


def period_of(agent: Agent, tasks: int = 1) -> int:
    """Steps, of all environments, between copies to the target networks."""
    n = train.environments(agent, tasks)
    return max(1, (agent.settings.target_period or _PLAIN_PERIOD) // agent.updates_for(n)) * n


class Chunk(NamedTuple):
    """Where training stands after some steps: their number and task, the lanes, and what the steps showed.

    phi (L, E, d) of each environment, loss (L,) and clipped (L, 2) are means over the chunk's `length` steps.
    """

    step: int
    length: int
    task: int
    lanes: Lane
    phi: Array
    loss: Array
    clipped: Array


def chunks(
    agent: Agent, world: World, configs: RunConfig, schedule: Schedule, lanes: Lane | None = None, step: int = 0
) -> Iterator[Chunk]:
    """Train all lanes of `configs` (each part stacked on axis 0), from the beginning or from `lanes` at `step`.

    A chunk has `evaluate_every` steps, in whole target periods. Where a task ends amid a period, the period is cut
    short: target networks are up to date whenever a task begins. Side by side, all tasks are one stretch of training.
    The lanes of a chunk live until the next is asked for.
    """
    n, stretch = train.environments(agent, schedule.tasks), schedule.steps_per_task
    period = period_of(agent, schedule.tasks) // n  # from here to the call below, in rounds
    lanes = start_lanes(agent, world, configs, schedule) if lanes is None else lanes
    while step < schedule.steps:
        task, done = divmod(step // n, stretch)
        left = stretch - done
        periods, length = max(1, min(schedule.evaluate_every // n, left) // period), min(period, left)
        advance = _compiled_advance(agent, world, periods, length)
        lanes, progress = advance(configs, lanes, step // n, task * stretch, task)
        taken = periods * length * n
        _check(progress, np.asarray(world.feature_bounds), step, taken)
        step += taken
        seen = (jnp.mean(part, axis=1) for part in (progress.phi_mean, progress.loss, progress.clipped))
        yield Chunk(step, taken, task, lanes, *seen)


def start_lanes(agent: Agent, world: World, configs: RunConfig, schedule: Schedule) -> Lane:
    """The lanes before their first step; what does not fit together is refused."""
    _check_sizes(agent, world, configs, schedule)
    return _compiled_start(agent, world, schedule.steps)(configs)


@lru_cache(maxsize=8)
def _compiled_start(agent: Agent, world: World, steps: int) -> Callable[[RunConfig], Lane]:
    return jax.jit(jax.vmap(partial(train.start, agent, world, steps)))


@lru_cache(maxsize=8)
def _compiled_advance(agent: Agent, world: World, periods: int, length: int) -> Callable[..., tuple[Lane, PeriodStats]]:
    one_lane = partial(train.advance, agent, world, periods, length)
    return jax.jit(jax.vmap(one_lane, in_axes=(0, 0, None, None, None)), donate_argnums=(1,))


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
    """Train all lanes of `configs` (each part stacked on axis 0) and return them with the history.

    `description` says what else this run is, such as what `evaluate` does. A checkpoint with another one, or of another
    agent, world, schedule or configs, is refused. `tick` is called once per chunk.
    """
    period, length = period_of(agent, schedule.tasks), schedule.evaluate_every
    stretch = schedule.steps if agent.settings.side_by_side else schedule.steps_per_task
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


def _check_sizes(agent: Agent, world: World, configs: RunConfig, schedule: Schedule) -> None:
    """Refuse configs that are not stacked or not finite, and an agent, configs or a schedule of other sizes."""
    numbers = {"beta": configs.beta, "bootstrap_beta": configs.bootstrap_beta, **configs.tasks._asdict()}
    beta, bootstrap_beta, weights, inputs = map(np.shape, numbers.values())
    lanes = jax.random.key_data(configs.key).shape[:-1]
    stacked = len(weights) == 3 and 0 not in weights and inputs[:-1] == weights[:-1]
    if not stacked or beta not in (lanes, weights[:2]) or not lanes == bootstrap_beta == weights[:1]:
        raise ValueError(
            "configs must have lanes in front of every part: keys (L,), betas (L,), weights (L, T, d), inputs "
            f"(L, T, c); got key {lanes}, " + ", ".join(f"{name} {np.shape(part)}" for name, part in numbers.items())
        )
    (_, tasks, d), conditioned = weights, agent.settings.conditioned
    policies = 1 if conditioned else tasks
    if configs.policies is not None:
        learned, betas = map(np.shape, configs.policies)
        policies = agent.policies
        if learned != (*lanes, policies, d) or betas != learned[:-1]:
            raise ValueError(
                f"policies of configs must have weights {(*lanes, policies, d)} and a beta for each, got {learned} and "
                f"{betas}"
            )
        numbers |= {f"{name} of policies": part for name, part in configs.policies._asdict().items()}
    for name, part in numbers.items():
        wrong = np.asarray(part)[~np.isfinite(part)]
        if wrong.size:
            raise ValueError(f"{name} of configs must be finite, got {wrong[0]}")
    for who, what, has, fits in (
        ("agent", "actions", agent.actions, world.n_actions),
        ("agent", "inputs", agent.inputs, world.observation_size + conditioned * inputs[-1]),
        ("configs", "features", d, len(world.feature_bounds)),
        ("agent", "features", agent.law.features, 1 if conditioned else d),
        ("agent", "policies", agent.policies, policies),
        ("schedule", "tasks", schedule.tasks, tasks),
    ):
        if has != fits:
            raise ValueError(f"{who} must have {fits} {what} to fit the world and the configs, got {has}")
    active = agent.for_weights(configs.tasks.weights).active_features
    if agent.law.kind is LawKind.HISTOGRAM and active > agent.active_features:
        raise ValueError(f"agent must have {active} active_features, as the configs do, got {agent.active_features}")


def _label(agent: Agent, world: World, configs: RunConfig, schedule: Schedule, description: Header) -> Header:
    """What determines a run's numbers, as a checkpoint gives it back."""
    keys = configs._replace(key=jax.random.key_data(configs.key))
    plain = jax.tree.map(lambda part: jnp.asarray(part).tolist(), keys)
    parts = {"agent": agent, "world": world, "schedule": schedule, "configs": plain}
    # functions and plain objects print where they are in memory, which says nothing
    printed = {name: re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part)) for name, part in parts.items()}
    digests = {name: sha256(text.encode()).hexdigest() for name, text in printed.items()}
    return dict(json.loads(json.dumps(digests | {"description": description})))


def _save(path: Path, lanes: Lane, history: Arrays, label: Header) -> None:
    """Write a checkpoint; arrays of the lanes are named after their nesting."""
    arrays = {f"lanes{name}": np.asarray(part) for name, part in _named(lanes)}
    save_file(path, label, arrays | {f"history/{name}": part for name, part in history.items()})


def _resume(path: Path, like: Lane, label: Header) -> tuple[int, Lane, Arrays]:
    """Step, lanes with the structure, shapes and types of `like`, and history of the checkpoint with this label."""
    found, arrays = load_file(path)
    step = found.get("step")
    if not label.keys() <= found.keys() or not isinstance(step, int):
        raise ValueError(f"{path} is a checkpoint of another version of rasf; remove it")
    other = [name for name in label if found[name] != label[name]]
    if other:
        raise ValueError(
            f"{path} is a checkpoint of another configuration; remove it or choose another folder (what differs: "
            f"{', '.join(other)})"
        )
    parts = []
    for name, part in _named(like):
        held = arrays.get(f"lanes{name}")
        if held is None or (held.shape, held.dtype) != (np.shape(part), part.dtype):
            wanted = f"{name} should have shape {np.shape(part)} and type {part.dtype}"
            raise ValueError(f"{path} is a checkpoint that does not fit: {wanted}")
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


def _check(progress: PeriodStats, bounds: Floats, step: int, length: int) -> None:
    """Refuse features that are not finite or outside their bounds, and a loss that is not finite."""
    where = f"between steps {step} and {step + length}"
    low, high = np.asarray(progress.phi_min).min(axis=(0, 1)), np.asarray(progress.phi_max).max(axis=(0, 1))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(f"the world gave a feature that is not finite {where}")
    slack = 1e-5 * (bounds[:, 1] - bounds[:, 0])
    outside = (low < bounds[:, 0] - slack) | (high > bounds[:, 1] + slack)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            f"feature {i} left its declared bounds [{bounds[i, 0]:g}, {bounds[i, 1]:g}] {where}: it was in "
            f"[{low[i]:g}, {high[i]:g}]"
        )
    if not np.isfinite(np.asarray(progress.loss)).all():
        raise ValueError(f"the loss was not finite {where}; a smaller learning rate may help")
