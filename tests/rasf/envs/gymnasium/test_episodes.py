"""The one loop that steps environments: which episodes act when, what is cut, and when seeds are taken."""

import numpy as np

from rasf.envs.gymnasium.episodes import episodes
from rasf.envs.gymnasium.single import Step


class Countdowns:
    """Two environments whose episodes end after as many steps as their seed says."""

    def __init__(self):
        self.left = {}

    def __len__(self):
        return 2

    def reset_each(self, seeds):
        self.left = dict(enumerate(seeds))
        return list(seeds)

    def step_each(self, actions):
        for place in actions:
            self.left[place] -= 1
        return {
            place: Step(self.left[place], np.array([float(action)]), self.left[place] == 0, False, False)
            for place, action in actions.items()
        }


def run(seeds, max_steps):
    asked = []

    def act(t, obs):
        asked.append((t, dict(obs)))
        return [10 * episode for episode in obs]

    return asked, episodes(Countdowns(), seeds, act, max_steps)


def test_episodes_run_in_pairs_and_those_that_are_over_wait():
    asked, steps = run([3, 1, 2], 9)
    found = [[(i, t, step.phi[0], over) for i, t, step, over in some] for some in steps]
    assert found == [
        [(0, 0, 0.0, False), (1, 0, 10.0, True)],
        [(0, 1, 0.0, False)],
        [(0, 2, 0.0, True)],
        [(2, 0, 20.0, False)],
        [(2, 1, 20.0, True)],
    ]
    assert asked == [(0, {0: 3, 1: 1}), (1, {0: 2}), (2, {0: 1}), (0, {2: 2}), (1, {2: 1})]


def test_longer_episodes_are_cut():
    _, steps = run([5, 1], 2)
    last = [transition for some in steps for transition in some if transition.over]
    assert [(each.episode, each.t, each.step.terminated) for each in last] == [(1, 0, True), (0, 1, False)]


def test_seeds_are_taken_when_they_are_needed():
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield 1

    _, steps = run(endless(), 9)
    next(steps)
    assert len(taken) == 2
    next(steps)
    assert len(taken) == 4
