"""Can the learned return distributions be trusted? Many problems, one library each, predicted against realised.

    python lab/studies/distributions.py run minigrid 0 --out runs/a.jsonl          one line of JSON per library
    python lab/studies/distributions.py run minigrid 0 --out .. --set n_step=1     the same with other settings
    python lab/studies/distributions.py many runs/a.jsonl 16 minigrid:0 minigrid:1   many libraries, 16 at a time
    python lab/studies/distributions.py run highway 0 --out .. --suite rasf-suite/suite-runs/libraries
    python lab/studies/distributions.py table runs/*.jsonl                         the table of `lab/notes`

A library is trained at the defaults of `rasfdqn` (on the roads with the settings of the suite) and asked for weightings
that it was not trained for: neutral, CVaR(0.1), monotone mean-variance at three levels, and within one limit. All rows
of a weighting have the same start states. Levels are in units of the neutral spread: theta sigma = 1, 4 and 16. The
limit is on the discounted sum of the failure feature, and neutral acting keeps it.

Problems that this project did not make need packages that are not installed by default: minigrid, MinAtar,
flappy-bird-gymnasium.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import rasf
from rasf.library.trials import Trials
from rasf.statistics import mean_of_the_worst
from rasf_lab.suite.environments import CASES
from rasf_lab.suite.runs import runs_of
from rasf_lab.sweep.runs import Run

UNSEEN, EPISODES, WORST = 3, 100, 0.1
LEVELS = (1.0, 4.0, 16.0)


@dataclass(frozen=True)
class Problem:
    """What is trained and asked; failure: the index of the feature that counts failures, and its sign in them."""

    make: Callable[[], Any]
    tasks: tuple[tuple[float, ...], ...]
    unseen: tuple[tuple[float, ...], ...]
    steps: int
    failure: tuple[int, int] | None
    phi: Any = None
    settings: dict[str, Any] = field(default_factory=dict)


def _minigrid() -> Any:
    import minigrid  # noqa: F401, registers its environments

    env = gymnasium.make("MiniGrid-Dynamic-Obstacles-6x6-v0")
    return gymnasium.wrappers.FilterObservation(env, ["image", "direction"])


def _grid_phi(obs: Any, action: int, next_obs: Any, info: Any, reward: float) -> list[float]:
    return [float(reward > 0), float(reward < 0), 1.0]


_grid_phi.bounds = [[0, 1], [0, 1], [0, 1]]  # type: ignore[attr-defined]
_grid_phi.feature_names = ["goal", "collision", "step"]  # type: ignore[attr-defined]


def _pole_phi(obs: Any, action: int, next_obs: Any, info: Any, reward: float, terminated: bool) -> list[float]:
    return [1.0, float(next_obs[0] ** 2), float(terminated)]


_pole_phi.bounds = [[0, 1], [0, 7], [0, 1]]  # type: ignore[attr-defined]
_pole_phi.feature_names = ["upright", "distance", "fall"]  # type: ignore[attr-defined]


class _Gusts(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole whose pole is pushed at random, so that returns vary."""

    def step(self, action: Any) -> Any:
        state = self.unwrapped.state
        pushed = np.array(state, float)
        pushed[3] += 0.15 * self.unwrapped.np_random.standard_normal()
        self.unwrapped.state = tuple(pushed)
        return self.env.step(action)


def _pole() -> Any:
    return gymnasium.wrappers.TimeLimit(_Gusts(gymnasium.make("CartPole-v1").unwrapped), 200)


class _MinAtar(gymnasium.Env[Any, Any]):
    """A game of MinAtar; features: points, and the end of the game."""

    def __init__(self, game: str) -> None:
        from minatar import Environment

        self._game = Environment(game, sticky_action_prob=0.1)
        shape = tuple(self._game.state_shape())
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (int(np.prod(shape)),), np.float32)
        self.action_space = gymnasium.spaces.Discrete(self._game.num_actions())
        self.reward_space = gymnasium.spaces.Box(np.zeros(2), np.array([10.0, 1.0]))
        self.feature_names = ("points", "lost")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self._game.seed(seed)
        self._game.reset()
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        points, over = self._game.act(int(action))
        return self._seen(), np.array([points, over], float), bool(over), False, {}

    def _seen(self) -> Any:
        return self._game.state().astype(np.float32).ravel()


def _asterix() -> Any:
    return gymnasium.wrappers.TimeLimit(_MinAtar("asterix"), 200)


def _flappy() -> Any:
    import flappy_bird_gymnasium  # noqa: F401, registers its environment

    return gymnasium.wrappers.TimeLimit(gymnasium.make("FlappyBird-v0", use_lidar=False).unwrapped, 300)


