"""The reacher scene against the library it shows and a plain loop of the arm."""

from dataclasses import replace

import numpy as np
import pytest
from small_reacher import random_reacher, random_torques

from rasf import MeanVariance
from rasf.envs.reacher.arm import tip_position
from rasf.envs.reacher.world import Reacher
from rasf.statistics import share_interval
from rasf_explorer.scenes.reacher import ReacherScene
from rasf_explorer.scenes.scene import Stopped, Ways
from rasf_lab.rollouts.reacher import arm_chances

W = Reacher().tasks((10,))[0]
AVERSE = MeanVariance(-6.0)


@pytest.fixture(scope="module", params=["histogram", "residual"])
def scene(request):
    return ReacherScene(random_reacher(request.param, episode_length=60))


def test_geometry_and_sliders(scene):
    assert scene.arm.targets.shape == (12, 2)
    assert (scene.arm.risky, scene.arm.training) == ((0, 1, 4, 5, 9, 10), 4)
    assert scene.arm.links == pytest.approx((0.1, 0.11))
    assert [weight.default for weight in scene.weights] == W.tolist()
    assert scene.policies == ("target 0, failure -3; mean-variance -6", "target 3, failure -3; mean-variance -6")
    usual = ["mean-variance", "entropic"]
    assert [family.name for family in scene.families] == (usual if scene.library.agent == "rasfc51" else usual[:1])


@pytest.mark.parametrize("level", [-0.5, 1.0])
def test_the_field_is_the_better_elbow_s_value(scene, level):
    for family in scene.families:
        hold_field(scene, family.make(level))


def hold_field(scene, risk):
    w = W + 0.25 * np.eye(13)[2]
    field = scene.field(w, risk)
    np.testing.assert_allclose(np.linalg.norm(field.tips[:, None] - field.tips, axis=-1)[0, 1:].min(), field.cell)
    for p in range(0, len(field.tips), 60):
        sides = scene._obs[[p, p + len(field.tips)]]
        both = scene.library.scores(sides, w, risk).values  # (K, 2, A)
        assert field.value[p] == pytest.approx(both.max(), rel=1e-4, abs=1e-4)
        one = scene.at(tuple(field.tips[p] + 1e-4), w, risk)
        assert one.values.max() == pytest.approx(both.max(), rel=1e-5)
        assert one.driver == field.driver[p]
        assert one.values[one.driver, one.action] == one.values.max()
        assert one.values.shape == one.mean.shape == one.std.shape == (2, 9)


def test_the_postures_bring_the_tip_where_it_is_said_to_be(scene):
    q1, q2 = scene._obs[:, 0], 3 * scene._obs[:, 2]
    states = np.stack([q1, q2, np.zeros_like(q1), np.zeros_like(q1)], axis=-1)
    np.testing.assert_allclose(tip_position(states), np.concatenate([scene._tips, scene._tips]), atol=1e-6)
    assert (scene._obs[:, [1, 3]] == 0).all()


def test_rollouts_are_those_of_a_plain_loop(scene):
    world = Reacher(episode_length=60)
    found = scene.roll_out(W, AVERSE, 10, seed=3)  # more than one block
    chances = arm_chances(world, 10, 3)
    state, total, failures, inside, tips = chances.states.astype(float), np.zeros((10, 13)), 0.0, 0.0, []
    for t in range(60):
        action = scene.library.act(world.observe(state).astype(np.float32), W, AVERSE)
        noise = type(chances.noise)(chances.noise.torque[t].astype(float), chances.noise.failure[t])
        state, phi = world.advance(state, action, noise)
        total, failures = total + phi, failures + phi[:, -1]
        tips.append(tip_position(state))
        inside = inside + world.in_circle(tips[-1])
    np.testing.assert_allclose(found.tips, np.stack(tips, axis=1)[:4], atol=2e-3)
    np.testing.assert_allclose(found.returns, total @ W, atol=0.05)
    np.testing.assert_array_equal(found.failures, failures)
    np.testing.assert_array_equal(found.failed.sum(axis=1), failures[:4])
    assert found.in_circle.estimate == pytest.approx(inside.mean() / 60, abs=0.01)
    away = np.linalg.norm(np.stack(tips)[30:] - world.targets[10], axis=-1)
    assert found.distance.estimate == pytest.approx(away.mean(), abs=1e-3)
    assert (found.lengths == 60).all()
    np.testing.assert_allclose(np.linalg.norm(found.elbows, axis=-1), 0.1, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found.tips - found.elbows, axis=-1), 0.11, rtol=1e-6)


