"""Rivals (agents for comparison): of Stable-Baselines3, trained for each weighting, or of morl-baselines, trained once.

    dqn, qr-dqn        retrained for each weighting, each time for as many steps as the library has for all tasks
    dqn-documented     DQN, retrained for each weighting, with the number of steps of the recipe in the environment's
                       documentation; only for environments with a recipe
    NAME-batched       the three agents above as implemented in `rasf_lab.rivals.batched`: ten trainings in one program,
                       without torch
    envelope, gpi-ls   one agent for all weightings, with as many steps as the library; the weighting is an input

The agents of Stable-Baselines3 need the extra `bench` (torch). These agents and the batched agents observe only the
reward phi . w of one weighting. `Case.rival` has their settings. If gamma is missing there, it is the case's gamma.
Other missing settings are the defaults of Stable-Baselines3.

The agents of morl-baselines need this package, best in a separate virtual environment. Their networks take weights that
are positive and sum to 1, so the vector reward is phi times the signs of the case's weights. These agents have the
case's gamma, three layers of 64 units, an update for each step, a replay buffer that holds all steps, and an epsilon
that falls from 1 to 0.05 in the first half of training. Other settings are the package's defaults. GPI-LS chooses
its training weightings ten times, by evaluation episodes. The steps of these episodes do not count as training steps.

All rivals are evaluated with greedy actions, from the same start states as the library. Shapes: d features.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, SupportsInt

import gymnasium
import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.envs.gymnasium.episodes import episodes
from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf.envs.gymnasium.vector import SyncEnvs
from rasf_lab.suite.cases import Asked, Case, Settings, SuiteSize, Training, lists_for_tuples, tuples_for_lists
from rasf_lab.suite.trials import TRYING, Gauge, outcome_of, stacked
from rasf_lab.sweep.runs import RunResult

TOGETHER = 10  # the number of batched trainings in one program, as the preset "full" has ten weightings
_QUANTILES = "QRDQN"
Seen = npt.NDArray[np.float32]  # an observation
Reward = float | npt.NDArray[np.float32]


class Rival(NamedTuple):
    """An agent for comparison.

    Attributes:
        module: the module of the agent's class; None if `rasf_lab.rivals.batched` trains the agent.
        name: the name of the class.
        documented: whether the number of training steps is that of the environment's documentation.
        every: whether a single training serves all weightings.
    """

    module: str | None
    name: str
    documented: bool = False
    every: bool = False

    @property
    def batched(self) -> bool:
        """Return whether several trainings run in one program."""
        return self.module is None


RIVALS = {
    "dqn": Rival("stable_baselines3", "DQN"),
    "qr-dqn": Rival("sb3_contrib", _QUANTILES),
    "dqn-documented": Rival("stable_baselines3", "DQN", documented=True),
    "dqn-batched": Rival(None, "DQN"),
    "qr-dqn-batched": Rival(None, _QUANTILES),
    "dqn-documented-batched": Rival(None, "DQN", documented=True),
    "envelope": Rival("morl_baselines.multi_policy.envelope.envelope", "Envelope", every=True),
    "gpi-ls": Rival("morl_baselines.multi_policy.gpi_pd.gpi_pd", "GPILS", every=True),
}
_MULTI_POLICY: Settings = {
    "net_arch": [64, 64, 64], "gradient_updates": 1, "initial_epsilon": 1.0, "final_epsilon": 0.05,
}  # fmt: skip
_TRIALS = 20_000  # the smallest seed of the evaluation episodes that GPI-LS runs in training, far from all other seeds
_ITERATIONS = 10  # GPI-LS chooses new weightings before each of its iterations


def rivals_of(case: Case) -> list[str]:
    """Return the rivals that can be trained on a case."""
    return [name for name in RIVALS if obstacle(case, name) is None]


def obstacle(case: Case, agent: str) -> str | None:
    """Return the reason why a rival cannot be trained on a case; None if training is possible."""
    rival = RIVALS[agent]
    if rival.documented and case.rival_steps is None:
        return f"there is no documented recipe for {case.env}"
    if rival.every and signs_of(case) is None:
        return f"{case.env} has a feature with weights of both signs"
    return None


def signs_of(case: Case) -> Floats | None:
    """Return the sign of each feature's weights (d,), +1 if they are 0; None if a feature has weights of both signs."""
    weights = np.array([*case.tasks, *case.unseen], float)
    if ((weights > 0).any(axis=0) & (weights < 0).any(axis=0)).any():
        return None
    return np.where((weights < 0).any(axis=0), -1.0, 1.0)


