"""Variants of the deep agent on the reacher, at 30 % of the paper's steps: what helps, and what does not.

    python lab/studies/reacher_variants.py corrected-51 atoms-201 --seeds 5 --out runs.jsonl

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
from rasf.deep.fit import Schedule, chunks
from rasf.deep.train import RunConfig

from rasf.deep.agent import Agent, Policies, Tasks, preset
from rasf.deep.evaluate import rollouts
from rasf.deep.laws import support_atoms
from rasf.deep.networks import choose_policies
from rasf.envs.reacher.world import TRAINING_TARGETS, Reacher
from rasf.risk import MeanVariance
from rasf_lab.common.results import shipped
from rasf_lab.paper.reacher.beliefs import Mapped, beliefs, grid, true_variance

ACTING = (0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -5.0, -6.0, -9.0, -13.0)
SMALL = {"widths": (256, 256, 32)}
BOTH = {"betas": (0.0, -3.0), "behaviour": (0.0,)}
AVERAGED = SMALL | {"average": 10_000}
GOOD = AVERAGED | {"corrected": True}
MOMENTS = {"law": "moments", "average": 10_000}
SIDE = {"law": "moments", "side_by_side": True, "updates": 0.25, "batch": 256, "learning_rate": 5e-4, "average": 2_500}
SINES = SIDE | {"frequency": 1.0, "learning_rate": 1e-3, "decay": True}
SHARED = SINES | {"shared": True}
OFTEN = {"updates": 1.0, "batch": 128, "average": 10_000}
ALL_LEAD = {"betas": (0.0, -3.0), "behaviour": (0.0, -3.0)}
THREE_LEAD = {"betas": (0.0, -1.0, -3.0), "behaviour": (0.0, -1.0, -3.0)}
LOGARITHMS = SHARED | {"law": "log-moments", "events": (12,)}
SETTLED = THREE_LEAD | {"settings": LOGARITHMS | {"settle": 0.5}, "episode": 100}
FINER = SETTLED | {"settings": SETTLED["settings"] | {"frequency": 3.0}, "imagined": "targets"}
EXPECTED = LOGARITHMS | {"expected_events": True}
FOUR_LEAD = {"betas": (0.0, -1.0, -3.0, -6.0), "behaviour": (0.0, -1.0, -3.0, -6.0)}


def expected(imagined=0, settle=0.5, lead=THREE_LEAD, observation="raw", **changes):
    """A settled agent that learns from expected events, with changes to its settings."""
    settings = EXPECTED | {"settle": settle} | changes
    return lead | {"settings": settings, "episode": 100, "imagined": imagined, "observation": observation}


VARIANTS = {
    "expected": expected(),
    "expected-unsettled": expected(settle=0.0),
    "expected-targets": expected("targets"),
    "expected-unsettled-targets": expected("targets", settle=0.0),
    "expected-wide-targets": expected("targets", widths=(512, 512)),
    "expected-more-targets": expected("targets", updates=0.75, average=7_500),
    "expected-large-targets": expected("targets", batch=512),
    "expected-faster-sines-targets": expected("targets", frequency=2.0),
    "expected-sines-3-targets": expected("targets", frequency=3.0),
    "expected-sines-4-targets": expected("targets", frequency=4.0),
    "expected-sines-2-settle-30-targets": expected("targets", settle=0.3, frequency=2.0),
    "expected-sines-2-wide-targets": expected("targets", frequency=2.0, widths=(512, 512)),
    "expected-sines-2-large-targets": expected("targets", frequency=2.0, batch=512),
    "expected-sines-2-four-lead-targets": expected("targets", lead=FOUR_LEAD, frequency=2.0),
    "expected-sines-3-wide-targets": expected("targets", frequency=3.0, widths=(512, 512)),
    "expected-sines-3-large-targets": expected("targets", frequency=3.0, batch=512),
    # the control: do finer sines need expected events, once policies settle?
    "settled-sines-3-targets": FINER,
    "settled-sines-3-large-targets": FINER | {"settings": FINER["settings"] | {"batch": 512}},
    "settled-sines-3-more-targets": FINER | {"settings": FINER["settings"] | {"updates": 0.5, "average": 5_000}},
    "expected-four-lead-targets": expected("targets", lead=FOUR_LEAD),
    "expected-long-settle-targets": expected("targets", settle=0.7),
    "expected-sincos-targets": expected("targets", observation="sincos"),
    "expected-wide-more-targets": expected("targets", widths=(512, 512), updates=0.75, average=7_500),
    "log-variances": THREE_LEAD | {"settings": LOGARITHMS | {"events": ()}},
    "logarithms": THREE_LEAD | {"settings": LOGARITHMS},
    "logarithms-faster-sines": THREE_LEAD | {"settings": LOGARITHMS | {"frequency": 2.0}},
    "logarithms-slower-sines": THREE_LEAD | {"settings": LOGARITHMS | {"frequency": 0.5}},
    "logarithms-wide": THREE_LEAD | {"settings": LOGARITHMS | {"widths": (512, 512)}},
    "logarithms-narrow": THREE_LEAD | {"settings": LOGARITHMS | {"widths": (128, 128)}},
    "logarithms-more": THREE_LEAD | {"settings": LOGARITHMS | {"updates": 0.75, "average": 7_500}},
    "logarithms-fewer": THREE_LEAD | {"settings": LOGARITHMS | {"updates": 1 / 6, "average": 1_500}},
    "logarithms-large": THREE_LEAD | {"settings": LOGARITHMS | {"updates": 1 / 12, "batch": 1_024, "average": 1_000}},
    "logarithms-sincos": THREE_LEAD | {"settings": LOGARITHMS, "observation": "sincos"},
    "logarithms-epsilon-20": THREE_LEAD | {"settings": LOGARITHMS | {"epsilon": 0.2}},
    "logarithms-four-lead": FOUR_LEAD | {"settings": LOGARITHMS},
    "logarithms-targets": THREE_LEAD | {"settings": LOGARITHMS | {"widths": (512, 512)}, "imagined": "targets"},
    "logarithms-episode-100": THREE_LEAD | {"settings": LOGARITHMS, "episode": 100},
    "logarithms-episode-50": THREE_LEAD | {"settings": LOGARITHMS, "episode": 50},
    "logarithms-settle-30": THREE_LEAD | {"settings": LOGARITHMS | {"settle": 0.3}},
    "settled": SETTLED,
    "settled-period-250": SETTLED | {"settings": SETTLED["settings"] | {"target_period": 250}},
    "settled-more": SETTLED
    | {"settings": SETTLED["settings"] | {"target_period": 250, "batch": 64, "updates": 0.75, "average": 7_500}},
    "settled-wide-targets": SETTLED | {"settings": SETTLED["settings"] | {"widths": (512, 512)}, "imagined": "targets"},
    "settled-targets": SETTLED | {"imagined": "targets"},
    "side": BOTH | {"settings": SIDE},
    "side-sincos": BOTH | {"settings": SIDE, "observation": "sincos"},
    "side-decay": BOTH | {"settings": SIDE | {"learning_rate": 1e-3, "decay": True}},
    "side-targets": BOTH | {"settings": SIDE, "imagined": "targets"},
    "side-imagined": BOTH | {"settings": SIDE, "imagined": 8},
    "side-every-step": BOTH | {"settings": SIDE | OFTEN | {"learning_rate": 3e-4}},
    "sines-constant-rate": BOTH | {"settings": SINES | {"learning_rate": 5e-4, "decay": False}},
    "sines": BOTH | {"settings": SINES},
    "sines-faster": BOTH | {"settings": SINES | {"frequency": 2.0}},
    "sines-short-average": BOTH | {"settings": SINES | {"average": 500}},
    "sines-every-step": BOTH | {"settings": SINES | OFTEN | {"learning_rate": 5e-4}},
    "sines-targets": BOTH | {"settings": SINES, "imagined": "targets"},
    "sines-three-risks": {"betas": (0.0, -1.0, -3.0), "behaviour": (0.0,), "settings": SINES},
    "shared": BOTH | {"settings": SHARED},
    "shared-wide-targets": BOTH | {"settings": SHARED | {"widths": (512, 512)}, "imagined": "targets"},
    "shared-both-lead": ALL_LEAD | {"settings": SHARED},
    "shared-both-lead-more": ALL_LEAD | {"settings": SHARED | {"updates": 0.75, "average": 7_500}},
    "shared-practised": ALL_LEAD | {"settings": SHARED, "imagined": 8, "practised": True},
    "shared-three-lead": THREE_LEAD | {"settings": SHARED},
    "shared-three-lead-targets": THREE_LEAD | {"settings": SHARED | {"widths": (512, 512)}, "imagined": "targets"},
    "moments": BOTH | {"settings": MOMENTS},
    "moments-small": BOTH | {"settings": MOMENTS | {"widths": (256, 256, 32)}},
    "moments-alternating": BOTH | {"settings": MOMENTS, "behaviour": (0.0, -3.0)},
    "moments-batch-128": BOTH | {"settings": MOMENTS | {"batch": 128}},
    "moments-slow": BOTH | {"settings": MOMENTS | {"learning_rate": 3e-4}},
    "moments-slow-128": BOTH | {"settings": MOMENTS | {"learning_rate": 3e-4, "batch": 128}},
    "moments-two-updates": BOTH | {"settings": MOMENTS | {"updates": 2}},
    "moments-three-risks": {"betas": (0.0, -1.0, -3.0), "behaviour": (0.0,), "settings": MOMENTS},
    "moments-imagined": BOTH | {"settings": MOMENTS, "imagined": 8},
    "moments-averse": {"betas": (-3.0,), "behaviour": (-3.0,), "settings": MOMENTS},
    "paper": {"betas": (-3.0,), "behaviour": (-3.0,)},
    "bottleneck": {"betas": (-3.0,), "behaviour": (-3.0,), "settings": SMALL},
    "averaged": {"betas": (-3.0,), "behaviour": (-3.0,), "settings": AVERAGED},
    "two-risks": BOTH | {"settings": AVERAGED},
    "corrected": BOTH | {"settings": GOOD},
    "atoms-201": BOTH | {"settings": AVERAGED | {"atoms": 201}},
    "corrected-201": BOTH | {"settings": GOOD | {"atoms": 201}},
    "corrected-101": BOTH | {"settings": GOOD | {"atoms": 101}},
    "corrected-alternating": BOTH | {"settings": GOOD, "behaviour": (0.0, -3.0)},
    "corrected-averse": {"betas": (-3.0,), "behaviour": (-3.0,), "settings": GOOD},
    "corrected-batch-128": BOTH | {"settings": GOOD | {"batch": 128}},
    "corrected-two-updates": BOTH | {"settings": GOOD | {"updates": 2}},
    "corrected-slow": BOTH | {"settings": GOOD | {"learning_rate": 5e-4}},
    "corrected-slower": BOTH | {"settings": GOOD | {"learning_rate": 2.5e-4}},
    "corrected-gpi": BOTH | {"settings": GOOD | {"bootstrap": "gpi"}},
    "corrected-imagined": BOTH | {"settings": GOOD, "imagined": 8},
    "corrected-three-risks": {"betas": (0.0, -1.0, -3.0), "behaviour": (0.0,), "settings": GOOD},
    "corrected-mild": {"betas": (0.0, -1.0), "behaviour": (0.0,), "settings": GOOD},
    "corrected-epsilon-30": BOTH | {"settings": GOOD | {"epsilon": 0.3}},
    "corrected-long-average": BOTH | {"settings": GOOD | {"average": 30_000}},
    "corrected-period-300": BOTH | {"settings": GOOD | {"target_period": 300}},
}


def paper(beta):
    """The paper's beta as ours."""
    return float(MeanVariance.from_paper(beta).beta)


