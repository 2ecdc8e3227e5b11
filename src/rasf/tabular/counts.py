"""Counts of the outcomes of every state and action, and value backups on these counts, in compiled code.

A `Model` consists of arrays. The caller numbers the states (rows), the distinct feature vectors (kinds) and the groups
of similar states. An outcome of a row and action is a pair of a kind and the next row, or of a kind and termination. An
ending is a kind with which episodes terminate. One linked list contains the outcomes of a row and action. Another
linked list contains the outcomes that lead to a row. A row whose counts change is added to a worklist, and a backup
recomputes the value of each row on the worklist. If this value changes by more than a threshold, the predecessors of
the row are added to the worklist. `rasf.tabular.model` explains the outcome distribution of an action and the values of
untried actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.compiled import compiled

MOST_ENDINGS = 8  # largest number of endings that are counted for groups; endings first observed later are left out


class Model(NamedTuple):
    """A model with R rows (states), O outcomes, K kinds (distinct feature vectors), G groups and A actions."""

    tries: Ints  # (R, A) int32, how often each action was taken
    first: Ints  # (R, A) int32, the first outcome in the list of the row and action, or -1
    group: Ints  # (R,) int32, the group of the row
    before: Ints  # (R,) int32, the first outcome in the list of outcomes that lead to the row, or -1
    value: Floats  # (R,) value of the row: the largest score of its actions
    score: Floats  # (R, A) score of each action, from the row's last backup
    best: Ints  # (R,) int32, the action with the largest score
    queued: Ints  # (R,) bool, whether the row is on the worklist
    worklist: Ints  # (R,) int32, the rows to back up, in a ring buffer
    source: Ints  # (O,) int32, the row in which the action was taken
    successor: Ints  # (O,) int32, the next row, or -1 at termination
    kind: Ints  # (O,) int32, the kind of the step
    times: Ints  # (O,) int32, how often the outcome was observed
    next_outcome: Ints  # (O,) int32, the next outcome of the same row and action, or -1
    next_before: Ints  # (O,) int32, the next outcome that leads to the same row, or -1
    reward: Floats  # (K,) reward of each kind in the current task
    ending: Ints  # (K,) int32, the index of a kind among the endings, or -1 if it is not an ending
    group_tries: Floats  # (G, A) tries of each action in all states of the group
    group_endings: Floats  # (G, A, MOST_ENDINGS) how many of these tries had each ending
    used: Ints  # (6,) counters; the constants below name the entries


ROWS, OUTCOMES, HEAD, LENGTH, BACKUPS, ENDINGS = range(6)  # HEAD and LENGTH: first index and length of the worklist


class Rule(NamedTuple):
    """Parameters of a backup."""

    beta: float  # strength of the risk in the entropic recursion, 0 for the mean
    gamma: float
    untried: float  # value of an untried action
    least: int  # actions with fewer tries count as untried, except the most tried actions of a row
    doubt: float  # number of virtual tries that are added to every tried action; their value is `untried`
    prior: float  # number of virtual tries that end at the group's rates; only endings with negative reward count
    threshold: float  # changes of a row's value up to this size are not propagated


@compiled(_nrt=False, forceinline=True)
def add(beta: float, total: float, largest: float, weight: float, x: float) -> tuple[float, float]:
    """Add weight * x to a total, or weight * exp(beta * x - largest) if beta is not 0.

    Returns:
        The new total and the largest exponent beta * x so far, which is subtracted from all exponents to avoid
        overflow. For beta = 0, the second number is 0.
    """
    if beta == 0.0:
        return total + weight * x, 0.0
    exponent = beta * x
    if exponent <= largest:
        return total + weight * np.exp(exponent - largest), largest
    return total * np.exp(largest - exponent) + weight, exponent


@compiled(_nrt=False)
def backup(model: Model, rule: Rule, row: int) -> float:
    """Recompute the action scores and the value of a row, and return the absolute change of the value."""
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
        # Outcome distribution: observed outcomes share the weight 1 - prior. Each ending with negative reward has the
        # weight prior times its rate in the group. The remaining prior weight goes to observed outcomes that do not
        # end the episode.
        prior = rule.prior / (rule.prior + tries) if rule.prior > 0 else 0.0
        total, largest, continuing = 0.0, -np.inf, prior
        seen = tries / (tries + rule.doubt) if tries > 0 else 1.0
        if seen < 1.0:
            total, largest = add(rule.beta, total, largest, 1.0 - seen, rule.untried)
        if known > 0 and prior > 0:
            for kind in range(len(model.ending)):
                e = model.ending[kind]
                if e >= 0 and model.reward[kind] < 0.0 and model.group_endings[group, action, e] > 0:
                    weight = prior * model.group_endings[group, action, e] / known
                    total, largest = add(rule.beta, total, largest, seen * weight, model.reward[kind])
                    continuing -= weight
        continuing = max(continuing, 0.0)
        if tries == 0:
            total, largest = add(rule.beta, total, largest, 1.0 - prior + continuing, rule.untried)
        else:
            continued = 0
            o = model.first[row, action]
            while o >= 0:
                continued += model.times[o] if model.successor[o] >= 0 else 0
                o = model.next_outcome[o]
            o = model.first[row, action]
            while o >= 0:
                x, after = model.reward[model.kind[o]], model.successor[o]
                weight = (1.0 - prior) * model.times[o] / tries
                if after >= 0:
                    x += rule.gamma * model.value[after]
                    weight += continuing * model.times[o] / continued
                elif continued == 0:
                    weight += continuing * model.times[o] / tries
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
    """Add a row to the worklist, unless the worklist already contains the row."""
    if not model.queued[row]:
        model.queued[row] = True
        model.worklist[(model.used[HEAD] + model.used[LENGTH]) % len(model.worklist)] = row
        model.used[LENGTH] += 1


@compiled(_nrt=False)
def work(model: Model, rule: Rule, most: int) -> None:
    """Back up the rows on the worklist until it is empty, with at most `most` backups."""
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
    """Return whether there is room for two more states and two more outcomes."""
    return model.used[ROWS] + 2 <= len(model.value) and model.used[OUTCOMES] + 2 <= len(model.kind)


@compiled(_nrt=False)
def add_row(model: Model, rule: Rule, group: int) -> int:
    """Add a state to a group and return its row."""
    row = model.used[ROWS]
    model.used[ROWS] += 1
    model.group[row] = group
    backup(model, rule, row)
    return row


@compiled(_nrt=False)
def count(model: Model, row: int, action: int, kind: int, after: int) -> int:
    """Count a transition and return the index of its outcome; `after` is the next row, or -1 at termination."""
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
    """Count transitions and write the indices of their outcomes to `outcomes` (N,); the model must have room."""
    for n in range(len(rows)):
        outcomes[n] = count(model, rows[n], actions[n], kinds[n], afters[n])


@compiled(_nrt=False)
def explore(model: Model, row: int, action: int, epsilon: float, margin: float, whether: float, which: float) -> int:
    """Return `action`, or with probability epsilon a random action whose score is within `margin` of the best score.

    Args:
        model: the model.
        row: the row of the state.
        action: the action without exploration.
        epsilon: probability of exploring.
        margin: largest difference from the best score.
        whether: uniform number in [0, 1) that decides whether to explore.
        which: uniform number in [0, 1) that selects the action.
    """
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
    """Write the action of every outcome to `actions` (O,)."""
    for row in range(first.shape[0]):
        for action in range(first.shape[1]):
            o = first[row, action]
            while o >= 0:
                actions[o] = action
                o = next_outcome[o]


def new_model(n_actions: int, rows: int = 256, outcomes: int = 1024) -> Model:
    """Return a model without counts, with room for the given numbers of rows and outcomes."""
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
    """Return the model with twice the room for rows and outcomes; the worklist is moved to start at index 0."""
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
