"""Variants of the agent on small worlds in jax, several seeds in one program: predicted against realised.

    python lab/studies/screen.py obstacles --seeds 3 --out runs/screen.jsonl --set n_step=1

One line of JSON for each seed. Unseen weightings are acted for neutrally, by CVaR(0.1), and by monotone mean-variance
at three levels (theta times the neutral spread is 1, 4, 16); all by GPI over the policies of the tasks, in every state.
`copies=2` trains every policy twice, from other first weights, and acts by the mixture of both distributions.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import rasf
from rasf.arrays import Array, Floats
from rasf.deep import fused
from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.fused import RunConfig, Schedule
from rasf.deep.settings import MomentSettings
from rasf.risk import CVaR, MeanVariance, MonotoneMeanVariance
from rasf.statistics import mean_of_the_worst
from rasf_lab.operations import inventory, machines, power
from rasf_lab.suite.environments import CASES
from worlds import DynamicObstacles, FiniteWorld, Flaps, GustyPole

EPISODES, WORST, LEVELS = 500, 0.1, (1.0, 4.0, 16.0)


@dataclass(frozen=True)
class Screened:
    """A world, its tasks, and which feature is a failure."""

    world: Any
    tasks: Any
    unseen: Any
    steps: int
    failure: tuple[int, int] | None
    gamma: float = 0.99


def _operations(name: str, mdp: Any, failure: tuple[int, int] | None) -> Screened:
    case = CASES[name]
    return Screened(FiniteWorld(mdp, 0, case.max_steps), case.tasks, case.unseen[:3], 20_000, failure, 0.99)


def problems(name: str) -> Screened:
    """The problem of this name."""
    if name == "obstacles":
        tasks = ((1, -1, -0.01), (1, -0.2, -0.05), (0.5, -2, -0.005))
        unseen = ((1, -2, -0.01), (1, -0.5, -0.02), (0.7, -1.5, -0.003))
        return Screened(DynamicObstacles(), tasks, unseen, 15_000, (1, 1))
    if name == "pole":
        tasks = ((1, 0, -10), (1, -0.5, -10), (0.2, -1, -30))
        return Screened(GustyPole(), tasks, ((1, -0.2, -20), (0.5, -0.5, -5), (1, -1, -50)), 20_000, (2, 1))
    if name == "flaps":
        tasks = ((1, -1, 0), (1, -5, -0.02), (0.5, -1, -0.05))
        return Screened(Flaps(), tasks, ((1, -2, -0.01), (1, -3, -0.05), (0.7, -1, 0)), 40_000, (1, 1))
    case = CASES.get(name)
    kwargs = {} if case is None else dict(case.env_kwargs)
    made = {"machines": machines, "inventory": inventory, "power": power}[name]
    return _operations(name, made(**kwargs), (4, 1) if name in ("machines", "inventory") else None)


def together(part: Array, copies: int) -> Array:
    """The copies (copies, K, ..) of K policies."""
    return part.reshape(copies, -1, *part.shape[1:])


def rollouts(
    agent: Agent, world: Any, w: Array, risk: Any, networks: Any, key: Array, copies: int = 1
) -> dict[str, Array]:
    """Episodes by GPI: discounted and plain sums (n, d), lengths, and what is predicted at their start."""
    heads = agent.task_heads(networks, w)
    nothing = jnp.zeros(0)

    def moments(obs: Array) -> tuple[Array, Array]:
        mean, variance = (together(part, copies) for part in agent.moments(heads, obs, nothing))
        return mean.mean(axis=0), variance.mean(axis=0) + mean.var(axis=0)

    def chosen(obs: Array) -> tuple[Array, Array, Array]:
        mean, variance = moments(obs)
        scores = risk.moments(mean, variance)
        k = jnp.argmax(scores.max(axis=2), axis=0)
        a = jnp.argmax(scores.max(axis=0), axis=1)
        rows = jnp.arange(len(a))
        return a, mean[k, rows, a], variance[k, rows, a]

    start, noises = jax.random.split(key)
    state = jax.vmap(world.reset)(jax.random.split(start, EPISODES))
    first = agent.with_time(jax.vmap(world.observe)(state), jnp.zeros(EPISODES, jnp.int32))
    _, mean, variance = chosen(first)

    def step(carry: Any, t: Array) -> tuple[Any, None]:
        state, alive, sums, discounted, lengths = carry
        obs = agent.with_time(jax.vmap(world.observe)(state), jnp.full(EPISODES, t))
        action = jnp.argmax(risk.moments(*moments(obs)).max(axis=0), axis=1)
        noise = jax.vmap(world.noise)(jax.random.split(jax.random.fold_in(noises, t), EPISODES))
        state, phi = jax.vmap(world.advance)(state, action, noise)
        phi = phi * alive[:, None]
        carry = (
            state, alive * ~jax.vmap(world.terminated)(state), sums + phi,
            discounted + agent.settings.gamma**t * phi, lengths + alive,
        )  # fmt: skip
        return carry, None

    none = jnp.zeros((EPISODES, len(w)))
    carry = (state, jnp.ones(EPISODES), none, none, jnp.zeros(EPISODES))
    (_, _, sums, discounted, lengths), _ = jax.lax.scan(step, carry, jnp.arange(world.episode_length))
    return {
        "sums": sums, "discounted": discounted, "lengths": lengths, "mean": mean, "variance": variance,
        "first": first[:1],
    }  # fmt: skip


def least_cost(agent: Agent, networks: Any, feature: int, first: Array) -> Array:
    """The least expected sum of a feature, over policies and actions, at the first observations."""
    heads = agent.task_heads(networks, jnp.eye(agent.law.features)[feature])
    return agent.moments(heads, first, jnp.zeros(0))[0].min()


def screen(name: str, seeds: int, settings: dict[str, Any], share: float = 1.0) -> list[dict[str, Any]]:
    """Train one lane for each seed, and act."""
    problem, begin = problems(name), time.perf_counter()
    world, tasks = problem.world, np.array(problem.tasks, np.float32)
    extra_tasks = settings.pop("extra_tasks", ())
    learned = np.concatenate([tasks, np.array(extra_tasks, np.float32).reshape(-1, tasks.shape[1])])
    risks = settings.pop("betas", [0.0])
    copies = settings.pop("copies", 1)
    learned = np.tile(learned, (copies, 1))
    given = {"gamma": problem.gamma, **settings}
    chosen = MomentSettings(**{key: tuple(v) if isinstance(v, list) else v for key, v in given.items()})
    steps, n = round(share * problem.steps), len(tasks)
    planned = round(max(0, steps * n - chosen.warmup) * chosen.updates)
    limit = world.episode_length if chosen.horizon == "episode" else 0
    policies = Policies(np.tile(learned, (len(risks), 1)), np.repeat(np.float32(risks), len(learned)))
    agent = Agent.for_world(
        chosen,
        world,
        Tasks.of(tasks),
        policies=len(policies.beta),
        planned=planned,
        limit=limit,
        neutral=not np.any(risks),
        risk=MonotoneMeanVariance,
    ).for_weights(np.ones((1, tasks.shape[1])))
    stack = partial(jax.tree.map, lambda part: jnp.stack([jnp.asarray(part)] * seeds))
    configs = RunConfig(
        jax.vmap(jax.random.key)(jnp.arange(seeds)), jnp.zeros((seeds, n)), jnp.zeros(seeds), stack(Tasks.of(tasks)),
        stack(policies),
    )  # fmt: skip
    lanes = None
    for chunk in fused.chunks(agent, world, configs, Schedule(steps, n, 10**9), None):
        lanes = chunk.lanes
    assert lanes is not None
    jax.block_until_ready(lanes)
    seconds = time.perf_counter() - begin
    networks = jax.tree.map(
        lambda *parts: np.stack(parts), *(fused.unscaled_networks(agent, lanes, i) for i in range(seeds))
    )
    lines: list[dict[str, Any]] = [
        {"problem": name, "seed": i, "seconds": seconds, "asked": [],
         "settings": given | {"extra_tasks": len(extra_tasks), "betas": risks, "copies": copies}}
        for i in range(seeds)
    ]  # fmt: skip
    acted = partial(rollouts, agent, world, copies=copies)
    run = jax.jit(jax.vmap(acted, in_axes=(None, None, 0, None)), static_argnums=1)
    by_beta = jax.jit(
        jax.vmap(lambda w, beta, net, key: acted(w, MonotoneMeanVariance(beta), net, key),
                 in_axes=(None, 0, 0, None))
    )  # fmt: skip
    for j, w in enumerate(np.array(problem.unseen, np.float32)):
        key = jax.random.key(1_000 + j)
        found = {"neutral": run(w, MeanVariance(0.0), networks, key)}
        spread = np.maximum((np.asarray(found["neutral"]["discounted"]) @ w).std(axis=1), 1e-6)
        found["cvar"] = run(w, CVaR(WORST), networks, key)
        for level in LEVELS:
            found[f"monotone {level:g}"] = by_beta(w, -level / spread, networks, key)
        least = None
        if problem.failure is not None:
            first = found["neutral"]["first"]
            least = jax.vmap(partial(least_cost, agent), in_axes=(0, None, 0))(networks, problem.failure[0], first)
        for i in range(seeds):
            rows = {}
            for row, many in found.items():
                one = {key: np.asarray(part[i], np.float64) for key, part in many.items()}
                returns = one["discounted"] @ w
                mean = one["mean"].mean()
                rows[row] = {
                    "returns": returns, "predicted": [mean, float(np.sqrt(one["variance"].mean() + one["mean"].var()))],
                    "undiscounted": float((one["sums"] @ w).mean()), "lengths": float(one["lengths"].mean()),
                }  # fmt: skip
                if problem.failure is not None:
                    rows[row]["failed"] = float((one["sums"][:, problem.failure[0]] != 0).mean())
                    rows[row]["sum"] = float(one["discounted"][:, problem.failure[0]].mean())
            lines[i]["asked"].append({"w": w.tolist(), "spread": float(spread[i]), "rows": rows,
                                      "least": None if least is None else float(least[i])})  # fmt: skip
    for line in lines:
        line["all_seconds"] = time.perf_counter() - begin
        line["steps"] = steps * n
    return lines


def value_of(name: str, returns: Floats, spread: float) -> float:
    """The risk of a row, as realised."""
    if name == "neutral":
        return float(returns.mean())
    if name == "cvar":
        return float(mean_of_the_worst(returns, WORST))
    probs = np.full(returns.shape, 1 / len(returns))
    return float(rasf.MonotoneMeanVariance(-float(name.split()[1]) / spread).histogram(probs, returns))


def table(lines: list[dict[str, Any]]) -> str:
    """A summary of a variant: medians over seeds and weightings, in units of the neutral spread."""
    told: dict[str, list[float]] = {}
    for line in lines:
        for asked in line["asked"]:
            rows, spread = asked["rows"], asked["spread"]
            neutral = np.array(rows["neutral"]["returns"])
            for name, row in rows.items():
                returns = np.array(row["returns"])
                mean, std = row["predicted"]
                gain = (value_of(name, returns, spread) - value_of(name, neutral, spread)) / spread
                told.setdefault(f"{name}: gain", []).append(gain)
                told.setdefault(f"{name}: d mean", []).append((mean - returns.mean()) / max(returns.std(), 1e-6))
                told.setdefault(f"{name}: std", []).append(std / max(returns.std(), 1e-6))
                told.setdefault(f"{name}: failed", []).append(100 * row.get("failed", np.nan))
                told.setdefault(f"{name}: return", []).append(returns.mean())
                told.setdefault(f"{name}: plain", []).append(row["undiscounted"])
            if asked["least"] is not None:
                allowed = rows["neutral"]["sum"] + 0.02
                told.setdefault("limit impossible", []).append(float(asked["least"] > allowed))
    names = ["neutral", "cvar", *(f"monotone {level:g}" for level in LEVELS)]
    parts = [f"{lines[0]['problem']:10s} n {len(lines)} {lines[0]['seconds']:.0f} of {lines[0]['all_seconds']:.0f} s"]
    neutral = told["neutral: return"]
    parts.append(f"return {np.mean(neutral):.3g} [{np.min(neutral):.3g}]")
    for name in names:
        gain, d, std = (np.array(told[f"{name}: {what}"]) for what in ("gain", "d mean", "std"))
        failed = np.mean(told[f"{name}: failed"])
        parts.append(
            f"{name.replace('monotone', 'mono')}: gain {np.mean(gain):+.2f}[{np.min(gain):+.2f}] "
            f"d {np.median(d):+.2f}({np.abs(d).max():.1f}) std {np.median(std):.2f} fail {failed:.1f}"
        )
    if "limit impossible" in told:
        parts.append(f"impossible {100 * np.mean(told['limit impossible']):.0f}%")
    return " | ".join(parts)


def main() -> None:
    """Screen a variant on the problems given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--label", default="")
    parser.add_argument("--set", nargs="*", default=[])
    given = parser.parse_args()
    for name in given.problems:
        settings = {key: json.loads(value) for key, _, value in (text.partition("=") for text in given.set)}
        lines = screen(name, given.seeds, settings, given.share)
        print(given.label, table(lines), flush=True)
        if given.out:
            with given.out.open("a") as file:
                for line in lines:
                    for asked in line["asked"]:
                        for row in asked["rows"].values():
                            row["returns"] = np.round(row["returns"], 5).tolist()
                    file.write(json.dumps(line | {"label": given.label}) + "\n")


if __name__ == "__main__":
    main()