def test_two_risks_meet_the_same_chances_and_a_seed_the_same_numbers(scene):
    world = Reacher(episode_length=60)
    one, again = (scene.roll_out(W, AVERSE, 3, 1) for _ in range(2))
    np.testing.assert_array_equal(one.tips, again.tips)
    other = scene.roll_out(W, MeanVariance(2.0), 3, 1)
    assert not np.array_equal(one.tips, other.tips)
    np.testing.assert_allclose(one.tips[:, 0], tip_position(arm_chances(world, 3, 1).states), atol=0.02)


def test_without_a_weight_no_target_is_the_heaviest(scene):
    found = scene.roll_out(np.zeros(13), AVERSE, 2, 1)
    assert np.isnan(found.distance).all()
    assert (found.returns == 0).all()


def test_no_failures_have_an_interval(scene, monkeypatch):
    monkeypatch.setattr(scene, "world", replace(scene.world, failure_probability=0.0))
    assert scene.roll_out(W, AVERSE, 6, 0).measures["failures"] == share_interval(0, 6)


def test_scores_know_their_discount(scene):
    assert scene.at((0.1, 0.1), W, AVERSE).gamma == 0.8


def angles(posture):
    """The posture's angles of shoulder and elbow."""
    first, second = (np.arctan2(*part[::-1]) for part in (posture.elbow, posture.tip - posture.elbow))
    return first, (second - first + np.pi) % (2 * np.pi) - np.pi


def test_the_posture_is_the_one_that_is_scored_with_gpi_s_torques(scene):
    """Of both elbows, and with the torques of the numbered action."""
    for tip in ((0.1, 0.1), (-0.05, 0.15)):
        scores, posture = scene.at(tip, W, AVERSE), scene.posture(tip, W, AVERSE)
        assert np.abs(posture.tip - tip).max() <= 0.51 * scene._cell
        q1, q2 = angles(posture)
        seen = scene.world.observe(np.array([q1, q2, 0.0, 0.0])).astype(np.float32)
        np.testing.assert_allclose(scene.library.scores(seen, W, AVERSE).values, scores.values, atol=1e-3)
        torques = [(first, second) for first in (-1, 0, 1) for second in (-1, 0, 1)]
        assert posture.torques.tolist() == list(torques[scores.action])


@pytest.mark.parametrize("limit", [0, 60])
def test_torques_that_are_vectors_are_the_policies_actions(limit):
    """Also of networks that see the time left, as they do by default."""
    scene = ReacherScene(random_torques(limit=limit, episode_length=60))
    assert scene.families[0].has_dial
    scores, posture = scene.at((0.1, 0.1), W, AVERSE), scene.posture((0.1, 0.1), W, AVERSE)
    q1, q2 = angles(posture)
    found = scene.library.scores(scene.world.observe(np.array([q1, q2, 0.0, 0.0])).astype(np.float32), W, AVERSE)
    np.testing.assert_allclose(scores.proposals.actions, found.proposals, atol=1e-4)
    np.testing.assert_allclose(posture.torques, found.action, atol=1e-4)
    assert (scores.action, scores.driver) == (found.candidate, found.source)
    assert scores.proposals.low.tolist() == [-1, -1]
    assert scores.proposals.entry_names == ("shoulder torque", "elbow torque")
    first, second = posture.torques
    assert scores.names(())[scores.action] == f"({first:+.2f}, {second:+.2f}), of policy {scores.action}"
    assert scores.names((), brief=True) == ("of policy 0", "of policy 1")
    rolled, world = scene.roll_out(W, AVERSE, 2, 0), scene.world
    chances = arm_chances(world, 2, 0)
    state, tips = chances.states.astype(float), []
    for t in range(60):  # a plain loop, with the step as the library takes it
        taken = scene.library.act(world.observe(state).astype(np.float32), W, AVERSE, t=t)
        noise = type(chances.noise)(*(part[t].astype(float) for part in chances.noise))
        state, _ = world.advance(state, taken, noise)
        tips.append(tip_position(state))
    np.testing.assert_allclose(rolled.tips, np.stack(tips, axis=1), atol=2e-3)
    ruled = scene.roll_out(W, AVERSE, 2, 0, ways=Ways(limit=1e9))
    np.testing.assert_allclose(ruled.tips, rolled.tips, atol=2e-3)


