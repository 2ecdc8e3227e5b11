"""Networks for a library: the deep agents of `rasf.deep`, by one of the two drivers of its training algorithm.

A world in jax (`rasf.World`), by itself or as a Gymnasium environment that nothing wraps, is trained by the fused
driver, on the device that jax has, as one lane. Everything else is stepped from Python, and so is a world whose
policies explore by a base library or learn from several environments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.fused import Lane, RunConfig, Schedule
from rasf.deep.laws import Histogram, Networks, support_atoms
from rasf.deep.networks import choose_policies
from rasf.deep.settings import HistogramSettings, NetworkSettings
from rasf.deep.stepped import BaseScores, Learned, Pace, SteppedLearner
from rasf.envs.gymnasium.tape import tapes
from rasf.files import Arrays, Header
from rasf.library.frozen_policies import FrozenPolicies
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

_MUCH_CLIPPED = 0.01
_SHOWN_EVERY = 500  # steps, or a target period of the fused driver
_SHOWN_TIMES = 20  # at least, also in short runs
_ACT_EVERY = 32  # updates, after which the networks that act are renewed
_LONGEST_TURN = 1_000  # steps of an episode, after which another task has its turn
_ROUNDING = 1e-5  # of float32, relative, after a few operations
_EXTRAS = ("loss", "clipped_below", "clipped_above")


def train_networks(
    training: Training,
    settings: NetworkSettings,
    *,
    bounds: Floats | None = None,
    support: npt.ArrayLike | None = None,
    once: Sequence[int] = (),
) -> list[Trained]:
    """Learn the tasks (n, d), one after the other or interleaved; the policies for each risk.

    `notes` gains what was decided; `greedy` looks at the policies now and then.

    Histograms have the given support, that of the base library, or one derived from the bounds (d, 2) of the features;
    where bounds are given, every step must keep those that the environment declares. The policies of the base library
    take part in GPI.

    There is a policy for each risk and task, and all of them learn from every transition: each risk acts for its share
    of a task's steps. A policy whose own task was never reached has learned too; it is kept only if its task was begun.
    Policies for `extra_tasks` weightings (m, d) learn off-policy only.
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
    sizes = (env.encoder.vector_size, env.n_actions, stream.tasks, atoms, len(stream.policies.beta))
    planned = round(max(0, stream.all_steps - settings.warmup) * settings.updates)
    if not planned:
        notes.append(f"nothing was learned: all {stream.all_steps} steps belong to the warm-up of {settings.warmup}")
    limit = _limit(settings, env, base_library)
    neutral = not stream.policies.beta.any()
    more: Header = {"planned": planned, "risk": _trained_kind(risks), "limit": limit, "neutral": neutral}
    agent = Agent.create(settings, *sizes, **more).for_weights(stream.learned)
    remembered = min(stream.all_steps, settings.replay or stream.all_steps)
    kind = np.dtype(np.float32) if limit else env.encoder.vector_dtype  # bytes hold no share of time
    _check_affordable(agent, remembered, env.encoder.vector_size, tasks.shape[1], kind.itemsize)
    if world is not None:
        networks = _train_fused(stream, agent, world, training)
    else:
        stepped = env.stepped() if isinstance(env, WorldAdapter) else env
        capacity = max(remembered, stepped.num_envs)
        pace = Pace(stepped.num_envs, capacity, act_every=_ACT_EVERY, dtype=kind)
        run, advice = (agent, stream.tasks, stream.acting, training.seed, pace), _advice(base_library, stream)
        learner = SteppedLearner(*run, policies=stream.policies, base_scores=advice)
        networks = _train_stepped(stream, learner, stepped, training, _bounds_check(declared))
    begun, clipped, found = stream.begun_tasks, 0.0, []
    own, n = [*range(begun), *range(len(tasks), len(stream.learned))], len(stream.learned)
    for r in range(len(risks)):
        chosen = np.array(own) + r * n
        kept = tuple(choose_policies(jax.tree.map(np.asarray, one), chosen) for one in networks)
        history = stream.history(r, begun)
        clipped = max(clipped, float(np.nanmax(history["clipped"].sum(axis=1), initial=0.0)))
        found.append(Trained(NetworkPolicies.from_agent(agent, kept), stream.learned[own], history))
    if clipped > _MUCH_CLIPPED:
        notes.append(f"{clipped:.1%} of the histograms' mass was clipped at the ends of the support; give a wider one")
    return found