def _flappy_phi(obs: Any, action: int, next_obs: Any, info: Any, reward: float, terminated: bool) -> list[float]:
    return [float(reward >= 0.9), float(terminated), float(action == 1)]


_flappy_phi.bounds = [[0, 1], [0, 1], [0, 1]]  # type: ignore[attr-defined]
_flappy_phi.feature_names = ["pipes", "crash", "flaps"]  # type: ignore[attr-defined]


def _of_suite(name: str, steps: int, failure: tuple[int, int] | None, **settings: Any) -> Problem:
    case = CASES[name]

    def make() -> Any:
        import mo_gymnasium  # noqa: F401, registers its environments

        from rasf.envs.registration import register_environments

        if case.env.startswith("rasf/") and case.env not in gymnasium.registry:
            register_environments()
        kwargs = dict(case.env_kwargs)
        if not case.env.startswith("rasf/"):
            kwargs.setdefault("max_episode_steps", case.max_steps)
        return gymnasium.make(case.env, **kwargs)

    return Problem(make, case.tasks, case.unseen, steps, failure, settings=settings)


def _road(name: str, steps: int) -> Problem:
    return _of_suite(name, steps, (len(CASES[name].features) - 1, 1), **CASES[name].settings)


PROBLEMS: dict[str, Problem] = {
    "minigrid": Problem(
        _minigrid, ((1, -1, -0.01), (1, -0.2, -0.05), (0.5, -2, -0.005)),
        ((1, -2, -0.01), (1, -0.5, -0.02), (0.7, -1.5, -0.003)), 15_000, (1, 1), _grid_phi,
    ),
    "cartpole": Problem(
        _pole, ((1, 0, -10), (1, -0.5, -10), (0.2, -1, -30)),
        ((1, -0.2, -20), (0.5, -0.5, -5), (1, -1, -50)), 20_000, (2, 1), _pole_phi,
    ),
    "asterix": Problem(
        _asterix, ((1, -1), (1, -5), (0.3, -1)), ((1, -2), (0.5, -1), (1, -10)), 40_000, (1, 1),
    ),
    "flappy": Problem(
        _flappy, ((1, -1, 0), (1, -5, -0.02), (0.5, -1, -0.05)),
        ((1, -2, -0.01), (1, -3, -0.05), (0.7, -1, 0)), 40_000, (1, 1), _flappy_phi,
    ),
    "lander": _of_suite("lunar-lander", 100_000, None),
    "minecart": _of_suite("minecart", 60_000, None),
    "machines": _of_suite("machines", 20_000, (4, 1)),
    "inventory": _of_suite("inventory", 20_000, (4, 1)),
    "power": _of_suite("power", 20_000, None),
    "gathering": _of_suite("resource-gathering", 50_000, (0, -1)),
    "highway": _road("highway", 30_000),
    "merge": _road("merge", 30_000),
    "roundabout": _road("roundabout", 30_000),
    "intersection": _road("intersection", 30_000),
}  # fmt: skip


def run(
    name: str, seed: int, settings: dict[str, Any], share: float = 1.0, suite: Path | None = None
) -> dict[str, Any]:
    """Train a library, or take that of the suite's run, and act for the unseen weightings; all numbers as JSON."""
    problem, begin = PROBLEMS[name], time.perf_counter()
    steps = round(share * problem.steps)
    if suite is None:
        given = {"steps_per_task": steps, "seed": seed, "progress": False, **problem.settings, **settings}
        weights = np.array(problem.tasks, float)
        library = rasf.learn(problem.make, tasks=weights, agent="rasfdqn", phi=problem.phi, **given)
        seconds = time.perf_counter() - begin
    else:
        library = rasf.load(suite / _library_of_suite(name, seed))
        seconds = library.provenance["seconds"]
    asked = [_asked(library, problem, np.array(w, float), seed) for w in problem.unseen[:UNSEEN]]
    return {
        "problem": name, "seed": seed, "settings": {key: repr(value) for key, value in settings.items()},
        "gamma": library.gamma, "steps": steps * len(problem.tasks), "seconds": round(seconds, 1), "asked": asked,
        "all_seconds": round(time.perf_counter() - begin, 1), "notes": list(library.notes),
    }  # fmt: skip


def _library_of_suite(name: str, seed: int) -> str:
    """The file of the library that `rasf suite NAME --preset full` trains."""
    whole = runs_of(name, "full")[seed]
    return f"{Run(whole.kind, {key: whole.parameters[key] for key in ('case', 'training')}, seed).id}.rasf"


