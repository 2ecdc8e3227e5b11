import numpy as np
import pytest
from prql_twin import Twin, number, walk

import rasf
from rasf.envs.four_room import FourRoom
from rasf.envs.grid import Grid
from rasf_lab.paper.four_room import prql
from rasf_lab.paper.four_room.prql import C, Memory, Q, Rule, Scores

SMALL_MAP = """
1.T2
.X..
S.TG
"""
CORRIDOR = "S.1.G"
LEFT, RIGHT = 0, 2


def rule(**changes) -> Rule:
    settings = {"gamma": 0.9, "omega": 0.0, "epsilon": 0.1, "eta": 0.3, "tau": 1.0, "seed": 0}
    return Rule(**{**settings, **changes})


def memory_with(states: int, policies: int = 1, actions: int = 4) -> Memory:
    memory = prql.reserve(prql.new_memory(policies, actions), states)
    for state in range(states):
        assert prql.row_of(memory, rule(), policies - 1, state) == state
    return memory


def new_scores(values) -> Scores:
    return Scores(np.array(values, float), np.zeros(len(values), np.int64), np.zeros(len(values)))


@pytest.mark.parametrize("as_printed", [False, True])
@pytest.mark.parametrize(("omega", "noise_scale"), [(0.0, 0.0), (-2.0, 0.0), (-2.0, 0.01)])
@pytest.mark.parametrize(
    ("four_room", "steps"),
    [(FourRoom(step_limit=37), 1500), (FourRoom(SMALL_MAP, 0.3, step_limit=9), 500)],
    ids=["paper", "small"],
)
def test_equals_the_twin(four_room, steps, omega, noise_scale, as_printed):
    seed, tasks = 5, four_room.random_tasks(5, np.random.default_rng(3))
    settings = {
        "omega": omega,
        "eta": 0.5,
        "tau": 2.0,
        "epsilon": 0.3,
        "noise_scale": noise_scale,
        "as_printed": as_printed,
    }
    twin = Twin(four_room, seed=seed, **settings)
    constants = rule(gamma=0.95, seed=seed, **settings)
    world, history = four_room.world(), prql.train(four_room, tasks, steps_per_task=steps, seed=seed, **settings)
    truncated, foreign = 0, 0
    learning = prql.learn_tasks(world, four_room.step_limit, tasks, steps, constants)
    for t, (outcome, memory, scores, drivers) in enumerate(learning):
        rng = np.random.default_rng([seed, t])
        expected = twin.task(tasks[t], rng.random((steps, 4)), rng.random(steps + 1))
        assert drivers.tolist() == expected.drivers
        assert outcome == pytest.approx((expected.total, expected.failures, len(expected.drivers)), abs=1e-9)
        assert tuple(column[t] for column in history) == outcome
        np.testing.assert_allclose(scores.score[: t + 1], expected.score, atol=1e-9)
        assert scores.used[: t + 1].tolist() == expected.used
        used = memory.used[0]
        row = {state: n for n, state in enumerate(memory.rows.state[:used])}
        untouched = set(range(used))
        for state in expected.Q:
            n = row[number(four_room, state)]
            untouched.discard(n)
            np.testing.assert_allclose(memory.value[n], [expected.Q[state], expected.C[state]], atol=1e-9)
        assert noise_scale > 0 or not memory.value[list(untouched)].any()
        assert (memory.value[:used, C] <= 0).all()
        truncated += expected.truncated
        foreign += sum(driver != t for driver in expected.drivers)
    assert truncated > 20
    assert foreign > 20
    assert memory.value[:used, C].min() < 0


def test_updates_by_hand():
    memory, constants = memory_with(2), rule()
    prql.learn(memory, constants, 0, 0, RIGHT, 2.0, -1)
    # delta 2: Q = 1, C = 0.05 (-2)
    assert memory.value[0, :, RIGHT] == pytest.approx([1.0, -0.1])
    prql.learn(memory, constants, 0, 1, LEFT, 1.0, 0)
    # delta 1 + 0.9 * 1: Q = 0.95, C = 0.05 (-1.9)
    assert memory.value[1, :, LEFT] == pytest.approx([0.95, -0.095])
    prql.learn(memory, constants, 0, 0, RIGHT, 0.0, 0)
    # a bump: delta = 0.9 - 1 = -0.1 from the old Q: Q = 0.95, C = -0.1 + 0.05 (-0.1 + 0.1)
    assert memory.value[0, :, RIGHT] == pytest.approx([0.95, -0.1])
    assert memory.choice[0].tolist() == [RIGHT, LEFT]
    assert np.count_nonzero(memory.value[:2]) == 4


@pytest.mark.parametrize(("omega", "preferred"), [(-2.0, 1), (2.0, 0), (0.0, 0)])
def test_negative_omega_prefers_small_residuals(omega, preferred):
    memory = memory_with(1, actions=2)
    memory.value[0] = [[1.0, 1.0], [-0.5, -0.1]]
    prql.choose(memory, rule(omega=omega), 0, 0)
    assert memory.choice[0, 0] == preferred


