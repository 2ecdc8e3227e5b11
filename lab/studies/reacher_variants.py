"""Variants of the deep agent on the reacher, at 30 % of the paper's steps: what helps, and what does not.

    python lab/studies/reacher_variants.py settled atoms-201 --seeds 5 --out runs.jsonl

Each variant trains some seeds as lanes of one program, then acts on the paper's eight test targets at many betas (the
paper's, the bare factor of the variance). A line of JSON says what came of it, seed by seed: normalised return and
failures by beta, the error of the learned variance at -3 (R12), what it is inside and outside the circles, the seconds.
"""

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.fused import RunConfig, Schedule, chunks
from rasf.deep.networks import choose_policies
from rasf.deep.settings import HistogramSettings, MomentSettings
from rasf.envs.reacher.world import TRAINING_TARGETS, Reacher
from rasf.risk import MeanVariance
from rasf_lab.common.results import shipped
from rasf_lab.paper.reacher.beliefs import Mapped, beliefs, grid, true_variance
from rasf_lab.rollouts.compiled import rollouts

ACTING = (0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -5.0, -6.0, -9.0, -13.0)
BOTH = {"betas": (0.0, -3.0), "behaviour": (0.0,)}
AVERSE = {"betas": (-3.0,), "behaviour": (-3.0,)}
THREE_LEAD = {"betas": (0.0, -1.0, -3.0), "behaviour": (0.0, -1.0, -3.0)}
FOUR_LEAD = {"betas": (0.0, -1.0, -3.0, -6.0), "behaviour": (0.0, -1.0, -3.0, -6.0)}
SMALL = HistogramSettings(widths=(256, 256, 32))
AVERAGED = replace(SMALL, average=10_000)
# the paper's settings, but for those of the first line
LOGARITHMS = MomentSettings(
    updates=0.25, batch=256, learning_rate=1e-3, decay=True, average=2_500, frequency=1.0, shared=True, events=(12,),
    gamma=0.9, widths=(256, 256), target_period=1_000, epsilon=0.1, exploration=0.0, n_step=1, warmup=0,
    prioritised=0.0,
)  # fmt: skip


def logarithms(lead=THREE_LEAD, *, observation="raw", episode=None, all_targets=False, **changes):
    """An agent that learns mean and variance of every feature by logarithms, with changes to its settings."""
    told = {"observation": observation, "all_targets": all_targets} | ({"episode": episode} if episode else {})
    return lead | told | {"settings": replace(LOGARITHMS, **changes)}


settled = partial(logarithms, episode=100, freeze=0.5)
VARIANTS = {
    "settled-sines-3-targets": settled(frequency=3.0, all_targets=True),
    "settled-sines-3-large-targets": settled(frequency=3.0, all_targets=True, batch=512),
    "settled-sines-3-more-targets": settled(frequency=3.0, all_targets=True, updates=0.5, average=5_000),
    "log-variances": logarithms(events=()),
    "logarithms": logarithms(),
    "logarithms-faster-sines": logarithms(frequency=2.0),
    "logarithms-slower-sines": logarithms(frequency=0.5),
    "logarithms-wide": logarithms(widths=(512, 512)),
    "logarithms-narrow": logarithms(widths=(128, 128)),
    "logarithms-more": logarithms(updates=0.75, average=7_500),
    "logarithms-fewer": logarithms(updates=1 / 6, average=1_500),
    "logarithms-large": logarithms(updates=1 / 12, batch=1_024, average=1_000),
    "logarithms-sincos": logarithms(observation="sincos"),
    "logarithms-epsilon-20": logarithms(epsilon=0.2),
    "logarithms-four-lead": logarithms(FOUR_LEAD),
    "logarithms-targets": logarithms(widths=(512, 512), all_targets=True),
    "logarithms-episode-100": logarithms(episode=100),
    "logarithms-episode-50": logarithms(episode=50),
    "logarithms-settle-30": logarithms(freeze=0.3),
    "settled": settled(),
    "settled-period-250": settled(target_period=250),
    "settled-more": settled(target_period=250, batch=64, updates=0.75, average=7_500),
    "settled-wide-targets": settled(widths=(512, 512), all_targets=True),
    "settled-targets": settled(all_targets=True),
    "paper": AVERSE | {"settings": HistogramSettings()},
    "bottleneck": AVERSE | {"settings": SMALL},
    "averaged": AVERSE | {"settings": AVERAGED},
    "two-risks": BOTH | {"settings": AVERAGED},
    "atoms-201": BOTH | {"settings": replace(AVERAGED, atoms=201)},
}


def paper(beta):
    """The paper's beta as ours."""
    return float(MeanVariance.from_paper(beta).beta)


