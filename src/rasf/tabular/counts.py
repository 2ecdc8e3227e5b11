"""Counts of what followed every state and action, and backups on them, compiled.

A `Model` is arrays; its owner numbers the states (rows), the feature vectors (kinds) and the groups of states that are
alike. Outcomes of a row and action are a linked list, and so are those that lead to a row: what a transition
changes is put on a worklist, a state is backed up, and if its value moves by more than a threshold, the states that
lead to it follow. What the law of an action is, with its prior, its doubts and untried actions, is said in
`rasf.tabular.model`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled

MOST_ENDINGS = 8  # kinds of endings that the prior knows, the first ones that were seen


class Model(NamedTuple):
    """R rows (states), O outcomes, K kinds of features, G groups, A actions."""

    tries: Ints  # (R, A) int32
    first: Ints  # (R, A) int32, the first outcome, or -1
    group: Ints  # (R,) int32
    before: Ints  # (R,) int32, the first outcome that leads here, or -1
    value: Floats  # (R,)
    score: Floats  # (R, A)
    best: Ints  # (R,) int32
    queued: Ints  # (R,) bool, whether it is on the worklist
    worklist: Ints  # (R,) int32, a ring
    source: Ints  # (O,) int32, the row of the outcome
    successor: Ints  # (O,) int32, the row after it, or -1: the end
    kind: Ints  # (O,) int32
    times: Ints  # (O,) int32, how often it came
    next_outcome: Ints  # (O,) int32, of the same row and action
    next_before: Ints  # (O,) int32, that leads to the same row
    reward: Floats  # (K,) of the task
    ending: Ints  # (K,) int32, the number of a kind among the endings, or -1
    group_tries: Floats  # (G, A)
    group_endings: Floats  # (G, A, MOST_ENDINGS)
    used: Ints  # (6,) see below


ROWS, OUTCOMES, HEAD, LENGTH, BACKUPS, ENDINGS = range(6)  # entries of `used`


class Rule(NamedTuple):
    """What a backup needs beside the model."""

    beta: float
    gamma: float
    untried: float  # worth of an action that was not tried
    least: int  # tries below which an action counts as one that was not, where others have more
    doubt: float  # tries of that worth that are added to those of every action
    prior: float
    threshold: float


@compiled(_nrt=False, forceinline=True)
def add(beta: float, total: float, largest: float, weight: float, x: float) -> tuple[float, float]:
    """Add an outcome to a running sum: of weight x, or of weight exp(beta x - largest)."""
    if beta == 0.0:
        return total + weight * x, 0.0
    exponent = beta * x
    if exponent <= largest:
        return total + weight * np.exp(exponent - largest), largest
    return total * np.exp(largest - exponent) + weight, exponent


@compiled(_nrt=False)
def backup(model: Model, rule: Rule, row: int) -> float:
    """Score the actions of a row anew; how much its value moved."""
    n_actions = model.tries.shape[1]
    group = model.group[row]
    top, chosen = -np.inf, 0
    most = 0
    for action in range(n_actions):
        most = max(most, model.tries[row, action])
    least = min(rule.least, most)
    for action in range(n_actions):
        tries = model.tries[row, action]
        if tries < least:
            tries = 0
        known = model.group_tries[group, action]
        # the law is (1 - prior) of what was seen, and prior of the group's endings, else of what was seen not to end
        prior = rule.prior / (rule.prior + tries) if rule.prior > 0 else 0.0
        total, largest, goes_on = 0.0, -np.inf, prior
        seen = tries / (tries + rule.doubt) if tries > 0 else 1.0
        if seen < 1.0:
            total, largest = add(rule.beta, total, largest, 1.0 - seen, rule.untried)
        if known > 0 and prior > 0:
            for kind in range(len(model.ending)):
                e = model.ending[kind]
                if e >= 0 and model.reward[kind] < 0.0 and model.group_endings[group, action, e] > 0:
                    weight = prior * model.group_endings[group, action, e] / known
                    total, largest = add(rule.beta, total, largest, seen * weight, model.reward[kind])
                    goes_on -= weight
        goes_on = max(goes_on, 0.0)
        if tries == 0:
            total, largest = add(rule.beta, total, largest, 1.0 - prior + goes_on, rule.untried)
        else:
            went_on = 0
            o = model.first[row, action]
            while o >= 0:
                went_on += model.times[o] if model.successor[o] >= 0 else 0
                o = model.next_outcome[o]
            o = model.first[row, action]
            while o >= 0:
                x, after = model.reward[model.kind[o]], model.successor[o]
                weight = (1.0 - prior) * model.times[o] / tries
                if after >= 0:
                    x += rule.gamma * model.value[after]
                    weight += goes_on * model.times[o] / went_on
                elif went_on == 0:
                    weight += goes_on * model.times[o] / tries
                total, largest = add(rule.beta, total, largest, seen * weight, x)
                o = model.next_outcome[o]
        score = total if rule.beta == 0.0 else (largest + np.log(total)) / rule.beta
        model.score[row, action] = score
        if score > top:
            top, chosen = score, action
    moved = abs(top - model.value[row])
    model.value[row], model.best[row] = top, chosen
    model.used[BACKUPS] += 1
    return moved


@compiled(_nrt=False)
def put(model: Model, row: int) -> None:
    """On the worklist."""
    if not model.queued[row]:
        model.queued[row] = True
        model.worklist[(model.used[HEAD] + model.used[LENGTH]) % len(model.worklist)] = row
        model.used[LENGTH] += 1


@compiled(_nrt=False)
def work(model: Model, rule: Rule, most: int) -> None:
    """Back up what is on the worklist, and what follows from it, `most` times at most."""
    done = 0
    while model.used[LENGTH] > 0 and done < most:
        row = model.worklist[model.used[HEAD]]
        model.used[HEAD] = (model.used[HEAD] + 1) % len(model.worklist)
        model.used[LENGTH] -= 1
        model.queued[row] = False
        done += 1
        if backup(model, rule, row) > rule.threshold:
            o = model.before[row]
            while o >= 0:
                put(model, model.source[o])
                o = model.next_before[o]


@compiled(_nrt=False, forceinline=True)
def has_room(model: Model) -> bool:
    """Whether there is room for two more states and their outcomes."""
    return model.used[ROWS] + 2 <= len(model.value) and model.used[OUTCOMES] + 2 <= len(model.kind)


@compiled(_nrt=False)
def add_row(model: Model, rule: Rule, group: int) -> int:
    """A new state; its number."""
    row = model.used[ROWS]
    model.used[ROWS] += 1
    model.group[row] = group
    backup(model, rule, row)
    return row


@compiled(_nrt=False)
def count(model: Model, row: int, action: int, kind: int, after: int) -> int:
    """One transition; after = -1 is the end. The number of its outcome."""
    group = model.group[row]
    model.group_tries[group, action] += 1.0
    if after < 0:
        if model.ending[kind] < 0 and model.used[ENDINGS] < model.group_endings.shape[2]:
            model.ending[kind] = model.used[ENDINGS]
            model.used[ENDINGS] += 1
        if model.ending[kind] >= 0:
            model.group_endings[group, action, model.ending[kind]] += 1.0
    model.tries[row, action] += 1
    o = model.first[row, action]
    while o >= 0:
        if model.kind[o] == kind and model.successor[o] == after:
            model.times[o] += 1
            return int(o)
        o = model.next_outcome[o]
    o = model.used[OUTCOMES]
    model.used[OUTCOMES] += 1
    model.source[o], model.successor[o], model.kind[o], model.times[o] = row, after, kind, 1
    model.next_outcome[o] = model.first[row, action]
    model.first[row, action] = o
    if after >= 0:
        model.next_before[o] = model.before[after]
        model.before[after] = o
    return int(o)


@compiled(_nrt=False)
def count_all(model: Model, rows: Ints, actions: Ints, kinds: Ints, afters: Ints, outcomes: Ints) -> None:
    """Many transitions, for whose outcomes there must be room; `outcomes` (N,) are their numbers."""
    for n in range(len(rows)):
        outcomes[n] = count(model, rows[n], actions[n], kinds[n], afters[n])


@compiled(_nrt=False)
def explore(model: Model, row: int, action: int, epsilon: float, margin: float, whether: float, which: float) -> int:
    """This action, or at times one that is nearly as good as the best; two uniform numbers decide."""
    if whether >= epsilon:
        return action
    bar, able = model.value[row] - margin, 0
    for other in range(model.score.shape[1]):
        able += model.score[row, other] >= bar
    wanted = int(which * able)
    for other in range(model.score.shape[1]):
        if model.score[row, other] >= bar:
            if wanted == 0:
                return other
            wanted -= 1
    return action


@compiled(_nrt=False)
def outcome_actions(first: Ints, next_outcome: Ints, actions: Ints) -> None:
    """The action of every outcome."""
    for row in range(first.shape[0]):
        for action in range(first.shape[1]):
            o = first[row, action]
            while o >= 0:
                actions[o] = action
                o = next_outcome[o]


def new_model(n_actions: int, rows: int = 256, outcomes: int = 1024) -> Model:
    """A model without counts, with room for rows and outcomes."""
    return Model(
        tries=np.zeros((rows, n_actions), np.int32),
        first=np.full((rows, n_actions), -1, np.int32),
        group=np.zeros(rows, np.int32),
        before=np.full(rows, -1, np.int32),
        value=np.zeros(rows),
        score=np.zeros((rows, n_actions)),
        best=np.zeros(rows, np.int32),
        queued=np.zeros(rows, np.bool_),
        worklist=np.zeros(rows, np.int32),
        source=np.zeros(outcomes, np.int32),
        successor=np.zeros(outcomes, np.int32),
        kind=np.zeros(outcomes, np.int32),
        times=np.zeros(outcomes, np.int32),
        next_outcome=np.full(outcomes, -1, np.int32),
        next_before=np.full(outcomes, -1, np.int32),
        reward=np.zeros(0),
        ending=np.zeros(0, np.int32),
        group_tries=np.zeros((1, n_actions)),
        group_endings=np.zeros((1, n_actions, MOST_ENDINGS)),
        used=np.zeros(6, np.int64),
    )


_BY_ROW = ("tries", "first", "group", "before", "value", "score", "best", "queued", "worklist")
_BY_OUTCOME = ("source", "successor", "kind", "times", "next_outcome", "next_before")


def grown(model: Model) -> Model:
    """With twice the room; the worklist, a ring, begins at 0 again."""
    rows, outcomes = 2 * len(model.value), 2 * len(model.kind)
    larger = new_model(model.tries.shape[1], rows, outcomes)
    for name in (*_BY_ROW, *_BY_OUTCOME):
        old = getattr(model, name)
        getattr(larger, name)[: len(old)] = old
    waiting = (model.used[HEAD] + np.arange(model.used[LENGTH])) % len(model.worklist)
    larger.worklist[: len(waiting)] = model.worklist[waiting]
    model.used[HEAD] = 0
    kept = {name: getattr(model, name) for name in ("reward", "ending", "group_tries", "group_endings", "used")}
    return larger._replace(**kept)
