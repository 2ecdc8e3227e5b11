"""Checkpoints come back bit for bit; what does not fit, or is damaged, is refused and left as it is."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from rasf.deep import checkpoint


class Pair(NamedTuple):
    left: object
    right: object


TREE = Pair(
    (jnp.array([[1.5, -0.0], [jnp.nan, jnp.inf]]), {"a": jnp.arange(3), "b": jnp.float32(1e-40)}),
    (Pair(jnp.zeros((0, 2)), jnp.array([True, False])), jnp.uint32(2**32 - 1)),
)
HISTORY = {"loss": np.array([[1.0, 2.0]], np.float64), "odd": np.arange(6, dtype=np.float32).reshape(2, 3).T}
DESCRIPTION = {"agent": "rasfc51", "seeds": [1, 2], "gamma": 0.9}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "folder" / "run.safetensors"
    checkpoint.save(path, TREE, HISTORY, DESCRIPTION)
    return path


def test_everything_comes_back_bit_for_bit(saved):
    like = Pair(
        (jnp.ones((2, 2)), {"a": jnp.zeros(3, int), "b": jnp.float32(0)}),
        (Pair(jnp.zeros((0, 2)), jnp.zeros(2, bool)), jnp.uint32(0)),
    )
    tree, history = checkpoint.load(saved, like)
    assert isinstance(tree.right[0], Pair)
    (table, named), (inner, largest) = tree
    assert np.asarray(table).tobytes() == np.asarray(TREE.left[0]).tobytes()
    np.testing.assert_array_equal(named["a"], [0, 1, 2])
    assert np.asarray(named["b"]).tobytes() == np.float32(1e-40).tobytes()
    assert inner.left.shape == (0, 2)
    np.testing.assert_array_equal(inner.right, [True, False])
    assert int(largest) == 2**32 - 1
    assert set(history) == set(HISTORY)
    for name, part in HISTORY.items():
        np.testing.assert_array_equal(history[name], part)
        assert history[name].dtype == part.dtype
    assert checkpoint.describe(saved) == DESCRIPTION


def test_a_second_save_replaces_the_first_and_leaves_nothing_else(saved):
    checkpoint.save(saved, TREE, {}, {"other": True})
    assert checkpoint.describe(saved) == {"other": True}
    assert checkpoint.load(saved, TREE)[1] == {}
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_failed_save_keeps_the_last_one(saved):
    before = saved.read_bytes()
    with pytest.raises(TypeError):
        checkpoint.save(saved, TREE, HISTORY, {"not for JSON": object()})
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize(
    ("like", "words"),
    [
        (TREE._replace(right=(TREE.right[0], jnp.int32(0))), r"does not fit: \.right\[1\] should have .* type int32"),
        (TREE._replace(right=(TREE.right[0], jnp.zeros(2, jnp.uint32))), r"\.right\[1\] should have shape \(2,\)"),
        (TREE._replace(left=(TREE.left[0], {"c": jnp.zeros(3)})), r"does not fit: \.left\[1\]\['c'\]"),
    ],
)
def test_another_structure_is_refused(saved, like, words):
    before = saved.read_bytes()
    with pytest.raises(ValueError, match=words) as refusal:
        checkpoint.load(saved, like)
    assert "\n" not in str(refusal.value)
    assert saved.read_bytes() == before


def damages(good):
    from safetensors.numpy import save as as_bytes

    yield "empty", b""
    yield "a few bytes", good[:5]
    yield "cut in the header", good[:60]
    yield "cut in the arrays", good[:-1]
    yield "cut in the middle", good[: len(good) // 2]
    yield "more than there should be", good + b"\0\0"
    yield "no JSON", b"\xff" * 8 + good[8:]
    yield "text", b"this is a text file of some length, and not a checkpoint"
    yield "another program's", as_bytes({"weights": np.zeros(3)})
    yield "another program's label", as_bytes({"weights": np.zeros(3)}, metadata={"rasf": "no JSON"})
    yield "a label of another kind", as_bytes({"weights": np.zeros(3)}, metadata={"rasf": "[1, 2]"})


def test_damaged_files_are_refused_and_left_alone(saved):
    for what, content in damages(saved.read_bytes()):
        saved.write_bytes(content)
        for read in (checkpoint.describe, lambda path: checkpoint.load(path, TREE)):
            with pytest.raises(ValueError, match="is not a checkpoint of rasf, or it is damaged") as refusal:
                read(saved)
            assert "\n" not in str(refusal.value), what
        assert saved.read_bytes() == content, what
