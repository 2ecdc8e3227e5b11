"""Recording: what is kept, that it is whole after a kill, that recording goes on, and what is refused."""

import errno
import os
import subprocess
import sys
import threading

import gymnasium as gym
import numpy as np
import pytest
from library_worlds import gamble

import rasf
from rasf.envs.gymnasium import recorder


def play(env, episodes, seed=0, cut=None):
    """Random episodes; the transitions as the environment told them."""
    rng, told = np.random.default_rng(seed), []
    for n in range(episodes):
        obs, _ = env.reset(seed=seed if n == 0 else None)
        over, steps = False, 0
        while not over and steps != cut:
            action = int(rng.integers(env.action_space.n)) + int(env.action_space.start)
            after, phi, terminated, truncated, _ = env.step(action)
            told.append((obs, action, tuple(phi), after, terminated, n))
            obs, over, steps = after, terminated or truncated, steps + 1
    return told


def as_told(log):
    rows = zip(log.obs[:, 0], log.actions, log.phi, log.next_obs[:, 0], log.terminated, log.episode, strict=True)
    first = log.environment.first_action
    return [(int(s), int(a) + first, tuple(phi), int(t), bool(e), int(n)) for s, a, phi, t, e, n in rows]


@pytest.mark.parametrize("first_action", [0, 3])
def test_every_step_is_kept_as_it_was(tmp_path, first_action):
    with rasf.Recorder(gamble(first_action=first_action), tmp_path / "log", steps_per_part=7) as env:
        told = play(env, 20)
    log = rasf.Log.read(tmp_path / "log")
    assert as_told(log) == told
    assert (log.episodes, log.environment.n_actions) == (20, 2)
    assert len(list((tmp_path / "log").glob("part-*.rasf"))) == -(-len(told) // 7)
    assert repr(log) == f"<Log: {len(told)} steps in 20 episodes of an environment without id>"


def test_a_recorder_is_the_environment_that_it_wraps(tmp_path):
    with rasf.Recorder(gamble(), tmp_path) as env:
        recorded = play(env, 10, seed=4)
    assert recorded == play(gamble(), 10, seed=4)


def test_recording_goes_on_in_the_same_folder(tmp_path):
    for seed in (1, 2):
        with rasf.Recorder(gamble(), tmp_path) as env:
            play(env, 5, seed)
    log = rasf.Log.read(tmp_path)
    assert log.episodes == 10
    assert len(np.unique(log.episode)) == 10


def test_an_episode_that_was_left_is_cut(tmp_path):
    with rasf.Recorder(gamble(), tmp_path) as env:
        play(env, 4, cut=1)
    log = rasf.Log.read(tmp_path)
    assert len(log) == log.episodes == 4


def test_failures_are_kept_where_they_are_named(tmp_path):
    with rasf.Recorder(gamble(failing=(2,), named="then"), tmp_path / "named", steps_per_part=3) as env:
        play(env, 30)
    log = rasf.Log.read(tmp_path / "named")
    np.testing.assert_array_equal(log.failure, log.next_obs[:, 0] == 2)
    with rasf.Recorder(gamble(failing=None), tmp_path / "none") as env:
        play(env, 3)
    assert rasf.Log.read(tmp_path / "none").failure is None


def test_features_of_a_function_are_kept_and_the_reward_is_passed_on(tmp_path):
    def phi(obs, action, after, info):
        return [float(obs), float(after == 5)]

    with rasf.Recorder(gym.make("FrozenLake-v1"), tmp_path, phi=phi) as env:
        env.reset(seed=0)
        assert np.ndim(env.step(1)[1]) == 0
    log = rasf.Log.read(tmp_path)
    assert log.phi.tolist() == [[log.obs[0, 0], float(log.next_obs[0, 0] == 5)]]
    assert log.environment.phi == "phi"


def test_who_is_killed_loses_what_was_not_written(tmp_path):
    """Killed in the middle of a step: whole parts remain, and a second recorder goes on."""
    code = f"""
import os, signal
import gymnasium as gym, numpy as np
import rasf
lake = rasf.FeatureReward(gym.make("FrozenLake-v1"), lambda o, a, n, i: [1.0], [[0, 1]])
env = rasf.Recorder(lake, {str(tmp_path)!r}, steps_per_part=50)
env.reset(seed=0)
for step in range(220):
    _, _, ended, cut, _ = env.step(step % 4)
    if ended or cut:
        env.reset()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    log = rasf.Log.read(tmp_path)
    assert len(log) == 200
    wrapped = rasf.FeatureReward(gym.make("FrozenLake-v1"), lambda o, a, n, i: [1.0], [[0, 1]])
    with rasf.Recorder(wrapped, tmp_path) as env:
        env.reset(seed=1)
        env.step(0)
    assert len(rasf.Log.read(tmp_path)) == 201


def test_a_folder_is_of_one_environment_and_one_recorder(tmp_path):
    with rasf.Recorder(gamble(), tmp_path) as env:
        play(env, 2)
        with pytest.raises(ValueError, match="another recorder writes"):
            rasf.Recorder(gamble(), tmp_path)
    with pytest.raises(ValueError, match="another environment: its first_action was 0, now 1"):
        rasf.Recorder(gamble(first_action=1), tmp_path)
    rasf.Recorder(gamble(), tmp_path).close()  # whoever was refused holds nothing


def test_what_cannot_be_recorded_is_refused(tmp_path):
    with pytest.raises(ValueError, match="give phi"):
        rasf.Recorder(gym.make("FrozenLake-v1"), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        rasf.Recorder(gamble(), tmp_path / "file")
    with rasf.Recorder(gamble(), tmp_path / "log") as env, pytest.raises(ValueError, match="reset"):
        env.step(0)
    with pytest.raises(ValueError, match="path must be the name"):
        rasf.Recorder(gamble(), None)
    with pytest.raises(ValueError, match=r"env must be a gymnasium\.Env, got str"):
        rasf.Recorder("FrozenLake-v1", tmp_path)


class Odd(gym.Wrapper):
    """An environment whose next step differs from what it should be by `change`."""

    def __init__(self):
        super().__init__(gamble())
        self.change, self.steps, self.closed = {}, 0, False

    def step(self, action):
        self.steps += 1
        told = dict(zip(("obs", "phi", "terminated", "truncated", "info"), super().step(action), strict=True))
        return tuple((told | self.change).values())

    def close(self):
        self.closed = True
        super().close()


def test_an_action_that_is_none_is_refused_before_the_environment_steps(tmp_path):
    odd = Odd()
    with rasf.Recorder(odd, tmp_path) as env:
        env.reset(seed=0)
        before = odd.steps
        for action in (0.6, 2, -1, np.nan, np.inf, 10**20, "0", None, [0], [[0], [0, 1]], np.array([0]), 1j, {}):
            with pytest.raises(ValueError, match=r"\Aaction must be a whole number from 0 to 1, got [^\n]+\Z"):
                env.step(action)
        assert odd.steps == before
        taken = []
        for action in (1, np.int8(0), np.array(1), True):
            env.step(action)
            env.reset()
            taken.append(int(action))
    assert rasf.Log.read(tmp_path).actions.tolist() == taken


def test_a_step_that_no_log_can_hold_is_refused_and_cuts_its_episode(tmp_path):
    odd, kept = Odd(), 0
    with rasf.Recorder(odd, tmp_path) as env:
        for change, said in (
            ({"info": {"failure": "no"}}, r'info\["failure"\] must be True or False, got .no.'),
            ({"info": {"failure": None}}, r'info\["failure"\] must be'),
            ({"info": {"failure": 0.5}}, r'info\["failure"\] must be'),
            ({"info": {"failure": np.array([True])}}, r'info\["failure"\] must be'),
            ({"info": None}, "step must return"),
            ({"terminated": np.nan}, "terminated must be True or False, got nan"),
            ({"terminated": np.array([False, True])}, "terminated must be"),
            ({"truncated": "never"}, "truncated must be"),
            ({"phi": [1.0, np.nan, 0.0]}, "must be finite"),
            ({"phi": 1.0}, "one number"),
            ({"obs": 99}, "is not in its space"),
        ):
            odd.change = {}
            env.reset(seed=0)
            env.step(0)
            kept += 1
            odd.change = change
            env.reset(seed=0)
            with pytest.raises(ValueError, match=rf"\A[^\n]*{said}[^\n]*\Z"):
                env.step(0)
            with pytest.raises(ValueError, match="no episode is running"):
                env.step(0)
        for failure in (False, np.bool_(False), 0, 0.0, True, np.bool_(True), 1, np.array(1)):
            odd.change = {"info": {"failure": failure}}
            env.reset(seed=0)
            env.step(0)
    log = rasf.Log.read(tmp_path)
    assert len(log) == log.episodes == kept + 8
    assert log.failure.tolist() == [False] * (kept + 4) + [True] * 4


def test_a_recorder_that_cannot_write_in_the_end_says_so_and_lets_go(tmp_path, monkeypatch):
    def full(file, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    odd = Odd()
    env = rasf.Recorder(odd, tmp_path)
    env.reset(seed=0)
    env.step(0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="cannot be written: No space left") as refused:
            env.flush()
        assert refused.value.filename == str(tmp_path / "part-000000.rasf")
        with pytest.raises(OSError, match=r"part-000000\.rasf"):
            env.close()
    assert odd.closed
    for use in (env.reset, lambda: env.step(0), env.flush):
        with pytest.raises(ValueError, match=r"\Athe recorder of [^\n]+ is closed[^\n]+\Z"):
            use()
    env.close()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    with rasf.Recorder(gamble(), tmp_path) as env:  # the lock is free
        play(env, 2)
    assert rasf.Log.read(tmp_path).episodes == 2


def test_another_thread_may_step_and_close(tmp_path):
    env = rasf.Recorder(gamble(), tmp_path)

    def use():
        play(env, 3)
        env.close()

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert rasf.Log.read(tmp_path).episodes == 3
    rasf.Recorder(gamble(), tmp_path).close()


def test_a_part_that_is_damaged_is_named_when_recording_goes_on(tmp_path):
    with rasf.Recorder(gamble(), tmp_path) as env:
        play(env, 2)
    part = tmp_path / "part-000000.rasf"
    header, held = recorder.load_file(part)
    for wrong, arrays, said in (
        ({}, held, "is not a part of a log"),
        (header, {}, "is damaged"),
        (header, held | {"episode": np.full(2, np.inf)}, "is damaged"),
        (header, held | {"episode": np.full(2, 2**62)}, "is damaged"),
    ):
        recorder.save_file(part, wrong, arrays)
        with pytest.raises(ValueError, match=rf"part-000000\.rasf {said}"):
            rasf.Recorder(gamble(), tmp_path)
