"""The four-room scene against the library it shows."""

from dataclasses import replace

import numpy as np
import pytest

import rasf
from rasf import CVaR, MeanVariance
from rasf.envs.four_room import FourRoom
from rasf_explorer.scenes import four_room as four_room_scene
from rasf_explorer.scenes.four_room import FourRoomScene, rooms_of, train_four_room
from rasf_explorer.scenes.scene import Stopped, Ways
from rasf_lab.rollouts.four_room import chances, walk_by_rule, walk_four_room

MAP = "S.1T\n.XX.\n1..G"
W = np.array([0.6, 1.0, -1.5])
RISKS = [MeanVariance(-3.0), CVaR(0.4)]


@pytest.fixture(scope="module")
def scene():
    return FourRoomScene(learned(layout=MAP, trap_probability=0.4, step_limit=20))


def learned(agent="rasfql", **kwargs):
    risks = (MeanVariance(0.0), MeanVariance(-4.0)) if agent == "rasfql" else MeanVariance(0.0)
    return rasf.learn(
        "rasf/FourRoom-v0", tasks=3, risk=risks, agent=agent, steps_per_task=400, env_kwargs=kwargs, seed=1
    )


def test_the_map_and_its_words(scene):
    layout = scene.layout
    assert (layout.rows, layout.columns, layout.symbols, layout.start) == (3, 4, "S.1T.XX.1..G", 0)
    assert (layout.walls, layout.hazards, layout.goals, layout.objects) == ((5, 6), (3,), (11,), (2, 8))
    assert list(layout.meaning) == ["S", "G", "T", "1", "X"]
    assert [weight.name for weight in scene.weights] == ["class 1", "goal", "failure"]
    assert [(family.name, family.neutral) for family in scene.families] == [("mean-variance", 0.0), ("cvar", 1.0)]
    assert len(scene.policies) == 6
    assert scene.policies[0] == f"classes {scene.library.policies[0].w[0]:+.2f}; neutral"  # ends as in the paper
    assert scene.policies[5].endswith("; beta -4")
    for family in scene.families:
        assert family.low <= family.default <= family.high
        assert family.low < family.neutral <= family.high
        scene.library.sources.check(family.make(family.low))


