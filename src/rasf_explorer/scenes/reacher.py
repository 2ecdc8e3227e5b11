"""The reacher with a library of networks: the objective at tip positions, scores, and rollouts of the arm.

The objective is GPI's largest score, over all policies and actions. The arm at rest reaches a tip position in two
postures, with its elbow bent to either side. The objective and the scores at a tip position are those of the posture
with the larger objective. A field has the objectives at a grid of tip positions. The scores of
networks that see the time left are those of the first step of an episode.

For histogram networks, mean and variance of every feature at these postures depend neither on w nor on the risk. `warm`
computes these moments once. A field for a mean-variance risk is then a weighted sum of the moments. For other risks and
networks, the networks compute every field. CVaR would need convolutions of histograms, which take seconds for a field
and longer for a rollout, so this scene has no CVaR. Rollouts can look ahead in the world; the objective and the scores
do not look ahead. Returns are undiscounted sums over an episode. Every episode lasts
until its time limit.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from rasf.agents import LawKind, acting_risk, can_act
from rasf.arrays import Floats
from rasf.checks import weights as checked_weights
from rasf.checks import whole
from rasf.deep.clock import TIME_INPUTS
from rasf.envs.reacher.arm import LINK, TIP, tip_position
from rasf.envs.reacher.world import TORQUES, TRAINING_TARGETS, Reacher
from rasf.files import Header
from rasf.library.networks.policies import NetworkPolicies
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.risk import MeanVariance, Risk
from rasf.statistics.intervals import Interval, event_interval, normal_mean
from rasf.transfer import gpi
from rasf_explorer.scenes.families import entropic, mean_variance, served, trained_for
from rasf_explorer.scenes.limits import is_sure, limits_of, notes_of
from rasf_explorer.scenes.scene import (
    PLAIN,
    Arm,
    ArmOutcome,
    ArmScene,
    Field,
    Posture,
    Proposals,
    SceneScores,
    Stop,
    Stopped,
    Ways,
    Weight,
    measures,
    within,
)
from rasf_lab.paper.reacher.beliefs import grid
from rasf_lab.rollouts.reacher import arm_chances, observed, roll_out_arm, roll_out_by_rule, rows_of

ENVIRONMENT = "rasf/Reacher-v0"
_LONGEST = 5_000  # largest accepted number of steps of an episode; an untrusted library file may contain a larger one
_POINTS = 31  # number of tip positions of the grid in each direction
_PLAYED = 4  # number of rollouts whose arm positions are kept
_DEFAULT_TARGET = 10
_NEUTRAL = MeanVariance(0.0)
_MOST_AHEAD = 15
_PARTICLES = 1  # one path is enough, because the world knows the probabilities of failures, and torques vary little
_JOINTS = "shoulder torque", "elbow torque"
_BOUNDS = np.full(2, -1.0), np.full(2, 1.0)  # of the torques


class ReacherScene(ArmScene):
    """The scene of `rasf/Reacher-v0`; see the module's header."""

    title = "Reacher"
    about = (
        "An arm of two links moves its tip to the targets with positive weight. In the shaded circles every step may "
        "be a failure. Failures do not end the episode, so a rollout may have many. Policies that were trained for a "
        "few targets are scored for every task and risk."
    )

    def __init__(self, library: PolicyLibrary) -> None:
        sources = library.sources
        if library.environment.id != ENVIRONMENT or not isinstance(sources, NetworkPolicies):
            raise ValueError(f"library must have networks for {ENVIRONMENT}, got {library!r}")
        self.library, self.world, self._sources = library, world_of(library), sources
        world = self.world
        training = sum(target in TRAINING_TARGETS for target in world.targets)
        self.arm = Arm(world.target_positions(), world.risky, world.radius, (LINK, TIP), training)
        self.weights = _weights(world)
        self.families = served(sources, (mean_variance(-12.0, 4.0, 0.5, -6.0), entropic(-2.0, 1.0, 0.1, -1.0)))
        self.policies = tuple(_in_words(policy) for policy in library.policies)
        self._failure = world.n_features - 1
        sure = is_sure(library, self._failure)
        kind, most = ("per rollout (kept in 95 % of tasks)", 30.0) if sure else ("(expected, discounted)", 0.3)
        self.limit = Weight(f"most failures {kind}", 0.0, most, most / 100, most)
        where = grid(_POINTS)
        if all(can_act(sources.law_kind, acting_risk(policy.risk)) for policy in library.policies):
            self.ahead = Weight("simulated steps", 0.0, float(_MOST_AHEAD), 1.0, 0.0)
        self._tips: Floats = where.tips[where.reached]
        self._cell = float(where.tips[0, 1, 0] - where.tips[0, 0, 0])
        # (2 P, inputs): all P tip positions with the elbow bent to one side, then with the elbow bent to the other side
        self._states = np.asarray(where.states, np.float64)
        self._obs = observed(sources, world, where.states, 0)
        self._moments: tuple[Floats, Floats] | None = None
        self._warming = threading.Lock()

    def warm(self, stop: Stop = lambda: False) -> None:
        """Compute the moments, which depend on no slider, and compile functions by calling them. This takes seconds."""
        self._learn_moments(stop)
        w, risk = self.default_task, self.families[0].make(self.families[0].default)
        self.at((0.0, 0.0), w, risk)
        self.roll_out(w, risk, 1, 0, stop)

    def _learn_moments(self, stop: Stop) -> None:
        """Compute mean and variance of every feature at all postures, only once. Other threads wait for the result."""
        with self._warming:
            if self._moments is not None or self._sources.law_kind is not LawKind.HISTOGRAM:
                return
            found = []
            for feature in np.eye(self._sources.n_features):
                if stop():
                    raise Stopped
                found.append(self._sources.scores(self._obs, feature, _NEUTRAL))
            mean, variance = [one.mean for one in found], [one.std**2 for one in found]
            self._moments = np.stack(mean, axis=-1), np.stack(variance, axis=-1)

    def random_task(self, rng: np.random.Generator) -> Floats:
        """Return weights for one random target, with the default cost of a failure."""
        task = np.zeros(len(self.weights))
        task[rng.integers(len(self.world.targets))] = 1.0
        task[-1] = self.weights[-1].default
        return task

    def field(self, w: Floats, risk: Risk) -> Field:
        values = self._values(w, risk)
        both = values.max(axis=(0, 2)).reshape(2, -1)
        side = both.argmax(axis=0)
        driver = np.asarray(gpi(values).source).reshape(2, -1)[side, np.arange(len(side))]
        return Field(self._tips, both.max(axis=0), driver, self._cell)

    def at(self, tip: tuple[float, float], w: Floats, risk: Risk) -> SceneScores:
        return self._scored_at(tip, w, risk)[1]

    def posture(self, tip: tuple[float, float], w: Floats, risk: Risk) -> Posture:
        place, scores = self._scored_at(tip, w, risk)
        state, proposals = self._states[place], scores.proposals
        torques = np.array(TORQUES[scores.action]) if proposals is None else proposals.actions[scores.action]
        return Posture(_elbows(state), tip_position(state), torques.astype(np.float64))

    def _scored_at(self, tip: tuple[float, float], w: Floats, risk: Risk) -> tuple[int, SceneScores]:
        """Return the index of a posture with its tip near a position, and the scores of this posture.

        Of the two postures with this tip, this is the posture with the larger objective.
        """
        nearest = int(((self._tips - np.asarray(tip, np.float64)) ** 2).sum(axis=1).argmin())
        places = nearest, nearest + len(self._tips)
        found = self._sources.scores(self._obs[list(places)], self._checked(w), risk)
        side = int(found.values.max(axis=(0, 2)).argmax())
        values = found.values[:, side]
        action, driver = map(int, gpi(values))
        torques = self._sources.proposals(self._obs[[places[side]]])
        proposals = None if torques is None else Proposals(np.asarray(torques[0], np.float64), *_BOUNDS, _JOINTS)
        chosen = action, driver, True, self.library.gamma, proposals
        return places[side], SceneScores(values, found.mean[:, side], found.std[:, side], *chosen)

    def roll_out(
        self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop = lambda: False, ways: Ways = PLAIN
    ) -> ArmOutcome:
        """Act from random postures; see `RolloutScene.roll_out`."""
        weights = self._checked(w)
        chances = arm_chances(self.world, whole("episodes", episodes), whole("seed", seed, 0))
        limits = limits_of(self.library, self._failure, ways)
        looking: Header = {"model": self.world, "ahead": ways.ahead, "particles": _PARTICLES} if ways.ahead else {}
        rule = self.library.rule(
            weights, risk, static=ways.static, limits=limits, names=self.world.feature_names, **looking
        )
        if ways == PLAIN:
            rolled = roll_out_arm(self._sources, self.world, weights, risk, chances, stop)
        else:
            rolled = roll_out_by_rule(rule, self.world, chances, stop)
        if rolled is None:
            raise Stopped
        first = rows_of(rule.sources, self.world, rolled.states[0], 0)
        tips = tip_position(rolled.states)  # (T + 1, n, 2)
        features = self.world.tip(rolled.states[:-1], rolled.states[1:])
        returns, failed = rolled.phi.sum(axis=0) @ weights, rolled.phi[..., -1]
        failures, lengths = failed.sum(axis=0), np.full(episodes, len(rolled.phi))
        return ArmOutcome(
            returns,
            failures,
            lengths,
            measures(returns, failures, lengths),
            within(event_interval(self.world.in_circle(features).mean(axis=0)), 0.0, 1.0),
            self._from_heaviest(features[len(features) // 2 :], weights),
            _elbows(rolled.states)[1:, :_PLAYED].swapaxes(0, 1),
            tips[1:, :_PLAYED].swapaxes(0, 1),
            failed[:, :_PLAYED].T.astype(np.int64),
            notes=notes_of(self.library, rule, first, rolled.memory),
        )

    def _from_heaviest(self, tips: Floats, w: Floats) -> Interval:
        """Return the mean distance (m) of tips from the target with the largest weight.

        The distance is nan if no target has a positive weight.
        """
        if w[:-1].max() <= 0:
            return Interval(np.nan, np.nan, np.nan)
        away = self.world.distances(tips)[..., int(w[:-1].argmax())]
        return within(normal_mean(away.mean(axis=0)), 0.0)

    def _values(self, w: Floats, risk: Risk) -> Floats:
        """Return the scores (K, 2 P, A) of K policies and A actions at all 2 P postures."""
        weights = self._checked(w)
        if isinstance(risk, MeanVariance):
            self._learn_moments(lambda: False)
            if self._moments is not None:
                mean, variance = self._moments
                return np.asarray(risk.moments(mean @ weights, variance @ weights**2), np.float64)
        return self._sources.scores(self._obs, weights, risk).values

    def _checked(self, w: Floats) -> Floats:
        return checked_weights("w", w, self._sources.n_features)


def _elbows(states: Floats) -> Floats:
    """Return the positions (.., 2) of the elbow at states (.., 4)."""
    return LINK * np.stack([np.cos(states[..., 0]), np.sin(states[..., 0])], axis=-1)


def world_of(library: PolicyLibrary) -> Reacher:
    """Return the world of a library's environment.

    Args:
        library: A library of networks for `rasf/Reacher-v0`.

    Returns:
        The world.

    Raises:
        ValueError: The library's networks do not fit the world, or the world cannot be shown.
    """
    given = library.environment.make_kwargs()
    if given.get("engine", "closed_form") != "closed_form":
        raise ValueError(f"engine must be closed_form to be shown, got {given['engine']!r}")
    kept = {name: given[name] for name in Reacher.__match_args__ if name in given}
    world, limit = Reacher(**kept), library.environment.max_episode_steps
    if limit is not None:
        world = replace(world, episode_length=min(world.episode_length, limit))
    if world.episode_length > _LONGEST:
        raise ValueError(f"episode_length must be at most {_LONGEST} to be shown, got {world.episode_length}")
    sources, actions = library.sources, library.environment.actions
    time_inputs = TIME_INPUTS if sources.limit else 0
    sizes = world.observation_size + time_inputs, world.n_features, world.n_actions, world.action_size
    if sizes != (sources.n_inputs, sources.n_features, actions.n, actions.size):
        fitting = "{} observation entries, {} features, {} actions and {} torques, to fit the reacher's world".format(
            *sizes
        )
        raise ValueError(f"library must have {fitting}")
    return world


def _weights(world: Reacher) -> tuple[Weight, ...]:
    chosen = _DEFAULT_TARGET if len(world.targets) > _DEFAULT_TARGET else 0
    targets = [Weight(f"target {g}", 0.0, 1.0, 0.05, float(g == chosen)) for g in range(len(world.targets))]
    return (*targets, Weight("failure", -6.0, 0.0, 0.1, -world.failure_cost))


def _in_words(policy: SourcePolicy) -> str:
    targets = [f"target {g}" + (f" {w:g}" if w != 1 else "") for g, w in enumerate(policy.w[:-1]) if w != 0]
    return f"{', '.join(targets) or 'no target'}, failure {policy.w[-1]:g}; {trained_for(policy.risk)}"
