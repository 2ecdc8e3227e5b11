"""Compiled episodes of frozen policies against `act_one` and the environment itself, chance by chance."""

import gymnasium as gym
import numpy as np
import pytest

from rasf import CVaR, MeanVariance
from rasf.envs.four_room import FourRoom
from rasf.library.tables.policies import TablePolicies
from rasf.tabular.frozen import Frozen
from rasf.tabular.table import SigmaForm
from rasf_lab.rollouts.four_room import chances, walk_four_room

MAP = "1.T2.G\nT1S.T.\n.XX.T.\n2.G..T"
ROOMS = FourRoom(MAP, trap_probability=0.3, step_limit=25)
KWARGS = {"layout": MAP, "trap_probability": 0.3, "step_limit": 25}
W = np.array([0.7, -0.3, 1.0, -1.5])


@pytest.fixture(scope="module")
def sources():
    """Two policies with random tables for seven of ten states, so that they wander, also to where nobody has been."""
    rng = np.random.default_rng(7)
    every = np.array([[i, j, *flags] for i, j, *flags in np.ndindex(4, 6, 2, 2, 2, 2)], float)
    keys = every[rng.random(len(every)) < 0.7]
    S, each = len(keys), np.tile([0, 1], 4 * len(keys)).astype(np.int16)
    frozen = Frozen(
        states=np.arange(S + 1), group=np.zeros(S, np.int32), row=np.arange(S, dtype=np.int32),
        entries=2 * np.arange(4 * S + 1), first=each, last=each,
        value=rng.normal(size=(8 * S, 4 + 10)).astype(np.float32), policies=np.array([0, 2]),
        seed=np.zeros(1, np.uint64), noise=np.zeros(1),
    )  # fmt: skip
    return TablePolicies(keys, frozen, 4, 4, 0.9, SigmaForm.FULL)


class Drawn:
    """A generator that hands out what it was given."""

    def __init__(self, draws):
        self.draws = iter(draws)

    def random(self):
        return float(next(self.draws))


def by_hand(sources, w, risk, draws):
    """Cells, flags, features and the length of one episode in the environment; and whether a state was not known."""
    env = gym.make("rasf/FourRoom-v0", disable_env_checker=True, **KWARGS).unwrapped
    obs, info = env.reset(seed=0)
    env.np_random = Drawn(draws)
    states, total, over, unknown = [info["state"]], np.zeros(len(w)), False, False
    while not over:
        numbers = obs.astype(float)
        unknown |= not sources.seen(numbers[None])[0]
        obs, phi, terminated, truncated, info = env.step(sources.act_one(numbers, w, risk))
        states.append(info["state"])
        total, over = total + phi, terminated or truncated
    flags, cells = np.divmod(np.array(states), len(ROOMS.cells))
    return cells, flags, total, len(states) - 1, unknown


@pytest.mark.parametrize("risk", [MeanVariance(0.0), MeanVariance(-3.0), MeanVariance(1.5), CVaR(0.3)], ids=str)
def test_episodes_are_those_of_the_environment_bit_for_bit(sources, risk):
    draws, outcomes, unknown = chances(ROOMS, 130, seed=5), set(), False
    for w in np.random.default_rng(1).normal(size=(40, 4)):
        walks = walk_four_room(sources, ROOMS, w, risk, draws, lambda: False)
        assert walks.over.all()
        for e in (0, 50, 129):
            cells, flags, total, length, new = by_hand(sources, w, risk, draws[e])
            assert walks.lengths[e] == length
            np.testing.assert_array_equal(walks.cells[e, : length + 1], cells)
            np.testing.assert_array_equal(walks.flags[e, : length + 1], flags)
            np.testing.assert_array_equal(walks.phi[e], total)
            outcomes.add(tuple(total))
            unknown |= new
    assert len(outcomes) > 3
    assert unknown  # so the first action, where nobody has been, is tested too


def test_fewer_episodes_are_the_first_of_more_and_another_seed_has_other_chances():
    more, fewer = chances(ROOMS, 20, 1), chances(ROOMS, 7, 1)
    np.testing.assert_array_equal(more[:7], fewer)
    assert (chances(ROOMS, 7, 2) != fewer).all()


@pytest.mark.parametrize("risk", [MeanVariance(-3.0), CVaR(0.3)], ids=str)
def test_it_can_be_stopped_between_slices(sources, risk):
    asked = []

    def stop():
        asked.append(True)
        return len(asked) > 1

    assert walk_four_room(sources, ROOMS, W, risk, chances(ROOMS, 500, 0), stop) is None
    assert len(asked) == 2


@pytest.mark.parametrize(("layout", "named"), [("S.1G", "numbers"), ("1T2S\n1G2.", "features")])
def test_another_map_is_refused(sources, layout, named):
    rooms = FourRoom(layout.replace("2", "3") if named == "features" else layout)
    with pytest.raises(ValueError, match=named):
        walk_four_room(sources, rooms, W, MeanVariance(0.0), chances(rooms, 2, 0), lambda: False)
