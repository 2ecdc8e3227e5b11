"""A step of the fused training loop: RaSFC51, C51 and SFDQN at the paper's size, on whatever device jax finds.

    python benchmarks/deep.py [--lanes 10] [--steps 2000] [--agents rasfc51 rac51 sfdqn] [--json FILE]

Beside the time it counts the bytes a step must move through memory, and says which fraction of the device's bandwidth
(measured by a copy in the same run) that is. On a CPU it also times a plain, unfused loop: the same networks and
updates, one call of jax for each policy and stage, as a Keras implementation would do.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rasf.deep import train
from rasf.deep.agent import Agent, Tasks, preset
from rasf.deep.fit import period_of
from rasf.deep.train import Plan
from rasf.envs.reacher import Reacher
from rasf.experiments.reacher_runs import TRAINING


def bandwidth() -> float:
    """Bytes a second, read and written, of copying a large array on the device."""
    size = 2**28 if jax.default_backend() != "cpu" else 2**26
    array = jnp.zeros(size, jnp.float32)
    copy = jax.jit(lambda x: x + 1.0)
    jax.block_until_ready(copy(array))
    best = min(_seconds(lambda: jax.block_until_ready(copy(array))) for _ in range(5))
    return 2 * array.nbytes / best


def _seconds(action: Any) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def least_bytes(agent: Agent, networks: Any) -> int:
    """Bytes a lane's step must move.

    Adam reads weights, two moments and the gradient and writes all but the last; the gradient is written once; the
    online weights are read forwards and backwards, the target's once; acting and choosing a' read the heads they need.
    """
    weights = sum(part.nbytes for part in jax.tree.leaves(networks))
    heads = sum(network.heads.weight.nbytes for network in networks)
    share = agent.active / agent.law.shapes()[0].heads
    return int(weights * (7 + 1 + 2 + 1) + 2 * share * heads)


def measure(name: str, lanes: int, steps: int) -> dict[str, float]:
    """Milliseconds a step of all lanes together, and the bytes it moves."""
    world = Reacher()
    tasks = Tasks(jnp.array(world.tasks(TRAINING)), jnp.array(world.target_positions(TRAINING)))
    agent = Agent.create(preset(name), world.observation_size, world.n_actions, world.feature_bounds, tasks)
    keys, beta = jax.random.split(jax.random.key(0), lanes), jnp.full(lanes, -6.0)
    plans, axes = Plan(keys, beta, beta, tasks), Plan(0, 0, 0, None)
    period = min(period_of(agent), steps)
    begin = jax.jit(jax.vmap(partial(train.start, agent, world, 4 * steps), in_axes=(axes,)))
    advance = jax.jit(
        jax.vmap(partial(train.advance, agent, world, steps // period, period), in_axes=(axes, 0, None, None, None)),
        donate_argnums=(1,),
    )
    lane = begin(plans)
    least = lanes * least_bytes(agent, jax.tree.map(lambda part: part[0], lane.learner.online))
    compile_s = _seconds(lambda: advance.lower(plans, lane, 0, 0, 0).compile())
    lane = jax.block_until_ready(advance(plans, lane, 0, 0, 0)[0])
    times = []
    for repeat in range(1, 3):
        start = time.perf_counter()
        lane = jax.block_until_ready(advance(plans, lane, repeat * steps, 0, 0)[0])
        times.append((time.perf_counter() - start) / (steps // period * period))
    return {"lanes": lanes, "ms": 1e3 * min(times), "compile_s": compile_s, "least_gb": least / 1e9}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--agents", nargs="+", default=["rasfc51", "rac51", "sfdqn"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    speed = bandwidth()
    results: dict[str, Any] = {"device": jax.devices()[0].device_kind, "bandwidth_gb_s": speed / 1e9}
    print(f"{results['device']}, copies at {speed / 1e9:.0f} GB/s")
    for name in options.agents:
        found = measure(name, options.lanes, options.steps)
        found["floor_ms"] = 1e3 * found["least_gb"] * 1e9 / speed
        found["fraction_of_bandwidth"] = found["floor_ms"] / found["ms"]
        results[name] = found
        print(
            f"{name:16s} {options.lanes} lanes {found['ms']:8.3f} ms a step, moves at least {found['least_gb']:.3f} GB: "
            f"{found['floor_ms']:.3f} ms, {found['fraction_of_bandwidth']:.0%} of the bandwidth; compiled in "
            f"{found['compile_s']:.0f} s"
        )
    stats = jax.devices()[0].memory_stats()
    peak = stats["peak_bytes_in_use"] if stats else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results["peak_gb"] = peak / 1e9
    print(f"peak memory {peak / 1e9:.1f} GB")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
