"""Rivals: Stable-Baselines3's DQN and QR-DQN, retrained for every weighting.

    dqn, qr-dqn        with as many steps for each weighting as our whole library had
    dqn-documented     with the steps of the recipe that an environment's own documentation gives, where it has one

They need the extra `bench` (torch). A rival sees the reward phi . w of one weighting and nothing else; then it acts
greedily in the same episodes as the library. Its settings are those of the case (`rival`), else Stable-Baselines3's
defaults.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from rasf.arrays import Floats
from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf.experiments.suite.cases import Case, Preset, lists_for_tuples, tuples_for_lists
from rasf.sweep.runs import Outcome, Parameter


class Rival(NamedTuple):
    """A class, where it lies, and whether it is trained as documented."""

    module: str
    name: str
    documented: bool = False


RIVALS = {
    "dqn": Rival("stable_baselines3", "DQN"),
    "qr-dqn": Rival("sb3_contrib", "QRDQN"),
    "dqn-documented": Rival("stable_baselines3", "DQN", documented=True),
}


def rivals_of(case: Case) -> list[str]:
    """Those that may meet a case."""
    return [name for name, rival in RIVALS.items() if case.rival_steps is not None or not rival.documented]


def rival_training(case: Case, agent: str, preset: Preset) -> dict[str, Parameter]:
    """What determines a rival, but for the weighting and the seed, as plain values."""
    if agent not in rivals_of(case):
        raise ValueError(f"there is no documented recipe for {case.env}, so {agent} cannot be trained")
    ours: dict[str, Any] = case.training(preset)
    steps = ours["steps_per_task"] * len(case.tasks)
    if RIVALS[agent].documented and case.rival_steps is not None:
        steps = max(1, round(preset.steps * case.rival_steps))
    settings = {"gamma": case.settings.get("gamma", 0.99)} | lists_for_tuples(case.rival)
    return {"env": ours["env"], "env_kwargs": ours["env_kwargs"], "steps": steps, "settings": settings}


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


def retrained(case: Case, agent: str, training: Any, asked: Any, seed: int) -> Outcome:
    """What a rival does on the weighting that it was trained for."""
    from rasf.experiments.suite.runs import Gauge, outcome_of, stacked

    w, gauge, began = np.array(asked["unseen"][0], float), Gauge(case), time.perf_counter()
    model = _trained(case, agent, w, training, seed)
    seconds = round(time.perf_counter() - began, 1)
    phi, failures, lengths = _act(case, model, w, asked, seed, gauge)
    return Outcome({"training_seconds": seconds}, stacked([[outcome_of(phi, failures, lengths, w, gauge.mean)]]))


def _trained(case: Case, agent: str, w: Floats, training: Any, seed: int) -> Any:
    rival = RIVALS[agent]
    try:
        kind = getattr(import_module(rival.module), rival.name)
    except ImportError as error:
        raise ValueError(f"rivals need Stable-Baselines3: pip install 'rasf[bench]' ({error})") from None
    import torch

    torch.set_num_threads(1)  # a worker per core
    env = _OneTask(case, w)
    model = kind("MlpPolicy", env, seed=seed, device="cpu", **tuples_for_lists(training["settings"]))
    model.learn(training["steps"])
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
