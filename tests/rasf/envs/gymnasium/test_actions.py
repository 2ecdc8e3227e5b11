"""Actions as policies choose them and as an environment takes them: scaling, types, files, and refusals."""

import json
import warnings
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rasf.envs.gymnasium.actions import BoxActions, DiscreteActions, actions_of
from rasf.envs.gymnasium.description import INTERFACE, EnvironmentDescription
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.gymnasium.vector import open_vector

SHAPES = [(), (1,), (2,), (2, 2)]
FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def box_of(shape, dtype, seed=0):
    """A Box whose entries have different bounds, apart from `uint` types whose lowest value is 0."""
    rng = np.random.default_rng(seed)
    low, width = rng.integers(-20, 0, shape), rng.integers(1, 90, shape)
    low = np.zeros(shape) if dtype.startswith("u") else low
    return spaces.Box(np.asarray(low, dtype), np.asarray(low + width, dtype), dtype=dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_scaling_has_an_inverse_and_stays_within_the_space(dtype, shape):
    space, rng = box_of(shape, dtype), np.random.default_rng(1)
    actions = actions_of(space)
    m = max(1, int(np.prod(shape)))
    assert (actions.size, actions.n, actions.shape, actions.dtype) == (m, 0, shape, dtype)
    unit = rng.uniform(-1, 1, (20, m))
    unit[0], unit[1], unit[2] = -1, 1, 0
    own = actions.own_batch(unit)
    assert own.dtype == dtype
    assert own.shape == (20, *shape)
    np.testing.assert_array_equal(own[0], space.low)
    np.testing.assert_array_equal(own[1], space.high)
    for one, vector in zip(own, unit, strict=True):
        alone = actions.own(vector)
        np.testing.assert_array_equal(alone, one)
        with warnings.catch_warnings():  # Gymnasium warns if an action is not an array
            warnings.simplefilter("error")
            assert space.contains(alone)
    exact = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}
    low, high = np.array(actions.low), np.array(actions.high)
    tolerance = exact.get(dtype, 1 / (high - low))  # half a whole number, as a share of half the range
    back = actions.unit(own)
    assert back.shape == (20, m)
    assert (np.abs(back - unit) <= tolerance + 1e-12).all()
    np.testing.assert_array_equal(actions.own_batch(back), own)  # every action of the environment is reached
    np.testing.assert_array_equal(actions.own_batch(actions.first_of(3)), actions.own_batch(np.zeros((3, m))))


def test_scaling_by_loops():
    space = spaces.Box(np.array([[-2.0, 0.0], [1.0, -7.0]]), np.array([[2.0, 10.0], [1.5, -6.0]]), dtype=np.float64)
    actions = actions_of(space)
    unit = np.array([-0.5, 0.2, 1.0, 0.0])
    expected = [[-1.0, 6.0], [1.5, -6.5]]
    np.testing.assert_allclose(actions.own(unit), expected)
    np.testing.assert_allclose(actions.unit(np.array([expected])), [unit])
    # an action beyond the bounds, as an environment may have taken it, is the nearest one
    np.testing.assert_array_equal(actions.unit(np.array([[[-9.0, 10.0], [9.0, -6.5]]])), [[-1, 1, 1, 0]])


def test_random_actions_are_uniform_and_follow_from_the_generator():
    actions = actions_of(spaces.Box(-3.0, 5.0, (2,)))
    drawn = np.array([actions.sample(np.random.default_rng(i)) for i in range(2_000)])
    assert drawn.shape == (2_000, 2)
    assert (np.abs(drawn) <= 1).all()
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.06)
    np.testing.assert_allclose(drawn.var(axis=0), 1 / 3, atol=0.03)
    np.testing.assert_array_equal(actions.sample(np.random.default_rng(7)), drawn[7])
    numbered = [DiscreteActions(3, 5).sample(np.random.default_rng(i)) for i in range(300)]
    assert set(numbered) == {0, 1, 2}