def rival_training(case: Case, agent: str, preset: SuiteSize) -> Training:
    """Return the parameters of a rival's training, without the weighting and the seed, as JSON values.

    Raises:
        ValueError: the rival cannot be trained on the case.
    """
    if (why := obstacle(case, agent)) is not None:
        raise ValueError(f"{agent} cannot be trained: {why}")
    rival = RIVALS[agent]
    ours = case.training(preset)
    steps = ours["steps_per_task"] * len(case.tasks)
    if rival.documented and case.rival_steps is not None:
        steps = max(1, round(preset.steps * case.rival_steps))
    settings: dict[str, object] = {"gamma": case.settings.get("gamma", 0.99)}
    if rival.every:
        settings |= {**_MULTI_POLICY, "epsilon_decay_steps": max(1, steps // 2), "buffer_size": steps}
    else:
        settings |= lists_for_tuples(case.rival)
    return {"env": ours["env"], "env_kwargs": ours["env_kwargs"], "steps": steps, "settings": settings}


class _Flat(gymnasium.Env[Seen, SupportsInt]):
    """A case's environment with flat observations and a reward that is a function of phi."""

    def __init__(self, case: Case, reward: Callable[[Floats], Reward]) -> None:
        self._features, self._reward = open_environment(case.env, None, **case.env_kwargs), reward
        if case.failure is not None:
            self._features.count_failures(case.failure)
        self.action_space = gymnasium.spaces.Discrete(self._features.n_actions)
        size = self._features.encoder.vector_size
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.reward_space = gymnasium.spaces.Box(-np.inf, np.inf, (len(case.features),), np.float32)

    def reset(self, *, seed: int | None = None, options: Settings | None = None) -> tuple[Seen, dict[str, object]]:
        return self._seen(self._features.reset(seed)), {}

    def step(self, action: SupportsInt) -> tuple[Seen, Reward, bool, bool, dict[str, Any]]:
        step = self._features.step(int(action))
        return self._seen(step.obs), self._reward(step.phi), step.terminated, step.truncated, {}

    def _seen(self, obs: object) -> Seen:
        return self._features.encoder.vector(obs).astype(np.float32)

    def close(self) -> None:
        self._features.close()


def _weighed(case: Case, w: Floats) -> _Flat:
    return _Flat(case, lambda phi: float(phi @ w))


Chooses = Callable[[Seen, Floats], SupportsInt]  # (observation, weighting) -> action


def trained_rival(case: Case, agent: str, training: Training, asked: Asked, seed: int) -> RunResult:
    """Train a rival and return its measures for the weightings of the queries.

    Args:
        case: the case.
        agent: the name of the rival.
        training: the parameters of the training, from `rival_training`.
        asked: the queries. They have a single weighting unless the rival is trained for all weightings (`every`).
        seed: the seed of the training and of the evaluation episodes.
    """
    weightings, began = np.array(asked["unseen"], float), time.perf_counter()
    if RIVALS[agent].every:
        choose = _for_every_weighting(case, agent, training, seed)
    else:
        choose = _for_one_weighting(case, agent, weightings[0], training, seed)
    return _outcome(case, choose, asked, seed, time.perf_counter() - began)


def trained_together(
    case: Case,
    agent: str,
    training: Training,
    asked: Sequence[Asked],
    seeds: Sequence[int],
    tell: Callable[[float], None],
) -> list[RunResult]:
    """Train batched rivals in one program. Each result has the seconds of the whole program.

    Args:
        case: the case.
        agent: the name of the rival.
        training: the parameters of the trainings, from `rival_training`.
        asked: for each training, queries with a single weighting.
        seeds: for each training, the seed of the training and of the evaluation episodes.
        tell: function that is called with the finished share of the training.
    """
    from rasf_lab.rivals.batched import Layers, Recipe, greedy, train

    recipe = Recipe.read(RIVALS[agent].name == _QUANTILES, training["settings"])
    began = time.perf_counter()
    worlds = [_weighed(case, np.array(one["unseen"][0], float)) for one in asked]
    networks = train(worlds, seeds, recipe, training["steps"], TOGETHER, tell)
    for world in worlds:
        world.close()
    seconds = time.perf_counter() - began

    def chooses(layers: Layers) -> Chooses:
        return lambda obs, w: greedy(layers, obs, recipe)

    return [
        _outcome(case, chooses(layers), one, seed, seconds)
        for layers, one, seed in zip(networks, asked, seeds, strict=True)
    ]


def _outcome(case: Case, choose: Chooses, asked: Asked, seed: int, seconds: float) -> RunResult:
    """Return the measures of a trained agent for the weightings of the queries. `seconds` is its training time."""
    found = []
    for w in np.array(asked["unseen"], float):
        gauge = Gauge(case)
        phi, failures, lengths = _act(case, choose, w, asked, seed, gauge)
        found.append(outcome_of(phi, failures, lengths, w, gauge.mean))
    return RunResult({"training_seconds": round(seconds, 1)}, stacked([found]))


def _class_of(agent: str) -> Any:
    rival = RIVALS[agent]
    assert rival.module is not None
    try:
        kind = getattr(import_module(rival.module), rival.name)
    except ImportError as error:
        package = "morl-baselines" if rival.every else "'rasf[bench]'"
        raise ValueError(f"{agent} is not installed: pip install {package} ({error})") from None
    import torch

    torch.set_num_threads(1)  # each worker process has one core
    return kind


def _for_one_weighting(case: Case, agent: str, w: Floats, training: Training, seed: int) -> Chooses:
    """Train an agent of Stable-Baselines3 for one weighting, and return its greedy policy."""
    kind = _class_of(agent)
    env = _weighed(case, w)
    model = kind("MlpPolicy", env, seed=seed, device="cpu", **tuples_for_lists(training["settings"]))
    model.learn(training["steps"])
    env.close()
    return lambda obs, _: model.predict(obs, deterministic=True)[0]


def _for_every_weighting(case: Case, agent: str, training: Training, seed: int) -> Chooses:
    """Train an agent of morl-baselines, which chooses its training weightings, and return its greedy policy."""
    import torch

    kind = _class_of(agent)
    random.seed(seed)  # morl-baselines draws from global generators
    np.random.seed(seed)  # noqa: NPY002, TID251
    torch.manual_seed(seed)
    signs, steps = signs_of(case), training["steps"]
    assert signs is not None  # `rival_training` refuses other cases
    env, trying = (_Flat(case, lambda phi: (phi * signs).astype(np.float32)) for _ in range(2))
    env.reset(seed=seed)
    trying.reset(seed=_TRIALS + seed)
    env.action_space.seed(seed)
    model = kind(env, log=False, seed=seed, device="cpu", **training["settings"])
    given: dict[str, object] = {"total_timesteps": steps, "ref_point": np.zeros(len(signs))}
    if agent == "gpi-ls":
        given |= {"eval_env": trying, "timesteps_per_iter": max(1, steps // _ITERATIONS), "checkpoints": False}
    model.train(**given)
    env.close()
    trying.close()
    return lambda obs, w: model.eval(obs, (np.abs(w) / np.abs(w).sum()).astype(np.float32))


def _act(
    case: Case, choose: Chooses, w: Floats, asked: Asked, seed: int, gauge: Gauge
) -> tuple[Floats, Floats, Floats]:
    """Return sums of features (n, d), failures (n,) and lengths (n,) of n greedy episodes.

    The episodes have the start states of the library's episodes.
    """
    env, n = open_environment(case.env, None, **case.env_kwargs), asked["episodes"]
    phi, failures, lengths = np.zeros((n, len(w))), np.zeros(n), np.zeros(n)

    def act(t: int, obs: dict[int, Any]) -> list[int]:
        return [int(choose(env.encoder.vector(one).astype(np.float32), w)) for one in obs.values()]

    for [(i, _, step, _)] in episodes(SyncEnvs([env]), seeds_from(TRYING + seed, n), act, asked["max_steps"]):
        phi[i] += step.phi
        failures[i] += gauge(step)
        lengths[i] += 1
    env.close()
    return phi, failures, lengths