def _limit(settings: NetworkSettings, env: FeatureVector | WorldAdapter, base: FrozenPolicies | None) -> int:
    """The steps of an episode, if returns are to be those of an episode and its time limit is known; else 0."""
    known = settings.episode_length or env.time_limit
    if isinstance(base, NetworkPolicies):
        known = base.limit  # so that the two libraries can be merged
    if settings.horizon == "episode" and known:
        return known
    if settings.gamma == 1:
        raise ValueError("gamma must be below 1, or episode_length the time limit, which the environment does not tell")
    return 0


def _trained_kind(risks: Sequence[Risk]) -> Callable[[Any], Risk]:
    """The one class of risk, which takes beta, that networks learn all these risks by."""
    assert all(isinstance(risk, BetaRisk) for risk in risks)  # others cannot be trained for
    kinds = {type(risk) for risk in risks if not is_neutral(risk)} or {MeanVariance}
    if len(kinds) > 1:
        raise ValueError("risk must be of one kind for networks, which learn all risks together, got several")
    return kinds.pop()


def _check_rows(objects: int, space: Header) -> None:
    """Refuse observations that are no rows of so many numbers; flat ones may be."""
    shape = tuple(space.get("shape", ()))
    if space["kind"] != "box" or not 1 <= len(shape) <= 2:
        raise ValueError(f"objects are for observations that are rows of numbers, got {space['kind']} of shape {shape}")
    if len(shape) == 2 and shape[1] != objects:
        raise ValueError(f"objects must be {shape[1]}, the numbers in a row of observations {shape}, got {objects}")


def _check_affordable(agent: Agent, transitions: int, observation_size: int, features: int, item: int) -> None:
    """Refuse what cannot be, before anything is compiled: a step beyond all bounds, sizes beyond the memory."""
    rate = agent.settings.learning_rate
    if rate > 1:
        raise ValueError(f"learning_rate must be at most 1 for networks to learn anything, got {rate:g}")
    needed, there = agent.memory_needed(transitions, observation_size, features, item), _memory()
    if needed > there:
        sizes = f"widths {agent.settings.widths} for {agent.policies} policies, batches of {agent.settings.batch}"
        gigabytes = f"{needed / 1e9:,.1f} GB, and there are {there / 1e9:,.1f} GB"
        raise ValueError(f"networks of {sizes} and a replay of {transitions:,} steps need about {gigabytes}")


def _memory() -> float:
    """Bytes of the device that computes, or of this machine."""
    counted = jax.devices()[0].memory_stats()
    if counted and "bytes_limit" in counted:
        return float(counted["bytes_limit"])
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not every system tells
        return float("inf")


