"""A model from counts, planned while it is learned: all experience is kept, and every task begins with what is known.

For every state and action the outcomes (phi, next state or end) are counted. Features do not depend on the task, so the
model serves all of them. It is planned for one (w, risk) at a time, by the nested entropic recursion

    Q(s, a) = (1 / beta) log E exp(beta (phi . w + gamma V(s'))),    V(s) = max_a Q(s, a),    the mean at beta = 0,

a contraction. `MeanVariance(beta)` and `NestedEntropic(beta)` are both planned so: the first is the second order of the
other in beta, and has no recursion of its own.

What the counts do not say (settings and constants are those of `ModelSettings`):

- An action that was never tried in a state is worth `optimism` times the largest reward known. One that was tried once
  may yet have outcomes that were not seen: while a task is learned, `doubt` tries of that worth are added to its own.
- Bad endings are rare and must not come as a surprise: an action that failed in none of ten tries is not safe. States
  that are alike in those numbers of the observation that failures depend on are a group. A failure is an ending with a
  reward below 0 by the task at hand. To the counts of (s, a) are added some tries that failed as often as those of the
  same action in the whole group, and went on as the others did. Which numbers matter, and how many tries are added,
  `prior` at most, is found from the data (`groups`): few where the states of a group are not alike. An untried action
  fails as its group does, too. Until numbers that matter are found, and where none does, there is no prior: at the rate
  of all states every one would look dangerous, and nothing be found out.
- Exploration minds the risk: it takes, with probability epsilon, one of the actions whose score is within `margin`
  times the largest reward of the best one.
- Weights that are not given (`learn_w`) are learned from the rewards; until one is known it is taken to be good, by
  `curiosity` standard deviations of what the tasks before had (`weight_belief`).

A policy that will learn no more is planned without optimism: an action that was never tried, or fewer than
`least_tries` times, is taken only where no other was.

Planning is incremental (`counts`): what a transition changes is followed backwards as far as values move by more than
`tolerance` times the largest reward.
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

_FIRST_LOOK = 1_000  # steps until groups are made, and then again at every doubling
_MOST_WORK = 2_000  # backups a state when a task begins: a bound that convergence does not need
_MOST_AT_ONCE = 10_000  # backups after a step; what is left is done after the next ones
_DEVIATION = 1e-2  # of the largest reward, by which a reward differs from what was believed
_STREAM = 0  # of random numbers
_NEUTRAL = MeanVariance(0.0)


def recursion_beta(risk: Risk) -> float:
    """Of the recursion by which a risk is planned."""
    if not isinstance(risk, MeanVariance | NestedEntropic):
        raise ValueError(f"risk must be MeanVariance or NestedEntropic to be planned, got {risk!r}")
    return float(concrete(risk.beta) or 0.0)


class ModelLearner:
    """Counts, and plans on them; rows are states, numbered in the order in which they are added."""

    STATE = (  # for checkpoints; in a compiled world call `enter` first
        "kinds", "_kind_of", "numbers", "_group_of", "prior", "beta", "steps", "_w", "_belief", "_given",
        "_least_tries", "planning_seconds", "_seconds_a_backup", "_model", "rows",
    )  # fmt: skip

    def __init__(self, n_features: int, n_actions: int, settings: ModelSettings, seed: int) -> None:
        self.settings, self.seed = settings, checks.whole("seed", seed, 0)
        self.n_features, self.n_actions = n_features, n_actions
        self.kinds = np.zeros((0, n_features))
        self._kind_of: dict[bytes, int] = {}
        self.numbers: tuple[int, ...] = ()  # of an observation, that groups are made of
        self._group_of: dict[bytes, int] = {}
        self.prior = min(STRENGTHS[0], float(settings.prior))  # until it was looked at
        self.beta, self.steps = 0.0, 0
        self._w = np.zeros(n_features)
        self._belief = WeightBelief(n_features, settings.curiosity) if settings.learn_w else None
        self._given = False  # whether the weights of the task at hand are known
        self._least_tries: int | None = None  # of a plan that is not for learning
        self.planning_seconds, self._seconds_a_backup = 0.0, 0.0
        self.world: TabularWorld | None = None
        self.rows = new_rows(0, n_actions)  # of the states of a compiled world
        self._model = counts.new_model(n_actions)

    @property
    def states(self) -> int:
        return int(self._model.used[ROWS])

    @property
    def backups(self) -> int:
        """How many there were so far, a measure of the work of planning."""
        return int(self._model.used[BACKUPS])

    def kind(self, phi: npt.ArrayLike) -> int:
        """The number of a feature vector; a new one is noted."""
        features = np.ascontiguousarray(phi, np.float64) + 0.0  # -0.0 is 0.0
        found = self._kind_of.setdefault(features.tobytes(), len(self.kinds))
        if found == len(self.kinds):
            self.kinds = np.concatenate([self.kinds, features[None]])
            ending = np.append(self._model.ending, np.int32(-1))
            self._model = self._model._replace(reward=self._rewards(), ending=ending)
        return found

    @property
    def unit(self) -> float:
        """The largest reward known, in absolute terms; 1 while there is none."""
        largest = float(np.abs(self._model.reward).max(initial=0.0))
        return largest if largest > 0 else 1.0

    @property
    def weights(self) -> Floats:
        """The weights (d,) of the task at hand, as far as they are known."""
        return self._w if self._belief is None or self._given else self._belief.mean

    def _rewards(self) -> Floats:
        """Of every kind of features."""
        if self._belief is None or self._given:
            return np.asarray(self.kinds @ self._w)
        return self._belief.rewards(self.kinds)

    def _unsure(self) -> Bools:
        """Of which kinds of features the reward is yet to be learned."""
        if self._belief is None or self._given:
            return np.zeros(len(self.kinds), np.bool_)
        return np.asarray(self._belief.errors(self.kinds) > _DEVIATION * self.unit)

    def begin_task(self, w: npt.ArrayLike | None) -> None:
        """A task with the weights w (d,), or with weights that are to be learned; `plan` is next."""
        if w is not None:
            self._w, self._given = checks.weights("w", w, self.n_features), True
        elif self._belief is None:
            raise ValueError("w must be given where settings do not say learn_w=True")
        else:
            self._belief.begin_task()
            self._given = False
        self._model = self._model._replace(reward=self._rewards())

    def plan(self, risk: Risk = _NEUTRAL, least_tries: int | None = None) -> None:
        """Plan all that is known for the task at hand and a risk, and learn with that plan from now on.

        least_tries: for a policy that will learn no more; see the header.
        """
        self.beta, self._least_tries = recursion_beta(risk), least_tries
        self._plan_anew()

    def observe_reward(self, phi: npt.ArrayLike, reward: float) -> None:
        """Learn weights that were not given; where rewards turn out to be others, all is planned anew."""
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
        model.worklist[:n] = np.arange(n)[::-1]  # states that were found late are often near the end
        model.queued[:n] = True
        before = self.backups
        counts.work(model, self.rule, _MOST_WORK * n)
        took = time.perf_counter() - begin
        self.planning_seconds += took
        if self.backups > before:
            self._seconds_a_backup = took / (self.backups - before)

    @property
    def rule(self) -> Rule:
        """For the task that is learned."""
        chosen, unit = self.settings, self.unit
        untried, least, doubt = chosen.optimism * unit, 0, chosen.doubt
        if self._least_tries is not None:
            untried, least, doubt = -unit / (1 - chosen.gamma), self._least_tries, 0.0
        # the rate of states that nothing tells apart would make all of them look dangerous
        prior = self.prior if self.numbers else 0.0
        return Rule(self.beta, chosen.gamma, untried, least, doubt, prior, chosen.tolerance * unit)

    def add_row(self, group: int = 0) -> int:
        """A new state; its number."""
        self._make_room()
        return int(counts.add_row(self._model, self.rule, group))

    def best_action(self, row: int) -> int:
        """The action that is best by the plan."""
        return int(self._model.best[row])

    def explore(self, row: int, action: int, whether: float, which: float) -> int:
        """This action, or at times one that is nearly as good as the best; two uniform numbers decide."""
        chosen = self.settings
        return int(counts.explore(self._model, row, action, chosen.epsilon, chosen.margin * self.unit, whether, which))

    def value(self, row: int) -> float:
        """The plan's utility of a state."""
        return float(self._model.value[row])

    def learn(self, row: int, action: int, phi: npt.ArrayLike, next_row: int | None) -> None:
        """One transition; no next row is the end."""
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
        """Transitions (N,) at once, as from a log; next row -1 is the end. keys (S, n) are the numbers of the states.

        The number of every transition's outcome. Nothing is planned yet: `begin_task` and `plan` are next.
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
        """A learner that has seen each outcome `times` (O,) instead, with the same groups and prior."""
        other, n = copy.copy(self), self.states
        actions, model = self._actions(), self._model
        seen, tries = model.times.copy(), np.zeros_like(model.tries)
        seen[: len(times)] = times
        np.add.at(tries, (model.source[: len(times)], actions), times)
        other._model = model._replace(times=seen, tries=tries, used=model.used.copy())
        other._model = other._pooled(model.group[:n], len(model.group_tries))
        return other

    def regroup(self, keys: Sequence[Floats] | Floats) -> bool:
        """Make groups anew where it is time; keys (S, n) are the numbers of the states. Whether they have changed."""
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
        """How many tries the prior is worth, from what is known of failures by the task at hand."""
        if not self.numbers:
            return
        (tries, endings), model, is_failure = self._endings(), self._model, np.zeros(MOST_ENDINGS)
        ends = model.ending >= 0
        is_failure[model.ending[ends]] = model.reward[ends] < 0
        rate = model.group_endings @ is_failure / np.maximum(model.group_tries, 1.0)
        failures, of_group = endings @ is_failure, rate[model.group[: self.states]]
        self.prior = strength(tries, failures, of_group, float(self.settings.prior))

    def group_of(self, key: Floats) -> int:
        """The group of a state with these numbers (n,)."""
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
        """Set the group (S,) of every state, below `groups`; pooled counts and the plan are made anew."""
        self._model.group[: self.states] = ids
        self._model = self._pooled(ids, groups)
        self._plan_anew()

    def _pooled(self, ids: Ints, groups: int) -> Model:
        """The model, with what the states of each group saw together."""
        tries, endings = self._endings()
        pooled = np.zeros((groups, self.n_actions)), np.zeros((groups, self.n_actions, MOST_ENDINGS))
        np.add.at(pooled[0], ids, tries)
        np.add.at(pooled[1], ids, endings)
        return self._model._replace(group_tries=pooled[0], group_endings=pooled[1])

    def _endings(self) -> tuple[Floats, Floats]:
        """Tries (S, A), and how many of them ended in each way (S, A, MOST_ENDINGS)."""
        model, n, o = self._model, self.states, int(self._model.used[OUTCOMES])
        endings = np.zeros((n, self.n_actions, MOST_ENDINGS))
        action = self._actions()
        ended = (model.successor[:o] < 0) & (model.ending[model.kind[:o]] >= 0)
        at = (model.source[:o][ended], action[ended], model.ending[model.kind[:o][ended]])
        np.add.at(endings, at, model.times[:o][ended])
        return model.tries[:n].astype(float), endings

    def _actions(self) -> Ints:
        """The action (O,) of every outcome."""
        model, n = self._model, self.states
        actions = np.empty(int(model.used[OUTCOMES]), np.int64)
        counts.outcome_actions(model.first[:n], model.next_outcome, actions)
        return actions

    def _make_room(self) -> None:
        """For two more states and their outcomes."""
        model = self._model
        if not counts.has_room(model):
            self._model = counts.grown(model)
        if self.world is not None and len(self.rows.state) < len(self._model.value):
            self.rows = enlarged(self.rows, len(self._model.value), self.states)

    # --- what is known, as a process

    def finite_mdp(self) -> FiniteMDP:
        """What is known as a `FiniteMDP`, with the prior's failures by the task at hand; the last state is the end.

        An action that was never tried ends at once, with no features but those of the group's failures.
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
        goes_on = np.maximum(np.where(flat > 0, prior, 1.0) - ends.sum(axis=1), 0.0)
        on = model.successor[:o] >= 0
        went_on = np.bincount(row, weights=times * on, minlength=n * A)
        p = (1 - prior[row]) * times / np.maximum(flat[row], 1.0)
        p += np.where(on, goes_on[row] * times / np.maximum(went_on[row], 1.0), 0.0)
        p += np.where((went_on[row] == 0) & ~on, goes_on[row] * times / np.maximum(flat[row], 1.0), 0.0)
        at, e = np.nonzero(ends)
        untried = np.flatnonzero(flat == 0)
        rows = np.concatenate([row, at, untried])
        successor = np.concatenate([np.where(on, model.successor[:o], n), np.full(len(at) + len(untried), n)])
        probability = np.concatenate([p, ends[at, e], goes_on[untried]])
        phi = np.concatenate([self.kinds[model.kind[:o]], self.kinds[of_kind[e]], np.zeros((len(untried), d))])
        order = np.argsort(rows, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=(n + 1) * A))])
        P = sp.csr_array((probability[order], successor[order], indptr), shape=((n + 1) * A, n + 1))
        return FiniteMDP(P, phi[order], terminal=[n], gamma=self.settings.gamma)

    def policy(self, w: npt.ArrayLike, risk: Risk = _NEUTRAL, least_tries: int = 1) -> Ints:
        """Actions (S + 1,) for the weights w and a risk on all that is known by now."""
        self.begin_task(w)
        self.weigh_prior()
        self.plan(risk, least_tries)
        return np.append(self._model.best[: self.states], 0).astype(np.int64)

    def tried(self, least_tries: int = 1) -> Bools:
        """Which actions (S, A) were tried so often, or as often as any in a state where none was."""
        tries = self._model.tries[: self.states]
        return np.asarray((tries >= np.minimum(least_tries, tries.max(axis=1, keepdims=True))) & (tries > 0))

    # --- compiled worlds

    def enter(self, world: TabularWorld) -> None:
        """Make this the learner's world; its rows are states of it."""
        check_world(world, self.n_features, self.n_actions, self.world)
        if self.world is None:
            self.world = world
            for phi in world.kinds:
                self.kind(phi)  # of a learner without kinds, they are those of the world

    def lead(self, world: TabularWorld, w: npt.ArrayLike, risk: Risk, steps: int) -> TaskOutcome:
        """Learn the task at hand, at a risk, for `steps` transitions from the start; it pays by the weights w (d,)."""
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
            surprising = run(arrays, self._model, self.rule, self.rows, self._watch(), stretch, look)
            self.steps += int(stretch.progress[STEP]) - before
            # compiled code has no clock: as many backups as there were, each as long as those that were timed
            spent = time.perf_counter() - begin
            self.planning_seconds += min(spent, (self.backups - backups) * self._seconds_a_backup)
            if surprising >= 0:
                self.observe_reward(self.kinds[surprising], stretch.rewards[surprising])
            if self._is_time() and self._regroup(self.keys()):
                self._number_groups()
        return outcome(world, stretch)

    def _watch(self) -> model_loop.Watch:
        assert self.world is not None
        numbers, sizes = np.array(self.numbers, np.int64), np.array(self.world.sizes, np.int64)
        margin, deviation = self.settings.margin * self.unit, _DEVIATION * self.unit
        return model_loop.Watch(numbers, sizes, self._unsure(), margin, deviation, _MOST_AT_ONCE)

    def _number_groups(self) -> None:
        """Groups by the number that compiled code gives them, which knows no table of keys."""
        assert self.world is not None
        keys, ids, groups = self.keys(), np.zeros(self.states, np.int64), 1
        for number in self.numbers:
            size = self.world.sizes[number]
            ids, groups = ids * size + keys[:, number].astype(np.int64), groups * size
        self.set_groups(ids, groups)

    def keys(self) -> Floats:
        """The observations (S, n) of the rows' states, in a compiled world."""
        assert self.world is not None
        return observations(self.world, self.rows.state[: self.states])


def _until_look(steps: int) -> int:
    """Steps until groups are made anew."""
    look = _FIRST_LOOK
    while look <= steps:
        look *= 2
    return look - steps
