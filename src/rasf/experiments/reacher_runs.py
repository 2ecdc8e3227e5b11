"""Batches of the reacher experiment: lanes of one program that differ in seed, risk and target; and their files.

A batch is data. It is trained by `run_batch` in one go, on whatever device jax finds, and saved when it is complete, so
an interrupted experiment goes on with the batch where it stopped, from its last checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

import rasf
from rasf.deep import checkpoint as checkpoints
from rasf.deep import evaluate, fit
from rasf.deep.agent import Agent, Tasks, preset
from rasf.deep.train import Lane, Plan
from rasf.envs.reacher import TRAINING_TARGETS, Reacher
from rasf.envs.reacher_arm import tip_position
from rasf.experiments import reacher_maps
from rasf.experiments.tensorboard_log import ScalarLog
from rasf.files import write_atomically
from rasf.risk import MeanVariance
from rasf.risk.base import Array

Arrays = dict[str, npt.NDArray[Any]]
TRAINING = tuple(range(len(TRAINING_TARGETS)))
EPSILON = 0.03  # in evaluation


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

    alone: C51 from scratch on every single target, without seeing it, for the normalisation of returns.
    """

    name: str
    agent: str
    betas: tuple[float, ...]
    seeds: tuple[int, ...]
    size: Size
    alone: bool = False
    bootstrap: str = "own"
    target_networks: bool = True

    def describe(self) -> dict[str, Any]:
        """What determines the batch's numbers."""
        return {"batch": json.loads(json.dumps(asdict(self))), "version": rasf.__version__}


@dataclass(frozen=True)
class _Set:
    """A batch made ready: the agent, the world, every lane's plan and labels, and the tasks of evaluation."""

    agent: Agent
    world: Reacher
    plans: Plan
    betas: npt.NDArray[np.float64]
    seeds: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]  # of a lane that trains alone; else -1
    tasks: Tasks  # with an axis of lanes in front


def _prepare(batch: Batch) -> _Set:
    world, size = Reacher(), batch.size
    settings = preset(
        batch.agent,
        widths=size.widths,
        atoms=size.atoms,
        bootstrap=batch.bootstrap,
        target_period=size.target_period if batch.target_networks else 0,
    )
    everything = range(len(world.targets))
    goals = [(target,) for target in everything] if batch.alone else [TRAINING]
    lanes = [(beta, seed, goal) for beta in batch.betas for seed in batch.seeds for goal in goals]
    n_inputs = 0 if batch.alone else 2

    def tasks_of(targets: tuple[int, ...]) -> Tasks:
        return Tasks(world.tasks(targets), world.target_positions(targets)[:, :n_inputs])

    training = _stacked([tasks_of(goal) for _, _, goal in lanes])
    evaluated = _stacked([tasks_of(goal if batch.alone else tuple(everything)) for _, _, goal in lanes])
    agent = Agent.create(settings, world.observation_size, world.n_actions, world.feature_bounds, tasks_of(goals[0]))
    beta = jnp.array([MeanVariance.from_paper(beta).beta for beta, _, _ in lanes], jnp.float32)
    keys = jnp.stack([_lane_key(seed, goal if batch.alone else ()) for _, seed, goal in lanes])
    return _Set(
        agent,
        world,
        Plan(keys, beta, beta, training),
        np.array([beta for beta, _, _ in lanes]),
        np.array([seed for _, seed, _ in lanes]),
        np.array([goal[0] if batch.alone else -1 for _, _, goal in lanes]),
        evaluated,
    )


def _lane_key(seed: int, goal: tuple[int, ...]) -> Array:
    key = jax.random.key(seed)
    for part in goal:
        key = jax.random.fold_in(key, part)
    return key


def _stacked(tasks: list[Tasks]) -> Tasks:
    return Tasks(*(jnp.array(np.stack(parts), jnp.float32) for parts in zip(*tasks, strict=True)))


