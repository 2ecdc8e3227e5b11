"""A model learned from counts, with incremental planning; every task begins with the counts of all earlier tasks.

The learner counts the outcomes of every state and action: the features phi of the step with the next state, or with
termination. Features do not depend on the task, so all tasks share the model. The learner plans for one pair of weights
w and a risk at a time, by the nested entropic recursion

    Q(s, a) = (1 / beta) log E exp(beta (phi . w + gamma V(s'))),    V(s) = max_a Q(s, a),

where gamma is the discount. For beta = 0, Q is the expected return. The recursion is a contraction. The learner uses it
for both `MeanVariance(beta)` and `NestedEntropic(beta)`. Mean-variance has no recursion of its own, but it is the
second-order expansion of entropic utility in beta.

The counts are complemented as follows. Names such as `optimism` are settings and constants of `ModelSettings`:

- Optimism: an action that was never tried in a state has the value `optimism` times the largest absolute reward known.
  An action with few tries may have outcomes that are not observed yet. So during learning, `doubt` virtual tries with
  the optimistic value are added to the tries of every tried action.
- A prior for failures: an ending is a feature vector with which episodes terminate, and a failure is an ending whose
  reward is below 0 in the current task. Failures are rare, so ten tries without a failure do not show that an action is
  safe. States form a group if they agree in the observation entries on which failures depend. Virtual tries are added
  to the tries of an action in a state. The virtual tries fail at the rate of this action in the whole group, and
  otherwise have the observed outcomes that do not end the episode. The observation entries and the number of virtual
  tries, at most `prior`, are estimated from the data (`rasf.tabular.groups`). The number is small if the states of a
  group differ. An untried action also fails at the rate of its group. If failures depend on no observation entry, there
  is no prior: a failure rate pooled over all states would make every state look dangerous and prevent exploration.
- Risk-aware exploration: with probability `epsilon`, the action is drawn from the actions whose scores differ from the
  best score by at most `margin` times the largest absolute reward.
- Learned weights (`learn_w`): weights that are not given are learned from rewards. A reward that depends on uncertain
  weights is estimated `curiosity` standard deviations above its mean (`rasf.tabular.weight_belief`).

A final policy, which is used after learning, is planned without optimism. It avoids actions that were tried fewer than
`least_tries` times. In a state that has only such actions, it takes one of the most tried actions.

Planning is incremental (`rasf.tabular.counts`): after a transition, changes are propagated to predecessors as long as
values change by more than `tolerance` times the largest absolute reward.

Shapes: S states, A actions, O outcomes, d features, n numbers in an observation, N transitions.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from rasf import checks
from rasf.arrays import Bools, Floats, Ints
from rasf.envs.tabular_world import TabularWorld, loop_for, observations
from rasf.mdp import FiniteMDP
from rasf.risk import MeanVariance, NestedEntropic, Risk
from rasf.risk.base import concrete
from rasf.tabular import counts, model_loop
from rasf.tabular.counts import BACKUPS, HEAD, LENGTH, MOST_ENDINGS, OUTCOMES, ROWS, Model, Rule
from rasf.tabular.groups import STRENGTHS, numbers_that_matter, strength
from rasf.tabular.settings import ModelSettings
from rasf.tabular.stretch import STEP, TaskOutcome, check_world, enlarged, new_rows, new_stretch, outcome
from rasf.tabular.weight_belief import WeightBelief

_FIRST_LOOK = 1_000  # groups are computed after this number of steps, and again whenever the number has doubled
_MOST_WORK = 2_000  # largest number of backups per state in a full plan, enough for convergence
_MOST_AT_ONCE = 10_000  # largest number of backups after a step; rows that are left are backed up after later steps
_DEVIATION = 1e-2  # errors of rewards are ignored up to this share of the largest absolute reward
_STREAM = 0  # part of the seed of random numbers
_NEUTRAL = MeanVariance(0.0)


def recursion_beta(risk: Risk) -> float:
    """Return the beta of the entropic recursion for a risk."""
    if not isinstance(risk, MeanVariance | NestedEntropic):
        raise ValueError(f"risk must be MeanVariance or NestedEntropic to be planned, got {risk!r}")
    return float(concrete(risk.beta) or 0.0)


class ModelLearner:
    """A learner that counts transitions and plans on the counts. Rows (states) are numbered in the order of addition.

    Args:
        n_features: number d of features.
        n_actions: number of actions.
        settings: settings of the agent.
        seed: seed of all random numbers.
    """

    STATE = (  # attributes in a checkpoint; for a compiled world, call `enter` before restoring
        "kinds", "_kind_of", "numbers", "_group_of", "prior", "beta", "steps", "_w", "_belief", "_given",
        "_least_tries", "planning_seconds", "_seconds_a_backup", "_model", "rows",
    )  # fmt: skip

    def __init__(self, n_features: int, n_actions: int, settings: ModelSettings, seed: int) -> None:
        self.settings, self.seed = settings, checks.whole("seed", seed, 0)
        self.n_features, self.n_actions = n_features, n_actions
        self.kinds = np.zeros((0, n_features))
        self._kind_of: dict[bytes, int] = {}
        self.numbers: tuple[int, ...] = ()  # indices of the observation entries that define groups
        self._group_of: dict[bytes, int] = {}
        self.prior = min(STRENGTHS[0], float(settings.prior))  # weight of the prior, until it is estimated
        self.beta, self.steps = 0.0, 0
        self._w = np.zeros(n_features)
        self._belief = WeightBelief(n_features, settings.curiosity) if settings.learn_w else None
        self._given = False  # whether the weights of the current task are given
        self._least_tries: int | None = None  # the argument of `plan` for a final policy; None while learning
        self.planning_seconds, self._seconds_a_backup = 0.0, 0.0
        self.world: TabularWorld | None = None
        self.rows = new_rows(0, n_actions)  # map from states of a compiled world to rows
        self._model = counts.new_model(n_actions)

    @property
    def states(self) -> int:
        """The number of states."""
        return int(self._model.used[ROWS])

    @property
    def backups(self) -> int:
        """The number of backups so far, a measure of the work of planning."""
        return int(self._model.used[BACKUPS])

    def kind(self, phi: npt.ArrayLike) -> int:
        """Return the index in `kinds` of a feature vector phi (d,); a new vector is appended."""
        features = np.ascontiguousarray(phi, np.float64) + 0.0  # turns -0.0 into 0.0
        found = self._kind_of.setdefault(features.tobytes(), len(self.kinds))
        if found == len(self.kinds):
            self.kinds = np.concatenate([self.kinds, features[None]])
            ending = np.append(self._model.ending, np.int32(-1))
            self._model = self._model._replace(reward=self._rewards(), ending=ending)
        return found

    @property
    def unit(self) -> float:
        """The largest absolute reward known, 1 if there is none."""
        largest = float(np.abs(self._model.reward).max(initial=0.0))
        return largest if largest > 0 else 1.0

    @property
    def weights(self) -> Floats:
        """The weights (d,) of the current task, given or learned so far."""
        return self._w if self._belief is None or self._given else self._belief.mean

    def _rewards(self) -> Floats:
        """Return the reward of every feature vector in `kinds`, an optimistic estimate if weights are learned."""
        if self._belief is None or self._given:
            return np.asarray(self.kinds @ self._w)
        return self._belief.rewards(self.kinds)

    def _unsure(self) -> Bools:
        """Return whether the reward is uncertain, for every feature vector in `kinds`."""
        if self._belief is None or self._given:
            return np.zeros(len(self.kinds), np.bool_)
        return np.asarray(self._belief.errors(self.kinds) > _DEVIATION * self.unit)

    def begin_task(self, w: npt.ArrayLike | None) -> None:
        """Begin a task; `plan` must be called next.

        Args:
            w: weights (d,), or None to learn them from rewards.

        Raises:
            ValueError: `w` is None, and the settings do not have learn_w=True.
        """
        if w is not None:
            self._w, self._given = checks.weights("w", w, self.n_features), True
        elif self._belief is None:
            raise ValueError("w must be given unless the settings have learn_w=True")
        else:
            self._belief.begin_task()
            self._given = False
        self._model = self._model._replace(reward=self._rewards())

    def plan(self, risk: Risk = _NEUTRAL, least_tries: int | None = None) -> None:
        """Plan for the current task and a risk; `learn` keeps this plan up to date.

        Args:
            risk: a `MeanVariance` or `NestedEntropic`. Default: neutral.
            least_tries: to plan a final policy, which avoids actions with fewer tries than this. Default: None, to plan
                with optimism, for learning.
        """
        self.beta, self._least_tries = recursion_beta(risk), least_tries
        self._plan_anew()

    def observe_reward(self, phi: npt.ArrayLike, reward: float) -> None:
        """If the weights are learned, update them by the reward of a step; plan again if estimated rewards change."""
        if self._belief is None or self._given:
            return
        features, believed = np.asarray(phi, np.float64), self._model.reward
        wrong = abs(float(self._belief.rewards(features)) - reward) > _DEVIATION * self.unit
        if not wrong and self._belief.errors(features) <= _DEVIATION * self.unit:
            return
        self._belief.observe(features, float(reward))
        self._model = self._model._replace(reward=self._rewards())
        if np.abs(self._model.reward - believed).max(initial=0.0) > self.settings.tolerance * self.unit:
            self._plan_anew()

    def _plan_anew(self) -> None:
        begin, model, n = time.perf_counter(), self._model, self.states
        model.used[HEAD], model.used[LENGTH] = 0, n
        model.worklist[:n] = np.arange(n)[::-1]  # last states first, because they are often near the end of an episode
        model.queued[:n] = True
        before = self.backups
        counts.work(model, self.rule, _MOST_WORK * n)
        took = time.perf_counter() - begin
        self.planning_seconds += took
        if self.backups > before:
            self._seconds_a_backup = took / (self.backups - before)

    @property
    def rule(self) -> Rule:
        """The parameters of backups for the current task and plan."""
        chosen, unit = self.settings, self.unit
        untried, least, doubt = chosen.optimism * unit, 0, chosen.doubt
        if self._least_tries is not None:
            untried, least, doubt = -unit / (1 - chosen.gamma), self._least_tries, 0.0
        # without groups, the failure rate of all states would make every state look dangerous
        prior = self.prior if self.numbers else 0.0
        return Rule(self.beta, chosen.gamma, untried, least, doubt, prior, chosen.tolerance * unit)

    def add_row(self, group: int = 0) -> int:
        """Add a state to a group and return its row."""
        self._make_room()
        return int(counts.add_row(self._model, self.rule, group))

    def best_action(self, row: int) -> int:
        """Return the best action of a row in the plan."""
        return int(self._model.best[row])

    def explore(self, row: int, action: int, whether: float, which: float) -> int:
        """Return `action`, or with probability epsilon a random action with nearly the best score."""
        chosen = self.settings
        return int(counts.explore(self._model, row, action, chosen.epsilon, chosen.margin * self.unit, whether, which))

    def value(self, row: int) -> float:
        """Return the value V of a row in the plan."""
        return float(self._model.value[row])

    def learn(self, row: int, action: int, phi: npt.ArrayLike, next_row: int | None) -> None:
        """Learn from one transition and update the plan.

        Args:
            row: row of the state.
            action: the action taken.
            phi: features (d,) of the step.
            next_row: row of the next state, also at truncation; None at termination.
        """
        kind = self.kind(phi)
        self._make_room()
        begin = time.perf_counter()
        after = -1 if next_row is None else next_row
        counts.count(self._model, row, action, kind, after)
        counts.put(self._model, row)
        counts.work(self._model, self.rule, _MOST_AT_ONCE)
        self.planning_seconds += time.perf_counter() - begin
        self.steps += 1

    def learn_all(self, rows: Ints, actions: Ints, phi: Floats, next_rows: Ints, keys: Floats) -> Ints:
        """Count many transitions, such as the steps of a log, without planning; call `begin_task` and `plan` next.

        Args:
            rows: rows (N,) of the states.
            actions: actions (N,).
            phi: features (N, d).
            next_rows: rows (N,) of the next states, -1 at termination.
            keys: observations (S, n) of all states.

        Returns:
            The index (N,) of each transition's outcome in the model.
        """
        while self.states < len(keys):
            self.add_row()
        distinct, which = np.unique(phi + 0.0, axis=0, return_inverse=True)
        kinds = np.array([self.kind(one) for one in distinct])[which.ravel()]
        while self._model.used[OUTCOMES] + len(rows) + 2 > len(self._model.kind):
            self._model = counts.grown(self._model)
        outcomes = np.zeros(len(rows), np.int64)
        counts.count_all(self._model, rows, actions, kinds, next_rows, outcomes)
        self.steps += len(rows)
        if self.settings.prior > 0:
            self._regroup(keys)
        return outcomes

    def resampled(self, times: Ints) -> ModelLearner:
        """Return a copy in which the outcomes have the counts `times` (O,); groups and prior are unchanged."""
        other, n = copy.copy(self), self.states
        actions, model = self._actions(), self._model
        seen, tries = model.times.copy(), np.zeros_like(model.tries)
        seen[: len(times)] = times
        np.add.at(tries, (model.source[: len(times)], actions), times)
        other._model = model._replace(times=seen, tries=tries, used=model.used.copy())
        other._model = other._pooled(model.group[:n], len(model.group_tries))
        return other

    def regroup(self, keys: Sequence[Floats] | Floats) -> bool:
        """Compute the groups again if enough steps have passed, and return whether the groups changed.

        Args:
            keys: observations (S, n) of all states.
        """
        return self._is_time() and self._regroup(np.asarray(keys))

    def _is_time(self) -> bool:
        return self.settings.prior > 0 and self.steps >= _FIRST_LOOK and _until_look(self.steps - 1) == 1

    def _regroup(self, table: Floats) -> bool:
        numbers = numbers_that_matter(table, *self._endings())
        changed = numbers != self.numbers
        if changed:
            self.numbers, self._group_of = numbers, {}
            self.set_groups(np.array([self.group_of(key) for key in table]), max(1, len(self._group_of)))
        self.weigh_prior()
        return changed

    def weigh_prior(self) -> None:
        """Estimate the weight of the prior from the failures in the current task."""
        if not self.numbers:
            return
        (tries, endings), model, is_failure = self._endings(), self._model, np.zeros(MOST_ENDINGS)
        ends = model.ending >= 0
        is_failure[model.ending[ends]] = model.reward[ends] < 0
        rate = model.group_endings @ is_failure / np.maximum(model.group_tries, 1.0)
        failures, of_group = endings @ is_failure, rate[model.group[: self.states]]
        self.prior = strength(tries, failures, of_group, float(self.settings.prior))

    def group_of(self, key: Floats) -> int:
        """Return the group of a state with this observation (n,)."""
        if not self.numbers:
            return 0
        alike = np.ascontiguousarray(key[list(self.numbers)]).tobytes()
        group = self._group_of.setdefault(alike, len(self._group_of))
        pooled = self._model.group_tries
        if group >= len(pooled):
            self._model = self._model._replace(
                group_tries=np.concatenate([pooled, np.zeros_like(pooled)]),
                group_endings=np.concatenate([self._model.group_endings, np.zeros_like(self._model.group_endings)]),
            )
        return group

    def set_groups(self, ids: Ints, groups: int) -> None:
        """Set the group (S,) of every state, one of 0 .. groups - 1. Recompute the counts of groups and the plan."""
        self._model.group[: self.states] = ids
        self._model = self._pooled(ids, groups)
        self._plan_anew()

    def _pooled(self, ids: Ints, groups: int) -> Model:
        """Return the model with the counts of each group, the sums of the counts of its states."""
        tries, endings = self._endings()
        pooled = np.zeros((groups, self.n_actions)), np.zeros((groups, self.n_actions, MOST_ENDINGS))
        np.add.at(pooled[0], ids, tries)
        np.add.at(pooled[1], ids, endings)
        return self._model._replace(group_tries=pooled[0], group_endings=pooled[1])

    def _endings(self) -> tuple[Floats, Floats]:
        """Return the tries (S, A) of each action, and how many tries had each ending (S, A, MOST_ENDINGS)."""
        model, n, o = self._model, self.states, int(self._model.used[OUTCOMES])
        endings = np.zeros((n, self.n_actions, MOST_ENDINGS))
        action = self._actions()
        ended = (model.successor[:o] < 0) & (model.ending[model.kind[:o]] >= 0)
        at = (model.source[:o][ended], action[ended], model.ending[model.kind[:o][ended]])
        np.add.at(endings, at, model.times[:o][ended])
        return model.tries[:n].astype(float), endings

    def _actions(self) -> Ints:
        """Return the action (O,) of every outcome."""
        model, n = self._model, self.states
        actions = np.empty(int(model.used[OUTCOMES]), np.int64)
        counts.outcome_actions(model.first[:n], model.next_outcome, actions)
        return actions

    def _make_room(self) -> None:
        """Make room for two more states and two more outcomes."""
        model = self._model
        if not counts.has_room(model):
            self._model = counts.grown(model)
        if self.world is not None and len(self.rows.state) < len(self._model.value):
            self.rows = enlarged(self.rows, len(self._model.value), self.states)

    # --- the model as a FiniteMDP

    def finite_mdp(self) -> FiniteMDP:
        """Return the model as a `FiniteMDP` with the virtual tries of the prior; the last state is terminal.

        An action that was never tried terminates the episode. It fails at the failure rate of this action in the
        state's group, and otherwise has features 0. Failures are the endings with reward below 0 in the current task.
        """
        model, n, A, d = self._model, self.states, self.n_actions, self.n_features
        o = int(model.used[OUTCOMES])
        tries, _ = self._endings()
        row = model.source[:o].astype(np.int64) * A + self._actions()
        times, flat = model.times[:o].astype(float), tries.ravel()
        added = self.rule.prior
        prior = added / np.maximum(added + flat, 1e-300)
        pooled = model.group_tries[model.group[:n]].reshape(-1)
        of_kind = np.flatnonzero((model.ending >= 0) & (model.reward < 0))
        share = model.group_endings[model.group[:n]].reshape(n * A, -1)[:, model.ending[of_kind]]
        ends = np.where(pooled[:, None] > 0, prior[:, None] * share / np.maximum(pooled, 1.0)[:, None], 0.0)
        continuing = np.maximum(np.where(flat > 0, prior, 1.0) - ends.sum(axis=1), 0.0)
        on = model.successor[:o] >= 0
        continued = np.bincount(row, weights=times * on, minlength=n * A)
        p = (1 - prior[row]) * times / np.maximum(flat[row], 1.0)
        p += np.where(on, continuing[row] * times / np.maximum(continued[row], 1.0), 0.0)
        p += np.where((continued[row] == 0) & ~on, continuing[row] * times / np.maximum(flat[row], 1.0), 0.0)
        at, e = np.nonzero(ends)
        untried = np.flatnonzero(flat == 0)
        rows = np.concatenate([row, at, untried])
        successor = np.concatenate([np.where(on, model.successor[:o], n), np.full(len(at) + len(untried), n)])
        probability = np.concatenate([p, ends[at, e], continuing[untried]])
        phi = np.concatenate([self.kinds[model.kind[:o]], self.kinds[of_kind[e]], np.zeros((len(untried), d))])
        order = np.argsort(rows, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=(n + 1) * A))])
        P = sp.csr_array((probability[order], successor[order], indptr), shape=((n + 1) * A, n + 1))
        return FiniteMDP(P, phi[order], terminal=[n], gamma=self.settings.gamma)

    def policy(self, w: npt.ArrayLike, risk: Risk = _NEUTRAL, least_tries: int = 1) -> Ints:
        """Return the best action (S + 1,) in each state of `finite_mdp`.

        Args:
            w: weights (d,) of the task, which becomes the current task.
            risk: a `MeanVariance` or `NestedEntropic`. Default: neutral.
            least_tries: actions with fewer tries are avoided. Default: 1, to avoid untried actions.
        """
        self.begin_task(w)
        self.weigh_prior()
        self.plan(risk, least_tries)
        return np.append(self._model.best[: self.states], 0).astype(np.int64)

    def tried(self, least_tries: int = 1) -> Bools:
        """Return whether each action (S, A) was tried at least `least_tries` times.

        In a state in which no action was tried so often, the most tried actions are marked instead.
        """
        tries = self._model.tries[: self.states]
        return np.asarray((tries >= np.minimum(least_tries, tries.max(axis=1, keepdims=True))) & (tries > 0))

    # --- compiled worlds: `TabularWorld`, whose steps run inside compiled loops

    def enter(self, world: TabularWorld) -> None:
        """Set the compiled world of the learner; rows stand for states of this world."""
        check_world(world, self.n_features, self.n_actions, self.world)
        if self.world is None:
            self.world = world
            for phi in world.kinds:
                self.kind(phi)  # so that each feature vector has the same index in `kinds` as in `world.kinds`

    def lead(self, world: TabularWorld, w: npt.ArrayLike, risk: Risk, steps: int) -> TaskOutcome:
        """Act and learn in the current task from the start of an episode.

        Args:
            world: the world.
            w: weights (d,) that rewards are computed with.
            risk: the risk to plan for.
            steps: number of transitions.

        Returns:
            The total reward and the numbers of failures and of finished episodes.
        """
        self.enter(world)
        self.plan(risk)
        draws = np.random.default_rng([self.seed, self.steps, _STREAM]).random((steps, 3))
        weights = checks.weights("w", w, self.n_features)
        stretch, arrays = new_stretch(world, weights, self.settings.epsilon, draws), world.world()
        run = loop_for(model_loop.run, arrays)
        while stretch.progress[STEP] < steps:
            self._make_room()
            before, begin, backups = int(stretch.progress[STEP]), time.perf_counter(), self.backups
            look = min(steps, before + _until_look(self.steps))
            unexpected = run(arrays, self._model, self.rule, self.rows, self._watch(), stretch, look)
            self.steps += int(stretch.progress[STEP]) - before
            # compiled code has no clock: the planning time is estimated from the number of backups
            spent = time.perf_counter() - begin
            self.planning_seconds += min(spent, (self.backups - backups) * self._seconds_a_backup)
            if unexpected >= 0:
                self.observe_reward(self.kinds[unexpected], stretch.rewards[unexpected])
            if self._is_time() and self._regroup(self.keys()):
                self._number_groups()
        return outcome(world, stretch)

    def _watch(self) -> model_loop.Watch:
        assert self.world is not None
        numbers, sizes = np.array(self.numbers, np.int64), np.array(self.world.sizes, np.int64)
        margin, deviation = self.settings.margin * self.unit, _DEVIATION * self.unit
        return model_loop.Watch(numbers, sizes, self._unsure(), margin, deviation, _MOST_AT_ONCE)

    def _number_groups(self) -> None:
        """Number the groups by the values of their observation entries, as `model_loop.row_of` does."""
        assert self.world is not None
        keys, ids, groups = self.keys(), np.zeros(self.states, np.int64), 1
        for number in self.numbers:
            size = self.world.sizes[number]
            ids, groups = ids * size + keys[:, number].astype(np.int64), groups * size
        self.set_groups(ids, groups)

    def keys(self) -> Floats:
        """Return the observations (S, n) of all states. First call `enter` with the compiled world."""
        assert self.world is not None
        return observations(self.world, self.rows.state[: self.states])


def _until_look(steps: int) -> int:
    """Return the number of steps until groups are computed again."""
    look = _FIRST_LOOK
    while look <= steps:
        look *= 2
    return look - steps
