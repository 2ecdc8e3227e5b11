"""Continuous actions on MO-Gymnasium: a library of `rasftd3` beside GPI-LS and CAPQL, with and without disturbances.

    python lab/studies/mo_continuous.py run hopper rasf 0 --out runs/a.jsonl        one line of JSON per agent and seed
    python lab/studies/mo_continuous.py run hopper-noise rasf 0 --out .. --steps 2000 --set updates=1
    python lab/studies/mo_continuous.py many runs/a.jsonl 16 hopper:rasf:0 hopper:gpi-ls:0     16 processes at a time
    python lab/studies/mo_continuous.py table runs/*.jsonl                          the table of `lab/notes`

All agents have as many steps of the environment, and act for the same weightings from the same start states. A line has
the vector return of every evaluation episode, of which `table` computes hypervolume, expected utility (EUM), sparsity
and the expected utility of CVaR(0.1) (`rasf_lab.common.fronts`). Returns are not discounted. A point of the front is
the mean vector return of the episodes for one weighting.

    rasf            one library for all weightings; its policies are trained for a few weightings, half of them averse
    rasf-neutral    the same, with neutral policies only
    gpi-ls          morl-baselines' GPI-LS for continuous actions, the version in JAX
    capql           morl-baselines' CAPQL, which needs torch

A library acts in three ways: neutral, CVaR(0.1) per state, and CVaR(0.1) of the whole return. The rivals have one way.
Problems with a suffix have a disturbance, in training and in evaluation. Problems need mo-gymnasium with mujoco or
box2d. The rivals need morl-baselines 1.3, best in a separate virtual environment. Not all of its
requirements are called; `lab/studies/stand_ins` has modules in the place of some. The steps of the evaluation episodes
with which GPI-LS selects weightings are not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import rasf
from rasf.envs.gymnasium.episodes import episodes
from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf.envs.gymnasium.vector import SyncEnvs
from rasf.library.trials import Trials
from rasf.statistics import mean_interval
from rasf_lab.common.fronts import (
    expected_risk_utility,
    expected_utility,
    hypervolume,
    non_dominated,
    simplex,
    sparsity,
)

STEPS, EPISODES, GAMMA, WORST = 200_000, 50, 0.99, 0.1
AT_ONCE = 16  # environments that are stepped in parallel in the evaluation of a rival
TRYING = 1_000  # seeds of the evaluation episodes begin here
ITERATIONS, TRIES = 10, 2  # GPI-LS: iterations; episodes that evaluate each candidate weighting
WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "neutral": (rasf.MeanVariance(0.0), {}),
    "cvar": (rasf.CVaR(WORST), {}),
    "cvar static": (rasf.CVaR(WORST), {"static": True}),
}


# --- disturbances; their random numbers are those of the environment, so the seed of an episode decides on them


class TorqueNoise(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gaussian noise on the actions, with a standard deviation of 0.3 of half the range of an action."""

    def step(self, action: Any) -> Any:
        space = self.action_space
        noise = 0.3 * (space.high - space.low) / 2 * self.unwrapped.np_random.standard_normal(space.shape)
        return self.env.step(np.clip(action + noise, space.low, space.high).astype(space.dtype))