def run_batch(
    batch: Batch,
    folder: Path,
    tick: Callable[[], None] = lambda: None,
    log: ScalarLog | None = None,
    checkpoint_every_s: float = 600.0,
) -> Arrays:
    """Train the batch, or go on from its checkpoint; save and return its arrays, which have lanes in front."""
    done = load(batch, folder)
    if done is not None:
        for _ in range(ticks(batch)):
            tick()
        return done
    begin = time.perf_counter()
    made = _prepare(batch)
    look = _Look(batch, made, log)
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
    save(batch, found, folder)
    if look.has_maps:
        save_networks(batch, made, lanes, folder)
    checkpoint.unlink(missing_ok=True)
    return found


def save_networks(batch: Batch, made: _Set, lanes: Lane, folder: Path) -> None:
    """Keep the networks of the first seed at every beta, in half precision: small enough to take elsewhere."""
    for beta in batch.betas:
        lane = int(np.flatnonzero(made.betas == beta)[0])
        networks = jax.tree.map(lambda part, lane=lane: part[lane].astype(jnp.float16), lanes.learner.online)
        checkpoints.save(folder / f"{batch.name}_{beta:g}.networks", networks, {}, batch.describe() | {"beta": beta})


def ticks(batch: Batch) -> int:
    """How often `run_batch` ticks."""
    tasks = 1 if batch.alone else len(TRAINING)
    return tasks * batch.size.steps_per_task // batch.size.evaluate_every