def test_numbered_actions_begin_where_the_environment_s_do():
    actions = actions_of(spaces.Discrete(3, start=-4))
    assert actions == DiscreteActions(3, -4)
    assert (actions.n, actions.size) == (3, 0)
    assert [int(actions.own(a)) for a in range(3)] == [-4, -3, -2]
    assert actions.own_batch([2, 0]).tolist() == [-2, -4]
    assert actions.own_batch([2, 0]).dtype == np.int64
    assert actions.first_of(2).tolist() == [0, 0]
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match=r"^action must be 0 to 2, got"):
            actions.own(wrong)
    for wrong in ([3], [-1], [0.5], [[0]], 0):
        with pytest.raises(ValueError, match=r"^actions must be whole numbers from 0 to 2, got"):
            actions.own_batch(wrong)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1.0, np.inf, (1,)),
        spaces.Box(np.full(2, -1.0), np.array([1.0, np.inf]), dtype=np.float64),
        spaces.Box(-np.inf, 0, (2,), np.int32),
    ],
    ids=str,
)
def test_infinite_bounds_are_refused_with_the_way_out(space):
    with pytest.raises(ValueError, match=r"must have finite bounds.* wrap the environment in gymnasium\.wrappers"):
        actions_of(space)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (
            spaces.Box(np.zeros(2), np.array([1.0, 0.0]), dtype=np.float64),
            "finite, in increasing order and within float64",
        ),
        (spaces.Box(-1.7e308, 1.7e308, (1,), np.float64), "finite, in increasing order and within float64"),
        (spaces.Box(0, np.iinfo(np.uint64).max, (1,), np.uint64), "in increasing order and within uint64"),
        (spaces.Box(0, 1, (1_001,)), r"1 to 1000 entries, .* got shape \(1001,\)"),
        (spaces.Box(0, 1, (2, 0)), "1 to 1000 entries"),
        (
            spaces.Box(np.array([False]), np.array([True]), dtype=np.bool_),
            "type of actions must be one of .* got 'bool'",
        ),
        (spaces.MultiDiscrete([2, 2]), "must be Discrete or a Box, got MultiDiscrete, which is not supported"),
        (spaces.MultiBinary(2), "must be Discrete or a Box, got MultiBinary"),
        (spaces.Tuple([spaces.Discrete(2)]), "must be Discrete or a Box, got Tuple"),
        (spaces.Dict({"a": spaces.Box(0, 1)}), "must be Discrete or a Box, got Dict"),
        (spaces.Discrete(2**15 + 1), "at most 32768 actions"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_spaces_that_are_refused(space, words):
    with pytest.raises(ValueError, match=words):
        actions_of(space)


@pytest.mark.parametrize(
    "wrong",
    [
        0.5, [0.5], [0.1, 0.2, 0.3], [[0.1, 0.2]], [np.nan, 0.0], [1.001, 0.0], [0.0, -1.001], [np.inf, 0.0], [],
    ],
)  # fmt: skip
def test_wrong_vectors_are_refused(wrong):
    actions = actions_of(spaces.Box(-3.0, 5.0, (2,)))
    with pytest.raises(ValueError, match=r"^actions? must"):
        actions.own(wrong)
    for batch in (wrong, [wrong]):
        if np.shape(batch) != (1, 2) or not np.abs(batch).max() <= 1:
            with pytest.raises(ValueError, match=r"^actions must be vectors of 2 numbers in \[-1, 1\]"):
                actions.own_batch(batch)


def test_rounding_of_single_precision_is_forgiven_and_stays_within_bounds():
    actions = actions_of(spaces.Box(-3.0, 5.0, (1,)))
    assert actions.own([np.float32(1 + 1e-7)]) == 5.0
    assert actions.own([-1 - 5e-7]) == -3.0
    assert actions.own_batch(np.zeros((0, 1))).shape == (0, 1)


# --- files


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_actions_come_back_from_json(dtype, shape):
    actions = actions_of(box_of(shape, dtype))
    written = json.loads(json.dumps(actions.to_json(), allow_nan=False))
    assert BoxActions.from_json(written) == actions
    assert hash(BoxActions.from_json(written)) == hash(actions)


@pytest.mark.parametrize(
    "changes",
    [
        {"low": None}, {"low": 3}, {"low": "12"}, {"low": [0.0]}, {"low": [0.0, 0.0, 0.0]}, {"low": [0.0, None]},
        {"low": [0.0, True]}, {"low": [0.0, [0.0]]}, {"low": [0.0, float("nan")]}, {"low": [0.0, float("-inf")]},
        {"low": [0.0, 1.0]}, {"low": [0.0, 5.0]}, {"high": {}}, {"high": [1.0, float("inf")]},
        {"low": [0.0, -(10**400)]}, {"low": [-1.7e308, 0.0], "high": [1.7e308, 1.0]},
        {"shape": [3]}, {"shape": [1]}, {"shape": []}, {"shape": [2.0]}, {"shape": [-1, -2]}, {"shape": "2"},
        {"shape": [2, 0]}, {"shape": [2, True]}, {"shape": [10**400]}, {"shape": None},
        {"dtype": "object"}, {"dtype": "complex64"}, {"dtype": 3}, {"dtype": None}, {"dtype": ["float32"]},
        {"dtype": "bool"}, {"dtype": "<f4"}, {"dtype": "int8", "high": [1.0, 1_000.0]},
        {"dtype": "uint8", "low": [-3.0, 0.0]}, {"dtype": "float32", "high": [1.0, 1e300]},
    ],
    ids=str,
)  # fmt: skip
def test_a_tampered_header_is_refused(changes):
    actions = BoxActions((0.0, 0.0), (1.0, 1.0), (2,), "float32")
    with pytest.raises(ValueError, match=r"of (its )?actions must|actions must have 1 to"):
        BoxActions.from_json(actions.to_json() | changes)


class Pushes(gym.Env):
    """Every step returns the action's entries as features, so that a test sees the action."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, space=None):
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(np.array([-2.0, 10.0], np.float32), np.array([2.0, 20.0], np.float32))
        self.action_space = self.action_space if space is None else space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.taken = action
        assert self.action_space.contains(np.asarray(action))
        return np.zeros(1, np.float32), np.append(np.ravel(action), 1.0).astype(np.float64), False, False, {}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_an_environment_takes_arrays_of_its_own_space(dtype, shape):
    space = box_of(shape, dtype)
    m, rng = max(1, int(np.prod(shape))), np.random.default_rng(0)
    env = open_environment(Pushes(space))
    env.reset(seed=0)
    assert (env.n_actions, env.actions, env.n_features) == (0, actions_of(space), m + 1)

    def phi(obs, action, next_obs, info):
        return np.ravel(action)

    single = gym.vector.SyncVectorEnv([lambda: gym.wrappers.TransformReward(Pushes(space), lambda reward: 0.0)] * 2)
    several = open_vector(single, phi=phi)
    several.reset(0)
    for _ in range(3):
        units = rng.uniform(-1, 1, (2, m))
        expected = several.actions.own_batch(units).reshape(2, m)
        np.testing.assert_allclose(several.step(units).phi, expected)
        np.testing.assert_allclose(env.step(units[0]).phi[:m], expected[0])
        assert isinstance(env.env.taken, np.ndarray)  # Gymnasium warns of others, also if the shape is ()
    for wrong in (np.zeros(m), np.zeros((1, m)), np.zeros((3, m)), np.full((2, m), 1.5), np.zeros((2, m + 1))):
        with pytest.raises(ValueError, match="actions must be"):
            several.step(wrong)
    with pytest.raises(ValueError, match=r"actions? must"):
        env.step(np.full(m, np.nan))


def test_phi_sees_the_environment_s_own_action():
    seen = []

    def phi(obs, action, next_obs, info):
        seen.append(action)
        return [action[0], action[1]]

    env = open_environment(Pushes(), phi)
    env.reset(seed=0)
    step = env.step([-1.0, 1.0])
    assert step.phi.tolist() == [-2.0, 20.0]
    assert seen[-1].dtype == np.float32


def test_the_description_of_an_environment_keeps_its_actions_through_json():
    described = open_environment(Pushes()).describe()
    assert described.actions == BoxActions((-2.0, 10.0), (2.0, 20.0), (2,), "float32")
    assert (described.n_actions, described.first_action) == (0, 0)
    written = json.loads(json.dumps(described.to_json(), allow_nan=False))
    assert EnvironmentDescription.from_json(written) == described
    assert EnvironmentDescription.from_json(written).actions == described.actions
    other = replace(described, box=replace(described.box, high=(2.0, 21.0)))
    assert described.difference(other) == described.difference(other, INTERFACE) == "box"
    assert described.difference(replace(described)) is None
    for name, value, words in (
        ("box", None, "n_actions of its environment"),  # neither actions nor a box
        ("box", 3, "the box of its environment cannot be 3"),
        ("n_actions", -1, "n_actions of its environment"),
        ("n_actions", 4, "n_actions of its environment"),  # actions are numbered or vectors, not both
    ):
        with pytest.raises(ValueError, match=words):
            EnvironmentDescription.from_json(written | {name: value})
    plain = open_environment("CartPole-v1", lambda obs, action, after, info: [1.0]).describe()
    assert plain.box is None
    assert "box" not in plain.to_json()