def test_it_stops_when_asked(scene):
    asked = []

    def stop():
        asked.append(True)
        return len(asked) == 2

    with pytest.raises(Stopped):
        scene.roll_out(W, AVERSE, 2, 0, stop)
    assert len(asked) == 2


def test_warming_can_be_given_up_and_taken_up_again():
    scene = ReacherScene(random_reacher(seed=4, episode_length=60))
    with pytest.raises(Stopped):
        scene.warm(lambda: True)
    field = scene.field(W, AVERSE)
    scene.warm()
    np.testing.assert_array_equal(field.value, scene.field(W, AVERSE).value)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="episode_length must"):
        ReacherScene(random_reacher(episode_length=10**6))
    with pytest.raises(ValueError, match="w must"):
        ReacherScene(random_reacher()).field(np.ones(4), AVERSE)


def test_networks_that_know_the_mean_only_have_no_dial():
    (family,) = ReacherScene(random_reacher("point", episode_length=10)).families
    assert family.low == family.high == family.neutral == 0.0


def test_a_limit_is_told_its_price_and_kept_by_a_rule(scene):
    free = scene.roll_out(W, MeanVariance(0.0), 3, 1)
    found = scene.roll_out(W, MeanVariance(0.0), 3, 1, ways=Ways(limit=0.2))
    assert found.tips.shape == free.tips.shape
    assert found.notes[0].startswith("The price of the limit is ")
    assert free.notes == ()
    with pytest.raises(Stopped):
        scene.roll_out(W, MeanVariance(0.0), 3, 1, lambda: True, Ways(limit=0.2))


def test_rollouts_look_ahead(scene):
    """As the library does in its own environment's world, from the same postures and with the same noise."""
    assert (scene.ahead.low, scene.ahead.high, scene.ahead.default) == (0, 15, 0)
    found = scene.roll_out(W, AVERSE, 2, 1, ways=Ways(ahead=2))
    assert found.tips.shape == scene.roll_out(W, AVERSE, 2, 1).tips.shape
    chances = arm_chances(scene.world, 2, 1)
    actor = scene.library.actor(W, AVERSE, model=scene.world, ahead=2, particles=1)
    state, total = chances.states, np.zeros(2)
    for t in range(scene.world.episode_length):
        obs = np.asarray(scene.world.observe(state), np.float32)
        noise = type(chances.noise)(*(part[t] for part in chances.noise))
        state, phi = scene.world.advance(state, actor.act(obs, state=state), noise)
        actor.observe(np.asarray(phi, np.float64))
        total += np.asarray(phi) @ W
    np.testing.assert_allclose(found.returns, total, rtol=1e-4)
    limited = scene.roll_out(W, MeanVariance(0.0), 2, 1, ways=Ways(limit=0.2, ahead=2))
    assert limited.notes[0].startswith("The price of the limit is ")
    assert ReacherScene(random_reacher("point", episode_length=10)).ahead is None


def test_a_rule_without_memory_rolls_out_as_ever(scene):
    from rasf_lab.rollouts.reacher import arm_chances, roll_out_arm, roll_out_by_rule

    chances = arm_chances(scene.world, 4, 0)
    plain = roll_out_arm(scene.library.sources, scene.world, W, AVERSE, chances, lambda: False)
    ruled = roll_out_by_rule(scene.library.rule(W, AVERSE), scene.world, chances, lambda: False)
    np.testing.assert_allclose(ruled.phi[:3], plain.phi[:3], atol=1e-4)  # then a close choice may go another way
