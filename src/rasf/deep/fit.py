"""Training from the first step to the last: task after task, evaluation in between, checkpoints, checks.

`fit` drives the compiled loop of `train` in chunks of `evaluate_every` steps. After each chunk the features it saw are
held to their declared bounds and the loss must be finite; then the caller's `evaluate` may look at the lanes. What it
returns is kept as history, stacked on axis 0. A checkpoint holds lanes and history, so that a killed run goes on from
its last one, to the same bits on the same device; and digests of the agent, the world, the schedule and the plans, so
that it does so only where they are the same. Agents, worlds and schedules are told apart by what they print.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rasf.deep import checkpoint as checkpoints
from rasf.deep import train
from rasf.deep.agent import Agent, check_size
from rasf.deep.checkpoint import History
from rasf.deep.train import Lane, Progress, RunConfig
from rasf.deep.world import World

Evaluate = Callable[[int, Lane], dict[str, Any]]  # (steps so far, lanes) -> arrays to keep
_PLAIN_PERIOD = 1_000  # where no target networks set one


@dataclass(frozen=True)
class Schedule:
    """How long to train on each task, in steps, and how often to evaluate."""

    steps_per_task: int
    tasks: int
    evaluate_every: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_size(name, value)

    @property
    def steps(self) -> int:
        """Of all tasks."""
        return self.steps_per_task * self.tasks


def period_of(agent: Agent) -> int:
    """Steps between copies to the target networks."""
    return agent.settings.target_period or _PLAIN_PERIOD


def fit(
    agent: Agent,
    world: World,
    plans: RunConfig,
    schedule: Schedule,
    evaluate: Evaluate,
    *,
    description: dict[str, Any],
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every_s: float = 600.0,
    tick: Callable[[], None] = lambda: None,
) -> tuple[Lane, History]:
    """Train all lanes of `plans` (each part stacked on axis 0) and return them with the history.

    `description` says what else this run is, such as what `evaluate` does. A checkpoint with another one, or of another
    agent, world, schedule or plans, is refused. `tick` is called once a chunk.
    """
    period, length = period_of(agent), schedule.evaluate_every
    if length % period or schedule.steps_per_task % length:
        raise ValueError(
            f"evaluate_every must be a multiple of {period} and divide steps_per_task, got {length} and "
            f"{schedule.steps_per_task}"
        )
    _check_sizes(agent, world, plans, schedule)
    label = _label(agent, world, plans, schedule, description)
    path = None if checkpoint is None else Path(checkpoint)
    begin_lanes = jax.jit(jax.vmap(partial(train.start, agent, world, schedule.steps)))
    advance = jax.jit(
        jax.vmap(partial(train.advance, agent, world, length // period, period), in_axes=(0, 0, None, None, None)),
        donate_argnums=(1,),
    )
    step, lanes, history = 0, begin_lanes(plans), History()
    if path is not None and path.exists():
        step, lanes, history = _resume(path, lanes, label)
        for _ in range(step // length):
            tick()
    else:
        history = _extended(history, evaluate(0, lanes))
    saved_at = time.monotonic()
    while step < schedule.steps:
        task = step // schedule.steps_per_task
        lanes, progress = advance(plans, lanes, step, task * schedule.steps_per_task, task)
        _check(progress, np.asarray(world.feature_bounds), step, length)
        step += length
        seen = {"loss": jnp.mean(progress.loss, axis=1), "clipped": jnp.mean(progress.clipped, axis=1)}
        seen |= {"training_phi": jnp.mean(progress.phi_mean, axis=1)}
        history = _extended(history, seen | evaluate(step, lanes))
        if path is not None and time.monotonic() - saved_at > checkpoint_every_s:
            checkpoints.save(path, lanes, history, label | {"step": step})
            saved_at = time.monotonic()
        tick()
    return lanes, history


def _check_sizes(agent: Agent, world: World, plans: RunConfig, schedule: Schedule) -> None:
    """Refuse plans that are not stacked or not finite, and an agent, plans or a schedule of other sizes."""
    numbers = {"beta": plans.beta, "bootstrap_beta": plans.bootstrap_beta, **plans.tasks._asdict()}
    beta, bootstrap_beta, weights, inputs = map(np.shape, numbers.values())
    lanes = jax.random.key_data(plans.key).shape[:-1]
    stacked = len(weights) == 3 and 0 not in weights and inputs[:-1] == weights[:-1]
    if not stacked or not lanes == beta == bootstrap_beta == weights[:1]:
        raise ValueError(
            "plans must have lanes in front of every part: keys (L,), betas (L,), weights (L, T, d), inputs (L, T, c); "
            f"got key {lanes}, " + ", ".join(f"{name} {np.shape(part)}" for name, part in numbers.items())
        )
    for name, part in numbers.items():
        wrong = np.asarray(part)[~np.isfinite(part)]
        if wrong.size:
            raise ValueError(f"{name} of plans must be finite, got {wrong[0]}")
    settings, (_, tasks, d) = agent.settings, weights
    heads, outputs = agent.law.shapes()[0]
    for who, what, has, fits in (
        ("agent", "actions", agent.actions, world.n_actions),
        ("agent", "inputs", agent.inputs, world.observation_size + settings.conditioned * inputs[-1]),
        ("plans", "features", d, len(world.feature_bounds)),
        ("agent", "features", heads if settings.law == "histogram" else outputs, 1 if settings.conditioned else d),
        ("agent", "policies", agent.policies, 1 if settings.conditioned else tasks),
        ("schedule", "tasks", schedule.tasks, tasks),
    ):
        if has != fits:
            raise ValueError(f"{who} must have {fits} {what} to fit the world and the plans, got {has}")
    weighed = agent.weighing(plans.tasks.weights).active
    if settings.law == "histogram" and weighed > agent.active:
        raise ValueError(f"agent must be weighing {weighed} features of a task, as the plans do, got {agent.active}")


def _label(
    agent: Agent, world: World, plans: RunConfig, schedule: Schedule, description: dict[str, Any]
) -> dict[str, Any]:
    """What determines a run's numbers, as a checkpoint gives it back."""
    plain = jax.tree.map(lambda part: jnp.asarray(part).tolist(), plans._replace(key=jax.random.key_data(plans.key)))
    parts = {"agent": agent, "world": world, "schedule": schedule, "plans": plain}
    # functions and plain objects print where they are in memory, which says nothing
    printed = {name: re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part)) for name, part in parts.items()}
    digests = {name: sha256(text.encode()).hexdigest() for name, text in printed.items()}
    return dict(json.loads(json.dumps(digests | {"description": description})))


def _resume(path: Path, like: Lane, label: dict[str, Any]) -> tuple[int, Lane, History]:
    found = checkpoints.describe(path)
    step = found.get("step")
    if not label.keys() <= found.keys() or not isinstance(step, int):
        raise ValueError(f"{path} is a checkpoint of another version of rasf; remove it")
    other = [name for name in label if found[name] != label[name]]
    if other:
        raise ValueError(
            f"{path} is a checkpoint of another configuration; remove it or choose another folder (what differs: "
            f"{', '.join(other)})"
        )
    lanes, history = checkpoints.load(path, like)
    return step, lanes, history


def _extended(history: History, found: dict[str, Any]) -> History:
    rows = {name: np.asarray(part)[None] for name, part in found.items()}
    return history | {
        name: np.concatenate([history[name], row]) if name in history else row for name, row in rows.items()
    }


def _check(progress: Progress, bounds: Any, step: int, length: int) -> None:
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
