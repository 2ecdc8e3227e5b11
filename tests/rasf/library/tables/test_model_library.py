"""Libraries of rasf-model: one stream for all risks, exact moments on the model, the same life as any other library."""

import gymnasium as gym
import numpy as np
import pytest

import rasf
from rasf.envs.four_room import FourRoom
from rasf.envs.grid import Grid
from rasf_lab.rollouts.four_room import chances, walk_four_room

NEUTRAL, AVERSE = rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)
TASKS = [[1.0, -0.5, 0.2, 1.0, -2.0], [-0.5, 1.0, 0.3, 1.0, -2.0], [0.5, 0.5, -1.0, 1.0, -2.0]]
GRID = [[-1.0, 20.0, -20.0, -20.0], [-1.0, 20.0, 0.0, 0.0]]


@pytest.fixture(scope="module")
def rooms():
    return rasf.learn(
        "rasf/FourRoom-v0", agent="rasf-model", tasks=TASKS, risk=[NEUTRAL, AVERSE], steps_per_task=8_000, seed=1
    )


@pytest.fixture(scope="module")
def grid():
    """Stepped from Python: no compiled loop."""
    return rasf.learn(
        "rasf/Grid-v0", agent="rasf-model", tasks=GRID, risk=rasf.NestedEntropic(-0.1), steps_per_task=3_000, gamma=0.99
    )


def test_all_risks_learn_from_one_stream(rooms):
    assert [(policy.w, policy.risk) for policy in rooms.policies] == [
        (tuple(w), risk) for risk in (NEUTRAL, AVERSE) for w in TASKS
    ]
    assert "after 24000 steps" in rooms.notes[-1]
    assert np.isfinite(rooms.history["return"]).all()
    assert rooms.history["failures"].shape == (6,)


def test_predictions_of_a_source_are_realised():
    """Mean and variance of the discounted return of a single source, which GPI follows, on its own task."""
    small = {"layout": "S.1\n.T.\n2.G", "trap_probability": 0.2, "step_limit": 100}
    w = np.array([0.5, -0.5, 1.0, -2.0])
    library = rasf.learn(
        "rasf/FourRoom-v0", agent="rasf-model", tasks=[w], steps_per_task=6_000, optimism=2.0, env_kwargs=small
    )
    start = np.zeros((1, 4))
    scores = library.sources.scores(start, w, NEUTRAL)
    action = scores.values[0, 0].argmax()
    report = library.evaluate(gym.make("rasf/FourRoom-v0", **small), w, NEUTRAL, episodes=400)
    low, high = report.measures["discounted"].low, report.measures["discounted"].high
    assert low - 0.05 <= scores.mean[0, 0, action] <= high + 0.05
    assert scores.std[0, 0, action] ** 2 == pytest.approx(report.measures["discounted_variance"].estimate, abs=0.1)


def test_averse_acting_fails_less(rooms):
    world = FourRoom()
    failures = {}
    for risk in (NEUTRAL, AVERSE):
        walks = [
            walk_four_room(rooms.sources, world, np.array(w), risk, chances(world, 200, 0), lambda: False)
            for w in ([1.0, 1.0, 1.0, 1.0, -2.0], [0.5, 1.0, -1.0, 1.0, -2.0])
        ]
        failures[risk] = sum(float(walk.phi[:, -1].sum()) for walk in walks)
    assert failures[AVERSE] <= failures[NEUTRAL]


def test_an_action_that_was_never_tried_takes_no_part(rooms):
    keys = rooms.sources.arrays()["keys"]
    values = rooms.sources.scores(keys, np.array(TASKS[0]), NEUTRAL).values
    untried = np.isneginf(values).all(axis=0)
    assert untried.any()
    taken = rooms.sources.act(keys, np.array(TASKS[0]), NEUTRAL)
    some = ~untried.all(axis=1)
    assert not untried[np.arange(len(keys)), taken][some].any()
    assert (rooms.sources.seen(keys) == some).all()


def test_a_library_of_the_grid_reaches_the_goal(grid):
    report = grid.evaluate("rasf/Grid-v0", GRID[0], rasf.MeanVariance(-0.1), episodes=100)
    assert report.measures["return"].low > 0


def test_a_file_keeps_all_of_it(grid, tmp_path):
    path = tmp_path / "grid.rasf"
    grid.save(path)
    again = rasf.load(path)
    assert again.policies == grid.policies
    assert again.agents[0].name == "rasf-model"
    keys = grid.sources.arrays()["keys"]
    for risk in (NEUTRAL, AVERSE):
        found, kept = (library.sources.scores(keys, np.array(GRID[1]), risk) for library in (again, grid))
        np.testing.assert_array_equal(found.values, kept.values)


def test_it_grows_and_merges(grid):
    more = grid.grow("rasf/Grid-v0", tasks=[[-1.0, 20.0, -20.0, 0.0]], steps_per_task=500)
    assert len(more.policies) == 3
    other = rasf.learn("rasf/Grid-v0", agent="rasfql", tasks=GRID[:1], steps_per_task=500, gamma=0.99)
    both = rasf.merge([grid, other])
    assert {agent.name for agent in both.agents} == {"rasf-model", "rasfql"}
    assert both.sources.policies == 3


def test_who_stops_it_keeps_what_was_begun():
    def stop(progress):
        return progress.policy == 1

    library = rasf.learn(
        "rasf/FourRoom-v0", agent="rasf-model", tasks=TASKS, risk=[NEUTRAL, AVERSE], steps_per_task=400, callback=stop
    )
    assert [(policy.w, policy.risk) for policy in library.policies] == [
        (tuple(TASKS[0]), NEUTRAL),
        (tuple(TASKS[1]), NEUTRAL),
        (tuple(TASKS[0]), AVERSE),
    ]
    assert len(library.history["return"]) == 3


def test_same_seed_same_bits():
    first, second = (
        rasf.learn("rasf/Grid-v0", agent="rasf-model", tasks=GRID, steps_per_task=400, seed=3).sources.arrays()
        for _ in range(2)
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"risk": rasf.Entropic(-1.0)}, "risk must"),
        ({"alpha": 0.5}, "settings"),
        ({"gamma": 1.0}, "gamma"),
    ],
)
def test_what_it_cannot_do_is_refused(changes, word):
    with pytest.raises(ValueError, match=word):
        rasf.learn("rasf/Grid-v0", agent="rasf-model", tasks=GRID, **changes)


def test_weights_may_be_learned():
    tasks = [Grid(slip=0.0).task(costs) for costs in ((20, 20), (0, 0), (20, 0))]
    given = {"agent": "rasf-model", "tasks": tasks, "steps_per_task": 3_000, "gamma": 0.9, "env_kwargs": {"slip": 0.0}}
    told, learned = (rasf.learn("rasf/Grid-v0", learn_w=learn_w, **given) for learn_w in (False, True))
    assert learned.history["return"][-1] > 0.8 * told.history["return"][-1]
    np.testing.assert_allclose(np.array([policy.w for policy in told.policies]), tasks)
    assert np.array(learned.policies[-1].w)[:2] == pytest.approx(tasks[-1][:2], abs=0.5)
