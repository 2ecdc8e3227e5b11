"""The compiled learner, driven from Python, and everything its table says."""

import numpy as np

from rasf.compiled import compiled
from rasf.tabular import sfql
from rasf.tabular.scores import NOW_VERSION
from rasf.tabular.stretch import STEP, new_rows, new_stretch, outcome
from rasf.tabular.table import Rule, SigmaForm, find_policy, read, reserve


def make_rule(**changes):
    usual = Rule(0.95, 0.5, 0.1, 0.5, -2.0, SigmaForm.FULL, 0.01, False, 7)._replace(**changes)
    return usual._replace(sigma=int(usual.sigma))


class Kernel:
    """All that one compiled run over at most `policies` tasks holds.

    The pools start empty and grow by what a few steps need, so runs are interrupted and resumed many times. New room
    is filled with `poison`: whatever is read before it is written shows.
    """

    def __init__(self, rule, n_features, n_actions, policies, poison=np.nan):
        self.rule, self.poison, self.t, self.pauses = rule, poison, -1, 0
        rows = new_rows(1 << 13, n_actions)
        self.memory = sfql.new_memory(rule, n_features, n_actions, policies)._replace(rows=rows)
        self.m = len(self.memory.after)

    @property
    def table(self):
        return self.memory.table

    def make_room(self, steps):
        """Room for whatever this many steps may need."""
        policies = self.t + 2
        larger = reserve(self.table, 2 * steps, 8 * policies * steps, 2 * policies * steps)
        if larger is not self.table:
            rows, entries, vectors = self.table.used
            for used, fields in (
                (rows, ("bound", "best", "noise_best", "noise_scored_at")),
                (entries, ("value", "score")),
            ):
                for field in fields:
                    getattr(larger, field)[used:] = self.poison
            for used, fields in (
                (rows, ("row", "best_slot", "best_policy", "exact_version", "noise_best_policy", "noise_version")),
                (entries, ("first_policy", "last_policy", "next_free")),
                (vectors, ("noise_policy",)),
            ):
                for field in fields:
                    getattr(larger, field)[used:] = 0  # policy 0 would win every tie
            self.memory = self.memory._replace(table=larger)

    def start_task(self, w):
        self.t += 1
        sfql.start_task(self.memory, self.t, np.array(w, float))

    def run_task(self, rooms, step_limit, w, epsilon, draws):
        """Total reward, failures and finished episodes."""
        stretch = new_stretch(rooms, w, epsilon, draws)._replace(step_limit=step_limit)
        progress = stretch.progress
        while progress[STEP] < len(draws):
            self.make_room(4)
            before = progress[STEP]
            sfql.run_task(rooms.world(), self.memory, self.t, stretch)
            assert progress[STEP] > before, "no step was taken although there was room"
            assert (self.table.used <= [len(self.table.row), len(self.table.value), len(self.table.noise_policy)]).all()
            self.pauses += 1
        return outcome(rooms, stretch)

    @property
    def version(self):
        """Counts the changes of w."""
        return self.memory.now[NOW_VERSION]

    def order(self):
        """{state: row}."""
        rows = self.memory.rows
        taken = rows.keys >= 0
        return {int(k): int(v) for k, v in zip(rows.keys[taken], rows.values[taken], strict=True)}

    def contents(self):
        """What every policy holds at every row, (rows, policies, m, A)."""
        return contents(self.table, self.rule, self.t + 1, self.m)


def contents(table, rule, policies, m):
    out = np.full((table.used[0], policies, m, table.best.shape[1]), np.nan)
    _read_all(table, rule, np.empty(m), out)
    return out


@compiled()
def _read_all(table, rule, scratch, out):
    # compiled only because a run holds some 10^5 of them
    for row in range(out.shape[0]):
        for policy in range(out.shape[1]):
            slot = find_policy(table, row, policy)
            for a in range(out.shape[3]):
                read(table, rule, row, slot, a, scratch)
                out[row, policy, :, a] = scratch