class _Stream:
    """The stretches of training, one for each task and risk that leads, and what they showed so far.

    taken: steps of each stretch. Stretches follow one another, or take turns (`interleaved`). learned: what policies
    learn for at each risk, the tasks and further weightings.
    """

    STATE = ("taken", "total", "failures", "extras", "known", "_shown")  # for checkpoints

    def __init__(self, training: Training, interleaved: bool) -> None:
        tasks, further, risks = training.tasks, training.extra_tasks, training.risks
        self.steps, self.interleaved = max(1, training.steps_per_task // len(risks)), interleaved
        self._reports, self._risks = training.reports, len(risks)
        self.w = np.repeat(tasks, len(risks), axis=0)  # task by task, each for all risks
        self.risks = list(risks) * len(tasks)
        self.tasks = Tasks.of(self.w)
        beta = np.array([risk.beta for risk in risks], np.float32)  # type: ignore[attr-defined]
        self.acting = np.tile(beta, len(tasks))
        self.learned, self._further = np.concatenate([tasks, further]), len(further)
        # risk by risk, so that the policies of each are together
        weights = np.tile(self.learned.astype(np.float32), (len(risks), 1))
        self.policies = Policies(weights, np.repeat(beta, len(self.learned)))
        self.taken = np.zeros(len(self.w), np.int64)
        self.total, self.failures = np.zeros(len(self.w)), np.full(len(self.w), np.nan)
        self.extras = np.full((len(self.w), 3), np.nan)  # loss and clipped mass
        self.known: dict[str, float] = {}  # further extras, by name
        self._shown = np.zeros(len(self.w), np.int64)  # when each stretch was last shown, by the steps of all

    @property
    def all_steps(self) -> int:
        return self.steps * len(self.w)

    @property
    def share(self) -> float:
        """Of all training, that is done."""
        return min(1.0, int(self.taken.sum()) / self.all_steps)

    @property
    def begun_tasks(self) -> int:
        """How many are kept: those with a policy that led, from the first on, or all, where they take turns."""
        if self.interleaved:
            return len(self.w) // self._risks
        return -(-int(np.flatnonzero(self.taken).max(initial=0) + 1) // self._risks)

    def add(self, active: Ints, rewards: Floats, valid: Bools, failure: Bools | None) -> None:
        """A step of each environment (n,) in its stretch; those that do not count are left out.

        failure: None where nobody has named any.
        """
        if failure is not None and np.isnan(self.failures[0]):  # the first that is named: there were none before
            self.failures[:] = 0.0
        for i in valid.nonzero()[0].tolist():  # several may be in one stretch
            stretch = active[i]
            self.taken[stretch] += 1
            self.total[stretch] += rewards[i]
            if failure is not None:
                self.failures[stretch] += failure[i]

    def next_turn(self, active: Ints) -> int:
        """The stretch that had the fewest steps; those of the environments at hand (n,) count as if begun."""
        return int(np.argmin(self.taken + np.bincount(active, minlength=len(self.w))))

    def next_shown(self, active: Ints) -> int:
        """Of the stretches of the environments at hand (n,), the one whose progress was shown the longest ago."""
        return int(active[np.argmin(self._shown[active])])

    def show(self, stretch: int) -> bool:
        """Whether to stop after what a stretch has shown so far."""
        self._shown[stretch] = self.taken.sum()
        extras = self.known | dict(zip(_EXTRAS, self.extras[stretch].tolist(), strict=True))
        (task, r), share = divmod(stretch, self._risks), self.share
        seen = int(self.taken[stretch]), float(self.total[stretch]), float(self.failures[stretch])
        return self._reports[r](task, *seen, extras, share)

    def history(self, r: int, begun: int) -> Arrays:
        """Of one risk, an entry for each of the tasks that were begun, and nan for those that nobody practised."""
        named = {"return": self.total, "failures": self.failures}
        named |= {"loss": self.extras[:, 0], "clipped": self.extras[:, 1:]}
        led = {name: part[r :: self._risks][:begun] for name, part in named.items()}
        unknown = {name: np.full((self._further, *part.shape[1:]), np.nan) for name, part in led.items()}
        return {name: np.concatenate([part, unknown[name]]) for name, part in led.items()}


def _train_fused(stream: _Stream, agent: Agent, world: World, training: Training) -> Networks:
    """The networks after one lane of the fused driver."""
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
            policy = _greedy_of(agent, chunk.lanes, env, stream.w[shown], stream.risks[shown])
            stream.known |= greedy.look(stream.share, shown, stream.w[shown], policy)
        if stream.show(shown):
            break
        checkpoint.tick()
    return fused.unscaled_networks(agent, at.lanes)


class _Lanes:
    """Where the fused driver stands."""

    STATE = ("lanes", "step")  # for checkpoints

    def __init__(self, lanes: Lane) -> None:
        self.lanes, self.step = lanes, 0


class _Turns:
    """Where the stepped loop stands with n environments.

    active: the stretch of each (n,), and how many steps it has had in turn. shown: steps of all when progress was last
    shown. told: loss and clipped mass of the updates since, as far as they were read.
    """

    STATE = ("obs", "active", "in_turn", "shown", "all_taken", "told")  # for checkpoints

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
        """Remember some updates; what they showed is not waited for."""
        if learned is not None:
            self._lately.append(learned)

    def read(self) -> list[Any]:
        """Loss and clipped mass of all updates since the last time progress was shown."""
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
    """The networks after the environments were stepped from Python."""
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
            led = stream.next_shown(active)
            if at.read():
                stream.extras[active] = np.mean(at.told, axis=0)
            at.shown, at.told = at.all_taken, []
            stream.known |= meter.read()
            if greedy is not None:
                stream.known |= greedy.look(stream.share, led, stream.w[led], _learner_s_greedy(learner, env, led))
            if stream.show(led):
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


def _greedy_of(agent: Agent, lanes: Lane, env: FeatureVector | WorldAdapter, w: Floats, risk: Risk) -> Greedy:
    """GPI by the networks of the first lane, which are fetched at the first call."""
    fetched: list[NetworkPolicies] = []

    def policies() -> NetworkPolicies:
        if not fetched:
            fetched.append(NetworkPolicies.from_agent(agent, fused.unscaled_networks(agent, lanes)))
        return fetched[0]

    def act(raw: Any, t: int) -> int:
        return policies().act_one(agent.with_time(env.encoder.vector(raw), np.array(t)), w, risk)

    def predict(raw: Any) -> tuple[float, float]:
        obs = agent.with_time(np.asarray(env.encoder.vector(raw), np.float32)[None], np.zeros(1))
        found = policies().scores(obs, w, risk)
        chosen = gpi(found.values)
        at = int(chosen.source[0]), 0, int(chosen.policy[0])
        return float(found.mean[at]), float(found.std[at])

    return _greedy(agent, act, predict)


def _learner_s_greedy(learner: SteppedLearner, env: FeatureVector, task: int) -> Greedy:
    """GPI by the networks of the stepped driver."""
    return _greedy(
        learner.agent,
        lambda raw, t: learner.greedy(env.encoder.vector(raw), task, t),
        lambda raw: learner.predict(env.encoder.vector(raw), task),
    )


def _greedy(agent: Agent, act: Callable[[Any, int], int], predict: Callable[[Any], tuple[float, float]]) -> Greedy:
    from rasf.library.greedy import Greedy

    known = predict if agent.law.kind is not LawKind.MEAN else None  # without a standard deviation nothing is compared
    return Greedy(act, known, agent.settings.gamma, whole=agent.limit > 0)


def _advice(base_library: FrozenPolicies | None, stream: _Stream) -> BaseScores | None:
    """How the best policy of the base library scores observations."""
    if base_library is None:
        return None
    return lambda obs, now: base_library.scores(obs, stream.w[now], stream.risks[now]).values.max(axis=0)


def _atoms(
    settings: HistogramSettings,
    support: npt.ArrayLike | None,
    once: Sequence[int],
    base: FrozenPolicies | None,
    bounds: Floats | None,
    d: int,
) -> Floats:
    """Atoms (d, n) of discounted feature returns; those of a base library, so that the two can be merged."""
    if support is not None:
        return support_atoms(checks.bounds("support", support, d), 0.0, settings.atoms)
    if isinstance(base, NetworkPolicies) and isinstance(base.law, Histogram):
        return np.array(base.law.atoms)
    if bounds is None:
        raise ValueError("support must be given for a vector environment whose reward_space is not bounded")
    of_steps = np.array(bounds, np.float64)
    of_steps[list(once)] *= 1 - settings.gamma  # which the sum over all steps then takes back
    return support_atoms(of_steps, settings.gamma, settings.atoms, with_zero=True)


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