def test_walk_along_a_corridor_by_hand():
    # always right, by exploration: the object pays 1 at the second step, the goal 10 at the fourth
    four_room = FourRoom(CORRIDOR, step_limit=10)
    draws = np.tile([0.0, 0.6, 0.5, 0.5], (9, 1))
    memory, scores = prql.reserve(prql.new_memory(1, 4), 10), new_scores([0.0])
    constants, drivers = rule(epsilon=1.0), np.zeros(10, np.int32)
    tasks = four_room.task([1.0], goal=10.0)
    outcome = prql.run_task(four_room.world(), 10, memory, scores, constants, 0, tasks, draws, np.zeros(10), drivers)
    assert outcome == (22.0, 0, 3)
    # the third episode was cut after one step: two scored
    assert scores.score[0] == 11.0
    assert scores.used[0] == 2
    assert memory.rows.state[:4].tolist() == [0, 1, 2 + 5, 3 + 5]
    # episode 1: Q = 0, 0.5, 0, 5; episode 2: 0 + 0.45 * 0.5, 0.5 + 0.5 (1 - 0.5), 0.45 * 5, 7.5; then one step more
    first = 0.225 + 0.5 * (0.9 * 0.75 - 0.225)
    assert memory.value[:4, Q, RIGHT] == pytest.approx([first, 0.75, 2.25, 7.5])


@pytest.mark.parametrize(("as_printed", "score"), [(False, 6.0), (True, 3.0)])
def test_first_score_of_a_source(as_printed, score):
    scores, constants = new_scores([0.0, 0.0]), rule(as_printed=as_printed)
    assert prql.finish_episode(scores, constants, 1, 1, 0.0, 0.49) == 0
    assert prql.finish_episode(scores, constants, 1, 0, 6.0, 0.999999) == 1
    assert scores.score.tolist() == [score, 0.0]


def test_softmax_draws():
    scores = new_scores([np.log(1.0), np.log(2.0), np.log(5.0), 99.0])
    draws = [0.0, 0.124, 0.126, 0.374, 0.376, 1 - 2.0**-53]
    assert [prql.draw_driver(scores, 2, 1.0, draw) for draw in draws] == [0, 0, 1, 1, 2, 2]
    scores = new_scores([-900.0, 900.0, -900.0])
    for tau in (100.0, 1e300):
        assert {prql.draw_driver(scores, 2, tau, draw) for draw in (0.0, 0.5, 1 - 2.0**-53)} == {1}


def test_no_reuse_never_changes_the_driver():
    four_room = FourRoom(SMALL_MAP, step_limit=9)
    tasks = four_room.random_tasks(3, np.random.default_rng(0))
    constants = rule(reuse=False, epsilon=0.3)
    for t, (_, _, scores, drivers) in enumerate(prql.learn_tasks(four_room.world(), 9, tasks, 500, constants)):
        assert (drivers == t).all()
        assert scores.used[t] == len(drivers) - 1
    settings = {"steps_per_task": 500, "omega": 0.0, "tau": 1.0, "seed": 1}
    alone, other = (prql.train(four_room, tasks, eta=eta, reuse=False, **settings) for eta in (0.0, 1.0))
    np.testing.assert_array_equal(alone, other)


def test_q_learning_finds_the_optimum():
    # no traps: deterministic, so a constant step converges; states of the world are those of the finite MDP
    four_room = FourRoom("S.1\n.X.\n2.G", trap_probability=0.0, step_limit=50)
    w = four_room.task([0.5, -0.3])
    twin_states, transitions = explore(four_room)
    mdp = rasf.FiniteMDP.from_transitions(transitions, len(twin_states) + 1, 4, terminal=[len(twin_states)], gamma=0.9)
    optimal = rasf.plan(mdp, w).q
    constants = rule(epsilon=1.0, reuse=False)
    [(_, memory, _, _)] = prql.learn_tasks(four_room.world(), 50, w[None], 50_000, constants)
    used = memory.used[0]
    assert set(memory.rows.state[:used]) == set(twin_states)
    places = [twin_states[state] for state in memory.rows.state[:used]]
    np.testing.assert_allclose(memory.value[:used, Q], optimal[places], atol=1e-8)


def explore(four_room):
    """Reachable states, and their transitions with traps that never fire; the last state is the end."""
    start = (0, 0, frozenset())
    found, queue, edges = {start: 0}, [start], []
    for state in queue:
        for action in range(4):
            after, feature, terminated = walk(four_room, state, action, 0.5)
            if not terminated and after not in found:
                found[after] = len(found)
                queue.append(after)
            edges.append((found[state], action, None if terminated else after, feature))
    phi = np.vstack([np.eye(four_room.n_features), np.zeros(four_room.n_features)])
    transitions = [
        (s, a, len(found) if after is None else found[after], 1.0, phi[-1 if feature is None else feature])
        for s, a, after, feature in edges
    ]
    return {number(four_room, state): n for state, n in found.items()}, transitions


