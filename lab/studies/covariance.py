"""Are the covariances that networks learn those of the policies? Exact moments beside them, on problems of operations.

    python lab/studies/covariance.py machines 0 --set horizon='"continuing"'

A library is trained by `rasfdqn` on 4 weightings, 25,000 steps each. The greedy policy of each source at its own
weights is then evaluated exactly: mean psi and covariance Sigma of its return, for every state, action and, with a time
limit, step. For unseen weightings, at states that neutral acting visits, three things are compared:

    error       |w'Sigma w - exact| / exact, on average over policies and actions
    agreement   how often averse GPI by the networks takes the action of averse GPI by the exact psi and Sigma, or a tie
    regret      the exact score of that action below the best one, in units of the scores' spread over actions

Aversion makes the risk term a tenth of the mean. `diagonal` and `neutral` act by the exact psi with the diagonal of the
exact Sigma, and with none; `covariance` by the learned psi with the exact Sigma.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

import rasf
from rasf.arrays import Floats
from rasf_lab.suite.environments import CASES

_SHARE = 0.1  # of the mean that the risk term is
_EPISODES = 20


def exact_moments(mdp: rasf.FiniteMDP, policies: npt.NDArray[np.int64], gamma: float) -> tuple[Floats, Floats]:
    """Mean (T, S, A, d) and covariance (T, S, A, d, d) of the return of a policy (T, S) until step T."""
    rows = np.repeat(np.arange(mdp.n_states * mdp.n_actions), np.diff(mdp.indptr))
    chance, phi, after = mdp.probability, mdp.phi, mdp.successor
    shape, d, every = (mdp.n_states, mdp.n_actions), mdp.n_features, np.arange(mdp.n_states)

    def expected(values: Floats) -> Floats:
        summed = np.zeros((shape[0] * shape[1], *values.shape[1:]))
        np.add.at(summed, rows, chance.reshape(-1, *(1,) * (values.ndim - 1)) * values)
        return summed.reshape(*shape, *values.shape[1:])

    psi, sigma = np.zeros((len(policies), *shape, d)), np.zeros((len(policies), *shape, d, d))
    mean, moment = np.zeros((shape[0], d)), np.zeros((shape[0], d, d))  # of the return from the next step on
    for t in reversed(range(len(policies))):
        now = phi + gamma * mean[after]
        spread = gamma**2 * (moment - mean[:, :, None] * mean[:, None])[after]
        psi[t] = expected(now)
        second = expected(now[:, :, None] * now[:, None] + spread)
        sigma[t] = second - psi[t][..., :, None] * psi[t][..., None, :]
        mean, moment = psi[t][every, policies[t]], second[every, policies[t]]
    return psi, sigma


def study(name: str, seed: int, settings: dict[str, Any], steps: int = 25_000) -> dict[str, Any]:
    """Train a library and compare."""
    case, begin = CASES[name], time.perf_counter()
    env = gymnasium.make(case.env, **case.env_kwargs)
    given = {"gamma": 0.95, **settings}
    library = rasf.learn(
        lambda: gymnasium.make(case.env, **case.env_kwargs), tasks=np.array(case.tasks, float), agent="rasfdqn",
        steps_per_task=steps, seed=seed, progress=False, **given,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    mdp, limit, gamma = env.unwrapped.mdp, library.sources.limit, library.gamma
    S, K, T = mdp.n_states, len(library.policies), case.max_steps
    span = limit or T + int(np.ceil(np.log(1e-6) / np.log(gamma)))
    greedy, every = np.zeros((K, span, S), np.int64), np.arange(S)
    for t in range(span):
        if t and not limit:
            greedy[:, t] = greedy[:, 0]
            continue
        seen = library.encode(every, t)
        for k, source in enumerate(library.policies):
            greedy[k, t] = library.sources.scores(seen, np.array(source.w), source.risk).values[k].argmax(axis=-1)
    exact = [exact_moments(mdp, one, gamma) for one in greedy]
    found: dict[str, list[Any]] = {}
    for w in np.array(case.unseen, float):
        visits: list[tuple[int, int]] = []
        library.evaluate(_Recorded(env, visits), w, episodes=_EPISODES, seed=seed)
        states, times = np.array(visits).T
        order = np.argsort(times, kind="stable")
        states, times = states[order], times[order]
        at = (times if limit else np.zeros_like(times), states)
        psi = np.stack([p[at] @ w for p, _ in exact])
        var = np.stack([np.einsum("d,...de,e->...", w, s[at], w) for _, s in exact])
        diagonal = np.stack([np.einsum("d,...dd->...", w**2, s[at]) for _, s in exact])
        asked = [library.encode(states[times == t], t) for t in range(times.max() + 1)]
        scored = [library.sources.scores(seen, w, rasf.MeanVariance(0.0)) for seen in asked]
        learned, std = (
            np.concatenate(parts, axis=1) for parts in zip(*((one.mean, one.std) for one in scored), strict=True)
        )
        beta = -2 * _SHARE * np.abs(psi).mean() / var.mean()
        certain = var > 1e-9
        error = np.abs(std**2 - var)[certain] / var[certain]
        found.setdefault("error", []).append(error.mean())
        found.setdefault("ratio", []).append((std**2).sum() / var.sum())
        found.setdefault("psi error", []).append(np.abs(learned - psi).mean() / psi.std())
        best = (psi + beta / 2 * var).max(axis=0)  # (B, A)
        top, spread = best.max(axis=1), best.std(axis=1).mean()
        for way, scores in {
            "learned": learned + beta / 2 * std**2, "diagonal": psi + beta / 2 * diagonal, "neutral": psi,
            "covariance": learned + beta / 2 * var, "psi": psi + beta / 2 * std**2,
        }.items():  # fmt: skip
            action = scores.max(axis=0).argmax(axis=1)
            lost = top - best[np.arange(len(action)), action]
            found.setdefault(f"{way} agreement", []).append((lost <= 1e-9 * np.abs(top)).mean())
            found.setdefault(f"{way} regret", []).append(lost.mean() / spread)
    return {
        "problem": name, "seed": seed, "settings": settings, "seconds": round(seconds, 1),
        **{key: round(float(np.mean(values)), 4) for key, values in found.items()},
    }  # fmt: skip


class _Recorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that writes the states and steps that it visits to a list."""

    def __init__(self, env: Any, visits: list[tuple[int, int]]) -> None:
        super().__init__(env)
        self._visits, self._t = visits, 0

    def reset(self, **given: Any) -> Any:
        obs, info = self.env.reset(**given)
        self._t = 0
        self._visits.append((int(obs), 0))
        return obs, info

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        self._t += 1
        if not (found[2] or found[3]):
            self._visits.append((int(found[0]), self._t))
        return found


def main() -> None:
    """Run one problem and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", choices=("machines", "inventory", "power"))
    parser.add_argument("seed", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--set", nargs="*", default=[])
    given = parser.parse_args()
    settings = {name: json.loads(value) for name, _, value in (text.partition("=") for text in given.set)}
    line = json.dumps(study(given.problem, given.seed, settings))
    print(line)
    if given.out:
        with given.out.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