def further_tasks(world, own, imagined):
    """Weightings that nobody was given, for policies that learn from the same steps: all other targets, or drawn ones.

    A drawn one weighs two targets.
    """
    if imagined == "targets":
        return world.tasks(tuple(range(len(own), len(world.targets))))
    drawn, rng = np.zeros((imagined, own.shape[1])), np.random.default_rng(0)
    for w in drawn:
        w[rng.choice(own.shape[1] - 1, 2, replace=False)] = rng.dirichlet([1.0, 1.0])
        w[-1] = own[0, -1]
    return drawn


def run(name, seeds, steps_per_task, rollouts_per_task):
    """Train and measure one variant."""
    variant = VARIANTS[name]
    world, training = Reacher(observation=variant.get("observation", "raw")), tuple(range(len(TRAINING_TARGETS)))
    betas, behaviour = variant["betas"], variant["behaviour"]
    settings = preset("rasfc51", **variant.get("settings", {}))
    own = world.tasks(training)
    learned = np.concatenate([own, further_tasks(world, own, variant.get("imagined", 0))])
    practised = learned if variant.get("practised") else own
    policies = Policies(
        np.tile(learned, (len(betas), 1)).astype(np.float32),
        np.repeat([paper(beta) for beta in betas], len(learned)).astype(np.float32),
    )
    weights = np.repeat(practised, len(behaviour), axis=0).astype(np.float32)
    stream = Tasks(weights, np.zeros((len(weights), 0), np.float32))
    atoms = support_atoms(world.feature_bounds, settings.gamma, settings.atoms)
    steps = steps_per_task * len(own) // len(weights)
    planned = round(steps * len(weights) * settings.updates)
    sizes = (settings, world.observation_size, world.n_actions, stream, atoms, len(policies.beta), planned)
    agent = Agent.create(*sizes).for_weights(learned)
    acting = np.tile([paper(beta) for beta in behaviour], len(practised)).astype(np.float32)
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
    targets = tuple(range(len(world.targets)))
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