def _asked(library: Any, problem: Problem, w: Any, seed: int) -> dict[str, Any]:
    trials = Trials(problem.make, EPISODES, 1_000 + seed, 10_000, problem.phi)
    neutral = trials.reports(library, w, {"neutral": (rasf.MeanVariance(0.0), {})}, None)["neutral"]
    spread = _spread(neutral.discounted)
    rows: dict[str, Any] = {"cvar": (rasf.CVaR(WORST), {})}
    rows |= {f"monotone {k:g}": (rasf.MonotoneMeanVariance(-k / spread), {}) for k in LEVELS}
    rows["mean-variance 4"] = (rasf.MeanVariance(-4.0 / spread), {})
    rows["cvar static"] = (rasf.CVaR(WORST), {"static": True})
    rows |= {f"monotone {k:g} static": (rasf.MonotoneMeanVariance(-k / spread), {"static": True}) for k in LEVELS}
    found = {"neutral": neutral, **trials.reports(library, w, rows, None)}
    limit = None
    if problem.failure is not None:
        feature, sign = problem.failure
        sums = sign * neutral.discounted_phi[:, feature]
        limit = float(sums.mean() + 2 * sums.std() / EPISODES**0.5 + 0.02 * (sums.max() or 1.0))
        way = {"limits": {feature: rasf.Limit(at_least=-limit) if sign < 0 else limit}}
        found |= trials.reports(library, w, {"limit": (rasf.MeanVariance(0.0), way)}, None)
    told = {}
    for name, report in found.items():
        features = [] if problem.failure is None else [problem.failure[0]]
        predicted = report.rule.predict(report.starts, features=features)
        mean, std = predicted.overall()
        told[name] = {
            "returns": np.round(report.discounted + 0.0, 5).tolist(), "rest": float(report.rest.mean()),
            "undiscounted": float(report.returns.mean()), "predicted": [mean, std],
            "lengths": float(report.lengths.mean()), "not_kept": len(report.not_kept),
        }  # fmt: skip
        if problem.failure is not None:
            feature, sign = problem.failure
            told[name]["failed"] = float((report.phi[:, feature] != 0).mean())
            told[name]["sum"] = float(sign * report.discounted_phi[:, feature].mean())
            told[name]["predicted_sum"] = float(sign * predicted.sums[:, 0].mean())
    return {"w": w.tolist(), "spread": spread, "limit": limit, "rows": told}


def _spread(returns: Any) -> float:
    """The standard deviation of returns, or 1 % of the largest one if that is more: some problems have no noise."""
    returns = np.asarray(returns)
    return max(float(returns.std()), 0.01 * float(np.abs(returns).max()), 1e-9)


def _risk_of(name: str, returns: Any, spread: float) -> Any:
    """The risk measure of a row, of returns (.., n)."""
    if name in ("neutral", "limit"):
        return returns.mean(axis=-1)
    if name.startswith("cvar"):
        return mean_of_the_worst(returns, WORST)
    theta = float(name.split()[1]) / spread
    if name.startswith("mean-variance"):
        return returns.mean(axis=-1) - theta / 2 * returns.var(axis=-1)
    ordered = np.sort(returns, axis=-1)
    n, sums = ordered.shape[-1], np.cumsum(ordered, axis=-1)
    squares, count = np.cumsum(ordered**2, axis=-1), np.arange(1, ordered.shape[-1] + 1)
    k = (n / theta + sums) / count  # where the first i returns are below k
    values = k - 1 / (2 * theta) - theta / 2 * (count * k**2 - 2 * k * sums + squares) / n
    after = np.concatenate([ordered[..., 1:], np.full((*ordered.shape[:-1], 1), np.inf)], axis=-1)
    return np.where((k >= ordered) & (k <= after), values, -np.inf).max(axis=-1)