def test_memory_grows_without_forgetting():
    memory = memory_with(100, policies=3)
    memory.value[:100] = np.random.default_rng(0).normal(size=(100, 2, 4))
    memory.choice[:, :100] = np.random.default_rng(0).integers(4, size=(3, 100))
    memory.rows.successor[7, 2] = 9
    assert prql.reserve(memory, 0) is memory
    larger = prql.reserve(memory, 5000)
    assert len(larger.rows.state) == 5100
    assert larger.used[0] == 100
    np.testing.assert_array_equal(larger.rows.state[:100], memory.rows.state[:100])
    np.testing.assert_array_equal(larger.value[:100], memory.value[:100])
    np.testing.assert_array_equal(larger.choice[:, :100], memory.choice[:, :100])
    assert larger.rows.successor[7].tolist() == [-1, -1, 9, -1]
    assert [prql.row_of(larger, rule(), 2, state) for state in range(102)] == list(range(102))


def test_same_seed_same_bits():
    four_room = FourRoom(step_limit=50)
    tasks = four_room.random_tasks(4, np.random.default_rng(0))
    settings = {"steps_per_task": 2000, "omega": -2, "eta": 0.3, "tau": 10, "noise_scale": 0.01}
    first, again, other = (prql.train(four_room, tasks, seed=seed, **settings) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first.episodes != other.episodes).any()
    shorter = prql.train(four_room, tasks[:2], seed=1, **settings)
    np.testing.assert_array_equal(shorter, [column[:2] for column in first])


def test_one_task_may_be_given_by_itself():
    w, settings = (
        FourRoom().task([1.0, 0.0, -1.0]),
        {"steps_per_task": 50, "omega": 0.0, "eta": 0.0, "tau": 1, "seed": 0},
    )
    np.testing.assert_array_equal(*(prql.train(FourRoom(), tasks, **settings) for tasks in (w, w[None])))


@pytest.mark.parametrize("reuse", [True, False])
def test_stepped_from_python_it_finds_the_optimal_way_to_the_goal_of_the_grid(reuse):
    """Q-learning is off-policy: whoever drives, Q at the start comes to be the optimal value."""
    grid, foreign = Grid(slip=0.0), 0
    mdp, constants = grid.mdp(0.9), rule(epsilon=0.6, noise_scale=0.01, seed=1, reuse=reuse)
    memory, scores = prql.reserve(prql.new_memory(3, 4), mdp.n_states), new_scores(np.zeros(3))
    rng = np.random.default_rng(6)
    for t, costs in enumerate(((20, 20), (0, 0), (20, 0))):
        w, driver = grid.task(costs), t
        for row in range(memory.used[0]):
            prql.begin(memory, constants, t, row)
        scores.score[:], scores.used[:] = 0.0, 0
        start = prql.row_of(memory, constants, t, grid.start)
        row, state, gained, taken = start, grid.start, 0.0, 0
        for _ in range(4_000):
            action = int(memory.choice[t, row])
            if driver != t and rng.random() < constants.eta:
                action = int(memory.choice[driver, row])
            elif rng.random() < constants.epsilon:
                action = int(rng.integers(4))
            entry = mdp.indptr[state * 4 + action]  # without slip there is one successor
            reward, state = float(mdp.phi[entry] @ w), int(mdp.successor[entry])
            next_row = -1 if mdp.terminal[state] else prql.row_of(memory, constants, t, state)
            prql.learn(memory, constants, t, row, action, reward, next_row)
            row, gained, taken, foreign = next_row, gained + reward, taken + 1, foreign + (driver != t)
            if next_row < 0 or taken == 35:
                driver = prql.finish_episode(scores, constants, t, driver, gained, rng.random())
                row, state, gained, taken = start, grid.start, 0.0, 0
        best = rasf.plan(mdp, w).value[grid.start]
        assert memory.value[start, Q].max() == pytest.approx(best, abs=1e-6)
    assert (foreign > 500) == reuse


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": -0.1}, "alpha must"),
        ({"rho": -0.1}, r"alpha \* rho must"),
        ({"gamma": 1.1}, "gamma must"),
        ({"epsilon": 1.5}, "epsilon must"),
        ({"eta": -0.5}, "eta must"),
        ({"eta": np.nan}, "eta must"),
        ({"noise_scale": -1.0}, "noise_scale must"),
        ({"tau": 0.0}, "tau must"),
        ({"tau": np.inf}, "tau must"),
        ({"omega": np.nan}, "omega must"),
        ({"steps_per_task": 0}, "steps_per_task must"),
        ({"steps_per_task": 1.5}, "steps_per_task must"),
        ({"seed": -1}, "seed must"),
        ({"tasks": np.ones((1, 1, 5))}, "tasks must"),
        ({"tasks": np.ones((2, 4))}, "tasks must"),
        ({"tasks": np.ones((0, 5))}, "tasks must"),
        ({"tasks": np.full((1, 5), np.nan)}, "tasks must"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"tasks": np.ones((1, 5)), "steps_per_task": 10, "omega": 0.0, "eta": 0.3, "tau": 1.0, "seed": 0}
    with pytest.raises(ValueError, match=message):
        prql.train(FourRoom(), **{**arguments, **changes})
