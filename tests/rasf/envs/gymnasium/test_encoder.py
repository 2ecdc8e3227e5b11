"""Codes of observations against hand-written numbers and against Gymnasium's own flattening."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rasf.envs.gymnasium.encoder import Encoder

NESTED = spaces.Dict(
    {
        "where": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.Box(-1.0, 1.0, (2, 2), np.float32))),
        "flags": spaces.MultiBinary(3),
        "kinds": spaces.MultiDiscrete([2, 3]),
    }
)
SPACES = [
    spaces.Discrete(5),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    spaces.MultiDiscrete([3, 2], start=[10, -1]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 3]),
    spaces.Box(-np.inf, np.inf, (3,), np.float64),
    spaces.Box(0, 255, (2, 3, 3), np.uint8),
    spaces.Box(-1.0, 1.0, (), np.float32),
    spaces.Box(np.array([0.0, -2.0]), np.array([1.0, np.inf]), dtype=np.float64),
    NESTED,
    spaces.Tuple((spaces.Discrete(2), spaces.Dict({"x": spaces.Discrete(3)}))),
]


def test_numbers_written_by_hand():
    assert Encoder.of(spaces.Discrete(4, start=-2)).key(-2).tolist() == [-2.0]
    assert Encoder.of(spaces.MultiDiscrete([3, 2])).key(np.array([2, 1])).tolist() == [2.0, 1.0]
    assert Encoder.of(spaces.Box(-1.0, 1.0, (2, 2), np.float32)).key([[1, 0], [0.5, -1]]).tolist() == [1, 0, 0.5, -1]
    obs = {"where": (0, np.array([[0.5, 0], [0, -0.5]], np.float32)), "flags": [1, 0, 1], "kinds": np.array([1, 2])}
    encoder = Encoder.of(NESTED)
    # Gymnasium sorts the keys of a Dict: flags, kinds, where
    assert encoder.key(obs).tolist() == [1, 0, 1, 1, 2, 0, 0.5, 0, 0, -0.5]
    assert encoder.vector(obs).tolist() == [1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0.5, 0, 0, -0.5]
    assert (encoder.size, encoder.vector_size) == (10, 15)


def test_codes_are_exact_copies():
    encoder = Encoder.of(spaces.Box(-np.inf, np.inf, (2,), np.float64))
    obs = np.array([-0.0, np.nextafter(0.1, 1)])
    numbers = encoder.key(obs)
    assert numbers.tobytes() == np.array([0.0, np.nextafter(0.1, 1)]).tobytes()
    assert encoder.batch_keys(obs[None]).tobytes() == numbers.tobytes()
    obs[:] = 7
    assert numbers[1] == np.nextafter(0.1, 1) != 0.1
    narrow = Encoder.of(spaces.Box(-1.0, 1.0, (2,), np.float32))
    inputs = np.array([[0.5, 0.25]], np.float32)
    assert not np.shares_memory(narrow.vector(inputs[0]), inputs)
    assert not np.shares_memory(narrow.batch_vectors(inputs), inputs)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_vectors_are_gymnasiums_and_batches_are_stacks(space):
    space.seed(0)
    encoder = Encoder.of(space)
    observations = [space.sample() for _ in range(20)]
    batch = gym.vector.utils.concatenate(space, observations, gym.vector.utils.create_empty_array(space, 20))
    assert encoder.vector_size == spaces.flatdim(space)
    for obs in observations:
        np.testing.assert_array_equal(encoder.vector(obs), spaces.flatten(space, obs).astype(np.float32))
        assert encoder.vector(obs).dtype == np.float32
        assert encoder.key(obs).shape == (encoder.size,)
        assert not encoder.is_batch(obs)
    assert encoder.is_batch(batch)
    np.testing.assert_array_equal(encoder.batch_vectors(batch), np.stack([encoder.vector(obs) for obs in observations]))
    np.testing.assert_array_equal(encoder.batch_keys(batch), np.stack([encoder.key(obs) for obs in observations]))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_an_encoder_comes_back_from_json(space):
    space.seed(1)
    encoder = Encoder.of(space)
    text = json.dumps(encoder.describe(), allow_nan=False, sort_keys=True)
    again = Encoder(json.loads(text))
    for obs in (space.sample() for _ in range(5)):
        np.testing.assert_array_equal(again.vector(obs), encoder.vector(obs))
        np.testing.assert_array_equal(again.key(obs), encoder.key(obs))
    assert (again.n_possible, again.integers, again.describe()) == (
        encoder.n_possible,
        encoder.integers,
        encoder.describe(),
    )


def test_few_counts_what_is_possible():
    assert Encoder.of(spaces.Discrete(5)).n_possible == 5
    assert Encoder.of(spaces.MultiDiscrete([13, 13, *[2] * 18])).n_possible == 13 * 13 * 2**18
    assert Encoder.of(spaces.Box(0, 5, (4,), np.int32)).n_possible == 6**4
    assert Encoder.of(spaces.Box(np.array([0, -1]), np.array([1, 1]), dtype=np.int8)).n_possible == 2 * 3
    assert Encoder.of(spaces.Box(np.array([0, 0]), np.array([1, 2]), dtype=np.int8)).n_possible == 2 * 3
    assert Encoder.of(spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(3)))).n_possible == 16
    many = Encoder.of(spaces.MultiBinary(63))
    assert many.n_possible is None
    assert many.integers
    for space in (spaces.Box(0, 1, (2,), np.float32), spaces.Box(-(2**62), 2**62, (1,), np.int64)):
        assert Encoder.of(space).n_possible is None
        assert not Encoder.of(space).integers


BAD = [
    (spaces.Box(0, 5, (4,), np.int32), np.zeros(5), r"obs must have shape \(4,\), or \(n, 4\) for a batch, got \(5,\)"),
    (spaces.Box(0, 5, (4,), np.int32), np.zeros((2, 3, 4)), r"got \(2, 3, 4\)"),
    (spaces.Discrete(3), np.zeros((2, 2)), r"obs must have shape \(\), or \(n,\) for a batch"),
    (spaces.Discrete(3), "one", "obs must hold numbers, got 'one'"),
    (spaces.Discrete(3), None, "obs must hold numbers, got None"),
    (spaces.Box(0, 1, (2,)), [[1], [1, 2]], "ragged list"),
    (NESTED, np.zeros(10), "obs must be a dict with the key 'flags'"),
    (NESTED, {"flags": [0, 0, 0]}, "obs must be a dict with the key 'kinds'"),
    (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), (1,), "obs must be a tuple of 2"),
    (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), (1, [0, 1]), "got a mixture of both"),
]


@pytest.mark.parametrize(("space", "obs", "message"), BAD)
def test_what_is_neither_one_nor_a_batch_is_refused(space, obs, message):
    with pytest.raises(ValueError, match=message):
        Encoder.of(space).is_batch(obs)
    for code in ("key", "vector", "check", "batch_vectors", "batch_keys"):
        with pytest.raises(ValueError, match="obs"):
            getattr(Encoder.of(space), code)(obs)


def test_values_that_no_code_can_hold_are_refused():
    box = Encoder.of(spaces.Box(-np.inf, np.inf, (2,), np.float64))
    for bad in ([0, np.nan], [np.inf, 0]):
        for code in (box.key, box.vector, box.check, lambda o: box.batch_vectors([o]), lambda o: box.batch_keys([o])):
            with pytest.raises(ValueError, match="obs must"):
                code(bad)
    with pytest.raises(ValueError, match="obs must"):
        box.vector([1e300, 0.0])  # beyond float32
    for bad in (-3, 2, 0.5):
        with pytest.raises(ValueError, match="-2 to 1"):
            Encoder.of(spaces.Discrete(4, start=-2)).vector(bad)
    with pytest.raises(ValueError, match=r"0 to \[2, 1\]"):
        Encoder.of(spaces.MultiDiscrete([3, 2])).vector([0, 2])
    pair = Encoder.of(spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))))
    with pytest.raises(ValueError, match=r"arrays, got \[1, 2\]"):
        pair.batch_keys(([0], [0, 1]))


@pytest.mark.parametrize("space", [spaces.Text(3), spaces.Sequence(spaces.Discrete(2)), None])
def test_other_spaces_are_refused(space):
    with pytest.raises(ValueError, match="must be Discrete, "):
        Encoder.of(space)


DEEP: dict = {"kind": "discrete", "n": 2, "start": 0}
for _ in range(40):
    DEEP = {"kind": "tuple", "spaces": [DEEP]}
BOX = {"kind": "box", "shape": [2], "dtype": "int32", "low": 0, "high": 1}


def test_a_bad_description_is_refused(subtests):
    for description in [
        None,
        [],
        {},
        {"kind": ["box"]},
        {"kind": "graph"},
        {"kind": "discrete", "n": 0, "start": 0},
        {"kind": "discrete", "n": 2.0, "start": 0},
        {"kind": "discrete", "n": True, "start": 0},
        {"kind": "discrete", "n": 2},
        {"kind": "discrete", "n": 2**60, "start": 0},
        {"kind": "multi_discrete", "shape": [2], "nvec": [2], "start": [0, 0]},
        {"kind": "multi_discrete", "shape": [2], "nvec": [2, "2"], "start": [0, 0]},
        {"kind": "multi_binary", "shape": [2**40]},
        {"kind": "multi_binary", "shape": [2**20, 2**20]},
        {"kind": "multi_binary", "shape": [0]},
        {"kind": "multi_binary", "shape": 3},
        {"kind": "multi_binary", "shape": [1] * 60},
        {**BOX, "dtype": "object"},
        {**BOX, "dtype": ["int32"]},
        {**BOX, "low": [0, 0, 0]},
        {**BOX, "low": "zero"},
        {**BOX, "low": 2},
        {**BOX, "shape": [-1]},
        {"kind": "dict", "spaces": {"a": BOX}},
        {"kind": "dict", "spaces": [["a", BOX], ["a", BOX]]},
        {"kind": "dict", "spaces": [[1, BOX]]},
        {"kind": "tuple", "spaces": []},
        {"kind": "tuple", "spaces": [{"kind": "multi_binary", "shape": [2**31]}] * 2},
        DEEP,
    ]:
        with subtests.test(description=description), pytest.raises(ValueError, match=r"space|Box|observation"):
            Encoder(description)


def test_a_large_description_costs_nothing_until_used():
    encoder = Encoder({**BOX, "shape": [2**15, 2**15]})
    assert encoder.size == 2**30
    assert encoder.n_possible is None