def run(name, seeds, steps_per_task, rollouts_per_task):
    """Train and measure one variant."""
    variant = VARIANTS[name]
    world, training = Reacher(observation=variant.get("observation", "raw")), tuple(range(len(TRAINING_TARGETS)))
    betas, behaviour = variant["betas"], variant["behaviour"]
    settings = variant["settings"]
    own = world.tasks(training)
    # additional tasks, learned off-policy from the same steps: all other targets
    targets = tuple(range(len(world.targets)))
    learned = world.tasks(targets) if variant.get("all_targets") else own
    policies = Policies(
        np.tile(learned, (len(betas), 1)).astype(np.float32),
        np.repeat([paper(beta) for beta in betas], len(learned)).astype(np.float32),
    )
    weights = np.repeat(own, len(behaviour), axis=0).astype(np.float32)
    stream = Tasks.of(weights)
    steps = steps_per_task * len(own) // len(weights)
    planned = round(steps * len(weights) * settings.updates)
    agent = Agent.for_world(settings, world, stream, policies=len(policies.beta), planned=planned)
    agent = agent.for_weights(learned)
    acting = np.tile([paper(beta) for beta in behaviour], len(own)).astype(np.float32)
    lanes = len(seeds)
    stacked = partial(jax.tree.map, lambda part: jnp.broadcast_to(jnp.asarray(part), (lanes, *np.shape(part))))
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    configs = RunConfig(keys, *map(stacked, (acting, np.float32(acting[0]), stream, policies)))
    begin, compiled = time.perf_counter(), float("nan")
    practice = replace(world, episode_length=variant.get("episode", world.episode_length))
    for chunk in chunks(agent, practice, configs, Schedule(steps, len(weights), 20_000)):
        last = chunk
        if np.isnan(compiled):
            compiled = time.perf_counter() - begin
    jax.block_until_ready(last.lanes.learner.online)
    seconds = time.perf_counter() - begin
    networks = agent.acting(last.lanes.learner)
    found = {
        "variant": name, "seeds": list(seeds), "steps": steps_per_task * len(own), "seconds": round(seconds, 1),
        "first_chunk": round(compiled, 1), "device": jax.devices()[0].device_kind, "policies": len(policies.beta),
        "acting": list(ACTING), "clipped": np.asarray(last.clipped).mean(axis=0).round(5).tolist(),
    }  # fmt: skip
    tasks = Tasks(jnp.float32(world.tasks(targets)), jnp.zeros((len(targets), 0)))
    tester = agent.for_weights(np.asarray(tasks.weights))
    numbers = shipped()["reacher"].numbers
    low, high = (np.array(numbers["normaliser"][name]) for name in ("begin", "end"))
    outcome = jax.jit(
        jax.vmap(
            lambda one, key, beta: rollouts(tester, world, one, key, beta, tasks, rollouts_per_task).phi, (0, 0, None)
        )
    )
    test = slice(len(training), None)
    found["return"], found["failures"], found["training_return"] = [], [], []
    for beta in ACTING:
        phi = np.asarray(outcome(networks, keys, jnp.float32(paper(beta)))).mean(axis=2)  # (lanes, tasks, d)
        normal = (np.einsum("ltd,td->lt", phi, np.asarray(tasks.weights)) - low) / (high - low)
        found["return"].append(normal[:, test].mean(axis=1).round(4).tolist())
        found["training_return"].append(normal[:, : len(training)].mean(axis=1).round(4).tolist())
        found["failures"].append(phi[:, test, -1].sum(axis=1).round(2).tolist())
    if -3.0 in betas:
        found |= variance_error(agent, world, networks, keys, betas.index(-3.0) * len(learned), tasks, len(training))
    found["total_seconds"] = round(time.perf_counter() - begin, 1)
    return found


def variance_error(agent, world, networks, keys, first, tasks, count):
    """R12: error of the variance of the policies for the training tasks at -3, over the mean variance; correlation.

    Also the learned and the true variance where the tip is inside a circle and where it is outside, on average.
    """
    where, own, beta = grid(31), np.arange(count), jnp.float32(paper(-3.0))
    chosen = slice(first, first + count)
    part = jax.vmap(lambda each: tuple(choose_policies(one, chosen) for one in each))(networks)
    few = Agent(agent.settings, agent.law, count, agent.inputs, agent.actions, agent.active_features)
    few = few.for_weights(np.asarray(tasks.weights))
    mapped = Mapped(few, world, where, own)

    def of_lane(given):
        one, key = given
        learned = beliefs(mapped, one, beta, tasks).variance
        truth = true_variance(mapped, one, beta, tasks, key, rollouts=24, steps=80, exact_failures=True)
        return learned[own, own], truth[own, own]

    learned, truth = map(np.asarray, jax.jit(partial(jax.lax.map, of_lane))((part, keys)))
    error = np.abs(learned - truth).mean(axis=(1, 2)) / truth.mean(axis=(1, 2))
    x, y = (one - one.mean(axis=-1, keepdims=True) for one in (learned, truth))
    correlation = np.sum(x * y, axis=-1) / np.maximum(np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1), 1e-9)
    inside = np.asarray(world.in_circle(where.tips[where.reached]))
    apart = {
        f"{name}_{place}": one[..., there].mean(axis=(1, 2)).round(3).tolist()
        for name, one in (("learned", learned), ("true", truth))
        for place, there in (("inside", inside), ("outside", ~inside))
    }
    return {"error": error.round(3).tolist(), "correlation": correlation.mean(axis=1).round(3).tolist()} | apart


def main():
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variants", nargs="+", choices=VARIANTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60_000, help="for each of four tasks")
    parser.add_argument("--rollouts", type=int, default=40)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    for name in given.variants:
        found = run(name, range(given.seeds), given.steps, given.rollouts)
        if given.out is not None:
            with given.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
        front = ", ".join(
            f"{beta:g}: {np.mean(r):.3f}/{np.mean(f):.1f}"
            for beta, r, f in zip(ACTING, found["return"], found["failures"], strict=True)
        )
        told = f"error {np.mean(found.get('error', np.nan)):.2f}, r {np.mean(found.get('correlation', np.nan)):.2f}"
        for place in ("inside", "outside") if "error" in found else ():
            learned, true = (np.mean(found[f"{which}_{place}"]) for which in ("learned", "true"))
            told += f", {place} {learned:.2f} of {true:.2f}"
        print(f"{name}: {front}; {told}; {found['seconds']} s, {found['total_seconds']} in all", flush=True)


if __name__ == "__main__":
    main()
