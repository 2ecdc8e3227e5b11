"""Networks for a library: the deep agents of `rasf.deep`, stepped from Python on environments side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.deep.agent import Agent, AgentSettings, Tasks
from rasf.deep.laws import Histogram
from rasf.deep.stepping import Elders, SteppedLearner
from rasf.envs.gymnasium.feature_vector import FeatureVector
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.networks.policies import NetworkPolicies
from rasf.library.progress import Callback, Trained, TrainingProgress
from rasf.risk import Risk

_WATCHED_EVERY = 500  # steps
_ROUNDING = 1e-5  # of float32, relative, after a few operations
_HEARD = ("loss", "clipped_below", "clipped_above")


def train_networks(
    env: FeatureVector,
    tasks: Floats,
    settings: AgentSettings,
    risk: Risk,
    atoms: Floats | None,
    steps_per_task: int,
    seed: int,
    callback: Callback,
    elders: FrozenPolicies | None = None,
    declared: Floats | None = None,
) -> Trained:
    """Learn the tasks (n, d) one after the other; `atoms` (d, N) are those of histograms.

    `declared` (d, 2) are bounds that the features of a step must keep.

    All policies learn from every transition, so a policy whose own task was never reached has learned too; it is kept
    only if its task was begun.
    """
    given = Tasks(tasks.astype(np.float32), np.zeros((len(tasks), 0), np.float32))
    agent = Agent.create(
        settings, env.encoder.vector_size, env.n_actions, np.tile([0.0, 1.0], (env.n_features, 1)), given
    )
    if atoms is not None:
        agent = replace(agent, law=Histogram(tuple(map(tuple, atoms.tolist()))))
    beta = float(risk.beta)  # type: ignore[attr-defined]
    learner = SteppedLearner(agent, given, beta, seed, env.num_envs, len(tasks) * (steps_per_task + env.num_envs))
    total, failures, heard = np.zeros(len(tasks)), np.full(len(tasks), np.nan), np.full((len(tasks), 3), np.nan)
    begun, stopped, bounds = 0, False, _DeclaredBounds(declared)
    while begun < len(tasks) and not stopped:
        task, begun = begun, begun + 1
        learner.begin_task(task, None if elders is None else _advice(elders, tasks[task], risk))
        obs = env.reset(seed) if task == 0 else env.reset()
        taken, watched, lately = 0, 0, []
        while taken < steps_per_task and not stopped:
            step = env.step(learner.act(obs))
            bounds.check(step.phi)
            learner.observe(step)
            learned = learner.learn()
            if learned is not None:
                lately.append((learned.loss, *learned.clipped))
            total[task] += float((step.phi[step.valid] @ tasks[task]).sum())
            if env.names_failures:
                if np.isnan(failures[task]):  # the first that is named: there were none before
                    failures[:] = 0.0
                failures[task] += int(step.failure[step.valid].sum())
            taken, obs = taken + int(step.valid.sum()), step.obs
            if taken >= steps_per_task or taken - watched >= _WATCHED_EVERY:
                if lately:
                    heard[task] = np.mean(lately, axis=0)
                watched, lately = taken, []
                extras = dict(zip(_HEARD, heard[task].tolist(), strict=True))
                stopped = callback(TrainingProgress(task, taken, float(total[task]), float(failures[task]), extras))
    networks = jax.tree.map(lambda part: part[:begun], learner.networks)
    history = {"return": total, "failures": failures, "loss": heard[:, 0], "clipped": heard[:, 1:]}
    return Trained(
        NetworkPolicies.from_agent(agent, networks),
        tasks[:begun].copy(),
        {name: part[:begun].copy() for name, part in history.items()},
    )


def _advice(elders: FrozenPolicies, w: Floats, risk: Risk) -> Elders:
    return lambda obs: elders.scores(obs, w, risk).values.max(axis=0)


class _DeclaredBounds:
    """Holds features to the bounds (d, 2) that are declared for a step, infinite where open; None declares nothing.

    For histograms whose support follows from them: whatever came from outside would be clipped.
    """

    def __init__(self, bounds: Floats | None) -> None:
        self._is_open = bounds is None or not np.isfinite(bounds).any()
        self._bounds = np.array([[-np.inf, np.inf]]) if bounds is None else bounds
        slack = _ROUNDING * np.max(np.abs(self._bounds), axis=1, where=np.isfinite(self._bounds), initial=0.0)
        self._low, self._high = self._bounds[:, 0] - slack, self._bounds[:, 1] + slack

    def check(self, phi: npt.NDArray[Any]) -> None:
        """Refuse features (.., d) that are outside; 0, which every support has, may come undeclared, as at an end."""
        if self._is_open:
            return
        outside = ((phi < self._low) | (phi > self._high)) & (phi != 0)
        if outside.any():
            i = int(np.argwhere(outside)[0, -1])
            low, high = self._bounds[i]
            raise ValueError(
                f"feature {i} of a step must be within its declared bounds [{low:g}, {high:g}], the environment gave "
                f"{phi[outside][0]:.7g}; reward_space (its own or a wrapper's) or phi.bounds can declare wider "
                "ones, or give support"
            )
