"""Checkpoints: a training that is interrupted at any point goes on to the bits of one that is not."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rasf
from rasf import MeanVariance
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.gymnasium.tape import Tape
from rasf.envs.gymnasium.vector import open_vector
from rasf.files import load_file, save_file
from rasf.library import checkpoint
from rasf.library.checkpoint import Checkpoint, OtherTraining, _array

RISKS = [MeanVariance(0.0), MeanVariance(-1.0)]
SMALL = {"widths": (4,), "batch": 4}


class Slippery(gym.Env):
    """A walk on five cells with slips, which draws from the environment's own generator; episodes end at both ends."""

    observation_space, action_space = spaces.Box(-3.0, 3.0, (1,), np.float32), spaces.Discrete(2)
    reward_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    signs = (1, 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._cell = int(self.np_random.integers(-1, 2))
        return np.full(1, self._cell, np.float32), {}

    def step(self, action):
        slips = self.np_random.random() < 0.3
        self._cell += 1 - 2 * int(action) if slips else 2 * int(action) - 1
        phi = np.array([float(self._cell == 3), -float(self._cell == -3)])
        return np.full(1, self._cell, np.float32), phi, abs(self._cell) == 3, False, {"failure": self._cell == -3}


class Counting(gym.Wrapper):
    """Observations less the mean of all so far: a memory that outlives episodes."""

    def __init__(self, env):
        super().__init__(env)
        self._seen, self._n = 0.0, 0

    def _less_mean(self, obs):
        self._seen, self._n = self._seen + obs, self._n + 1
        return np.clip(obs - self._seen / self._n, -3, 3).astype(np.float32)

    def reset(self, **given):
        obs, info = self.env.reset(**given)
        return self._less_mean(obs), info

    def step(self, action):
        obs, *rest = self.env.step(action)
        return self._less_mean(obs), *rest


class Cells(gym.ObservationWrapper):
    """The cell as a whole number, for tables."""

    observation_space = spaces.Discrete(7)

    def observation(self, obs):
        return int(obs[0]) + 3


def tabular():
    return Cells(Slippery())


def limited():
    return gym.wrappers.TimeLimit(Slippery(), 12)


class Interrupted(Exception):
    pass


def everything(library):
    return dict(library.sources.arrays()) | {f"history {name}": part for name, part in library.history.items()}


TRAININGS = {
    "tables": (tabular, {"agent": "rasfql", "risk": RISKS, "steps_per_task": 1_200}),
    "tables that learn w": (tabular, {"agent": "rasfql", "learn_w": True, "steps_per_task": 1_200}),
    "model": (tabular, {"agent": "rasf-model", "risk": RISKS, "steps_per_task": 1_300}),
    "model that learns w": (tabular, {"agent": "rasf-model", "learn_w": True, "steps_per_task": 1_300}),
    "four rooms": ("rasf/FourRoom-v0", {"agent": "rasfql", "risk": RISKS, "steps_per_task": 300, "tasks": 3}),
    "four rooms, model": ("rasf/FourRoom-v0", {"agent": "rasf-model", "steps_per_task": 1_200, "tasks": 3}),
    "networks": (limited, {"agent": "rasfdqn", "risk": RISKS, "num_envs": 2, "steps_per_task": 900, **SMALL}),
    "networks of a wrapper with a memory": (
        lambda: Counting(Slippery()),
        {"agent": "rasfdqn", "steps_per_task": 900, "replay": 300, **SMALL},
    ),
    "histograms, one task after the other": (
        Slippery,
        {"agent": "rasfc51", "risk": RISKS, "steps_per_task": 600, "atoms": 5, **SMALL},
    ),
    "a vector environment": (
        lambda: gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2),
        {"agent": "sfdqn", "phi": lambda obs, action, after, info: [1.0, abs(after[2])], "steps_per_task": 500} | SMALL,
    ),
    "the reacher, fused": (
        "rasf/Reacher-v0",
        {"agent": "rasfc51", "tasks": 2, "atoms": 5, "steps_per_task": 1_500, **SMALL},
    ),
}
LONG = ("networks of a wrapper with a memory", "histograms, one task after the other", "the reacher, fused")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in TRAININGS])
def test_an_interrupted_training_goes_on_to_the_same_bits(name, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)  # a slow disk must not delay the next checkpoint
    env, options = TRAININGS[name]
    options = {"tasks": [[1.0, 1.0], [1.0, 0.2]], "seed": 3} | options
    path, shown, shown_again = tmp_path / "checkpoint", [], []

    def learn(**more):
        return rasf.learn(env() if name == "a vector environment" else env, **options, **more)

    whole = learn(callback=lambda progress: shown.append(progress.policy))
    for share in (0.3, 0.7):

        def interrupt(progress, share=share):
            if progress.share > share and path.exists():
                raise Interrupted

        with pytest.raises(Interrupted):
            learn(callback=interrupt, checkpoint=path, checkpoint_seconds=0.0)
    resumed = learn(callback=lambda progress: shown_again.append(progress.policy), checkpoint=path)
    assert 0 < len(shown_again) < len(shown)
    assert not path.exists()
    assert everything(whole).keys() == everything(resumed).keys()
    for part, array in everything(whole).items():
        np.testing.assert_array_equal(everything(resumed)[part], array, err_msg=part)
    assert resumed.policies == whole.policies


