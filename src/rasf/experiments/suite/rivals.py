"""Rivals: Stable-Baselines3's DQN and QR-DQN, retrained for every weighting with the steps of our whole library.

They need the extra `bench` (torch). A rival sees the reward phi . w of one weighting and nothing else; then it acts
greedily in the same episodes as the library. Its settings are those of the case (`rival`, such as the recipe that an
environment's own documentation gives), else Stable-Baselines3's defaults.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rasf.arrays import Floats
from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf.experiments.suite.cases import Case
from rasf.sweep.runs import Outcome
from rasf.sweep.store import report_progress

RIVALS = {"dqn": ("stable_baselines3", "DQN"), "qr-dqn": ("sb3_contrib", "QRDQN")}


class _OneTask(gymnasium.Env[Any, Any]):
    """A case's environment whose reward is phi . w; observations are flat, as the rivals' networks want them."""

    def __init__(self, case: Case, w: Floats) -> None:
        self._features, self._w = open_environment(case.env, None, **case.env_kwargs), w
        if case.failure is not None:
            self._features.count_failures(case.failure)
        self.action_space = gymnasium.spaces.Discrete(self._features.n_actions)
        size = self._features.encoder.vector_size
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self._seen(self._features.reset(seed)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self._features.step(int(action))
        told = {"phi": step.phi, "step": step}
        return self._seen(step.obs), float(step.phi @ self._w), step.terminated, step.truncated, told

    def _seen(self, obs: Any) -> Any:
        return self._features.encoder.vector(obs).astype(np.float32)

    def close(self) -> None:
        self._features.close()


def retrained(case: Case, agent: str, training: Any, asked: Any, seed: int, scratch: Path) -> Outcome:
    """What a rival does on every unseen weighting, trained for each anew."""
    from rasf.experiments.suite.runs import Gauge, outcome_of, stacked

    steps = training["steps_per_task"] * len(training["tasks"])
    found = []
    for i, weights in enumerate(asked["unseen"]):
        w, gauge = np.array(weights, float), Gauge(case)
        model = _trained(case, agent, w, steps, training["settings"].get("gamma", 0.99), seed)
        phi, failures, lengths = _act(case, model, w, asked, seed, gauge)
        found.append(outcome_of(phi, failures, lengths, w, gauge.mean))
        report_progress(scratch, (i + 1) / len(asked["unseen"]))
    return Outcome({"steps_per_weighting": steps}, stacked([found]))


def _trained(case: Case, agent: str, w: Floats, steps: int, gamma: float, seed: int) -> Any:
    module, name = RIVALS[agent]
    try:
        kind = getattr(import_module(module), name)
    except ImportError as error:
        raise ValueError(f"rivals need Stable-Baselines3: pip install 'rasf[bench]' ({error})") from None
    import torch

    torch.set_num_threads(1)  # a worker per core
    env = _OneTask(case, w)
    settings = {"gamma": gamma} | dict(case.rival)
    model = kind("MlpPolicy", env, seed=seed, device="cpu", **settings)
    model.learn(steps)
    env.close()
    return model


def _act(case: Case, model: Any, w: Floats, asked: Any, seed: int, gauge: Any) -> tuple[Floats, Floats, Floats]:
    """Features (n, d), failures and lengths (n,) of greedy episodes, from the beginnings that the library meets."""
    from rasf.experiments.suite.runs import TRYING

    env, n = _OneTask(case, w), asked["episodes"]
    phi, failures, lengths = np.zeros((n, len(w))), np.zeros(n), np.zeros(n)
    for i, beginning in enumerate(seeds_from(TRYING + seed, n)):
        obs, _ = env.reset(seed=beginning)
        for _ in range(asked["max_steps"]):
            obs, _, terminated, truncated, told = env.step(model.predict(obs, deterministic=True)[0])
            phi[i] += told["phi"]
            failures[i] += gauge(told["step"])
            lengths[i] += 1
            if terminated or truncated:
                break
    env.close()
    return phi, failures, lengths
