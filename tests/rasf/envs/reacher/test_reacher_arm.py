import math
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from rasf.envs.reacher import arm as arm
from rasf.envs.reacher.arm import physics, speeds_allowed, tip_position
from rasf.envs.reacher.mujoco import MujocoArm

SHOULDER, ELBOW, SHOULDER_SPEED, ELBOW_SPEED = range(4)


@pytest.fixture(scope="module")
def bullet():
    """64 recorded runs of 50 steps: states (64, 51, 4) and torques (64, 50, 2)."""
    with np.load(Path(__file__).parent / "data" / "reacher_bullet_trajectories.npz") as file:
        return file["states"], file["actions"]


@pytest.fixture(scope="module")
def mujoco_arm():
    return MujocoArm()


def random_states(n, seed=0, speed=30.0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.uniform(-3, 3, (n, 2)), rng.uniform(-speed, speed, (n, 2))], axis=-1)


def random_actions(n, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 2))


def free_run(states, actions):
    run = [states[:, 0]]
    for t in range(actions.shape[1]):
        run.append(physics(run[-1], actions[:, t]))
    return np.stack(run, axis=1)


def test_the_recording_meets_the_limit_at_both_sides_and_depths_and_the_top_speed(bullet):
    states = bullet[0]
    elbow, speeds = states[:, :-1, ELBOW], states[:, 1:, SHOULDER_SPEED:]
    assert (elbow >= 3).sum() > 400
    assert (elbow <= -3).sum() > 400
    assert (np.abs(elbow) >= 3.04).sum() > 500
    assert (np.abs(speeds) == arm.MAX_SPEED).sum() >= 4


def test_every_step_is_bullets(bullet):
    """Asked for: 1e-6. Measured: 1.2e-13, at a change of speed by 141 rad/s."""
    states, actions = bullet
    np.testing.assert_allclose(physics(states[:, :-1], actions), states[:, 1:], rtol=0, atol=1e-11)


def test_fifty_steps_stay_on_bullets_path(bullet):
    """Asked for: 1e-4. Measured: 3.2e-12."""
    np.testing.assert_allclose(free_run(*bullet), bullet[0], rtol=0, atol=1e-9)


def test_lengths_in_double_precision_would_leave_bullets_path(bullet, monkeypatch):
    """Why the constants are what they are: one length without its rounding, in the drag alone, costs five digits."""
    monkeypatch.setattr(arm, "LINK", 0.1)
    states, actions = bullet
    assert np.abs(physics(states[:, :-1], actions) - states[:, 1:]).max() > 1e-8


def test_the_masses_are_those_measured():
    link, tip = (arm.LINK_MASS, arm.LINK_INERTIA), (arm.TIP_MASS, arm.TIP_INERTIA)
    np.testing.assert_allclose(link, (0.03560471674068433, 1.4835298641951807e-4), rtol=4e-8)
    np.testing.assert_allclose(tip, (0.004188790204786391, 1.6755160819145565e-7), rtol=1e-15)


def test_mujoco_stays_on_the_path_of_500_controlled_steps(mujoco_arm):
    """The torques steer to a goal that moves every 50 steps; both engines get the same ones. Measured: 3.2e-13."""
    rng = np.random.default_rng(2)
    closed = simulated = np.array([0.3, 0.5, 0.0, 0.0])
    visited = []
    for t in range(500):
        if t % 50 == 0:
            goal = rng.uniform(-1.5, 1.5, 2)
        action = np.clip(0.3 * (goal - closed[:2]) - 0.03 * closed[2:], -1, 1)
        closed, simulated = physics(closed, action), mujoco_arm.step(simulated, action)
        np.testing.assert_allclose(simulated, closed, rtol=0, atol=1e-10)
        mujoco.mj_kinematics(mujoco_arm._model, mujoco_arm._data)  # the step leaves sites where they were before it
        tip = mujoco_arm._data.site("tip").xpos[:2]
        np.testing.assert_allclose(tip, tip_position(closed), rtol=0, atol=1e-11)
        visited.append(closed)
    assert np.abs(np.array(visited)[:, ELBOW]).max() < arm.ELBOW_LIMIT
    assert np.ptp(visited, axis=0)[:2].min() > 1


def test_mujoco_takes_every_step_alike_also_at_the_limit_and_the_top_speed(mujoco_arm):
    states, actions = random_states(600, speed=99.0), random_actions(600)
    states[200:400, ELBOW] = np.random.default_rng(3).choice([-1, 1], 200) * np.linspace(3, 3.1, 200)
    following = physics(states, actions)
    limited = (np.abs(states[:, ELBOW]) >= 3) & (following[:, ELBOW_SPEED] * states[:, ELBOW] <= 0)
    clipped = (np.abs(following[:, SHOULDER_SPEED:]) == arm.MAX_SPEED).any(-1)
    assert limited.sum() > 50
    assert clipped.sum() > 50
    simulated = np.array([mujoco_arm.step(state, action) for state, action in zip(states, actions, strict=True)])
    np.testing.assert_allclose(simulated, following, rtol=0, atol=1e-10)


def test_mujocos_steps_are_bullets_too(bullet, mujoco_arm):
    states, actions = bullet[0][::8], bullet[1][::8]
    for run, torques in zip(states, actions, strict=True):
        following = [mujoco_arm.step(state, action) for state, action in zip(run, torques, strict=False)]
        np.testing.assert_allclose(following, run[1:], rtol=0, atol=1e-10)


