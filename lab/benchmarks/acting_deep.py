"""Acting with a library of networks, and learning with the agent that is stepped from Python, on whatever jax finds.

    python lab/benchmarks/acting_deep.py [--policies 4] [--steps 1000] [--json FILE]

One decision with networks of the paper's size (two layers of 256, 9 actions, 13 features) is timed beside the same
decision by the compiled `Agent.scores`, and beside reading the weights once at the bandwidth measured in the same run.
The learner has two layers of 64, 21 atoms, 6 actions and 3 features, and an environment that costs nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from rasf.deep.agent import Agent, Tasks
from rasf.deep.laws import support_atoms
from rasf.deep.settings import HistogramSettings, NetworkSettings, network_settings
from rasf.deep.stepped import Pace, SteppedLearner
from rasf.library.networks.actor_policies import policies_of
from rasf.risk import CVaR, Entropic, MeanVariance, Risk
from rasf.transfer import gpi_actions

INPUTS, ACTIONS, FEATURES, BATCH = 4, 9, 13, 256


def median_us(action: Callable[[], Any], seconds: float = 2.0) -> float:
    """Median time of a call, in microseconds, after a warm-up."""
    for _ in range(10):
        action()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        begin = time.perf_counter_ns()
        action()
        times.append(time.perf_counter_ns() - begin)
    return float(np.median(times)) / 1e3


def read_bandwidth() -> float:
    """Bytes a second of reading, by one core, an array that no cache holds."""
    array = np.ones(2**26, np.float32)
    return array.nbytes / (median_us(array.max, 1.0) / 1e6)


def make_agent(name: str, policies: int) -> Agent:
    """An agent of the paper's size."""
    tasks = Tasks.of(np.ones((policies, FEATURES)))
    return _create(network_settings(name), INPUTS, ACTIONS, tasks)


def _create(settings: NetworkSettings, inputs: int, actions: int, tasks: Tasks) -> Agent:
    bounds = [(-1.0, 1.0)] * tasks.weights.shape[1]
    atoms = support_atoms(bounds, 0.9, settings.atoms) if isinstance(settings, HistogramSettings) else None
    return Agent.create(settings, inputs, actions, tasks, atoms)


def decisions(name: str, policies: int, risk: Risk, w: npt.NDArray[np.float64], bandwidth: float) -> dict[str, float]:
    """Microseconds of one decision, by the library and by `Agent.scores`, and a second's decisions in batches."""
    agent = make_agent(name, policies).for_weights(w[None])
    online = jax.jit(agent.init)(jax.random.key(0)).online
    sources = policies_of(agent, online)
    obs = np.random.default_rng(0).normal(size=(BATCH, INPUTS)).astype(np.float32)
    task_heads = jax.jit(agent.task_heads)(online, w.astype(np.float32))
    compiled = jax.jit(lambda task_heads, x: gpi_actions(agent.scores(task_heads, x, x, risk)))
    read = sum(part.nbytes for part in jax.tree.leaves(task_heads.networks))
    return {
        "one_us": median_us(lambda: sources.act_one(obs[0], w, risk)),
        "agent_scores_us": median_us(lambda: int(compiled(task_heads, obs[:1])[0])),
        "read_once_us": 1e6 * read / bandwidth,
        "batched_per_s": BATCH / median_us(lambda: sources.act(obs, w, risk)) * 1e6,
    }


def learning(name: str, num_envs: int, together: int | None, steps: int) -> dict[str, float]:
    """Transitions a second with an update for each, and microseconds of its parts per transition."""
    rng = np.random.default_rng(0)
    tasks, settings = Tasks.of(rng.normal(size=(4, 3))), replace(network_settings(name), widths=(64, 64))
    if isinstance(settings, HistogramSettings):
        settings = replace(settings, atoms=21)
    agent = _create(settings, 7, 6, tasks)
    learner = SteppedLearner(agent, tasks, -1.0, 0, Pace(num_envs, 10**6, together, act_every=32))
    floats = (rng.uniform(-1, 1, size=(num_envs, size)).astype(np.float32) for size in (7, 7, 3))
    obs, next_obs, phi = floats
    outcome = (next_obs, phi, np.zeros(num_envs, bool), np.ones(num_envs, bool))
    calls = {"act": lambda: learner.act(obs), "observe": lambda: learner.observe(*outcome), "learn": learner.learn}
    spent = dict.fromkeys(calls, 0.0)
    for warm in (True, False):
        for _ in range(max(20, (100 if warm else steps) // num_envs)):
            for part, call in calls.items():
                begin = time.perf_counter()
                call()
                spent[part] += 0.0 if warm else time.perf_counter() - begin
    transitions = num_envs * max(20, steps // num_envs)
    return {"steps_per_s": transitions / sum(spent.values())} | {
        f"{part}_us": 1e6 * seconds / transitions for part, seconds in spent.items()
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bandwidth = read_bandwidth()
    results: dict[str, Any] = {"device": jax.devices()[0].device_kind, "read_gb_s": bandwidth / 1e9}
    print(f"{results['device']}, one core reads {bandwidth / 1e9:.0f} GB/s")
    dense = np.random.default_rng(1).normal(size=FEATURES)
    sparse = np.where(np.arange(FEATURES) < 2, dense, 0.0)
    for label, name, risk, w in (
        ("point", "sfdqn", MeanVariance(0.0), dense),
        ("residual", "sfdqn-residual", MeanVariance(-4.0), dense),
        ("histogram", "rasfc51", MeanVariance(-4.0), dense),
        ("histogram, entropic", "rasfc51", Entropic(-4.0), dense),
        ("histogram, CVaR", "rasfc51", CVaR(0.1), dense),
        ("histogram, 2 features", "rasfc51", MeanVariance(-4.0), sparse),
    ):
        found = decisions(name, options.policies, risk, w, bandwidth)
        results[label] = found
        print(
            f"{label:22s} {found['one_us']:8.0f} us a decision ({found['agent_scores_us']:.0f} by Agent.scores, "
            f"{found['one_us'] / found['read_once_us']:.1f} times reading the weights once); "
            f"{found['batched_per_s']:,.0f} a second in batches of {BATCH}"
        )
    for name, num_envs, together in (("rasfc51", 1, 1), ("rasfc51", 1, None), ("rasfc51", 8, None), ("sfdqn", 8, None)):
        found = learning(name, num_envs, together, options.steps)
        label = f"{name}, {num_envs} environments" + f", {together} update a call" * (together is not None)
        results[f"learning: {label}"] = found
        parts = ", ".join(f"{part} {found[f'{part}_us']:.0f}" for part in ("act", "observe", "learn"))
        print(f"{label:40s} {found['steps_per_s']:6.0f} steps and updates a second; us a step: {parts}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
