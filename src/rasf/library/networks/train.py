"""Networks for a library: the deep agents of `rasf.deep`, in the compiled loop of a world where it can, else by steps.

The reacher (`rasf/Reacher-v0`, unwrapped, with its arm in closed form, or its world by itself) is trained by the fused
loop of `rasf.deep.fit` on whatever device jax has, as one lane; everything else, and whatever grows from a base library
or learns from several environments side by side, is stepped from Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import AGENTS, LawKind
from rasf.arrays import Floats
from rasf.deep.agent import Agent, AgentSettings, Tasks
from rasf.deep.fit import Schedule, chunks, period_of
from rasf.deep.laws import Histogram, Networks, support_atoms
from rasf.deep.stepping import BaseScores, SteppedLearner
from rasf.deep.train import RunConfig
from rasf.envs.gymnasium.description import EnvironmentDescription
from rasf.envs.reacher.world import Reacher
from rasf.files import Arrays
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.networks.policies import NetworkPolicies
from rasf.library.networks.reacher import ReacherAdapter
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.library.progress import Reporter, Trained
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.risk.names import is_neutral

if TYPE_CHECKING:
    from rasf.envs.gymnasium.vector import FeatureVector

_COMPILED = "the policies were trained by the compiled loop of their world"
_MUCH_CLIPPED = 0.01
_SHOWN_EVERY = 500  # steps, or a target period in the compiled loop
_ROUNDING = 1e-5  # of float32, relative, after a few operations
_EXTRAS = ("loss", "clipped_below", "clipped_above")


def network_library(
    agent: Agent,
    networks: Networks,
    *,
    environment: EnvironmentDescription,
    tasks: Floats,
    risk: Risk,
    history: Arrays,
    provenance: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> PolicyLibrary:
    """The library of an agent's trained networks, one policy for each of the tasks (K, d), all trained for one risk.

    history: arrays with one entry per policy, by name. `networks` are those of one run: (K, ..) without lanes.
    """
    policies = NetworkPolicies.from_agent(agent, networks)
    same_law = [spec for spec in AGENTS.values() if spec.law is policies.law_kind]
    spec = max(same_law, key=lambda one: one.neutral == is_neutral(risk))
    trained_for = tuple(SourcePolicy(tuple(w), risk) for w in np.asarray(tasks, np.float64).tolist())
    return PolicyLibrary(policies, environment, trained_for, (spec,), history, notes, provenance)


def train_networks(
    env: FeatureVector | ReacherAdapter,
    tasks: Floats,
    settings: AgentSettings,
    risk: Risk,
    steps_per_task: int,
    seed: int,
    report: Reporter,
    notes: list[str],
    *,
    bounds: Floats | None = None,
    support: npt.ArrayLike | None = None,
    base_library: FrozenPolicies | None = None,
) -> Trained:
    """Learn the tasks (n, d) one after the other; `notes` gains what was decided on the way.

    Histograms have the given support, that of the base library, or one derived from the bounds (d, 2) of the features;
    where bounds are given, every step must keep those that the environment declares. The policies of the base library
    take part in GPI.

    All policies learn from every transition, so a policy whose own task was never reached has learned too; it is kept
    only if its task was begun.
    """
    atoms, declared = None, None
    if settings.law is LawKind.HISTOGRAM:
        atoms = _atoms(settings, support, base_library, bounds, tasks.shape[1])
        declared = None if bounds is None else env.declared_bounds
    given = Tasks(tasks.astype(np.float32), np.zeros((len(tasks), 0), np.float32))
    agent = Agent.create(settings, env.encoder.vector_size, env.n_actions, given, atoms)
    assert isinstance(risk, MeanVariance | Entropic)  # others cannot be trained for
    training, beta = _Training(tasks, steps_per_task, report), float(risk.beta)
    if isinstance(env, ReacherAdapter) and base_library is not None:
        env = env.stepped()
    world = compiled_reacher(env) if base_library is None else None
    if world is not None:
        if _COMPILED not in notes:
            notes.append(_COMPILED)
        networks = _train_compiled(training, agent, world, given, beta, seed)
    else:
        assert not isinstance(env, ReacherAdapter)
        learner = SteppedLearner(agent, given, beta, seed, env.num_envs, len(tasks) * (steps_per_task + env.num_envs))
        advice = None if base_library is None else _advice(base_library, risk)
        networks = _train_stepped(training, learner, env, seed, _bounds_check(declared), advice)
    kept = jax.tree.map(lambda part: np.asarray(part[: training.begun]), networks)
    history = training.history()
    clipped = float(np.nanmax(history["clipped"].sum(axis=1), initial=0.0))
    if clipped > _MUCH_CLIPPED:
        notes.append(f"{clipped:.1%} of the histograms' mass was clipped at the ends of the support; give a wider one")
    return Trained(NetworkPolicies.from_agent(agent, kept), tasks[: training.begun].copy(), history)


def compiled_reacher(env: FeatureVector | ReacherAdapter) -> Reacher | None:
    """The `Reacher` of one environment that is just that, with its arm in closed form, or None."""
    if isinstance(env, ReacherAdapter):
        return env.world
    from gymnasium.wrappers import OrderEnforcing

    from rasf.envs.gymnasium.vector import SyncEnvs
    from rasf.envs.reacher.env import ReacherEnv

    if not isinstance(env, SyncEnvs) or env.num_envs > 1 or env.environments[0].has_phi:
        return None
    outer = env.environments[0].env
    inner = outer.env if type(outer) is OrderEnforcing else outer
    return inner.world if type(inner) is ReacherEnv and inner.engine == "closed_form" else None


class _Training:
    """What training showed so far, one entry per task, and the report of it."""

    def __init__(self, tasks: Floats, steps_per_task: int, report: Reporter) -> None:
        self.tasks, self.steps_per_task, self._report, self.begun = tasks, steps_per_task, report, 0
        self.total, self.failures = np.zeros(len(tasks)), np.full(len(tasks), np.nan)
        self.extras = np.full((len(tasks), 3), np.nan)  # loss and clipped mass

    def show(self, task: int, step: int) -> bool:
        """Whether to stop after so many steps of a task."""
        extras = dict(zip(_EXTRAS, self.extras[task].tolist(), strict=True))
        return self._report(task, step, float(self.total[task]), float(self.failures[task]), extras)

    def history(self) -> Arrays:
        named = {"return": self.total, "failures": self.failures}
        named |= {"loss": self.extras[:, 0], "clipped": self.extras[:, 1:]}
        return {name: part[: self.begun].copy() for name, part in named.items()}


def _train_compiled(
    training: _Training, agent: Agent, world: Reacher, tasks: Tasks, beta: float, seed: int
) -> Networks:
    """The networks after one lane of the fused loop; the last feature of the reacher is its failures."""
    one = RunConfig(jax.random.key(seed), jnp.float32(beta), jnp.float32(beta), tasks)
    configs = jax.tree.map(lambda part: jnp.asarray(part)[None], one)
    period, steps = period_of(agent), training.steps_per_task
    schedule = Schedule(steps, len(tasks.weights), max(1, _SHOWN_EVERY // period) * period)
    training.failures[:] = 0.0
    for chunk in chunks(agent, world, configs, schedule):
        task, phi = chunk.task, chunk.length * np.asarray(chunk.phi[0], np.float64)
        training.begun = task + 1
        training.total[task] += float(phi @ training.tasks[task])
        training.failures[task] += np.rint(phi[-1])
        training.extras[task] = chunk.loss[0], *chunk.clipped[0]
        if training.show(task, chunk.step - task * steps):
            break
    return jax.tree.map(lambda part: part[0], chunk.lanes.learner.online)


def _train_stepped(
    training: _Training,
    learner: SteppedLearner,
    env: FeatureVector,
    seed: int,
    check: Callable[[npt.NDArray[Any]], None],
    advice: Callable[[Floats], BaseScores] | None,
) -> Networks:
    """The networks after the environments were stepped from Python."""
    stopped, steps = False, training.steps_per_task
    for task, w in enumerate(training.tasks):
        training.begun = task + 1
        learner.begin_task(task, None if advice is None else advice(w))
        obs = env.reset(seed) if task == 0 else env.reset()
        taken, shown, lately = 0, 0, []
        while taken < steps and not stopped:
            step = env.step(learner.act(obs))
            check(step.phi)
            learner.observe(step.next_obs, step.phi, step.terminated, step.valid)
            learned = learner.learn()
            if learned is not None:
                lately.append((learned.loss, *learned.clipped))
            training.total[task] += float((step.phi[step.valid] @ w).sum())
            if env.reports_failures:
                if np.isnan(training.failures[task]):  # the first that is named: there were none before
                    training.failures[:] = 0.0
                training.failures[task] += int(step.failure[step.valid].sum())
            taken, obs = taken + int(step.valid.sum()), step.obs
            if taken >= steps or taken - shown >= _SHOWN_EVERY:
                if lately:
                    training.extras[task] = np.mean(lately, axis=0)
                shown, lately = taken, []
                stopped = training.show(task, taken)
        if stopped:
            break
    return learner.networks


def _advice(base_library: FrozenPolicies, risk: Risk) -> Callable[[Floats], BaseScores]:
    """For weights w, how the best policy of the base library scores observations."""
    return lambda w: lambda obs: base_library.scores(obs, w, risk).values.max(axis=0)


def _atoms(
    settings: AgentSettings, support: npt.ArrayLike | None, base: FrozenPolicies | None, bounds: Floats | None, d: int
) -> Floats:
    """Atoms (d, n) of discounted feature returns; those of a base library, so that the two can be merged."""
    if support is not None:
        return support_atoms(checks.bounds("support", support, d), 0.0, settings.atoms)
    if isinstance(base, NetworkPolicies) and isinstance(base.law, Histogram):
        return np.array(base.law.atoms)
    if bounds is None:
        raise ValueError("support must be given for a vector environment whose reward_space is not bounded")
    return support_atoms(bounds, settings.gamma, settings.atoms, with_zero=True)


def _bounds_check(declared: Floats | None) -> Callable[[npt.NDArray[Any]], None]:
    """A check that features (.., d) keep the bounds (d, 2) declared for a step, infinite where open.

    For histograms whose support follows from them: whatever came from outside would be clipped. 0, which every support
    has, may come undeclared, as at an end.
    """
    if declared is None or not np.isfinite(declared).any():
        return lambda phi: None
    slack = _ROUNDING * np.max(np.abs(declared), axis=1, where=np.isfinite(declared), initial=0.0)
    lowest, highest = declared[:, 0] - slack, declared[:, 1] + slack

    def check(phi: npt.NDArray[Any]) -> None:
        outside = ((phi < lowest) | (phi > highest)) & (phi != 0)
        if outside.any():
            i = int(np.argwhere(outside)[0, -1])
            raise ValueError(
                f"feature {i} of a step must be within its declared bounds [{declared[i, 0]:g}, {declared[i, 1]:g}], "
                f"the environment gave {phi[outside][0]:.7g}; reward_space (its own or a wrapper's) or phi.bounds can "
                "declare wider ones, or give support"
            )

    return check