class LanderGusts(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A gust in 2 % of the steps: a horizontal impulse with a standard deviation of 10, about 2 m/s."""

    def step(self, action: Any) -> Any:
        rng = self.unwrapped.np_random
        if rng.random() < 0.02:
            lander = self.unwrapped.lander
            lander.ApplyLinearImpulse((10.0 * rng.standard_normal(), 0.0), lander.position, True)
        return self.env.step(action)


class CarGusts(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A gust in 2 % of the steps: the speed changes by a Gaussian number with a standard deviation of 0.01."""

    def step(self, action: Any) -> Any:
        rng = self.unwrapped.np_random
        if rng.random() < 0.02:
            self.unwrapped.state = self.unwrapped.state + np.array([0.0, 0.01 * rng.standard_normal()])
        return self.env.step(action)


class Storms(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A storm after 5 % of the steps: the level of the reservoir rises by an exponential number with mean 40."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        rng = self.unwrapped.np_random
        if rng.random() < 0.05:
            self.unwrapped.state = obs = (self.unwrapped.state + rng.exponential(40.0)).astype(np.float32)
        return obs, reward, terminated, truncated, info


@dataclass(frozen=True)
class Problem:
    """An environment of MO-Gymnasium with d objectives.

    Attributes:
        env: its id.
        reference: reference point of the hypervolume (d,), below the returns of random actions in most episodes.
        spread: standard deviation of the discounted return under random actions, mean over weightings. The averse
            policies of a library are trained for monotone mean-variance with beta = -4 / spread.
        max_steps: time limit of an episode.
        disturbance: a wrapper, or None.
        kwargs: keyword arguments of the environment.
    """

    env: str
    reference: tuple[float, ...]
    spread: float
    max_steps: int = 1_000
    disturbance: Callable[[Any], Any] | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def objectives(self) -> int:
        return len(self.reference)

    @property
    def trained(self) -> np.ndarray:
        """The weightings (n, d) of a library's policies: each objective alone, and mixtures."""
        d = self.objectives
        return simplex(d, 3) if d == 2 else np.concatenate([np.eye(d), np.full((1, d), 1 / d)])

    @property
    def asked(self) -> np.ndarray:
        """The weightings (m, d) of the evaluation: 11 for two objectives, 20 for four."""
        return simplex(self.objectives, 10 if self.objectives == 2 else 3)

    def make(self) -> Any:
        import mo_gymnasium  # noqa: F401, registers its environments

        env = gymnasium.make(self.env, max_episode_steps=self.max_steps, disable_env_checker=True, **self.kwargs)
        return env if self.disturbance is None else self.disturbance(env)


_PLAIN = {
    "hopper": Problem("mo-hopper-2obj-v5", (-100.0, -100.0), 12.0),
    "halfcheetah": Problem("mo-halfcheetah-v5", (-1_000.0, -6_000.0), 9.0),
    "swimmer": Problem("mo-swimmer-v5", (-100.0, -2_000.0), 2.5),
    "lander": Problem("mo-lunar-lander-continuous-v3", (-101.0, -1_001.0, -1_001.0, -1_001.0), 18.0),
    "mountaincar": Problem("mo-mountaincarcontinuous-v0", (-1_000.0, -1_000.0), 1.1, 999),
    "reservoir": Problem("water-reservoir-v0", (-10_000.0, -5_000.0), 160.0, 100, None, {"normalized_action": True}),
}
_DISTURBED = {
    "hopper-noise": ("hopper", TorqueNoise),
    "halfcheetah-noise": ("halfcheetah", TorqueNoise),
    "swimmer-noise": ("swimmer", TorqueNoise),
    "lander-gusts": ("lander", LanderGusts),
    "mountaincar-gusts": ("mountaincar", CarGusts),
    "reservoir-storms": ("reservoir", Storms),
}
PROBLEMS = _PLAIN | {
    name: Problem(**{**vars(_PLAIN[plain]), "disturbance": wrapper}) for name, (plain, wrapper) in _DISTURBED.items()
}
AGENTS = ("rasf", "rasf-neutral", "gpi-ls", "capql")


def run(name: str, agent: str, seed: int, steps: int, each: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Train an agent and act for all weightings; all numbers as JSON.

    Args:
        name: name of the problem.
        agent: name of the agent.
        seed: seed of the training.
        steps: steps of the environment in training.
        each: evaluation episodes for each weighting and way to act.
        settings: settings of the agent that differ from the defaults.
    """
    problem, begin = PROBLEMS[name], time.perf_counter()
    if agent.startswith("rasf"):
        library = library_of(problem, agent, seed, steps, settings)
        seconds, notes = time.perf_counter() - begin, list(library.notes)
        ways = ways_of_library(library, problem, each)
    else:
        choose = gpi_ls(problem, seed, steps, settings) if agent == "gpi-ls" else capql(problem, seed, steps, settings)
        seconds, notes = time.perf_counter() - begin, []
        ways = {"neutral": acted(problem, choose, each)}
    return {
        "problem": name, "agent": agent, "seed": seed, "steps": steps, "gamma": GAMMA, "seconds": round(seconds, 1),
        "all_seconds": round(time.perf_counter() - begin, 1), "notes": notes, "weightings": problem.asked.tolist(),
        "settings": {key: repr(value) for key, value in settings.items()}, "ways": ways,
    }  # fmt: skip


def library_of(problem: Problem, agent: str, seed: int, steps: int, settings: dict[str, Any]) -> rasf.PolicyLibrary:
    """Train a library. All weightings together have `steps` steps of the environment."""
    tasks, neutral = problem.trained, rasf.MeanVariance(0.0)
    risks = [neutral] if agent == "rasf-neutral" else [neutral, rasf.MonotoneMeanVariance(-4.0 / problem.spread)]
    given = {"gamma": GAMMA, "policies_per_update": len(tasks) * len(risks)} | settings
    return rasf.learn(
        problem.make, tasks=tasks, agent="rasftd3", risk=risks, steps_per_task=steps // len(tasks), seed=seed,
        progress=False, **given,
    )  # fmt: skip


def ways_of_library(library: rasf.PolicyLibrary, problem: Problem, each: int) -> dict[str, Any]:
    """Return the results of a library by way to act; see `results`."""
    trials = Trials(problem.make, each, TRYING, problem.max_steps)
    found: dict[str, list[Any]] = {way: [] for way in WAYS}
    for w in problem.asked:
        for way, report in trials.reports(library, w, WAYS, None).items():
            found[way].append((report.phi, report.discounted_phi, report.lengths))
    return {way: results(some) for way, some in found.items()}


def acted(problem: Problem, choose: Callable[[Any, Any], Any], each: int) -> dict[str, Any]:
    """Return the results of a rival; see `results`. `choose` turns observations and weights (B, ..) into actions."""
    environments = [open_environment(problem.make, None) for _ in range(min(AT_ONCE, each))]
    found = []
    for w in problem.asked:

        def act(t: int, obs: dict[int, Any], w: Any = w) -> Any:
            seen = np.array(list(obs.values()), np.float32).reshape(len(obs), -1)
            actions = choose(seen, np.tile(w.astype(np.float32), (len(seen), 1)))
            return environments[0].actions.unit(actions)

        sums, discounted, lengths = np.zeros((each, len(w))), np.zeros((each, len(w))), np.zeros(each)
        for transitions in episodes(SyncEnvs(environments), seeds_from(TRYING, each), act, problem.max_steps):
            for one in transitions:
                sums[one.episode] += one.step.phi
                discounted[one.episode] += GAMMA**one.t * one.step.phi
                lengths[one.episode] += 1
        found.append((sums, discounted, lengths))
    for environment in environments:
        environment.close()
    return results(found)


def results(found: Sequence[tuple[Any, Any, Any]]) -> dict[str, Any]:
    """Return vector returns (m, n, d), plain and discounted, and mean lengths (m,), of n episodes for m weightings."""
    sums, discounted, lengths = (np.array(parts) for parts in zip(*found, strict=True))
    return {
        "returns": np.round(sums, 3).tolist(), "discounted": np.round(discounted, 3).tolist(),
        "lengths": np.round(lengths.mean(axis=1), 1).tolist(),
    }  # fmt: skip


# --- rivals


def gpi_ls(problem: Problem, seed: int, steps: int, settings: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """Train GPI-LS with the defaults of morl-baselines, and return its policy."""
    from morl_baselines.multi_policy.gpi_ls_jax.gpi_ls_continuous_action_jax import GPILSContinuousAction
    from morl_baselines.multi_policy.linear_support import linear_support

    linear_support.policy_evaluation_mo = _once(linear_support.policy_evaluation_mo)
    env, trying = _seeded(problem, seed)
    given = {"gamma": GAMMA, "buffer_size": steps, "log": False, "seed": seed} | settings
    model = GPILSContinuousAction(env, **given)
    with contextlib.redirect_stdout(sys.stderr):  # it prints its weightings
        model.train(
            total_timesteps=steps, eval_env=trying, ref_point=np.array(problem.reference), checkpoints=False,
            timesteps_per_iter=max(1, steps // ITERATIONS), num_eval_episodes_for_front=TRIES,
        )  # fmt: skip
    return lambda obs, w: np.asarray(model.max_action(model.actor_state, obs, w))


def _once(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Return the evaluation of a weighting, done once per iteration; linear support repeats it for each candidate."""
    found: dict[Any, Any] = {}

    def evaluated(agent: Any, env: Any, w: Any, rep: int) -> Any:
        key = agent.global_step, np.asarray(w).tobytes()
        if key not in found:
            found[key] = evaluate(agent, env, w, rep=rep)
        return found[key]

    return evaluated


def capql(problem: Problem, seed: int, steps: int, settings: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """Train CAPQL with the defaults of morl-baselines, and return its policy."""
    import torch
    from morl_baselines.multi_policy.capql.capql import CAPQL

    torch.set_num_threads(1)  # each process has one core
    torch.manual_seed(seed)
    env, trying = _seeded(problem, seed)
    given = {"gamma": GAMMA, "buffer_size": steps, "log": False, "seed": seed, "device": "cpu"} | settings
    model = CAPQL(env, **given)
    model.train(total_timesteps=steps, eval_env=trying, ref_point=np.array(problem.reference))
    return lambda obs, w: model.eval(obs, w)


def _seeded(problem: Problem, seed: int) -> tuple[Any, Any]:
    """Return environments for training and for evaluation in training. Global random generators are seeded."""
    random.seed(seed)  # morl-baselines draws from global generators
    np.random.seed(seed)  # noqa: NPY002, TID251
    env, trying = problem.make(), problem.make()
    env.reset(seed=seed)
    trying.reset(seed=20_000 + seed)
    env.action_space.seed(seed)
    return env, trying


# --- the table


def measures(line: dict[str, Any], way: str) -> dict[str, float]:
    """Return the measures of one line (an agent and a seed) for a way to act."""
    problem, weightings = PROBLEMS[line["problem"]], np.array(line["weightings"])
    returns = np.array(line["ways"][way]["returns"])  # (m, n, d)
    points = returns.mean(axis=1)
    return {
        "hypervolume": hypervolume(points, problem.reference),
        "EUM": expected_utility(points, weightings),
        "utility as acted": expected_risk_utility(returns, weightings, rasf.MeanVariance(0.0)),
        "EUM of CVaR(0.1)": expected_risk_utility(returns, weightings, rasf.CVaR(WORST)),
        "sparsity": sparsity(points),
        "points": float(len(non_dominated(points))),
    }


def _table(paths: list[str]) -> None:
    """Print a row for each problem, agent, settings and way to act, with 95 % intervals over seeds."""
    lines = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines() if line.strip()]
    groups: dict[tuple[str, ...], list[Any]] = {}
    for line in lines:
        label = " ".join(f"{key}={value}" for key, value in line["settings"].items())
        for way in line["ways"]:
            groups.setdefault((line["problem"], line["agent"], label, str(line["steps"]), way), []).append(line)
    heads: list[str] = []
    for (problem, agent, label, steps, way), some in sorted(groups.items()):
        found = [measures(line, way) for line in some]
        if not heads:
            heads = ["problem", "agent", "steps", "way", "seeds", *found[0], "length", "seconds"]
            print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
        cells = [_cell([one[key] for one in found]) for key in found[0]]
        length = np.mean([np.mean(line["ways"][way]["lengths"]) for line in some])
        seconds = np.mean([line["seconds"] for line in some])
        row = [problem, f"{agent} {label}".strip(), f"{int(steps):,}", way, str(len(some)), *cells]
        print("| " + " | ".join([*row, f"{length:.0f}", f"{seconds:.0f}"]) + " |")


def _cell(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.4g}"
    found = mean_interval(np.array(values))
    return f"{found.estimate:.4g} [{found.low:.4g}, {found.high:.4g}]"


def _many(out: Path, processes: int, asked: list[str], more: list[str]) -> None:
    """Run "problem:agent:seed" in processes of one thread each; those that `out` has already are left out."""
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {f"{one['problem']}:{one['agent']}:{one['seed']}" for one in lines}
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}

    def one(text: str) -> None:
        command = [sys.executable, __file__, "run", *text.split(":"), "--out", str(out), *more]
        ended = subprocess.run(command, env=threads | flags | os.environ, capture_output=True, text=True, check=False)
        said = ended.stderr.strip().splitlines()[-1:]
        print(text, "failed" if ended.returncode else "", said, file=sys.stderr, flush=True)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(one, [text for text in asked if text not in done]))


def main() -> None:
    """Run problems, agents and seeds, or print the table of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one, many, table = (commands.add_parser(name) for name in ("run", "many", "table"))
    one.add_argument("problem", choices=PROBLEMS)
    one.add_argument("agent", choices=AGENTS)
    one.add_argument("seed", type=int)
    one.add_argument("--out", type=Path, required=True)
    many.add_argument("out", type=Path)
    many.add_argument("processes", type=int)
    many.add_argument("asked", nargs="+", metavar="PROBLEM:AGENT:SEED")
    for each in (one, many):
        each.add_argument("--steps", type=int, default=STEPS)
        each.add_argument("--episodes", type=int, default=EPISODES)
        each.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON")
    table.add_argument("files", nargs="+")
    given = parser.parse_args()
    if given.command == "table":
        _table(given.files)
        return
    if given.command == "many":
        settings = ["--set", *given.set] if given.set else []
        more = ["--steps", str(given.steps), "--episodes", str(given.episodes), *settings]
        _many(given.out, given.processes, given.asked, more)
        return
    settings = {name: json.loads(value) for name, _, value in (text.partition("=") for text in given.set)}
    found = run(given.problem, given.agent, given.seed, given.steps, given.episodes, settings)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("a") as file:
        file.write(json.dumps(found) + "\n")
    print(given.problem, given.agent, given.seed, found["seconds"], found["all_seconds"], file=sys.stderr)


if __name__ == "__main__":
    main()
