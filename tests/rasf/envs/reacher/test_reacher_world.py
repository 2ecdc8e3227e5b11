import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from rasf.envs.reacher.arm import physics, tip_position
from rasf.envs.reacher.world import START_ANGLES, TEST_TARGETS, TORQUES, TRAINING_TARGETS, Noise, Reacher
from rasf_lab.paper.reacher.beliefs import angles_reaching

CALM = Noise(np.zeros(2), np.array(0.5))


def start(n, rng):
    return np.concatenate([rng.uniform(*START_ANGLES.T, (n, 2)), np.zeros((n, 2))], axis=-1)


def episodes(world, choose, n, seed):
    """The mean features (n, d) of n episodes in which `choose(states, rng)` picks the actions."""
    rng = np.random.default_rng(seed)
    states, total = start(n, rng), np.zeros((n, world.n_features))
    for _ in range(world.episode_length):
        noise = Noise(world.action_noise * rng.standard_normal((n, 2)), rng.random(n))
        states, phi = world.advance(states, choose(states, rng), noise)
        total += phi
    return total / world.episode_length


def test_the_papers_world():
    world = Reacher()
    assert world.targets == TRAINING_TARGETS + TEST_TARGETS
    assert [len(TRAINING_TARGETS), len(TEST_TARGETS)] == [4, 8]
    assert (world.n_actions, world.n_features, world.observation_size, world.episode_length) == (9, 13, 4, 500)
    assert (world.radius, world.failure_probability, world.failure_cost) == (0.06, 0.035, 3.0)
    assert world.feature_bounds.tolist() == [[-1, 1]] * 12 + [[0, 1]]
    assert TORQUES.tolist() == [[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    # two training targets, four test targets, alike under half a turn
    risky = {world.targets[i] for i in world.risky}
    assert sum(target in TRAINING_TARGETS for target in risky) == 2
    assert {(-x, -y) for x, y in risky} == risky


def test_features_by_hand():
    """At target 0; 5 cm above it; and where no circle is, 0.1 m up."""
    world = Reacher()
    phi = world.features(np.array([[0.14, 0.0], [0.14, 0.05], [0.0, 0.1]]), np.array([0.0349, 0.0351, 0.0]))
    assert phi.shape == (3, 13)
    np.testing.assert_allclose(phi[:, 0], [1, 0.8, 1 - 4 * np.hypot(0.14, 0.1)])
    np.testing.assert_allclose(phi[:, 1], [1 - 4 * 0.28, 1 - 4 * np.hypot(0.28, 0.05), 1 - 4 * np.hypot(0.14, 0.1)])
    np.testing.assert_allclose(phi[:, 2], [1 - 4 * np.hypot(0.14, 0.14), 1 - 4 * np.hypot(0.14, 0.09), 0.84])
    np.testing.assert_allclose(phi[:, 4], [0.68, 1 - 4 * np.hypot(0.08, 0.05), 1 - 4 * np.hypot(0.22, 0.1)])
    np.testing.assert_allclose(phi[:, 8], [1 - 4 * np.hypot(0.04, 0.1), 1 - 4 * np.hypot(0.04, 0.05), 0.6])
    assert phi[:, 12].tolist() == [1, 0, 0]


def test_circles_end_at_their_radius():
    world = Reacher()
    tips = np.array([[0.14, 0.0599], [0.14, -0.0599], [-0.22, 0.0599], [-0.1, 0.1599], [0.0, 0.14], [0.1, 0.1]])
    assert world.in_circle(tips).tolist() == [True, True, True, True, False, False]
    assert not world.in_circle(np.array([0.14, 0.0601]))
    assert not Reacher(risky=()).in_circle(tips).any()
    assert Reacher(risky=()).features(tips, np.zeros(6))[:, -1].tolist() == [0] * 6


def test_a_step_uses_the_tip_it_ends_at():
    state = np.array([0.4, 1.0, 3.0, -6.0])
    for action in range(9):
        following = physics(state, TORQUES[action])
        after, phi = Reacher().advance(state, action, CALM)
        assert (after == following).all()
        assert (phi == Reacher().features(tip_position(following), CALM.failure)).all()


def test_noise_is_added_to_the_torques_and_the_sum_clipped():
    state, noise = np.array([0.4, 1.0, 3.0, -6.0]), Noise(np.array([0.4, -0.3]), np.array(0.5))
    for action, torques in ((8, [1.0, 0.7]), (4, [0.4, -0.3]), (0, [-0.6, -1.0])):
        assert (Reacher().advance(state, action, noise)[0] == physics(state, np.array(torques))).all()


def test_noise_has_its_scale():
    keys = jax.random.split(jax.random.key(0), 4_000)
    noise = jax.vmap(Reacher(action_noise=0.5).noise)(keys)
    assert stats.kstest(np.ravel(noise.torque) / 0.5, "norm").pvalue > 1e-3
    assert stats.kstest(np.asarray(noise.failure), "uniform").pvalue > 1e-3
    torque, failure = np.asarray(noise.torque, float), np.asarray(noise.failure, float)
    correlations = np.corrcoef([torque[:, 0], torque[:, 1], failure])[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(4_000)
    assert (Reacher(action_noise=0).noise(keys[0]).torque == 0).all()


def test_episodes_start_at_rest_anywhere_around_the_shoulder():
    states = np.asarray(jax.vmap(Reacher().reset)(jax.random.split(jax.random.key(1), 4_000)))
    assert states.shape == (4_000, 4)
    assert (states[:, 2:] == 0).all()
    for angle, half in ((0, np.pi), (1, np.pi / 2)):
        assert stats.kstest(states[:, angle], stats.uniform(-half, 2 * half).cdf).pvalue > 1e-3


def test_failures_come_at_their_rate_and_only_in_circles():
    world = Reacher(action_noise=0)
    at_rest = np.array([*angles_reaching(np.array([0.14, 0.0]))[0], 0.0, 0.0])
    keys = jax.random.split(jax.random.key(2), 20_000)
    step = jax.jit(jax.vmap(world.step, in_axes=(0, None, None)))
    states, phi = step(keys, jnp.asarray(at_rest), 4)
    assert stats.binomtest(int(phi[:, -1].sum()), 20_000, 0.035).pvalue > 1e-3
    assert set(np.unique(phi[:, -1])) == {0, 1}
    np.testing.assert_allclose(states, np.tile(at_rest, (20_000, 1)), atol=1e-6)  # a failure does not end it
    elsewhere = np.array([*angles_reaching(np.array([0.0, 0.14]))[0], 0.0, 0.0])
    assert step(keys, jnp.asarray(elsewhere), 4)[1][:, -1].sum() == 0


def test_moments_of_a_step_are_those_of_its_failure():
    """Sums over both values of the failure, for arms inside and outside of circles."""
    world, rng = Reacher(), np.random.default_rng(0)
    states = np.concatenate([rng.uniform(-3, 3, (400, 2)), np.zeros((400, 2))], axis=1)
    mean, covariance = world.step_moments(states, None, states)
    tips, p = world.tip(states, states), world.failure_probability
    assert 50 < world.in_circle(tips).sum() < 350
    fails, none = (world.features(tips, np.full(400, chance)) for chance in (0.0, 1.0))
    np.testing.assert_allclose(mean, p * fails + (1 - p) * none, atol=1e-12)
    each = [part - mean for part in (fails, none)]
    wanted = sum(q * one[:, :, None] * one[:, None] for q, one in zip((p, 1 - p), each, strict=True))
    np.testing.assert_allclose(covariance, wanted, atol=1e-12)
    single = jax.jit(world.step_moments)(jnp.asarray(states[0]), 0, jnp.asarray(states[0]))
    np.testing.assert_allclose(single[0], mean[0], atol=1e-5)


def test_tasks_reward_one_target_and_punish_failure():
    world = Reacher()
    weights = world.tasks()
    assert weights.shape == (12, 13)
    assert (weights[:, :12] == np.eye(12)).all()
    assert (weights[:, 12] == -3).all()
    some = Reacher(failure_cost=1.5).tasks((5, 2))
    assert np.argwhere(some == 1).tolist() == [[0, 5], [1, 2]]
    assert some.sum(1).tolist() == [-0.5, -0.5]
    assert world.target_positions((4, 11)).tolist() == [[0.22, 0.0], [-0.1, -0.1]]
    # the cost of holding a risky target, per step
    phi = world.features(np.array([0.14, 0.0]), np.array(0.0))
    assert 0.035 * (weights[0] @ phi) + 0.965 * 1 == pytest.approx(1 - 0.105)


def test_observations():
    state = np.array([7.0, -2.7, 30.0, -50.0])
    np.testing.assert_allclose(Reacher().observe(state), [7.0, 3.0, -0.9, -5.0])
    np.testing.assert_allclose(Reacher(observation="wrapped").observe(state), [7.0 - 2 * np.pi, 3.0, -0.9, -5.0])
    sines = Reacher(observation="sincos")
    expected = [np.sin(7), np.cos(7), 3.0, np.sin(-2.7), np.cos(-2.7), -5.0]
    np.testing.assert_allclose(sines.observe(state), expected)
    assert sines.observation_size == 6


@pytest.mark.parametrize("turns", [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5])
def test_a_wrapped_angle_is_the_same_angle_from_minus_pi_to_pi(turns):
    angle = Reacher(observation="wrapped").observe(np.array([2 * np.pi * turns, 0, 0, 0]))[0]
    assert -np.pi <= angle < np.pi
    assert np.cos(angle) == pytest.approx(np.cos(2 * np.pi * turns))


@pytest.mark.parametrize("observation", ["raw", "wrapped", "sincos"])
def test_bounds_hold_in_wild_episodes(observation):
    """Full torque in one direction reaches the elbow's limit and high speeds."""
    world = Reacher(observation=observation)
    rng, states = np.random.default_rng(3), start(200, np.random.default_rng(4))
    seen, torques = [], rng.integers(0, 9, 200)
    for t in range(120):
        states, phi = world.advance(states, torques, Noise(np.zeros((200, 2)), rng.random(200)))
        seen.append((world.observe(states), phi))
        if t % 20 == 0:
            torques = rng.integers(0, 9, 200)
    for values, bounds in zip(zip(*seen, strict=True), (world.observation_bounds, world.feature_bounds), strict=True):
        values = np.concatenate(values)
        assert bounds.shape == (values.shape[-1], 2)
        assert (values >= bounds[:, 0]).all()
        assert (values <= bounds[:, 1]).all()
    assert np.abs(states[:, 2:]).max() > 20


def test_far_targets_widen_their_bounds():
    world = Reacher(targets=((0.14, 0.0), (0.6, -0.8)), risky=())
    np.testing.assert_allclose(world.feature_bounds, [[-1, 1], [1 - 4 * 1.21, 1], [0, 1]], atol=1e-7)


def test_numpy_and_jax_take_the_same_step():
    world, rng = Reacher(), np.random.default_rng(5)
    states = np.concatenate([start(100, rng)[:, :2], rng.uniform(-5, 5, (100, 2))], axis=-1)
    actions, noise = rng.integers(0, 9, 100), Noise(0.03 * rng.standard_normal((100, 2)), rng.random(100))
    expected = world.advance(states, actions, noise)
    single = Noise(jnp.asarray(noise.torque), jnp.asarray(noise.failure))
    found = jax.jit(jax.vmap(world.advance))(jnp.asarray(states), jnp.asarray(actions), single)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == jnp.float32
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_a_random_policy_earns_what_is_known():
    """0.275 at targets within reach and 0.026 at 0.22 m, to 0.005: 1,000 episodes have a standard error below 0.002."""

    def wander(states, rng):
        return rng.integers(0, 9, len(states))

    phi = episodes(Reacher(), wander, 1_000, seed=6).mean(0)
    assert phi[[0, 1, 2, 3, 8, 9, 10, 11]].mean() == pytest.approx(0.275, abs=0.005)
    assert phi[4:8].mean() == pytest.approx(0.026, abs=0.005)


@pytest.mark.parametrize("target", [0, 8])
def test_two_steps_of_lookahead_come_close_to_the_known_ceiling(target):
    """The known planner, which ignores risk, earns 0.972; this one aims at angles and gets at least 0.95."""
    world = Reacher()
    goals = angles_reaching(world.target_positions()[target])

    def cost(states):
        away = states[..., None, :2] - goals
        away[..., 0] = (away[..., 0] + np.pi) % (2 * np.pi) - np.pi
        return ((away + 0.03 * states[..., None, 2:]) ** 2).sum(-1).min(-1)

    def look_ahead(states, rng):
        once = physics(states[:, None], TORQUES)
        twice = physics(once[:, :, None], TORQUES)
        return (cost(once) + cost(twice).min(-1)).argmin(-1)

    earned = episodes(world, look_ahead, 20, seed=7)[:, target]
    assert 0.95 < earned.mean() < 0.98
    assert earned.min() > 0.9


def test_bad_arguments_are_refused(subtests):
    for arguments, message in [
        ({"observation": "pixels"}, "observation must"),
        ({"targets": ()}, "targets must"),
        ({"targets": ((0.1, 0.2, 0.3),)}, "targets must"),
        ({"targets": ((0.1, np.nan),), "risky": ()}, "targets must"),
        ({"risky": (12,)}, "risky must"),
        ({"risky": (-1,)}, "risky must"),
        ({"radius": -0.1}, "radius must"),
        ({"action_noise": np.inf}, "action_noise must"),
        ({"failure_cost": np.nan}, "failure_cost must"),
        ({"failure_probability": 1.2}, "failure_probability must"),
        ({"failure_probability": np.nan}, "failure_probability must"),
        ({"episode_length": 0}, "episode_length must"),
        # of another type
        ({"observation": np.array(["raw", "raw"])}, "observation must"),
        ({"targets": 5}, "targets must"),
        ({"targets": np.array(5.0)}, "targets must"),
        ({"targets": np.zeros((2, 3))}, "targets must"),
        ({"targets": ((0.1, 0.2), (0.3,))}, "targets must"),
        ({"targets": (("0.1", "0.2"),), "risky": ()}, "targets must"),
        ({"targets": None}, "targets must"),
        ({"risky": (0.5,)}, "risky must"),
        ({"risky": (True,)}, "risky must"),
        ({"risky": np.array([True] * 12)}, "risky must"),
        ({"risky": np.array([0.0])}, "risky must"),
        ({"risky": 3}, "risky must"),
        ({"risky": "01"}, "risky must"),
        ({"radius": "x"}, "radius must"),
        ({"radius": True}, "radius must"),
        ({"failure_probability": None}, "failure_probability must"),
        ({"episode_length": "10"}, "episode_length must"),
        ({"episode_length": 2.5}, "episode_length must"),
    ]:
        with subtests.test(arguments=arguments, message=message):
            with pytest.raises(ValueError, match=message) as refused:
                Reacher(**arguments)
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [list, np.array])
def test_lists_and_arrays_make_the_world_that_tuples_make(kind):
    world = Reacher(targets=((1.0, 0.0), (0.0, 0.5)), risky=(1,))
    same = Reacher(targets=kind([[1.0, 0.0], [0.0, 0.5]]), risky=kind([1]))
    assert (same, hash(same)) == (world, hash(world))
    assert same.targets == ((1.0, 0.0), (0.0, 0.5))
    assert same.risky == (1,)
    assert {type(number) for number in same.targets[0] + same.risky} == {float, int}
    assert Reacher(targets=((1, 0), (0, 1)), risky=kind([])).risky == ()


def test_a_circle_pays_on_average():
    """Appendix C.3: a neutral arm goes to the target if a failure costs less on average than staying at the edge."""
    world = Reacher()
    assert world.failure_cost * world.failure_probability == pytest.approx(0.105)
    assert world.failure_cost * world.failure_probability <= 4 * world.radius


def test_the_paper_s_support_holds_the_returns_of_arms_that_do_not_fail_most_steps():
    """C51's [-30, 10] has a tight upper end. Below, a return of failures at most steps would be clipped: to -37.2."""
    world, gamma = Reacher(), 0.9
    lowest = 1 - 4 * (np.hypot(*world.target_positions().T).max() + np.hypot(*tip_position(np.zeros(4))))
    assert 1 / (1 - gamma) == pytest.approx(10)
    assert (lowest - world.failure_cost) / (1 - gamma) == pytest.approx(-37.2)
    assert lowest / (1 - gamma) == pytest.approx(-7.2)
