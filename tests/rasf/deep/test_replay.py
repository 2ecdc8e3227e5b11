"""Replay: rows, and the windows of steps that follow one another, against loops over a list of everything stored."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rasf.deep import fused, replay
from rasf.deep.algorithm import Held
from rasf.deep.replay import Drawn, HostReplay, Ring, Steps, row_size

OBS, D = 2, 3
N_STEP = 4
SIZES = {0: row_size(OBS, D), 1: row_size(OBS, D, 1), 3: row_size(OBS, D, 3)}  # columns by the size of an action


def rows_of(first, last, size=SIZES[0]):
    """Rows (n, R) whose numbers count up from `first`, each with its own `last` (n,)."""
    rows = np.arange(len(last) * size, dtype=np.float32).reshape(len(last), size) + 1_000.0 * first
    rows[:, -1] = last
    return rows


class Everything:
    """All rows ever stored, with their environment and episode; slot s of a replay holds the newest row with number
    s modulo the capacity."""

    def __init__(self, capacity, environments):
        self.capacity, self.stored, self.episode = capacity, [], [0] * environments

    def store(self, rows, environments):
        for row, e in zip(rows, environments, strict=True):
            self.stored.append((row, e, self.episode[e]))
            self.episode[e] += row[-1] > 0

    def cut(self):
        self.episode = [one + 1 for one in self.episode]

    def window(self, slot, n_step):
        """Rows from the one in the slot on, of the same environment and episode."""
        total = len(self.stored)
        newest = max(i for i in range(total) if i % self.capacity == slot)
        assert newest >= total - self.capacity
        _, e, episode = self.stored[newest]
        found = [row for row, *of in self.stored[newest:] if of == [e, episode]]
        return found[:n_step]


def assert_windows(drawn, everything, chosen, action_size=0):
    """Check the rows of windows against loops, and the columns by their place in a row."""
    named, place = drawn.windows(action_size), 2 * OBS + D
    of_action = slice(place, place + action_size) if action_size else place
    columns = {"next_obs": slice(OBS, 2 * OBS), "phi": slice(2 * OBS, place), "action": of_action, "not_terminated": -3}
    for i, slot in enumerate(chosen):
        expected = np.array(everything.window(int(slot), N_STEP))
        for name, at in columns.items():
            np.testing.assert_array_equal(getattr(named, name)[i, : len(expected)], expected[:, at])
    for obs, rest, follow, slot in zip(*map(np.asarray, drawn), chosen, strict=True):
        expected = np.array(everything.window(int(slot), N_STEP))
        np.testing.assert_array_equal(follow, np.arange(N_STEP) < len(expected))
        np.testing.assert_array_equal(obs, expected[0, :OBS])
        np.testing.assert_array_equal(rest[: len(expected)], expected[:, OBS:])


@pytest.mark.parametrize(
    ("capacity", "environments", "action_size"),
    [(1_000, 3, 0), (17, 3, 0), (3, 3, 0), (5, 1, 0), (17, 3, 1), (5, 1, 3)],
)
def test_windows_of_a_host_replay_are_those_of_loops(capacity, environments, action_size, monkeypatch):
    """Environments that skip rounds, episodes that end, the oldest rows overwritten, and two cuts."""
    monkeypatch.setattr(replay, "_FIRST_ROWS", 4)
    rng, kept = np.random.default_rng(capacity), HostReplay(capacity, environments, OBS, SIZES[action_size])
    everything = Everything(capacity, environments)
    for i in range(60):
        present = np.flatnonzero(rng.random(environments) < 0.7)
        rows = rows_of(i, rng.random(len(present)) < 0.15, SIZES[action_size])
        at = kept.store(rows, present)
        np.testing.assert_array_equal(at, (len(everything.stored) + np.arange(len(present))) % capacity)
        everything.store(rows, present)
        if i in (20, 41):
            kept.cut()
            everything.cut()
        assert len(kept) == min(capacity, len(everything.stored))
        slots = np.arange(len(kept))
        assert_windows(kept.draw(slots, N_STEP), everything, slots, action_size)
    obs, rest, follows = kept.draw(slots.reshape(1, -1), 1)
    np.testing.assert_array_equal(np.concatenate([obs[0], rest[0, :, 0]], axis=1), kept.rows())
    assert follows.shape == (1, len(kept), 1)
    assert follows.all()


@pytest.mark.parametrize(
    ("capacity", "environments", "action_size"), [(100, 2, 0), (12, 2, 0), (7, 3, 0), (6, 1, 0), (7, 3, 1), (6, 1, 3)]
)
def test_windows_of_a_ring_are_those_of_loops(capacity, environments, action_size):
    """Episodes that end, the oldest rows overwritten, and, with one environment, tasks that begin."""
    rng, ring = np.random.default_rng(capacity), Ring.empty(capacity, environments, SIZES[action_size])
    whole = len(ring.rows)
    assert capacity <= whole < capacity + environments
    assert whole % environments == 0
    everything, each = Everything(whole, environments), range(environments)
    store, windows = jax.jit(Ring.store), jax.jit(Ring.draw, static_argnums=(3, 4, 5))
    for i in range(25):
        rows = rows_of(i, rng.random(environments) < 0.15, SIZES[action_size])
        ring, at = store(ring, i, rows)
        np.testing.assert_array_equal(at, (i * environments + np.arange(environments)) % whole)
        everything.store(rows, each)
        if environments == 1 and i in (8, 16):
            ring = with_new_episodes(ring, i + 1)
            everything.stored[-1][0][-1] = 1.0  # the ring marks a cut in the row itself
            everything.cut()
        stored = (i + 1) * environments
        chosen = np.arange(whole) % min(stored, whole)
        drawn = windows(ring, chosen, stored, environments, N_STEP, OBS)
        assert_windows(drawn, everything, chosen, action_size)


def with_new_episodes(ring, begin):
    """The ring of one lane after a task began in round `begin`."""
    nothing = jnp.zeros((1, 1), jnp.int32)
    lane = fused.Lane(
        (), (), nothing + 3, Held(nothing + 1, nothing + 2, nothing + 0.5), Ring(ring.rows[None]), (), (), ()
    )
    after = fused._with_new_episodes(lane, begin)
    assert not after.age.any()
    assert not after.held.left.any()
    return Ring(after.ring.rows[0])


def test_rows_hold_steps():
    rng = np.random.default_rng(0)
    steps = Steps(
        rng.normal(size=(5, OBS)), rng.integers(9, size=5), rng.normal(size=(5, D)), rng.normal(size=(5, OBS)),
        rng.integers(2, size=5) * 1.0, rng.integers(4, size=5), rng.integers(2, size=5) * 1.0,
    )  # fmt: skip
    rows = replay.pack(steps)
    assert rows.shape == (5, row_size(OBS, D))
    for back in (replay.unpack(rows, OBS), replay.unpack(jnp.asarray(rows), OBS)):
        for part, expected in zip(back, steps, strict=True):
            np.testing.assert_allclose(part, expected, rtol=1e-6)
        assert np.issubdtype(back.action.dtype, np.integer)
        assert np.issubdtype(back.task.dtype, np.integer)
    follows = np.ones((1, 5))
    windows = Drawn(rows[:1, :OBS], rows[None, :, OBS:], follows).windows()
    np.testing.assert_array_equal(windows.obs, steps.obs[:1])
    np.testing.assert_array_equal(windows.task, steps.task[:1])
    np.testing.assert_array_equal(windows.next_obs, steps.next_obs[None])
    assert windows.follows is follows


@pytest.mark.parametrize("size", [1, 3])
def test_rows_hold_steps_whose_actions_are_vectors(size):
    """In numpy and jax, with any leading axes; the column of an action of one entry is kept."""
    rng = np.random.default_rng(0)
    shape = (2, 5)
    steps = Steps(
        rng.normal(size=(*shape, OBS)), rng.uniform(-1, 1, (*shape, size)), rng.normal(size=(*shape, D)),
        rng.normal(size=(*shape, OBS)), rng.integers(2, size=shape) * 1.0, rng.integers(4, size=shape),
        rng.integers(2, size=shape) * 1.0,
    )  # fmt: skip
    rows = replay.pack(steps)
    assert rows.shape == (*shape, row_size(OBS, D, size))
    assert row_size(OBS, D, size) == row_size(OBS, D) + size - 1
    in_jax = replay.pack(jax.tree.map(jnp.asarray, steps))
    np.testing.assert_allclose(in_jax, rows, rtol=1e-6)
    for back in (replay.unpack(rows, OBS, action_size=size), replay.unpack(in_jax, OBS, action_size=size)):
        for part, expected in zip(back, steps, strict=True):
            assert part.shape == expected.shape
            np.testing.assert_allclose(part, expected, rtol=1e-6)
        assert back.action.dtype.kind == "f"
    windows = Drawn(rows[0, :, :OBS], rows[:1, :, OBS:].swapaxes(0, 1), np.ones((5, 1))).windows(size)
    np.testing.assert_array_equal(windows.action, steps.action[0][:, None])
    np.testing.assert_array_equal(windows.phi, steps.phi[0][:, None])


def test_bytes_are_kept_as_bytes_and_come_back_as_numbers():
    rng, size = np.random.default_rng(0), 4
    rest = row_size(size, D) - 2 * size
    rows = np.concatenate([rng.integers(256, size=(30, 2 * size)), rng.normal(size=(30, rest))], axis=1)
    rows = rows.astype(np.float32)
    small, plain = HostReplay(20, 3, size, rows.shape[1], np.uint8), HostReplay(20, 3, size, rows.shape[1])
    for part in np.split(rows, 10):
        for one in (small, plain):
            one.store(part, np.arange(3))
    assert len(small) == 20
    assert [one.dtype for one in small._parts] == [np.uint8, np.uint8, np.float32]
    np.testing.assert_array_equal(small.rows(), plain.rows())
    for one, other in zip(small.draw(np.arange(20), 3), plain.draw(np.arange(20), 3), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == np.float32


def test_a_restored_replay_goes_on_as_the_first():
    rng = np.random.default_rng(0)
    first, second, other = (HostReplay(9, 2, size, row_size(size, D)) for size in (OBS, OBS, OBS + 1))
    for i in range(12):
        if i == 7:
            second.restore(jax.tree.map(np.copy, first.state()))
        rows = rows_of(i, rng.random(2) < 0.2)
        for one in (first, second) if i >= 7 else (first,):
            one.store(rows, np.arange(2))
    for one, same in zip(first.draw(np.arange(9), 3), second.draw(np.arange(9), 3), strict=True):
        np.testing.assert_array_equal(one, same)
    with pytest.raises(TypeError, match="state must have float32"):
        other.restore(first.state())