class _Look:
    """What is measured: on every evaluation, at the end of every task, and at the very end."""

    def __init__(self, batch: Batch, made: _Set, log: ScalarLog | None) -> None:
        self.batch, self.made, self.log = batch, made, log
        self.agent = made.agent.weighing(np.asarray(made.tasks.weights))
        self.where = reacher_maps.grid(batch.size.map_points)
        self.has_maps = made.agent.settings.law != "point" and not made.agent.settings.conditioned
        self._curve = jax.jit(jax.vmap(partial(self._outcome, n=batch.size.rollouts)))
        self._beliefs = jax.jit(self._lanes_one_by_one(self._beliefs_of))
        self._truth = jax.jit(self._lanes_one_by_one(self._truth_of))

    def __call__(self, step: int, lanes: Lane) -> dict[str, Any]:
        """For `fit`: curves always, maps at the end of a task."""
        online, plans = lanes.learner.online, self.made.plans
        found = self._curve(online, self._keys(1, step), plans.beta, self.made.tasks)
        if self.log is not None:
            for lane, (beta, seed) in enumerate(zip(self.made.betas, self.made.seeds, strict=True)):
                name = f"{self.batch.name}/lane-{lane}_beta{beta:g}_seed{seed}"
                self.log.write_tasks(name, step, {key: part[lane] for key, part in found.items()})
        if self.has_maps and step and step % self.batch.size.steps_per_task == 0:
            beliefs = self._beliefs(online, self._keys(2, step), plans.beta, self.made.tasks)
            truth = self._truth(online, self._keys(3, step), plans.beta, self.made.tasks)
            found |= {
                "map_objective": beliefs.objective.astype(jnp.float16),
                "map_variance": beliefs.variance.astype(jnp.float16),
                "map_negative": beliefs.negative,
                "map_truth": truth.astype(jnp.float16),
            }
        return found

    def final(self, lanes: Lane) -> Arrays:
        """Many rollouts, with the paper's scores and with those that know the discount; and a few trajectories."""
        online, plans, size = lanes.learner.online, self.made.plans, self.batch.size
        arguments = (online, self._keys(4, 0), plans.beta, self.made.tasks)
        found: Arrays = {}
        for way, aware in (("final", False), ("aware", True)):
            outcome = jax.jit(jax.vmap(partial(self._outcome, n=size.final_rollouts, aware=aware)))(*arguments)
            found |= {f"{way}_{name}": np.asarray(part) for name, part in outcome.items()}
        walk = jax.jit(jax.vmap(partial(self._tips, n=3)))
        return found | {"tips": np.asarray(walk(*arguments).astype(jnp.float16))}

    def _keys(self, purpose: int, step: int) -> Array:
        both = jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, 2**31 + purpose), step))
        return both(self.made.plans.key)

    def _outcome(
        self, online: Any, key: Array, beta: Array, tasks: Tasks, *, n: int, aware: bool = False
    ) -> dict[str, Array]:
        """Of every task, means over n rollouts: return, failures, time in circles, distance held in the second half."""
        world = self.made.world
        half = world.episode_length // 2

        def watch(step: Array, state: Array) -> Array:
            tip = tip_position(state)
            late = jnp.where(step >= half, world.episode_length / (world.episode_length - half), 0.0)
            return jnp.concatenate([world.in_circle(tip)[None].astype(jnp.float32), late * world.distances(tip)])

        rolled = evaluate.rollouts(
            self.agent, world, online, key, beta, tasks, n, epsilon=EPSILON, discount_aware=aware, watch=watch
        )
        goal = jnp.argmax(tasks.weights[:, :-1], axis=1)
        held = jnp.take_along_axis(rolled.watched[..., 1:], goal[:, None, None], axis=-1)[..., 0]
        returns = jnp.einsum("trd,td->tr", rolled.phi, tasks.weights)
        return {
            "return": jnp.mean(returns, axis=1),
            "return_variance": jnp.var(returns, axis=1),
            "discounted": jnp.mean(jnp.einsum("trd,td->tr", rolled.discounted, tasks.weights), axis=1),
            "failures": jnp.mean(rolled.phi[..., -1], axis=1),
            "in_circle": jnp.mean(rolled.watched[..., 0], axis=1),
            "distance": jnp.mean(held, axis=1),
        }

    def _tips(self, online: Any, key: Array, beta: Array, tasks: Tasks, *, n: int) -> Array:
        states = evaluate.trajectories(self.agent, self.made.world, online, key, beta, tasks, n, epsilon=EPSILON)
        return tip_position(states)

    def _beliefs_of(self, online: Any, key: Array, beta: Array, tasks: Tasks) -> reacher_maps.Beliefs:
        return reacher_maps.beliefs(self.agent, self.made.world, online, beta, tasks, self.where)

    def _truth_of(self, online: Any, key: Array, beta: Array, tasks: Tasks) -> Array:
        size = self.batch.size
        return reacher_maps.true_variance(
            self.agent,
            self.made.world,
            online,
            key,
            beta,
            tasks,
            self.where,
            rollouts=size.truth_rollouts,
            steps=size.truth_steps,
        )

    @staticmethod
    def _lanes_one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
        """Maps take much memory: one lane after the other."""
        return lambda *arguments: jax.lax.map(lambda lane: function(*lane), arguments)


def save(batch: Batch, found: Arrays, folder: Path) -> None:
    """Write a batch's arrays, whole or not at all, with what they are and where they come from."""
    from safetensors.numpy import save_file

    device = jax.devices()[0]
    label = {
        "describe": json.dumps(batch.describe(), sort_keys=True),
        "device": f"{device.device_kind}, jax {jax.__version__}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    whole = {name: np.ascontiguousarray(part) for name, part in found.items()}
    write_atomically(path_of(batch, folder), lambda partial: save_file(whole, partial, metadata=label))


def path_of(batch: Batch, folder: Path) -> Path:
    """Where a finished batch lies."""
    return folder / f"{batch.name}.safetensors"


def load(batch: Batch, folder: Path) -> Arrays | None:
    """A finished batch's arrays; None if it is not there, not whole, or of another batch or version."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path_of(batch, folder), "numpy") as file:
            if (file.metadata() or {}).get("describe") != json.dumps(batch.describe(), sort_keys=True):
                return None
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (FileNotFoundError, SafetensorError):
        return None


def device_of(batch: Batch, folder: Path) -> str:
    """On what a finished batch was run."""
    from safetensors import safe_open

    with safe_open(path_of(batch, folder), "numpy") as file:
        return str((file.metadata() or {})["device"])
