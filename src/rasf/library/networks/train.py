"""Training of networks for a library: the deep agents of `rasf.deep` learn in one of two training loops (drivers).

The fused driver trains in worlds written in jax (`rasf.World`), and in Gymnasium environments of such worlds if they
have no wrappers. It can train several runs in parallel, called lanes. The training of a library has one lane. The
stepped driver trains in all other environments. It also trains in worlds if there are several environments, or if there
is a base library, whose policies are then included in GPI.

The steps of a task are divided equally among the risks. The steps of one task at one risk are a *stretch*.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import LawKind
from rasf.arrays import Bools, Floats, Ints
from rasf.deep import fused
from rasf.deep.actors import ActorAgent
from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.fused import Lane, RunConfig, Schedule
from rasf.deep.laws import Histogram, Networks, support_atoms
from rasf.deep.settings import ActorSettings, HistogramSettings, MomentSettings, NetworkSettings
from rasf.deep.stepped import BaseScores, Learned, Pace, SteppedLearner
from rasf.envs.gymnasium.tape import tapes
from rasf.files import Arrays, Header
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.networks.actor_policies import policies_of
from rasf.library.networks.experience import model_of
from rasf.library.networks.policies import NetworkPolicies
from rasf.library.networks.worlds import WorldAdapter, compiled_world
from rasf.library.progress import EpisodeMeter, Trained
from rasf.library.training import Training
from rasf.risk import MeanVariance, Risk
from rasf.risk.base import BetaRisk
from rasf.risk.names import is_neutral
from rasf.transfer import gpi
from rasf.world import World

if TYPE_CHECKING:
    from rasf.envs.gymnasium.vector import FeatureVector
    from rasf.library.greedy import Greedy

_MUCH_CLIPPED = 0.01  # a note is written if more than this share of the mass of histograms was clipped
_SHOWN_EVERY = 500  # steps between reports of progress; the fused driver rounds down to a multiple of `period_of`
_SHOWN_TIMES = 20  # the stepped driver makes at least this many reports in a run of 1,000 steps or more
_ACT_EVERY = 32  # number of updates between copies of the acting networks to numpy
_LONGEST_TURN = 1_000  # with interleaved tasks: steps after which an environment changes its task within an episode
_ROUNDING = 1e-5  # relative error of float32 after a few operations
_EXTRAS = ("loss", "clipped_below", "clipped_above")


def train_networks(
    training: Training,
    settings: NetworkSettings,
    *,
    bounds: Floats | None = None,
    support: npt.ArrayLike | None = None,
    once: Sequence[int] = (),
) -> list[Trained]:
    """Train the policies of a library.

    There is a policy for each risk and task, and all policies learn from every transition. Policies for additional
    tasks learn off-policy and do not act. If training is stopped early, policies are kept for the additional tasks and
    for the tasks that were begun. If there is a base library, GPI includes its policies.

    Args:
        training: The tasks, the risks and the environment.
        settings: The settings of the agent.
        bounds: Bounds (d, 2) of the features in a step, from which the support of histograms is derived. If this
            argument is given, features outside the bounds that the environment declares raise an error. Default: none.
        support: Support (d, 2) of histograms. Default: the support of the base library, or derived from `bounds`.
        once: Indices of features that are nonzero at most once in an episode. The support of their returns is equal to
            their bounds in one step. Default: none.

    Returns:
        The policies of each risk, with their statistics.

    Raises:
        ValueError: Settings do not fit the environment, or training needs too much memory or fails.
    """
    env = cast("FeatureVector | WorldAdapter", training.world)
    tasks, risks, notes, base_library = training.tasks, training.risks, training.notes, training.base
    atoms, declared = None, None
    if isinstance(settings, HistogramSettings):
        atoms = _atoms(settings, support, once, base_library, bounds, tasks.shape[1])
        declared = None if bounds is None else env.declared_bounds
    stream = _Stream(training, settings.interleaved)
    world = compiled_world(env) if base_library is None else None
    if settings.objects:
        _check_rows(settings.objects, env.encoder.describe())
    if world is not None and isinstance(settings, ActorSettings):
        # a round is one step in each interleaved task, and its number of updates is rounded up to a whole number
        n = len(stream.w) if settings.interleaved else 1
        settings = replace(settings, updates=math.ceil(settings.updates * n - 1e-9) / n)
    sizes = (env.encoder.vector_size, env.n_actions, stream.tasks, atoms, len(stream.policies.beta))
    planned = round(max(0, stream.all_steps - settings.warmup) * settings.updates)
    if not planned:
        notes.append(f"nothing was learned: all {stream.all_steps} steps are in the warm-up of {settings.warmup} steps")
    limit = _limit(settings, env, base_library)
    neutral = not stream.policies.beta.any()
    more: Header = {"planned": planned, "risk": _trained_kind(risks), "limit": limit, "neutral": neutral}
    kind_of_agent = Agent
    if env.actions.size:
        kind_of_agent, more["action_size"] = ActorAgent, env.actions.size
    agent = kind_of_agent.create(settings, *sizes, **more).for_weights(stream.learned)
    remembered = min(stream.all_steps, settings.replay or stream.all_steps)
    kind = np.dtype(np.float32) if limit else env.encoder.vector_dtype  # integers cannot represent the time inputs
    _check_feasible(agent, remembered, env.encoder.vector_size, tasks.shape[1], kind.itemsize)
    rows: Callable[[], npt.NDArray[np.float32]]
    if world is not None:
        networks, rows = _train_fused(stream, agent, world, training)
    else:
        stepped = env.stepped() if isinstance(env, WorldAdapter) else env
        capacity = max(remembered, stepped.num_envs)
        pace = Pace(stepped.num_envs, capacity, act_every=_ACT_EVERY, dtype=kind)
        run, base_scores = (agent, stream.tasks, stream.acting, training.seed, pace), _base_scores(base_library, stream)
        learner = SteppedLearner(*run, policies=stream.policies, base_scores=base_scores)
        networks = _train_stepped(stream, learner, stepped, training, _bounds_check(declared))
        rows = learner.rows
    model = None
    if training.model:
        events = settings.events if isinstance(settings, MomentSettings) else tuple(once) or env.events
        model, said = model_of(agent, rows(), tuple(events), training.seed)
        notes.append(said)
    begun, clipped, found = stream.begun_tasks, 0.0, []
    own, n = [*range(begun), *range(len(tasks), len(stream.learned))], len(stream.learned)
    for r in range(len(risks)):
        chosen = np.array(own) + r * n
        kept = agent.choose(jax.tree.map(np.asarray, networks), chosen)
        history = stream.history(r, begun)
        clipped = max(clipped, float(np.nanmax(history["clipped"].sum(axis=1), initial=0.0)))
        found.append(Trained(policies_of(agent, kept), stream.learned[own], history, model))
    if clipped > _MUCH_CLIPPED:
        notes.append(f"{clipped:.1%} of the histograms' mass was clipped at the ends of the support; widen `support`")
    return found


def _limit(settings: NetworkSettings, env: FeatureVector | WorldAdapter, base: FrozenPolicies | None) -> int:
    """Return the time limit at which returns end; 0 for continuing returns, or if no time limit is known."""
    known = settings.episode_length or env.time_limit
    if isinstance(base, NetworkPolicies):
        if settings.episode_length not in (0, base.limit):
            raise ValueError(
                f"episode_length must be the time limit of the base library, {base.limit} (0: none), "
                f"got {settings.episode_length}"
            )
        known = base.limit  # because `merge` needs equal limits in the base library and the new policies
    if settings.horizon == "episode" and known:
        return known
    if settings.gamma == 1:
        raise ValueError(
            "gamma must be below 1, unless horizon is 'episode' and the time limit is declared by the environment or "
            "given as episode_length"
        )
    return 0


def _trained_kind(risks: Sequence[Risk]) -> Callable[[Any], Risk]:
    """Return the class of all risks that are not neutral. With beta 0, this class also represents the neutral risk."""
    assert all(isinstance(risk, BetaRisk) for risk in risks)  # callers raise an error for other risks
    kinds = {type(risk) for risk in risks if not is_neutral(risk)} or {MeanVariance}
    if len(kinds) > 1:
        raise ValueError("risk must be of one kind for networks, which learn all risks together, got several kinds")
    return kinds.pop()


def _check_rows(objects: int, space: Header) -> None:
    """Raise an error if observations are neither rows of `objects` numbers nor flat vectors."""
    shape = tuple(space.get("shape", ()))
    if space["kind"] != "box" or not 1 <= len(shape) <= 2:
        raise ValueError(f"objects needs observations that are rows of numbers, got {space['kind']} of shape {shape}")
    if len(shape) == 2 and shape[1] != objects:
        raise ValueError(f"objects must be {shape[1]}, the numbers in a row of observations {shape}, got {objects}")


def _check_feasible(agent: Agent, transitions: int, observation_size: int, features: int, item: int) -> None:
    """Raise an error if the learning rate is above 1 or the memory does not suffice, before anything is compiled."""
    rate = agent.settings.learning_rate
    if rate > 1:
        raise ValueError(f"learning_rate must be at most 1 for networks to learn anything, got {rate:g}")
    needed, available = agent.memory_needed(transitions, observation_size, features, item), _memory()
    if needed > available:
        sizes = f"widths {agent.settings.widths} for {agent.policies} policies, batches of {agent.settings.batch}"
        gigabytes = f"{needed / 1e9:,.1f} GB, but {available / 1e9:,.1f} GB are available"
        raise ValueError(f"networks of {sizes} and a replay of {transitions:,} steps need about {gigabytes}")


def _memory() -> float:
    """Return the memory of the device in bytes, else the memory of this machine, else infinity if both are unknown."""
    counted = jax.devices()[0].memory_stats()
    if counted and "bytes_limit" in counted:
        return float(counted["bytes_limit"])
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # unknown on this system
        return float("inf")


class _Stream:
    """The stretches of training, in sequence or interleaved, and their statistics so far.

    Attributes:
        taken: Number of steps so far of each stretch.
        learned: Weights of the tasks and of the additional tasks. One policy learns for each of these tasks and each
            risk.
    """

    STATE = ("taken", "total", "failures", "extras", "known", "_shown")  # attributes that a checkpoint stores

    def __init__(self, training: Training, interleaved: bool) -> None:
        tasks, further, risks = training.tasks, training.extra_tasks, training.risks
        self.steps, self.interleaved = max(1, training.steps_per_task // len(risks)), interleaved
        self._reports, self._risks = training.reports, len(risks)
        self.w = np.repeat(tasks, len(risks), axis=0)  # weights of each stretch, ordered by task, then by risk
        self.risks = list(risks) * len(tasks)
        self.tasks = Tasks.of(self.w)
        beta = np.array([risk.beta for risk in risks], np.float32)  # type: ignore[attr-defined]
        self.acting = np.tile(beta, len(tasks))
        self.learned, self._further = np.concatenate([tasks, further]), len(further)
        # ordered by risk, so that the policies of one risk are contiguous
        weights = np.tile(self.learned.astype(np.float32), (len(risks), 1))
        self.policies = Policies(weights, np.repeat(beta, len(self.learned)))
        self.taken = np.zeros(len(self.w), np.int64)
        self.total, self.failures = np.zeros(len(self.w)), np.full(len(self.w), np.nan)
        self.extras = np.full((len(self.w), 3), np.nan)  # columns: loss, mass clipped below, mass clipped above
        self.known: dict[str, float] = {}  # further statistics of progress, by name
        # for each stretch: the number of steps of all stretches when the stretch was last reported
        self._shown = np.zeros(len(self.w), np.int64)

    @property
    def all_steps(self) -> int:
        return self.steps * len(self.w)

    @property
    def share(self) -> float:
        """The number of steps so far, divided by the number of all steps of training."""
        return min(1.0, int(self.taken.sum()) / self.all_steps)

    @property
    def begun_tasks(self) -> int:
        """The number of tasks that were begun. If tasks are interleaved, this is the number of all tasks."""
        if self.interleaved:
            return len(self.w) // self._risks
        return -(-int(np.flatnonzero(self.taken).max(initial=0) + 1) // self._risks)

    def add(self, active: Ints, rewards: Floats, valid: Bools, failure: Bools | None) -> None:
        """Add one step of each of n environments to the statistics of their stretches `active` (n,).

        Steps that are not `valid` (n,) are left out.

        `failure` is None as long as the environment reports no failures.
        """
        if failure is not None and np.isnan(self.failures[0]):  # earlier steps count as steps without failures
            self.failures[:] = 0.0
        for i in valid.nonzero()[0].tolist():  # a loop, because several environments may be in one stretch
            stretch = active[i]
            self.taken[stretch] += 1
            self.total[stretch] += rewards[i]
            if failure is not None:
                self.failures[stretch] += failure[i]

    def next_turn(self, active: Ints) -> int:
        """Return the stretch with the fewest steps.

        Each entry of `active`, the stretch of an environment, counts as one further step of that stretch.
        """
        return int(np.argmin(self.taken + np.bincount(active, minlength=len(self.w))))

    def next_shown(self, active: Ints) -> int:
        """Return that stretch out of `active` (n,) whose last report of progress is the oldest."""
        return int(active[np.argmin(self._shown[active])])

    def show(self, stretch: int) -> bool:
        """Report the progress of a stretch, and return whether to stop training."""
        self._shown[stretch] = self.taken.sum()
        extras = self.known | dict(zip(_EXTRAS, self.extras[stretch].tolist(), strict=True))
        (task, r), share = divmod(stretch, self._risks), self.share
        seen = int(self.taken[stretch]), float(self.total[stretch]), float(self.failures[stretch])
        return self._reports[r](task, *seen, extras, share)

    def history(self, r: int, begun: int) -> Arrays:
        """Return the statistics of risk r for each begun task; nan for additional tasks, whose policies never act."""
        named = {"return": self.total, "failures": self.failures}
        named |= {"loss": self.extras[:, 0], "clipped": self.extras[:, 1:]}
        acted = {name: part[r :: self._risks][:begun] for name, part in named.items()}
        unknown = {name: np.full((self._further, *part.shape[1:]), np.nan) for name, part in acted.items()}
        return {name: np.concatenate([part, unknown[name]]) for name, part in acted.items()}


def _train_fused(
    stream: _Stream, agent: Agent, world: World, training: Training
) -> tuple[Networks, Callable[[], npt.NDArray[np.float32]]]:
    """Train one lane by the fused driver, and return its networks and a function that returns its replay's rows."""
    env, greedy, checkpoint = cast("FeatureVector | WorldAdapter", training.world), training.greedy, training.checkpoint
    one = RunConfig(jax.random.key(training.seed), stream.acting, stream.acting[0], stream.tasks, stream.policies)
    configs = jax.tree.map(lambda part: jnp.asarray(part)[None], one)
    period = fused.period_of(agent, len(stream.w))
    schedule = Schedule(stream.steps, len(stream.w), max(1, _SHOWN_EVERY // period) * period)
    failure = getattr(world, "failure_feature", None)
    if failure is not None:
        stream.failures[:] = 0.0
    at = _Lanes(fused.start_lanes(agent, world, configs, schedule))
    checkpoint.begin(stream=stream, at=at, greedy=greedy)
    for chunk in fused.chunks(agent, world, configs, schedule, at.lanes, at.step):
        at.lanes, at.step = chunk.lanes, chunk.step
        active = np.arange(len(stream.w)) if stream.interleaved else np.array([chunk.task])
        phi = chunk.length / len(active) * np.asarray(chunk.phi[0], np.float64)
        stream.taken[active] += chunk.length // len(active)
        stream.total[active] += np.sum(phi * stream.w[active], axis=1)
        if failure is not None:
            stream.failures[active] += np.rint(phi[:, failure])
        stream.extras[active] = chunk.loss[0], *chunk.clipped[0]
        shown = chunk.step // chunk.length % len(active) if stream.interleaved else chunk.task
        if greedy is not None:
            policy = _fused_greedy(agent, chunk.lanes, env, stream.w[shown], stream.risks[shown])
            stream.known |= greedy.look(stream.share, shown, stream.w[shown], policy)
        if stream.show(shown):
            break
        checkpoint.tick()
    return fused.unscaled_networks(agent, at.lanes), lambda: fused.stored_rows(at.lanes, at.step)


class _Lanes:
    """The state of the fused driver: its lanes, and the number of steps so far."""

    STATE = ("lanes", "step")  # attributes that a checkpoint stores

    def __init__(self, lanes: Lane) -> None:
        self.lanes, self.step = lanes, 0


class _Turns:
    """The state of the stepped loop with n environments.

    Attributes:
        obs: Observations of all environments.
        active: The stretch (n,) of each environment.
        in_turn: Number of steps (n,) of each environment since its last change of stretch.
        all_taken: Number of steps so far, summed over environments.
        shown: The value of `all_taken` at the last report of progress.
        told: Losses and clipped masses that were read from the device since the last report.
    """

    STATE = ("obs", "active", "in_turn", "shown", "all_taken", "told")  # attributes that a checkpoint stores

    def __init__(self, stream: _Stream, n: int) -> None:
        self.obs: npt.NDArray[Any] = np.zeros(0, np.float32)
        self.active: Ints = np.zeros(0, np.int64)
        while len(self.active) < n:
            self.active = np.append(self.active, stream.next_turn(self.active) if stream.interleaved else 0)
        self.in_turn: Ints = np.zeros(n, np.int64)
        self.shown = self.all_taken = 0
        self.told: list[Any] = []
        self._lately: list[Learned] = []

    def add(self, learned: Learned | None) -> None:
        """Add the statistics of updates, without waiting for the device."""
        if learned is not None:
            self._lately.append(learned)

    def read(self) -> list[Any]:
        """Return the losses and clipped masses of all updates since the last report, read from the device."""
        self.told += [(each.loss, *each.clipped) for each in self._lately]
        self._lately = []
        return self.told


def _train_stepped(
    stream: _Stream,
    learner: SteppedLearner,
    env: FeatureVector,
    training: Training,
    check: Callable[[npt.NDArray[Any]], None],
) -> Networks:
    """Train by stepping the environments from Python, and return the networks."""
    greedy, checkpoint = training.greedy, training.checkpoint
    show_every = max(_SHOWN_EVERY // 10, min(_SHOWN_EVERY, stream.all_steps // _SHOWN_TIMES))
    at, meter = _Turns(stream, env.num_envs), EpisodeMeter(env.num_envs)
    parts = {"stream": stream, "learner": learner, "at": at, "meter": meter, "greedy": greedy}
    if checkpoint.begin(**parts, environments=tapes(env) if checkpoint.path else []):
        learner.restored()
    else:
        at.obs = env.reset(training.seed)
        learner.begin_task(at.active)
    active, in_turn = at.active, at.in_turn
    while at.all_taken < stream.all_steps:
        actions = learner.act(at.obs)
        step = meter.timed(partial(env.step, actions))
        check(step.phi)
        learner.observe(step.next_obs, step.phi, step.terminated, step.valid, step.truncated)
        at.add(learner.learn())
        rewards, over = (step.phi * stream.w[active]).sum(axis=1), step.terminated | step.truncated
        meter.add(rewards, over, step.valid)
        stream.add(active, rewards, step.valid, step.failure if env.reports_failures else None)
        at.obs, at.all_taken = step.obs, at.all_taken + int(np.count_nonzero(step.valid))
        done = not stream.interleaved and stream.taken[active[0]] >= stream.steps
        if done or at.all_taken >= stream.all_steps or at.all_taken - at.shown >= show_every:
            shown = stream.next_shown(active)
            if at.read():
                stream.extras[active] = np.mean(at.told, axis=0)
            at.shown, at.told = at.all_taken, []
            stream.known |= meter.read()
            if greedy is not None:
                stream.known |= greedy.look(stream.share, shown, stream.w[shown], _stepped_greedy(learner, env, shown))
            if stream.show(shown):
                break
        if stream.interleaved:
            in_turn += 1
            ended = over | (in_turn >= _LONGEST_TURN)
            if ended.any():
                for i in np.flatnonzero(ended).tolist():
                    active[i] = stream.next_turn(np.delete(active, i))
                in_turn[ended] = 0
                learner.begin_task(active)
        elif done and at.all_taken < stream.all_steps:
            active += 1
            learner.begin_task(active)
            learner.cut()
            at.obs = env.reset()
        if checkpoint.due:
            at.read()
            checkpoint.tick()
    return learner.networks


def _fused_greedy(agent: Agent, lanes: Lane, env: FeatureVector | WorldAdapter, w: Floats, risk: Risk) -> Greedy:
    """Return the greedy policy of the first lane's networks. They are copied from the device at the first use."""
    fetched: list[NetworkPolicies] = []

    def policies() -> NetworkPolicies:
        if not fetched:
            fetched.append(policies_of(agent, fused.unscaled_networks(agent, lanes)))
        return fetched[0]

    def act(raw: Any, t: int) -> Any:
        return policies().act_one(agent.with_time(env.encoder.vector(raw), np.array(t)), w, risk)

    def predict(raw: Any) -> tuple[float, float]:
        obs = agent.with_time(np.asarray(env.encoder.vector(raw), np.float32)[None], np.zeros(1))
        found = policies().scores(obs, w, risk)
        chosen = gpi(found.values)
        at = int(chosen.source[0]), 0, int(chosen.policy[0])
        return float(found.mean[at]), float(found.std[at])

    return _greedy(agent, act, predict)


def _stepped_greedy(learner: SteppedLearner, env: FeatureVector, task: int) -> Greedy:
    """Return the greedy policy of the networks of the stepped driver."""
    return _greedy(
        learner.agent,
        lambda raw, t: learner.greedy(env.encoder.vector(raw), task, t),
        lambda raw: learner.predict(env.encoder.vector(raw), task),
    )


def _greedy(agent: Agent, act: Callable[[Any, int], Any], predict: Callable[[Any], tuple[float, float]]) -> Greedy:
    from rasf.library.greedy import Greedy

    # only predictions with a standard deviation are compared with realised returns
    known = predict if agent.law.kind is not LawKind.MEAN else None
    return Greedy(act, known, agent.settings.gamma, whole=agent.limit > 0)


def _base_scores(base_library: FrozenPolicies | None, stream: _Stream) -> BaseScores | None:
    """Return a function that gives the best scores of the base library's policies, or None without a base library."""
    if base_library is None:
        return None

    def best(obs: npt.NDArray[np.float32], now: int) -> Any:
        scores = base_library.scores(obs, stream.w[now], stream.risks[now]).values.max(axis=0)
        proposed = base_library.proposals(obs)
        return scores if proposed is None else (scores, proposed)

    return best


def _atoms(
    settings: HistogramSettings,
    support: npt.ArrayLike | None,
    once: Sequence[int],
    base: FrozenPolicies | None,
    bounds: Floats | None,
    d: int,
) -> Floats:
    """Return the atoms (d, N) of feature returns: from `support` if given, else from a base library, else from bounds.

    A base library and the new policies can be merged only if their atoms are equal.
    """
    if support is not None:
        return support_atoms(checks.bounds("support", support, d), 0.0, settings.atoms)
    if isinstance(base, NetworkPolicies) and isinstance(base.law, Histogram):
        return np.array(base.law.atoms)
    if bounds is None:
        raise ValueError("support must be given for a vector environment whose reward_space is not bounded")
    of_steps = np.array(bounds, np.float64)
    of_steps[list(once)] *= 1 - settings.gamma  # cancels the factor 1 / (1 - gamma) of `support_atoms`
    return support_atoms(of_steps, settings.gamma, settings.atoms, with_zero=True)


def _bounds_check(declared: Floats | None) -> Callable[[npt.NDArray[Any]], None]:
    """Return a function that raises an error for features (.., d) outside the declared bounds (d, 2) of a step.

    Bounds may be infinite. A histogram whose support is derived from the bounds would clip features outside
    these bounds. The value 0 is always accepted, because every support contains 0.
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
                f"the environment gave {phi[outside][0]:.7g}; declare wider bounds by reward_space (of the environment "
                "or of a wrapper) or phi.bounds, or give support"
            )

    return check