def test_a_first_step_from_rest_by_hand():
    """At rest with the elbow at a right angle, M11 = a1 + a2 and M12 = M22 = a2: the shoulder turns with 1 / a1."""
    a1 = arm.LINK_INERTIA + arm.LINK_MASS * arm.CENTRE**2 + (arm.LINK_MASS + arm.TIP_MASS) * arm.LINK**2
    after = physics(np.array([0.2, math.pi / 2, 0.0, 0.0]), np.array([1.0, 0.0]))
    speed = 0.0165 * 0.05 / a1
    np.testing.assert_allclose(after, [0.2 + 0.0165 * speed, math.pi / 2 - 0.0165 * speed, speed, -speed], rtol=1e-12)


@pytest.mark.parametrize(
    ("angle", "speed", "expected"),
    [
        (2.99, 5.0, 5.0),  # not there yet
        (3.0, 5.0, 0.0),
        (3.0, -5.0, -5.0),  # on its way back
        (3.02, 5.0, -0.2 * 0.02 / 0.0165),
        (3.02, -0.1, -0.2 * 0.02 / 0.0165),  # too slowly on its way back
        (3.05, 5.0, 0.0),
        (3.05, -0.1, -0.1),
        (-3.02, -5.0, 0.2 * 0.02 / 0.0165),
        (-3.05, -5.0, 0.0),
        (0.0, 300.0, 100.0),
        (0.0, -300.0, -100.0),
    ],
)
def test_the_elbows_limit_by_hand(angle, speed, expected):
    shoulder, elbow = speeds_allowed(np.array(angle), np.array(1.0), np.array(speed))
    assert elbow == pytest.approx(expected, abs=1e-12)
    if abs(speed) <= arm.MAX_SPEED:  # the limit pushes on the elbow alone, so the momentum about the shoulder stays
        m = arm.inertia(np.array(angle))
        assert m.m11 * shoulder + m.m12 * elbow == pytest.approx(m.m11 * 1.0 + m.m12 * speed)


def drift(dt, monkeypatch):
    """Relative change of energy and of angular momentum in 0.4 s without drag or torque."""
    monkeypatch.setattr(arm, "DAMPING", 0.0)
    monkeypatch.setattr(arm, "DT", dt)
    state = np.array([0.3, 1.0, 4.0, -3.0])

    def energy_and_momentum(state):
        m, (w1, w2) = arm.inertia(state[1]), state[2:]
        return np.array([m.m11 * w1**2 + 2 * m.m12 * w1 * w2 + m.m22 * w2**2, m.m11 * w1 + m.m12 * w2])

    before = energy_and_momentum(state)
    for _ in range(round(0.4 / dt)):
        state = physics(state, np.zeros(2))
    return energy_and_momentum(state) / before - 1


def test_energy_and_momentum_are_kept_without_drag_to_first_order_in_the_step(monkeypatch):
    coarse, fine = drift(4e-4, monkeypatch), drift(2e-4, monkeypatch)
    assert (np.abs(fine) < 2e-3).all()
    np.testing.assert_allclose(coarse / fine, 2, rtol=0.05)


def test_drag_only_ever_brakes():
    states = random_states(2_000)
    d1, d2 = arm.drag(states)
    assert (d1 * states[:, SHOULDER_SPEED] + d2 * states[:, ELBOW_SPEED] > 0).all()
    assert np.abs(arm.drag(np.array([0.3, 1.0, 0.0, 0.0]))).max() == 0


def test_a_mirrored_arm_moves_as_the_mirror_image():
    states, actions = random_states(500, speed=99.0), random_actions(500)
    np.testing.assert_array_equal(physics(-states, -actions), -physics(states, actions))


def test_turning_the_whole_arm_changes_nothing_else():
    states, actions = random_states(500), random_actions(500)
    turned = states + np.array([2.0, 0.0, 0.0, 0.0])
    difference = physics(turned, actions) - physics(states, actions)
    np.testing.assert_allclose(difference, np.tile([2.0, 0, 0, 0], (500, 1)), rtol=0, atol=1e-13)


def test_tips_by_hand():
    states = np.array([[0.0, 0, 9, 9], [math.pi / 2, 0, 0, 0], [0, math.pi / 2, 0, 0], [math.pi, math.pi, 0, 0]])
    np.testing.assert_allclose(tip_position(states), [[0.21, 0], [0, 0.21], [0.1, 0.11], [0.01, 0]], atol=1e-8)


def test_jax_in_single_precision_is_close_to_numpy_in_double():
    """Speeds relative to their size. Measured: 2.4e-7 and 4.3e-6, where a step changes speeds by up to 40 rad/s."""
    states, actions = random_states(2_000), random_actions(2_000)
    single, double = jax.jit(physics)(jnp.asarray(states), jnp.asarray(actions)), physics(states, actions)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single[:, :2], double[:, :2], rtol=0, atol=2e-6)
    np.testing.assert_array_less(np.abs(single - double)[:, 2:], 3e-5 * np.maximum(1, np.abs(double[:, 2:])))


def test_one_vmap_is_one_batch():
    states, actions = jnp.asarray(random_states(64)), jnp.asarray(random_actions(64))
    np.testing.assert_allclose(jax.vmap(physics)(states, actions), physics(states, actions), rtol=1e-6)


def test_gradients_are_finite_also_at_rest_and_at_the_limit():
    states = np.concatenate([random_states(20), [[0.0] * 4, [1.0, 0, 0, 0], [0, 3.0, 0, 1], [0, -3.02, 0, -5]]])
    jacobians = jax.vmap(jax.jacobian(physics, argnums=(0, 1)))(jnp.asarray(states), jnp.zeros((len(states), 2)))
    assert all(jnp.isfinite(jacobian).all() for jacobian in jacobians)
    assert (jnp.abs(jacobians[1][:, SHOULDER]) > 0).any()