def _table(paths: list[str]) -> None:
    """Print what `lab/notes/distributions.md` shows, one line per problem and settings."""
    runs = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines() if line.strip()]
    groups: dict[tuple[str, str], list[Any]] = {}
    for one in runs:
        label = " ".join(f"{key}={value}" for key, value in one["settings"].items()) or "defaults"
        groups.setdefault((one["problem"], label + one.get("label", "")), []).append(one)
    rng = np.random.default_rng(0)
    heads = ("problem", "settings", "seeds", "neutral return", "d mean / spread", "std ratio", "d failure",
             "cvar gain", "mono 1", "mono 4", "mono 16", "mv 4", "failed % neutral/cvar/4/16/mv4", "limit impossible",
             "averse d mean", "averse std ratio", "steps/s")  # fmt: skip
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for (problem, label), some in groups.items():
        asked = [each for one in some for each in one["asked"]]
        rows = [each["rows"] for each in asked]

        def mean_of(pick: Callable[[Any], float], rows: list[Any] = rows) -> float:
            return float(np.nanmean([pick(row) for row in rows]))

        def off(name: str, each: Any) -> tuple[float, float]:
            got = np.array(each["rows"][name]["returns"])
            mean, std = each["rows"][name]["predicted"]
            return (mean - got.mean()) / _spread(got), max(std, 0.01 * abs(mean)) / _spread(got)

        def spread_of(name: str, asked: list[Any] = asked) -> tuple[str, str]:
            d, ratio = np.array([off(name, each) for each in asked]).T
            return (
                f"{np.median(d):+.2f} ({np.abs(d).max():.1f})",
                f"{np.median(ratio):.2f} ({ratio.min():.1f}-{ratio.max():.1f})",
            )

        def gain(name: str, asked: list[Any] = asked) -> str:
            drawn = []
            for each in asked:
                spread = _spread(each["rows"]["neutral"]["returns"])
                both = np.array([each["rows"][name]["returns"], each["rows"]["neutral"]["returns"]])
                index = rng.integers(both.shape[1], size=(1_000, both.shape[1]))
                mine, theirs = (_risk_of(name, part[index], spread) for part in both)
                exact = np.subtract(*(_risk_of(name, part, spread) for part in both))
                drawn.append((np.append(mine - theirs, exact)) / spread)
            found = np.mean(drawn, axis=0)
            low, high = np.quantile(found[:-1], [0.025, 0.975])
            return f"{found[-1]:+.2f} [{low:+.2f}, {high:+.2f}]"

        failed = "-"
        if "failed" in rows[0]["neutral"]:
            names = [n for n in ("neutral", "cvar", "monotone 4", "monotone 16", "mean-variance 4") if n in rows[0]]
            failed = " / ".join(f"{100 * mean_of(lambda row, n=n: row[n]['failed']):.1f}" for n in names)
        d_failure = "-"
        if "sum" in rows[0]["neutral"]:
            d_failure = f"{mean_of(lambda row: row['neutral']['predicted_sum'] - row['neutral']['sum']):+.3f}"
        undiscounted = mean_of(lambda row: row["neutral"]["undiscounted"])
        d_mean, ratio = spread_of("neutral")
        averse = "monotone 4" if "monotone 4" in rows[0] else "cvar"
        d_averse, averse_ratio = spread_of(averse)
        impossible = "-"
        if "limit" in rows[0]:
            impossible = f"{100 * mean_of(lambda row: row['limit']['not_kept'] / EPISODES):.0f} %"
        cells = (
            problem, label, str(len(some)),
            f"{mean_of(lambda row: np.mean(row['neutral']['returns'])):.3g} / {undiscounted:.3g}",
            d_mean, ratio, d_failure, gain("cvar"), *(gain(f"monotone {k:g}") for k in LEVELS),
            gain("mean-variance 4"), failed, impossible, d_averse, averse_ratio,
            f"{np.mean([one['steps'] / one['seconds'] for one in some]):.0f}",
        )  # fmt: skip
        print("| " + " | ".join(cells) + " |")


def _many(out: Path, processes: int, asked: list[str], more: list[str]) -> None:
    """Run "problem:seed" in processes of one thread each; those that `out` has already are left out."""
    done = (
        {f"{one['problem']}:{one['seed']}" for one in map(json.loads, out.read_text().splitlines())}
        if out.exists()
        else set()
    )
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}

    def one(text: str) -> None:
        command = [sys.executable, __file__, "run", *text.split(":"), "--out", str(out), *more]
        ended = subprocess.run(command, env=os.environ | threads | flags, capture_output=True, text=True, check=False)
        if ended.returncode:
            print(text, ended.stderr.strip().splitlines()[-1:], file=sys.stderr)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(one, [text for text in asked if text not in done]))


def main() -> None:
    """Run problems and seeds, or print the table of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("problem", choices=PROBLEMS)
    one.add_argument("seed", type=int)
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--share", type=float, default=1.0)
    one.add_argument("--label", default="")
    one.add_argument("--set", nargs="*", default=[])
    one.add_argument("--suite", type=Path, help="folder of the suite's libraries")
    many = commands.add_parser("many")
    many.add_argument("out", type=Path)
    many.add_argument("processes", type=int)
    many.add_argument("asked", nargs="+", metavar="PROBLEM:SEED")
    many.add_argument("--more", default="", help="arguments of `run`, as one text")
    several = commands.add_parser("table")
    several.add_argument("files", nargs="+")
    given = parser.parse_args()
    if given.command == "table":
        _table(given.files)
        return
    if given.command == "many":
        _many(given.out, given.processes, given.asked, given.more.split())
        return
    settings = {}
    for text in given.set:
        name, _, value = text.partition("=")
        settings[name] = json.loads(value)
    found = run(given.problem, given.seed, settings, given.share, given.suite) | {"label": given.label}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("a") as file:
        file.write(json.dumps(found) + "\n")
    print(given.problem, given.seed, given.label, found["seconds"], found["all_seconds"], file=sys.stderr)


if __name__ == "__main__":
    main()