@pytest.mark.parametrize("risk", RISKS, ids=str)
@pytest.mark.parametrize("context", [0, 1, 2, 3])
def test_arrows_are_what_the_library_does_cell_by_cell(scene, risk, context):
    found, seen = scene.policy(W, risk, context), 0
    for cell, symbol in enumerate(scene.layout.symbols):
        own = 1 << scene.layout.objects.index(cell) if cell in scene.layout.objects else 0
        flags = context | own
        obs = np.array([cell // 4, cell % 4, flags & 1, flags >> 1])
        why, one = scene.library.scores(obs, W, risk), scene.cell(cell, W, risk, context)
        assert one.gamma == scene.library.gamma < 1
        if symbol in "XG" or not why.seen:
            assert (found.action[cell], found.driver[cell]) == (-1, -1)
            assert not one.seen
            continue
        seen += 1
        assert found.action[cell] == one.action == why.action == scene.library.act(obs, W, risk)
        assert found.driver[cell] == one.driver == why.source
        for shown, asked in ((one.values, why.values), (one.mean, why.mean), (one.std, why.std)):
            np.testing.assert_array_equal(shown, asked)
    assert seen > 3 or context == 3


@pytest.mark.parametrize("risk", RISKS, ids=str)
def test_rollouts_are_summed_up_rightly(scene, risk):
    found = scene.roll_out(W, risk, 60, seed=4)
    rooms = FourRoom(MAP, 0.4, 20)
    walks = walk_four_room(scene.library.sources, rooms, W, risk, chances(rooms, 60, 4), lambda: False)
    np.testing.assert_array_equal(found.returns, walks.phi @ W)
    np.testing.assert_array_equal(found.failures, walks.phi[:, 2])
    np.testing.assert_array_equal(found.lengths, walks.lengths)
    visits = np.zeros(12)
    for e in range(60):
        for t in range(walks.lengths[e] + 1):
            visits[walks.cells[e, t]] += 1 / 60
    np.testing.assert_allclose(found.visits, visits, atol=1e-12)
    assert found.visits.sum() == pytest.approx(found.lengths.mean() + 1)
    assert found.visits[11] == pytest.approx(walks.phi[:, 1].mean())
    assert len(found.paths) == len(found.contexts) == 12
    for e, (path, context) in enumerate(zip(found.paths, found.contexts, strict=True)):
        assert len(path) == len(context) == found.lengths[e] + 1
        assert (path[0], context[0]) == (0, 0)
        assert ((context == 0) | (np.bitwise_or.accumulate(context) == context)).all()
    assert list(found.measures) == ["return", "return_variance", "return_cvar", "failures", "length"]
    assert found.measures["return"].estimate == pytest.approx(found.returns.mean())
    assert found.measures["failures"].estimate == found.failures.mean()


@pytest.mark.parametrize("risk", RISKS, ids=str)
def test_a_rule_without_memory_walks_as_the_compiled_walk_does(scene, risk):
    rooms = FourRoom(MAP, 0.4, 20)
    draws = chances(rooms, 40, 4)
    walks = walk_four_room(scene.library.sources, rooms, W, risk, draws, lambda: False)
    again, earned, _ = walk_by_rule(scene.library.rule(W, risk), rooms, draws, lambda: False)
    np.testing.assert_array_equal(again.lengths, walks.lengths)
    np.testing.assert_array_equal(again.phi, walks.phi)
    for e, length in enumerate(walks.lengths):
        np.testing.assert_array_equal(again.cells[e, : length + 1], walks.cells[e, : length + 1])
        np.testing.assert_array_equal(again.flags[e, : length + 1], walks.flags[e, : length + 1])
        assert (earned[e, length:] == earned[e, length]).all()


def test_a_limit_is_what_evaluate_keeps(scene):
    library, risk, env = scene.library, MeanVariance(0.0), scene.library.environment
    found = scene.roll_out(W, risk, 200, 0, ways=Ways(limit=0.05))
    report = library.evaluate(env.id, W, risk, episodes=200, limits={2: 0.05})
    assert found.notes[0] == f"The price of the limit is {report.prices['failure']:.3g} of return per unit of failure."
    free = scene.roll_out(W, risk, 200, 0)
    assert found.failures.mean() <= max(free.failures.mean(), 0.05)
    assert free.notes == ()
    one = scene.cell(0, W, risk, 0, Ways(limit=0.05))
    assert one.action == library.act(np.zeros(4, int), W, limits={2: 0.05})


def test_a_static_risk_shows_what_was_earned(scene):
    found = scene.roll_out(W, CVaR(0.4), 30, 0, ways=Ways(static=True))
    assert len(found.earned) == len(found.paths)
    actor = scene.library.actor(W, CVaR(0.4), static=True)
    actor.act(np.zeros(4, int))
    assert found.threshold == actor.threshold[0]
    gamma = scene.library.gamma
    for path, earned, context in zip(found.paths, found.earned, found.contexts, strict=True):
        assert len(path) == len(earned) == len(context)
        picked = np.flatnonzero(np.diff(context)) + 1
        if len(picked):
            assert earned[picked[0]] == pytest.approx(gamma ** (picked[0] - 1) * W[0])
    assert scene.roll_out(W, CVaR(0.4), 30, 0).earned == ()
    with pytest.raises(Stopped):
        scene.roll_out(W, CVaR(0.4), 30, 0, lambda: True, Ways(static=True))


def test_a_calibrated_library_shows_bounds(scene):
    library = learned(layout=MAP, trap_probability=0.4, step_limit=20)
    library.calibrate("rasf/FourRoom-v0", 150, tasks=5, risks=[MeanVariance(0.0), MeanVariance(-4.0)])
    one = FourRoomScene(library)
    assert "in 95 % of tasks" in one.limit.name
    assert "expected" in scene.limit.name
    notes = one.roll_out(W, MeanVariance(-9.0), 10, 0, ways=Ways(limit=0.1)).notes
    assert notes[0].startswith("The price of the limit is ")
    assert any(note.startswith("Bounds: mean at least ") for note in notes)
    assert any("mean-variance:-9.0 within limits was not calibrated" in note for note in notes)


def test_the_same_seed_gives_the_same_numbers(scene):
    one, again = (scene.roll_out(W, RISKS[0], 30, seed=9) for _ in range(2))
    np.testing.assert_array_equal(one.returns, again.returns)
    np.testing.assert_array_equal(one.visits, again.visits)


def test_asked_to_stop_it_stops(scene):
    with pytest.raises(Stopped):
        scene.roll_out(W, RISKS[0], 10, 0, lambda: True)


def test_nonsense_is_refused(scene):
    for cell in (-1, 12):
        with pytest.raises(ValueError, match="cell must"):
            scene.cell(cell, W, RISKS[0])
    for context in (-1, 4):
        with pytest.raises(ValueError, match="context must"):
            scene.policy(W, RISKS[0], context)
    with pytest.raises(ValueError, match="episodes must"):
        scene.roll_out(W, RISKS[0], 0, 0)
    with pytest.raises(ValueError, match="seed must"):
        scene.roll_out(W, RISKS[0], 2, -1)
    with pytest.raises(ValueError, match="w must"):
        scene.policy(np.ones(5), RISKS[0])


def test_a_library_without_covariance_has_no_dial_but_neutral():
    scene = FourRoomScene(learned("sfql", layout=MAP))
    (family,) = scene.families
    assert (family.low, family.high, family.neutral, family.default) == (0.0, 0.0, 0.0, 0.0)
    scene.policy(W, family.make(family.default))


def test_sizes_that_a_file_may_ask_for_are_bounded(scene):
    described = replace(scene.library.environment, kwargs={"layout": MAP}, max_episode_steps=None)
    assert rooms_of(described) == FourRoom(MAP)
    assert rooms_of(replace(described, max_episode_steps=7)).step_limit == 7
    with pytest.raises(ValueError, match="step_limit must"):
        rooms_of(replace(described, kwargs={"layout": MAP, "step_limit": 10**9}))
    with pytest.raises(ValueError, match="cells must"):
        rooms_of(replace(described, kwargs={"layout": "S" + "." * 3000 + "G"}))


def test_training_tells_how_far_it_is_and_stops(monkeypatch):
    monkeypatch.setattr(four_room_scene, "_STEPS", 300)
    shares = []
    library = train_four_room(shares.append, lambda: False, seed=3)
    assert shares == pytest.approx([(n + 1) / len(library.policies) for n in range(len(library.policies))])
    again = train_four_room(lambda share: None, lambda: False, seed=3)
    for name, array in library.sources.arrays().items():
        np.testing.assert_array_equal(array, again.sources.arrays()[name])
    shares.clear()
    with pytest.raises(Stopped):
        train_four_room(shares.append, lambda: len(shares) == 2)
    assert len(shares) == 2


@pytest.mark.slow
def test_the_dial_of_the_library_trained_on_the_spot_trades_return_for_safety():
    scene = FourRoomScene(train_four_room(lambda share: None, lambda: False))
    w = np.array([weight.default for weight in scene.weights])
    averse, neutral = (scene.roll_out(w, MeanVariance(beta), 500, 0).measures for beta in (-4.0, 0.0))
    assert averse["failures"].high < neutral["failures"].low
    assert averse["return"].high < neutral["return"].low
    assert averse["return_cvar"].estimate > neutral["return_cvar"].estimate
