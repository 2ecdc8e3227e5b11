"""A step of the fused driver: RaSFC51, C51 and SFDQN at the paper's size, on whatever device jax finds.

    python lab/benchmarks/deep.py [--lanes 10] [--steps 2000] [--agents rasfc51 rac51 sfdqn] [--json FILE]

Beside the time it counts the bytes a step must move through memory, and says which fraction of the device's bandwidth
(measured by a copy in the same run) that is. On a CPU, where Keras is installed (extra `bench`), it also times SFDQN as
one would write it in Keras, with the same four networks, batch and updates.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rasf.deep import fused
from rasf.deep.agent import Agent, Tasks
from rasf.deep.fused import RunConfig, Stage, period_of
from rasf.envs.reacher.world import Reacher
from rasf_lab.paper.reacher.training import TRAINING, ReacherRun


def bandwidth() -> float:
    """Bytes a second, read and written, of passing over a large array on the device.

    Many passes in one program: on a GPU, calling a program takes as long as one pass.
    """
    size, passes = (2**28, 100) if jax.default_backend() != "cpu" else (2**26, 5)
    array = jnp.zeros(size, jnp.float32)
    repeat = jax.jit(lambda x: jax.lax.fori_loop(0, passes, lambda _, x: x + 1.0, x))
    jax.block_until_ready(repeat(array))
    best = min(_seconds(lambda: jax.block_until_ready(repeat(array))) for _ in range(5))
    return 2 * passes * array.nbytes / best


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
    share = min(1.0, agent.active_features / agent.law.shapes()[0].heads)  # a mean has one head, for all features
    return int(weights * (7 + 1 + 2 + 1) + 2 * share * heads)


def measure(name: str, lanes: int, steps: int) -> dict[str, float]:
    """Milliseconds a step of all lanes together, and the bytes it moves."""
    world = Reacher()
    tasks = Tasks(jnp.array(world.tasks(TRAINING)), jnp.array(world.target_positions(TRAINING)))
    agent = ReacherRun(name, 0.0, 0).create_agent(world, tasks, 0)
    keys, beta = jax.random.split(jax.random.key(0), lanes), jnp.full(lanes, -6.0)
    configs, axes = RunConfig(keys, beta, beta, tasks), RunConfig(0, 0, 0, None)
    period = min(period_of(agent), steps)
    begin = jax.jit(jax.vmap(partial(fused.start, agent, world, 4 * steps), in_axes=(axes,)))
    stage = Stage(steps // period, period, False, False, True)
    advance = jax.jit(
        jax.vmap(partial(fused.advance, agent, world, stage), in_axes=(axes, 0, None, None)), donate_argnums=(1,)
    )
    lane = begin(configs)
    least = lanes * least_bytes(agent, jax.tree.map(lambda part: part[0], lane.learner.online))
    compile_s = _seconds(lambda: advance.lower(configs, lane, 0, 0).compile())
    lane = jax.block_until_ready(advance(configs, lane, 0, 0)[0])
    times = []
    for repeat in range(1, 3):
        start = time.perf_counter()
        lane = jax.block_until_ready(advance(configs, lane, repeat * steps, 0)[0])
        times.append((time.perf_counter() - start) / (steps // period * period))
    return {"lanes": lanes, "ms": 1e3 * min(times), "compile_s": compile_s, "least_gb": least / 1e9}


def keras_step_ms(repeats: int = 30) -> float | None:
    """Milliseconds a step of SFDQN in Keras on its jax backend; None without Keras.

    Per step: every network predicts at the state to act, at s, and at s' (online and target), and fits its batch.
    """
    os.environ.setdefault("KERAS_BACKEND", "jax")
    try:
        import keras
    except ImportError:
        return None
    rng = np.random.default_rng(0)

    def network() -> Any:
        layers = [keras.layers.Dense(256, "tanh"), keras.layers.Dense(256, "tanh"), keras.layers.Dense(9 * 13)]
        model = keras.Sequential([keras.Input((4,)), *layers])
        model.compile(keras.optimizers.Adam(1e-3), "mse")
        return model

    online, target = [network() for _ in range(4)], [network() for _ in range(4)]
    s, s_next, phi = (rng.normal(size=(32, n)).astype(np.float32) for n in (4, 4, 13))
    action, w = rng.integers(9, size=32), rng.normal(size=(4, 13))
    rows = np.arange(32)

    def step() -> None:
        for model in online:
            model.predict_on_batch(s[:1])
        for k, (model, old) in enumerate(zip(online, target, strict=True)):
            best = (model.predict_on_batch(s_next).reshape(32, 9, 13) @ w[k]).argmax(axis=1)
            aim = np.array(model.predict_on_batch(s)).reshape(32, 9, 13)
            aim[rows, action] = phi + 0.9 * old.predict_on_batch(s_next).reshape(32, 9, 13)[rows, best]
            model.train_on_batch(s, aim.reshape(32, -1))

    for _ in range(5):
        step()
    return 1e3 * _seconds(lambda: [step() for _ in range(repeats)]) / repeats


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
            f"{name:16s} {options.lanes} lanes {found['ms']:8.3f} ms a step, compiled in {found['compile_s']:.0f} s; "
            f"it moves at least {found['least_gb']:.3f} GB, which takes {found['floor_ms']:.3f} ms: "
            f"{found['fraction_of_bandwidth']:.0%} of the bandwidth"
        )
    keras_ms = keras_step_ms() if jax.default_backend() == "cpu" and "sfdqn" in results else None
    if keras_ms is not None:
        results["keras_sfdqn_ms"] = keras_ms
        ratio = keras_ms * options.lanes / results["sfdqn"]["ms"]
        print(f"SFDQN in Keras {keras_ms:.2f} ms a step of one lane, {ratio:.1f} times as long")
    stats = jax.devices()[0].memory_stats()
    peak = stats["peak_bytes_in_use"] if stats else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results["peak_gb"] = peak / 1e9
    print(f"peak memory {peak / 1e9:.1f} GB")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
