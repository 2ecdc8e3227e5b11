"""Algorithm 4 line by line, in dictionaries: the twin of `rasf_lab.paper.four_room.prql`, for the same draws."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from rasf.envs.four_room import FourRoom
from rasf.tabular.table import initial_noise

MOVES = ((0, -1), (-1, 0), (0, 1), (1, 0))  # left, up, right, down


def walk(four_room: FourRoom, state, action, draw):
    """(state', feature or None, terminated); a state is (i, j, frozenset of the cells of collected objects)."""
    i, j, collected = state
    down, right = MOVES[action]
    rows, columns = four_room.shape
    if 0 <= i + down < rows and 0 <= j + right < columns and four_room.rows[i + down][j + right] != "X":
        i, j = i + down, j + right
    symbol = four_room.rows[i][j]
    if symbol == "T" and draw < four_room.trap_probability:
        return (i, j, collected), four_room.n_classes + 1, True
    if symbol == "G":
        return (i, j, collected), four_room.n_classes, True
    if symbol.isdigit() and (i, j) not in collected:
        return (i, j, collected | {(i, j)}), int(symbol) - 1, False
    return (i, j, collected), None, False


def number(four_room: FourRoom, state) -> int:
    """The state as the compiled world writes it: cell + cells * flags."""
    columns = four_room.shape[1]
    objects = [cell for cell, symbol in enumerate(four_room.cells) if symbol.isdigit()]
    flags = sum(1 << objects.index(i * columns + j) for i, j in state[2])
    return state[0] * columns + state[1] + len(four_room.cells) * flags


@dataclass
class Learned:
    """One task's outcome; Q and C by state, four numbers each."""

    Q: dict
    C: dict
    score: list
    used: list
    drivers: list
    total: float = 0.0
    failures: int = 0
    cut: bool = True
    truncated: int = 0


@dataclass
class Twin:
    four_room: FourRoom
    omega: float
    eta: float
    tau: float
    alpha: float = 0.5
    rho: float = 0.1
    gamma: float = 0.95
    epsilon: float = 0.12
    noise_scale: float = 0.0
    reuse: bool = True
    as_printed: bool = False
    seed: int = 0
    policies: list = field(default_factory=list)

    def fresh_q(self, policy):
        def numbers(state):
            n = number(self.four_room, state)
            return [self.noise_scale * initial_noise(self.seed, n, policy, a) for a in range(4)]

        table: dict = {}
        return lambda state: table.setdefault(state, numbers(state)), table

    def greedy(self, policy, state):
        Q, C = policy
        values = [q - self.omega * c for q, c in zip(Q(state), C[state], strict=True)]
        return values.index(max(values))

    def task(self, rewards, draws, episode_draws) -> Learned:
        t = len(self.policies)
        Q, table = self.fresh_q(t)
        C = defaultdict(lambda: [0.0] * 4)
        self.policies.append((Q, C))
        score, used = [0.0] * (t + 1), [0] * (t + 1)
        c, R = t, 0.0
        out = Learned(table, C, score, used, [c])
        i, j = next((i, row.index("S")) for i, row in enumerate(self.four_room.rows) if "S" in row)
        start = (i, j, frozenset())
        s, taken, next_episode_draw = start, 0, iter(episode_draws)
        for explore, which, trap, reuse in draws:
            if c != t and reuse < self.eta:
                a = self.greedy(self.policies[c], s)
            elif explore < self.epsilon:
                a = math.floor(4 * which)
            else:
                a = self.greedy(self.policies[t], s)
            s2, feature, terminated = walk(self.four_room, s, a, trap)
            r = 0.0 if feature is None else rewards[feature]
            delta = r + (0.0 if terminated else self.gamma * max(Q(s2))) - Q(s)[a]
            Q(s)[a] += self.alpha * delta
            C[s][a] += self.alpha * self.rho * (-abs(delta) - C[s][a])
            R += r
            out.total += r
            out.failures += feature == self.four_room.n_classes + 1
            s, taken = s2, taken + 1
            out.cut = not (terminated or taken == self.four_room.step_limit)
            if not out.cut:
                out.truncated += not terminated
                score[c] = (score[c] * used[c] + R) / (used[c] + 1)
                if not self.as_printed:
                    used[c] += 1
                if self.reuse:
                    c = self.draw_driver(score, next(next_episode_draw))
                if self.as_printed:
                    used[c] += 1
                out.drivers.append(c)
                s, taken, R = start, 0, 0.0
        return out

    def draw_driver(self, score, draw):
        weights = [math.exp(self.tau * (x - max(score))) for x in score]
        cumulative = np.cumsum(weights)
        return int(np.searchsorted(cumulative, draw * cumulative[-1], side="right"))
