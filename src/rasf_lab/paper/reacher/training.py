"""The parameters, the training and the measurements of a run, which is one agent at one beta with one seed.

Runs that differ only in beta, seed and target are lanes of one compiled program, on the device that jax finds. The
lanes are evaluated on all tasks at regular intervals. At the end of every task, the predicted and the true variance of
the return are mapped over positions of the tip. After training, the lanes are evaluated with more rollouts, and the
objective (the largest mean + beta x variance of an action, with the paper's beta) is mapped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

import rasf
from rasf.agents import AGENTS, Family, LawKind
from rasf.arrays import Array
from rasf.checks import number, one_of, whole
from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.fused import Lane, RunConfig, Schedule
from rasf.deep.laws import Networks
from rasf.deep.settings import NetworkSettings
from rasf.envs.reacher.arm import tip_position
from rasf.envs.reacher.world import TRAINING_TARGETS, Reacher
from rasf.files import Arrays
from rasf.library.progress import ScalarLog
from rasf.risk import MeanVariance
from rasf.risk.names import is_neutral
from rasf_lab.paper.reacher.agents import SEPARATE_HEADS, ConditionedAgent, GpiAgent, adam, paper_settings
from rasf_lab.paper.reacher.beliefs import Mapped, beliefs, compare_risks, grid, true_variance
from rasf_lab.paper.reacher.fit import fit
from rasf_lab.rollouts.compiled import Way, rollouts
from rasf_lab.sweep.engines.machine import peak_gb

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary

BETAS = (0.0, -1.0, -2.0, -3.0, -4.0)  # the betas of the paper
AGREEMENT_BETAS = (-0.05, -0.2, -0.5, -1.0, -2.0, -3.0, -4.0)  # `compare_risks` is evaluated at these betas
TRAINING = tuple(range(len(TRAINING_TARGETS)))
TARGETS = tuple(range(len(Reacher().targets)))
CHECKPOINT_EVERY_S = 600.0
# settings of rasf's own training, which differ from the paper's; lab/notes/reacher.md has the effect of each setting
_BEYOND = {
    "gamma": 0.9,
    "interleaved": True,
    "decay": True,
    "frequency": 1.0,
    "average": 2_500,
    "batch": 64,
    "learning_rate": 1e-3,
    "epsilon": 0.1,
    "exploration": 0.0,
    "n_step": 1,
    "warmup": 0,
    "prioritised": 0.0,
}
BOOTSTRAPS = ("own", "gpi")
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}
AGENTS_HERE = tuple(name for name, spec in AGENTS.items() if spec.family is Family.NETWORKS and not spec.continuous)


class LateTipReacher(Reacher):
    """The reacher whose features depend on the tip's position before the step, as in the paper's simulator."""

    def tip(self, state: Array, next_state: Array) -> Array:
        return tip_position(state)


@dataclass(frozen=True)
class ReacherRun:
    """The parameters that determine a run's numbers. The default sizes are those of the paper.

    Args:
        agent: the name of an agent with networks.
        beta: the factor of the whole variance, as in the paper's experiments: -3 is MeanVariance(-6).
        seed: the seed.
        target: the only target to train on, for C51 and RaC51. The target is then not an input of the network. The
            returns of other runs are normalised by returns of C51 trained in this way. Default: none, train on all
            training targets.
        bootstrap: what chooses the bootstrap action, the next action in the learning target: "own", the policy that
            learns, or "gpi", GPI over all policies. Default: "own".
        target_networks: whether to use target networks. Default: True.
        separate_heads: whether to draw the initial weights as if the heads of each feature were a separate layer.
            Default: False.
        activation: the activation of hidden layers, "tanh" or "relu". Default: "tanh".
        adam_epsilon: the epsilon of Adam. Default: 1e-8.
        late_tip: whether to use the features of `LateTipReacher`. Default: False.
        risky_last: whether to train on the two targets in risky circles last, not first. Default: False.
        beyond: whether to train with the settings of rasf's own training (`_BEYOND`). If beta is not 0, agents with
            successor features then also learn neutral policies from the same steps. Default: False.
        steps_per_task: the number of training steps for each task. Default: 200,000.
        evaluate_every: the number of steps between evaluations. Default: 5,000.
        rollouts: the number of rollouts for each task in an evaluation. Default: 5.
        final_rollouts: the number of rollouts for each task after training. Default: 100.
        width: the number of units of each of the two hidden layers. Default: 256.
        atoms: the number of atoms of a histogram. Default: 51.
        target_period: the number of updates between copies to the target networks. Default: 1,000.
        map_points: the number of points of a map along each axis. If it is larger than the default, the variance of
            every policy on every task is kept, too. Default: 31.
        truth_rollouts, truth_steps: number and length of the rollouts that estimate the true variance at each point.
            Default: 48 and 80.
        library: whether to keep the policies as a library. Default: False.
    """

    agent: str
    beta: float
    seed: int
    target: int | None = None
    bootstrap: str = "own"
    target_networks: bool = True
    separate_heads: bool = False
    activation: str = "tanh"
    adam_epsilon: float = 1e-8
    late_tip: bool = False
    risky_last: bool = False
    beyond: bool = False
    steps_per_task: int = 200_000
    evaluate_every: int = 5_000
    rollouts: int = 5
    final_rollouts: int = 100
    width: int = 256
    atoms: int = 51
    target_period: int = 1_000
    map_points: int = 31
    truth_rollouts: int = 48
    truth_steps: int = 80
    library: bool = False

    def __post_init__(self) -> None:
        one_of("agent", self.agent, AGENTS_HERE)
        number("beta", self.beta)
        number("adam_epsilon", self.adam_epsilon, 0.0)
        one_of("bootstrap", self.bootstrap, BOOTSTRAPS)
        one_of("activation", self.activation, ACTIVATIONS)
        for name in SIZES:
            whole(name, getattr(self, name))
        for name in (one.name for one in fields(self) if type(one.default) is bool):
            one_of(name, getattr(self, name), (True, False))
        if self.target is not None:
            one_of("target", whole("target", self.target, 0), TARGETS)
            if self.agent not in ("c51", "rac51"):
                raise ValueError(f"target is for the agents c51 and rac51 only, got {self.agent}")
        if self.library and not AGENTS[self.agent].makes_library:
            raise ValueError(f"library is for agents that learn distributions of feature returns, got {self.agent}")
        if self.library and self.activation != "tanh":
            raise ValueError(f"library needs the activation tanh, got {self.activation}")

    @property
    def variant(self) -> str:
        """The agent's name, and a word for each difference from the paper's run. Most sizes have no word."""
        usual = type(self)
        apart = {
            "alone": self.target is not None,
            "gpi": self.bootstrap == "gpi",
            "no-target": not self.target_networks,
            "separate-heads": self.separate_heads,
            self.activation: self.activation != usual.activation,
            f"adam-{self.adam_epsilon:g}": self.adam_epsilon != usual.adam_epsilon,
            "late-tip": self.late_tip,
            "risky-last": self.risky_last,
            "beyond": self.beyond,
            f"{self.atoms}-atoms": self.atoms > usual.atoms,
            "fine-maps": self.map_points > usual.map_points,
        }
        return " ".join([self.agent, *(word for word, differs in apart.items() if differs)])

    @property
    def label(self) -> str:
        """The label of the run in results. Runs that differ only in the seed have the same label."""
        return f"{self.variant} {self.beta:g}"

    @property
    def training(self) -> tuple[int, ...]:
        """The indices of the training targets, in the order of training."""
        if self.target is not None:
            return (self.target,)
        return (*TRAINING[2:], *TRAINING[:2]) if self.risky_last else TRAINING

    @property
    def leading(self) -> tuple[float, ...]:
        """The betas of the learned policies, which take turns as behaviour policies."""
        return (0.0, self.beta) if self.beyond and self.beta and AGENTS[self.agent].makes_library else (self.beta,)

    def settings(self, world: Reacher) -> NetworkSettings:
        """Return the settings of the agent."""
        usual, histograms = paper_settings(self.agent), AGENTS[self.agent].law in (LawKind.HISTOGRAM, LawKind.REWARD)
        changes: dict[str, Any] = {
            "target_period": self.target_period if self.target_networks else 0,
            "widths": (self.width, self.width),
        }
        changes |= {"atoms": self.atoms} if histograms else {}
        if self.beyond:
            events = {"events": world.events} if AGENTS[self.agent].law is LawKind.MEAN_LOW_RANK else {}
            changes |= _BEYOND | {"shared": AGENTS[self.agent].makes_library, **events}
        return replace(usual, **changes)

    def create_agent(self, world: Reacher, training: Tasks, planned: int) -> Agent:
        """Return the agent of the run.

        Args:
            world: the world.
            training: the training tasks.
            planned: the number of updates, for settings that change over training; 0 if no setting changes.
        """
        more: dict[str, Any] = {
            "optimiser": adam(self.adam_epsilon),
            "planned": planned,
            "activation": ACTIVATIONS[self.activation],
        }
        if self.separate_heads:
            more["initialise"] = SEPARATE_HEADS
        if not AGENTS[self.agent].makes_library:
            more["relabelled"] = self.agent.endswith("relabelled")
            return ConditionedAgent.for_world(self.settings(world), world, training, **more)
        kind = GpiAgent if self.bootstrap == "gpi" else Agent
        return kind.for_world(self.settings(world), world, training, **more)

    @property
    def evaluated(self) -> tuple[int, ...]:
        """The indices of the targets on which the run is evaluated."""
        return TARGETS if self.target is None else (self.target,)


SIZES = tuple(one.name for one in fields(ReacherRun) if type(one.default) is int)


class LaneProgram:
    """One compiled program that trains and evaluates several runs. Each run is a lane.

    The attribute `agent` is the trained agent. `tester` is this agent, prepared to score the tasks of evaluation.

    Args:
        runs: runs that differ only in beta, seed and target.
        log: the TensorBoard log of scalars. Default: none.
    """

    def __init__(self, runs: Sequence[ReacherRun], log: ScalarLog | None = None) -> None:
        self.sizes = one = runs[0]
        self.runs, self.log, self.world = list(runs), log, LateTipReacher() if one.late_tip else Reacher()
        settings, leading = one.settings(self.world), len(one.leading)
        self.tasks = _stacked([self._tasks(run, run.evaluated) for run in runs])
        stream = _stacked([self._training_tasks(run) for run in runs])
        self.schedule = Schedule(one.steps_per_task // leading, len(one.training) * leading, one.evaluate_every)
        planned = round(self.schedule.steps * settings.updates) if one.beyond else 0
        self.agent = one.create_agent(self.world, self._training_tasks(one), planned)
        self.tester = self.agent.for_weights(np.asarray(self.tasks.weights))
        beta = jnp.array([_beta(run.beta) for run in runs], jnp.float32)
        acting, policies = beta, None
        if leading > 1:
            acting = jnp.array(
                [np.repeat(list(map(_beta, run.leading)), len(run.training)) for run in runs], jnp.float32
            )
            policies = Policies(stream.weights, acting)
        self.configs = RunConfig(jnp.stack([_key(run) for run in runs]), acting, beta, stream, policies)
        self.beta = beta
        conditioned = isinstance(self.agent, ConditionedAgent)
        self.has_maps = settings.kind is not LawKind.MEAN and not (conditioned or one.beyond)
        self._curve = jax.jit(jax.vmap(partial(self._outcome, n=one.rollouts)))
        known, where = (self.tester, self.world), grid(one.map_points)
        self._rollouts = partial(rollouts, *known)
        mapped = Mapped(*known, where, np.searchsorted(one.evaluated, one.training))
        truth = partial(true_variance, mapped, rollouts=one.truth_rollouts, steps=one.truth_steps)
        self._truth, self._beliefs = (jax.jit(_one_by_one(each)) for each in (truth, partial(beliefs, mapped)))
        self._risks = jax.jit(_one_by_one(partial(compare_risks, *known)))

    def _tasks(self, run: ReacherRun, targets: tuple[int, ...]) -> Tasks:
        n_inputs = 2 if run.target is None else 0
        return Tasks(self.world.tasks(targets), self.world.target_positions(targets)[:, :n_inputs])

    def _training_tasks(self, run: ReacherRun) -> Tasks:
        """Return the training tasks, repeated for each beta in `ReacherRun.leading`."""
        own = self._tasks(run, run.training)
        return Tasks(*(np.tile(part, (len(run.leading), 1)) for part in own))

    def train(
        self,
        checkpoint: Path | None = None,
        tick: Callable[[], None] = lambda: None,
        checkpoint_every_s: float = CHECKPOINT_EVERY_S,
    ) -> list[Arrays]:
        """Train and evaluate all lanes.

        Args:
            checkpoint: the path of the checkpoint. An existing checkpoint is resumed. Default: none.
            tick: function called once per chunk, the training between two evaluations. Default: none.
            checkpoint_every_s: seconds between checkpoints. Default: 600.

        Returns:
            The arrays of each run, by name. `seconds` (2,) has the training time and the total time, divided by the
            number of runs.
        """
        begin = time.perf_counter()
        lanes, history = fit(
            self.agent,
            self.world,
            self.configs,
            self.schedule,
            self.evaluate,
            description={"runs": [asdict(run) for run in self.runs], "version": rasf.__version__},
            checkpoint=checkpoint,
            checkpoint_every_s=checkpoint_every_s,
            tick=tick,
        )
        trained = time.perf_counter() - begin
        found = {name: np.moveaxis(part, 0, 1) for name, part in history.items()} | self.final(lanes)  # lanes on axis 0
        seconds = np.array([trained, time.perf_counter() - begin]) / len(self.runs)
        shared = {"seconds": seconds, "peak_gb": np.array([_peak_gb()])}
        self.networks = self.agent.acting(lanes.learner)
        return [{name: np.array(part[lane]) for name, part in found.items()} | shared for lane in range(len(self.runs))]

    def library(self, lane: int, found: Arrays) -> PolicyLibrary:
        """Return the policies of a trained lane, one for each training task, as a library for `rasf/Reacher-v0`.

        Args:
            lane: the index of the lane.
            found: the lane's arrays, as returned by `train`.
        """
        from rasf.envs.gymnasium.description import world_description
        from rasf.library.file import versions
        from rasf.library.networks.actor_policies import policies_of
        from rasf.library.policy_library import PolicyLibrary, SourcePolicy

        run = self.runs[lane]
        tasks = self._training_tasks(run).weights
        K, d = tasks.shape
        history: Arrays = {}
        if not run.beyond:  # with interleaved tasks, features are not recorded for each policy
            # the sum of features over all steps of a task: steps x mean feature of the task's chunks
            phi = run.steps_per_task * found["training_phi"].reshape(K, -1, d).mean(axis=1, dtype=float)
            history = {
                "return": np.sum(phi * tasks, axis=1),
                "failures": np.rint(phi[:, -1]),
                "loss": found["loss"].reshape(K, -1)[:, -1],
                "clipped": found["clipped"].reshape(K, -1, 2)[:, -1],
            }
        provenance = {
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "device": jax.devices()[0].device_kind,
            "versions": versions(),
            "seed": run.seed,
            "steps_per_task": run.steps_per_task,
            "run": asdict(run),
            "complete": True,
        }
        policies = policies_of(self.agent, jax.tree.map(lambda part: part[lane], self.networks))
        risks = [MeanVariance.from_paper(beta) for beta in np.repeat(run.leading, len(run.training)).tolist()]
        same_law = [spec for spec in AGENTS.values() if spec.law is policies.law_kind]
        spec = max(same_law, key=lambda one: one.neutral == all(map(is_neutral, risks)))
        pairs = zip(np.asarray(tasks, np.float64).tolist(), risks, strict=True)
        trained_for = tuple(SourcePolicy(tuple(w), risk) for w, risk in pairs)
        notes = (f"trained by `rasf reproduce reacher`: {run.label} of the paper, seed {run.seed}",)
        environment = world_description(self.world)
        return PolicyLibrary(policies, environment, trained_for, (spec,), history, notes, provenance)

    def evaluate(self, step: int, lanes: Lane) -> dict[str, Array]:
        """Return the arrays of an evaluation for `fit`: results of rollouts, and maps at the end of a task."""
        online, beta = self.agent.acting(lanes.learner), self.beta
        found = self._curve(online, self._keys(1, step), beta, self.tasks)
        if self.log is not None:
            for lane, run in enumerate(self.runs):
                alone = "" if run.target is None else f"_target{run.target}"
                name = f"{run.variant.replace(' ', '-')}/beta{run.beta:g}_seed{run.seed}{alone}"
                by_task = {
                    f"{key}/task_{i + 1}": value
                    for key, part in found.items()
                    for i, value in enumerate(np.array(part[lane]))
                }
                self.log.write(name, step, by_task)
        if self.has_maps and step and step % self.sizes.steps_per_task == 0:
            policies, own = np.arange(self.agent.policies), np.array(self.sizes.training)  # the task of each policy
            believed = self._beliefs(online, beta, self.tasks)
            truth = self._truth(online, beta, self.tasks, self._keys(3, step))
            found |= {
                "map_variance": believed.variance[:, policies, own].astype(jnp.float16),
                "map_negative": believed.negative,
                "map_truth": truth[:, policies, own].astype(jnp.float16),
            }
            if self.sizes.map_points > ReacherRun.map_points:
                found["map_variance_pairs"] = believed.variance.astype(jnp.float16)
        return found

    def final(self, lanes: Lane) -> Arrays:
        """Return the arrays of the final evaluation of trained lanes.

        The arrays have results of many rollouts, maps of the objective, and the tip positions of three rollouts for
        each task. The rollouts act by the paper's scores ("final"), and by discount-aware scores ("aware": at step t,
        the risk of gamma^t times the remaining return).
        """
        online, beta = self.agent.acting(lanes.learner), self.beta
        arguments = (online, self._keys(4, 0), beta, self.tasks)
        n = self.sizes.final_rollouts
        outcome = jax.jit(jax.vmap(partial(self._outcome, n=n), in_axes=(0, 0, 0, 0, None)))
        found: Arrays = {}
        for way, risk_discount in (("final", 1.0), ("aware", self.tester.settings.gamma)):
            found |= {f"{way}_{name}": np.asarray(part) for name, part in outcome(*arguments, risk_discount).items()}
        states = jax.jit(jax.vmap(partial(self._rollouts, n=3, way=Way(record=True))))(*arguments).states
        found["tips"] = np.asarray(tip_position(states).astype(jnp.float16))
        if self.tester.settings.kind is LawKind.HISTOGRAM:
            some = states[:, :, :, ::25].reshape(*states.shape[:2], -1, states.shape[-1])
            compared = self._risks(online, beta, self.tasks, some)
            found |= {f"risk_{name}": np.asarray(part) for name, part in compared.items()}
            found["risk_agree_by_beta"] = np.stack(
                [
                    np.asarray(self._risks(online, jnp.full_like(beta, other), self.tasks, some)["agree"])
                    for other in (MeanVariance.from_paper(one).beta for one in AGREEMENT_BETAS)
                ],
                axis=1,
            )
        if self.has_maps:
            # the formula printed under Figure 13 is mean - variance for every beta of the agent
            printed = jnp.full_like(beta, MeanVariance.from_paper(-1.0).beta)
            for name, factor in (("map_objective", beta), ("map_objective_as_printed", printed)):
                found[name] = np.asarray(self._beliefs(online, factor, self.tasks).objective.astype(jnp.float16))
        return found

    def _keys(self, purpose: int, step: int) -> Array:
        both = jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, 2**31 + purpose), step))
        return both(self.configs.key)

    def _outcome(
        self, online: Networks, key: Array, beta: Array, tasks: Tasks, risk_discount: Array | float = 1.0, *, n: int
    ) -> dict[str, Array]:
        """Return measures of n rollouts for each task: the variance of the return, and the means of other measures.

        The means are of return, discounted return, failures, the share of time in risky circles, and the distance from
        the target in the second half of the rollout.
        """
        world, half = self.world, self.world.episode_length // 2

        def measure(step: Array, state: Array) -> Array:
            tip = tip_position(state)
            late = jnp.where(step >= half, world.episode_length / (world.episode_length - half), 0.0)
            return jnp.concatenate([world.in_circle(tip)[None].astype(jnp.float32), late * world.distances(tip)])

        rolled = self._rollouts(online, key, beta, tasks, n, Way(risk_discount=risk_discount, measure=measure))
        goal = jnp.argmax(tasks.weights[:, :-1], axis=1)
        held = jnp.take_along_axis(rolled.measured[..., 1:], goal[:, None, None], axis=-1)[..., 0]
        returns = jnp.einsum("trd,td->tr", rolled.phi, tasks.weights)
        return {
            "return": jnp.mean(returns, axis=1),
            "return_variance": jnp.var(returns, axis=1),
            "discounted": jnp.mean(jnp.einsum("trd,td->tr", rolled.discounted, tasks.weights), axis=1),
            "failures": jnp.mean(rolled.phi[..., -1], axis=1),
            "in_circle": jnp.mean(rolled.measured[..., 0], axis=1),
            "distance": jnp.mean(held, axis=1),
        }


def _beta(beta: float) -> float:
    """Return the beta of rasf's `MeanVariance` for the paper's beta."""
    return float(MeanVariance.from_paper(beta).beta)


def _key(run: ReacherRun) -> Array:
    key = jax.random.key(run.seed)
    return key if run.target is None else jax.random.fold_in(key, run.target)


def _stacked(tasks: Sequence[Tasks]) -> Tasks:
    return Tasks(*(jnp.array(np.stack(parts), jnp.float32) for parts in zip(*tasks, strict=True)))


def _one_by_one(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function that applies `function` to the lanes one after the other, because maps need much memory."""
    return lambda *arguments: jax.lax.map(lambda lane: function(*lane), arguments)


def _peak_gb() -> float:
    """Return the peak memory so far in GB: of the device, or of this process if the device does not report memory."""
    counted = jax.devices()[0].memory_stats()
    return float(counted["peak_bytes_in_use"] / 1e9) if counted else peak_gb()
