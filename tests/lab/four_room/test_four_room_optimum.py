"""The exact optimum, mask by mask, against the exact planner on a small map; and our own goals."""

import numpy as np
import pytest

import rasf
from rasf.envs.four_room import FourRoom
from rasf_lab.paper.four_room import claims
from rasf_lab.paper.four_room.optimum import follow, solve

ROOMS = FourRoom("S.1T\n.T..\n2.1G", trap_probability=0.2)
TASKS = ([0.5, 1.0, 1.0, -2.0], [-0.5, 0.3, 1.0, -2.0], [1.0, -1.0, 0.2, -2.0])


def as_mdp(gamma):
    """The map as a process: cell + cells mask, and an end."""
    world, cells = ROOMS.world(), len(ROOMS.cells)
    masks, d = 1 << len(world.class_of), ROOMS.n_features
    end, transitions = masks * cells, []
    for mask in range(masks):
        for cell in range(cells):
            for action in range(4):
                to = int(world.destination[cell, action])
                found, symbol = int(world.object_at[to]), ROOMS.cells[to]
                source = (cell + cells * mask, action)
                if symbol == "G":
                    transitions.append((*source, end, 1.0, np.eye(d)[2]))
                elif symbol == "T":
                    transitions.append((*source, end, 0.2, np.eye(d)[3]))
                    transitions.append((*source, to + cells * mask, 0.8, np.zeros(d)))
                elif found >= 0 and not mask >> found & 1:
                    phi = np.eye(d)[world.class_of[found]]
                    transitions.append((*source, to + cells * (mask | 1 << found), 1.0, phi))
                else:
                    transitions.append((*source, to + cells * mask, 1.0, np.zeros(d)))
    return rasf.FiniteMDP.from_transitions(transitions, end + 1, 4, terminal=[end], gamma=gamma)


@pytest.mark.parametrize("w", TASKS)
@pytest.mark.parametrize("beta", [0.0, -1.0, -4.0])
def test_the_optimum_is_that_of_the_planner(w, beta):
    value, _ = solve(ROOMS, np.array(w), beta, 0.95)
    exact = rasf.plan(as_mdp(0.95), w, rasf.NestedEntropic(beta)).value[:-1].reshape(value.shape)
    goal = np.array([symbol == "G" for symbol in ROOMS.cells])
    np.testing.assert_allclose(value[:, ~goal], exact[:, ~goal], atol=1e-5)


def test_realised_values_are_the_predicted_ones():
    """Undiscounted, without chance: both objects of class 1, that of class 2, and the goal, in every episode."""
    certain = FourRoom(ROOMS.layout, trap_probability=0.0, step_limit=50)
    w = np.array(TASKS[0])
    _, action = solve(certain, w, 0.0, 0.99)
    failures, draws = np.zeros(1, np.int64), np.random.default_rng(0).random((4_000, 3))
    total = follow(certain.world(), certain.step_limit, w, action, 0.0, draws, failures)
    assert failures[0] == 0
    assert total / 3.0 == pytest.approx(round(total / 3.0), abs=1.0)
    assert total > 3.0 * 4_000 / 20


def curves(model, failures, optimum=1.0, seconds=5.0):
    def same(level):
        return np.full((10, 128), level) + 1e-6 * np.random.default_rng(0).normal(size=(10, 128))

    found = {}
    for risk in ("0", "-2"):
        clock = np.tile([seconds, seconds / 2], (10, 1))
        found[f"rasf-model {risk}"] = {"return": same(model), "failures": same(failures), "seconds": clock}
        found[f"optimum {risk}"] = {"return": same(optimum)[:, :4], "failures": same(0.0)[:, :4]}
    return found


@pytest.mark.parametrize(
    ("given", "verdicts"),
    [
        (curves(1_200.0, 1.0, optimum=1_300.0), {"M1": True, "M2": True, "M3": True, "M4": True, "M5": True}),
        (curves(1_200.0, 20.0, optimum=1_400.0), {"M1": False, "M2": True, "M3": False, "M5": False}),
        (curves(1_000.0, 1.0, seconds=40.0), {"M1": False, "M2": False, "M3": True, "M4": False}),
    ],
)
def test_our_goals_are_met_or_not(given, verdicts):
    for claim, met in verdicts.items():
        found = claims.seconds(given) if claim == "M4" else claims.read(claim, claims.Curves(given))
        assert found.verdict == ("holds" if met else "does not hold")
