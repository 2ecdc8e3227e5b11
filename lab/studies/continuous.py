"""Continuous actions on the reacher: the front of return and failures, for several settings (issue 36).

    python lab/studies/continuous.py out.jsonl --seeds 5 --steps 240000 --learned all --set updates=0.5

Every seed is a lane of one compiled program. `--learned`: "own", only policies for the four training tasks; "all", also
for the eight test targets, learned off-policy; a number, also for that many drawn mixtures of two targets. The acting
betas are factors of the variance, so that they compare with docs/results.md. A line of JSON holds, for each
acting beta, the normalised return on the test targets and failures, of each seed.
"""

from __future__ import annotations

import argparse
import ast
import json
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from expected_failures import ExpectingAgent
from rasf.deep import fused
from rasf.deep.actors import ActorAgent
from rasf.deep.agent import Policies, Tasks
from rasf.deep.fused import RunConfig, Schedule
from rasf.deep.settings import ActorSettings
from rasf.envs.reacher.world import Reacher
from rasf.risk import MeanVariance
from rasf_lab.common.results import shipped
from rasf_lab.rollouts.compiled import rollouts

TRAINED = 4  # tasks in which experience is collected


def learned_tasks(world: Reacher, what: str) -> np.ndarray:
    """Return the weights of all policies' tasks, the training tasks first."""
    own = world.tasks(range(TRAINED))
    if what == "own":
        return own
    if what == "all":
        return world.tasks(range(12))
    rng, more = np.random.default_rng(0), np.zeros((int(what), own.shape[1]))
    more[:, -1] = own[0, -1]
    for row in more:
        (i, j), share = rng.choice(12, 2, replace=False), rng.uniform(0.2, 0.8)
        row[i], row[j] = share, 1 - share
    return np.concatenate([own, more])


def run(args: argparse.Namespace) -> dict[str, object]:
    """Train and evaluate all seeds."""
    world = Reacher(observation="sincos", continuous=True, **args.world)
    learned, betas, n = learned_tasks(world, args.learned), np.array(args.betas), args.seeds
    acting_tasks = Tasks.of(np.repeat(world.tasks(range(TRAINED)), len(betas), axis=0))
    settings = replace(ActorSettings(gamma=0.9, horizon="continuing", events=(12,)), **args.set)
    policies = Policies(
        np.tile(learned, (len(betas), 1)).astype(np.float32), np.repeat(betas, len(learned)).astype(np.float32)
    )
    schedule = Schedule(args.steps // len(acting_tasks.weights), len(acting_tasks.weights), args.steps // 8)
    planned = round((args.steps - settings.warmup) * settings.updates)
    agent = (ExpectingAgent if args.expected else ActorAgent).create(
        settings, world.observation_size, 0, acting_tasks, None, len(policies.beta), action_size=2, planned=planned,
        risk=lambda beta: MeanVariance(2 * beta),
    ).for_weights(learned)  # fmt: skip
    keys = jax.vmap(jax.random.key)(jnp.arange(args.first, args.first + n))
    repeat = lambda part: jnp.repeat(jnp.asarray(part)[None], n, axis=0)  # noqa: E731
    configs = RunConfig(
        keys, repeat(np.tile(betas, TRAINED)), repeat(0.0), *jax.tree.map(repeat, (acting_tasks, policies))
    )
    begin = time.perf_counter()
    for chunk in fused.chunks(agent, world, configs, schedule):
        print(args.name, chunk.step, np.asarray(chunk.loss).mean(), round(time.perf_counter() - begin, 1), flush=True)
    jax.block_until_ready(chunk.lanes)
    seconds = time.perf_counter() - begin
    tasks, key = Tasks.of(world.tasks(range(12))), jax.random.key(77)
    tasks = jax.tree.map(jnp.asarray, tasks)
    each = [fused.unscaled_networks(agent, chunk.lanes, lane) for lane in range(n)]
    exact = agent.for_weights(tasks.weights)
    compiled = jax.jit(
        lambda networks, beta: rollouts(exact, world, networks, key, beta, tasks, args.rollouts).phi.mean(1)
    )
    # mean returns of C51 before and after training on each target alone; see rasf_lab/paper/reacher/measures.py
    normaliser = shipped()["reacher"].numbers["normaliser"]
    lowest, highest = (np.array(normaliser[name]) for name in ("begin", "end"))
    front = {}
    for beta in args.acting:
        phi = np.stack([np.asarray(compiled(networks, beta)) for networks in each])
        returns = (np.einsum("ltd,td->lt", phi, tasks.weights) - lowest) / (highest - lowest)
        front[f"{beta:g}"] = {
            "test": returns[:, TRAINED:].mean(1).tolist(), "failures": phi[:, TRAINED:, -1].sum(1).tolist(),
            "train": returns[:, :TRAINED].mean(1).tolist(),
        }  # fmt: skip
    return {
        "name": args.name,
        "args": {k: repr(v) for k, v in vars(args).items()},
        "settings": repr(settings),
        "seconds": round(seconds, 1),
        "all_seconds": round(time.perf_counter() - begin, 1),
        "front": front,
    }


def main() -> None:
    """Run one configuration, append its line, and print the front."""
    ask = argparse.ArgumentParser()
    ask.add_argument("out", type=Path)
    ask.add_argument("--name", default="base")
    for name, default in (("seeds", 5), ("first", 0), ("steps", 240_000), ("rollouts", 40)):
        ask.add_argument(f"--{name}", type=int, default=default)
    ask.add_argument("--betas", type=float, nargs="+", default=[0.0, -1.0, -3.0, -6.0])
    ask.add_argument("--acting", type=float, nargs="+", default=[0, -0.5, -1, -2, -3, -4, -6, -9, -13])
    ask.add_argument("--learned", default="all")
    ask.add_argument("--expected", action="store_true", help="expected failures, by a classifier of the next state")
    ask.add_argument("--set", nargs="*", default=[])
    ask.add_argument("--world", nargs="*", default=[])
    args = ask.parse_args()
    for name in ("set", "world"):
        pairs = (one.split("=", 1) for one in getattr(args, name))
        setattr(args, name, {key: ast.literal_eval(value) for key, value in pairs})
    found = run(args)
    with args.out.open("a") as file:
        file.write(json.dumps(found) + "\n")
    cells = [f"{b}: {np.mean(f['test']):.3f}/{np.mean(f['failures']):.1f}" for b, f in found["front"].items()]
    print(args.name, found["seconds"], found["all_seconds"], " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