@pytest.fixture
def interrupted(tmp_path):
    """The checkpoint of a training with tables."""
    path = tmp_path / "checkpoint"

    def interrupt(progress):
        if path.exists():
            raise Interrupted

    with pytest.raises(Interrupted):
        rasf.learn(tabular, tasks=[[1, 1]], agent="rasfql", checkpoint=path, checkpoint_seconds=0, callback=interrupt)
    return path


def test_a_checkpoint_of_another_training_is_refused(interrupted):
    same = {"tasks": [[1, 1]], "agent": "rasfql", "checkpoint": interrupted}
    for changes, differing in (
        ({"seed": 1}, "seed"),
        ({"tasks": [[1, 2]]}, "tasks"),
        ({"epsilon": 0.3}, "settings"),
        ({"steps_per_task": 30}, "steps_per_task"),
        ({"risk": MeanVariance(-1.0)}, "risk"),
    ):
        with pytest.raises(OtherTraining, match=f"checkpoint of another training: {differing} differ; remove the file"):
            rasf.learn(tabular, **same | changes)
    assert interrupted.exists()


def test_what_is_no_checkpoint_is_refused(interrupted, tmp_path):
    learn = {"tasks": [[1, 1]], "agent": "rasfql"}
    header, arrays = load_file(interrupted)
    for name, held, words in (
        ("other", ({"kind": "log"}, {}), "is not a checkpoint of a training"),
        ("odd", (header | {"state": {"code": "print()"}}, arrays), "does not fit this training"),
    ):
        save_file(tmp_path / name, *held)
        with pytest.raises(ValueError, match=words):
            rasf.learn(tabular, checkpoint=tmp_path / name, **learn)
    (tmp_path / "text").write_text("text")
    for path, words in ((tmp_path / "text", "is not a rasf library"), (tmp_path, "is a directory"), (3, "the path")):
        with pytest.raises(ValueError, match=words):
            rasf.learn(tabular, checkpoint=path, **learn)


def test_a_checkpoint_that_cannot_be_written_leaves_the_training_alone(tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "cannot be written: No space left on device")

    monkeypatch.setattr("rasf.library.checkpoint.save_file", full)
    rasf.learn(
        tabular, tasks=[[1, 1]], agent="rasfql", steps_per_task=50, checkpoint=tmp_path / "a", checkpoint_seconds=0
    )
    assert "cannot be written: No space left on device; training continues" in caplog.messages[0]


def test_a_broken_part_is_not_half_restored():
    """An array of another type is refused, not converted."""
    with pytest.raises(TypeError, match="cannot be restored"):
        _array(np.zeros(2), np.zeros(2, np.float32))


def test_checkpoints_are_written_on_time(tmp_path, monkeypatch):
    """Every `seconds`, but so that writing takes a twentieth of the time at most."""
    now = [0.0]
    monkeypatch.setattr("rasf.library.checkpoint.time.monotonic", lambda: now[0])
    monkeypatch.setattr("rasf.library.checkpoint.save_file", lambda *_: now.__setitem__(0, now[0] + 2.0))
    saver = Checkpoint(tmp_path / "a", 10.0)
    saver.begin(number=1)
    written = []
    for second in range(1, 101):
        now[0] = max(now[0], float(second))
        if saver.due:
            written.append(second)
            saver.tick()
    assert written == [10, 52, 94]


# --- environments


def test_a_tape_brings_an_environment_back_by_its_last_episode():
    first, calls = open_environment(Slippery), []
    tape, rng = Tape(first), np.random.default_rng(0)
    first.reset(7)
    for _ in range(200):
        step = first.step(int(rng.integers(2)))
        if step.terminated:
            first.reset()

    class Watched(Slippery):
        def step(self, action):
            calls.append(action)
            return super().step(action)

    second = open_environment(Watched)
    other = Tape(second)
    other.restore(tape.state())
    assert len(calls) < 50
    for _ in range(100):
        action = int(rng.integers(2))
        (one, two) = first.step(action), second.step(action)
        np.testing.assert_array_equal(one.obs, two.obs)
        if one.terminated:
            np.testing.assert_array_equal(first.reset(), second.reset())
    assert repr(tape.state()) == repr(other.state())


def test_an_environment_that_its_seed_does_not_determine_is_refused():
    class Unseeded(Slippery):
        def reset(self, *, seed=None, options=None):
            _, info = super().reset(seed=seed)
            self._cell = int(np.random.default_rng().integers(-2, 3))
            return np.full(1, self._cell + np.random.default_rng().random() / 2, np.float32), info

    first = open_environment(Unseeded)
    tape = Tape(first)
    first.reset(0)
    with pytest.raises(ValueError, match="the same seed and actions led to another state"):
        Tape(open_environment(Unseeded)).restore(tape.state())


def test_a_vector_environment_is_replayed():
    def phi(obs, action, after, info):
        return [1.0]

    def make():
        return open_vector(gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2), phi=phi)

    first = make()
    tape, rng = Tape(first), np.random.default_rng(0)
    first.reset(3)
    for _ in range(60):
        first.step(rng.integers(2, size=2))
    first.reset()
    first.step(np.zeros(2, np.int64))
    second = make()
    Tape(second).restore(tape.state())
    for _ in range(40):
        actions = rng.integers(2, size=2)
        np.testing.assert_array_equal(first.step(actions).obs, second.step(actions).obs)
