"""Vector environments in every way of resetting, against single environments stepped by hand."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_environments import Answers, Corridor, Vectors, corridor_phi

from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf.envs.gymnasium.vector import open_vector

LIMITS = (4, 3, 7)  # different ends in each environment
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


def by_hand(environments, seeds, actions, next_step):
    """The columns of a VectorStep for every step, and the first observations, one environment after the other."""
    code = environments[0].encoder.vector
    first, columns = [], []
    for i, env in enumerate(environments):
        first.append(code(env.reset(seeds[i])))
        ended, column = False, []
        for action in actions[:, i].tolist():
            if ended and next_step:
                begun = code(env.reset())
                column.append((begun, np.zeros(env.n_features), False, False, False, False, begun))
                ended = False
                continue
            step = env.step(action)
            ended = step.terminated or step.truncated
            seen = code(step.obs)
            obs = code(env.reset()) if ended and not next_step else seen
            column.append((seen, step.phi, step.terminated, step.truncated, step.failure, True, obs))
        columns.append(column)
    steps = [[np.stack(parts) for parts in zip(*rows, strict=True)] for rows in zip(*columns, strict=True)]
    return np.stack(first), steps


def same(vector, seed, actions, expected):
    first, steps = expected
    np.testing.assert_array_equal(vector.reset(seed), first)
    kinds = [np.float32, np.float32, np.bool_, np.bool_, np.bool_, np.bool_, np.float32]
    for chosen, hand in zip(actions, steps, strict=True):
        step = vector.step(chosen)
        for part, wanted, kind, name in zip(step, hand, kinds, step._fields, strict=True):
            np.testing.assert_array_equal(part, wanted.astype(kind), err_msg=name)
            assert part.dtype == kind


def corridors():
    return [open_environment(Corridor(limit=limit), corridor_phi) for limit in LIMITS]


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_gymnasiums_vector_environments_equal_single_ones(mode, copied, seed):
    actions = np.random.default_rng(seed).integers(2, size=(60, 3))
    factories = [lambda limit=limit: Corridor(limit=limit) for limit in LIMITS]
    vector = open_vector(SyncVectorEnv(factories, copy=copied, autoreset_mode=mode), phi=corridor_phi)
    assert (vector.num_envs, vector.n_actions, vector.n_features) == (3, 2, 7)
    expected = by_hand(corridors(), range(seed, seed + 3), actions, mode == AutoresetMode.NEXT_STEP)
    flags = [np.concatenate([step[part] for step in expected[1]]) for part in (2, 3, 4)]
    assert all(flag.any() for flag in flags), "the trace must meet ends of both kinds and failures"
    same(vector, seed, actions, expected)
    until_end = 1 + next(t for t, step in enumerate(expected[1]) if (step[2] | step[3]).any())
    same(vector, seed, actions[:until_end], (expected[0], expected[1][:until_end]))
    same(vector, seed, actions, expected)  # a reset forgets that an episode has just ended
    assert vector.reports_failures


def test_copies_equal_single_environments():
    actions = np.random.default_rng(2).integers(2, size=(60, 4))
    vector = open_vector(lambda: Corridor(limit=4), 4, corridor_phi)
    singles = [open_environment(Corridor(limit=4), corridor_phi) for _ in range(4)]
    same(vector, 3, actions, by_hand(singles, seeds_from(3, 4), actions, next_step=False))
    assert seeds_from(3, 2) == seeds_from(3, 4)[:2]
    assert len(set(seeds_from(0, 50) + seeds_from(1, 50))) == 100
    assert vector.reports_failures


def test_what_a_step_gave_stays_as_it_was():
    vector = open_vector(lambda: Corridor(limit=4), 2, corridor_phi)
    vector.reset(0)
    kept = []
    for _ in range(6):
        step = vector.step([1, 0])
        kept.append((step, [part.copy() for part in step]))
    for step, then in kept:
        for part, before, name in zip(step, then, step._fields, strict=True):
            np.testing.assert_array_equal(part, before, err_msg=name)


@pytest.mark.parametrize("env_id", ["resource-gathering-v0", "breakable-bottles-v0", "minecart-v0"])
def test_copies_of_mo_gymnasium_environments_equal_single_ones(env_id):
    pytest.importorskip("mo_gymnasium")
    vector = open_vector(env_id, 3)
    actions = np.random.default_rng(0).integers(vector.n_actions, size=(150, 3))
    singles = [open_environment(env_id) for _ in range(3)]
    same(vector, 11, actions, by_hand(singles, seeds_from(11, 3), actions, next_step=False))
    assert vector.describe().id == env_id
    assert vector.describe() == singles[0].describe()
    assert not vector.reports_failures
    vector.close()


@pytest.mark.parametrize("env_id", ["resource-gathering-v0", "minecart-v0", "fruit-tree-v0"])
def test_mo_gymnasiums_vector_class_equals_single_environments(env_id):
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    native = mo_gymnasium.wrappers.vector.MOSyncVectorEnv([lambda: mo_gymnasium.make(env_id)] * 3)
    vector = open_vector(native, 3)
    actions = np.random.default_rng(1).integers(vector.n_actions, size=(150, 3))
    singles = [open_environment(env_id) for _ in range(3)]
    np.testing.assert_array_equal(vector.bounds, singles[0].bounds)
    same(vector, 4, actions, by_hand(singles, range(4, 7), actions, next_step=True))
    vector.close()


def test_a_trace_written_by_hand():
    """Two corridors of length 1 under NEXT_STEP: right at once, or first a wait."""
    native = SyncVectorEnv([lambda: Corridor(length=1, limit=2)] * 2)
    vector = open_vector(native, phi=lambda obs, action, next_obs, info: [next_obs[0], 1.0])
    assert vector.reset(0)[:, 0].tolist() == [0, 0]
    steps = [vector.step(actions) for actions in ([1, 0], [1, 0], [0, 1])]
    assert [step.next_obs[:, 0].tolist() for step in steps] == [[1, 0], [0, 0], [0, 0]]
    assert [step.phi.tolist() for step in steps] == [[[1, 1], [0, 1]], [[0, 0], [0, 1]], [[0, 1], [0, 0]]]
    assert [step.terminated.tolist() for step in steps] == [[True, False], [False, False], [False, False]]
    assert [step.truncated.tolist() for step in steps] == [[False, False], [False, True], [False, False]]
    assert [step.valid.tolist() for step in steps] == [[True, True], [False, True], [True, False]]


class Cycle(gym.vector.VectorEnv):
    """Two counters with vector rewards, written as a batch; ends after 2 steps, SAME_STEP; Dict observations."""

    def __init__(self, gives_final=True):
        self.num_envs, self.gives_final = 2, gives_final
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Dict({"count": spaces.Discrete(3), "x": spaces.Box(0, 9, (1,))})
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, 2)
        self.single_action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.count = np.zeros(2, np.int64)
        return self._obs(), {}

    def step(self, actions):
        self.count += 1
        ended = self.count == 2
        info = {}
        if ended.any() and self.gives_final:
            final = np.full(2, None, dtype=object)
            for i in np.flatnonzero(ended):
                final[i] = {"count": 2, "x": np.array([2.0], np.float32)}
            info = {"final_obs": final, "_final_obs": ended}
            info["final_info"] = {"failure": np.array([True, False]), "_failure": ended}
            info["failure"], info["_failure"] = np.array([False, False]), ended
        self.count[ended] = 0
        return self._obs(), np.array([[1.0, a] for a in actions]), ended & (actions == 1), ended & (actions == 0), info

    def _obs(self):
        return {"count": self.count.copy(), "x": self.count[:, None].astype(np.float32)}


def test_a_vector_environment_of_the_users_own():
    vector = open_vector(Cycle())
    assert (vector.n_features, vector.bounds, vector.describe().id) == (2, None, None)
    assert vector.reset().tolist() == [[1, 0, 0, 0]] * 2
    vector.step([0, 1])
    step = vector.step([1, 0])
    assert step.next_obs.tolist() == [[0, 0, 1, 2]] * 2
    assert step.obs.tolist() == [[1, 0, 0, 0]] * 2
    assert step.phi.tolist() == [[1, 1], [1, 0]]
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([True, False], [False, True])
    assert step.failure.tolist() == [True, False]
    assert vector.reports_failures
    json.dumps(vector.describe().to_json(), allow_nan=False)


def test_vector_rewards_are_read_without_a_declared_space():
    vector = open_vector(lambda: Vectors(Corridor()), 2)
    assert vector.bounds.tolist() == [[0, 1], [-10, 10]]
    vector.reset(0)
    step = vector.step(np.array([0, 1]))
    np.testing.assert_array_equal(step.phi[:, 1], step.next_obs[:, 1])


def test_what_cannot_be_opened_says_why():
    def refused(message, *args, **kwargs):
        with pytest.raises(ValueError, match=message):
            open_vector(*args, **kwargs)

    two = SyncVectorEnv([Corridor] * 2)
    refused("num_envs must equal the vector environment's num_envs, 2, got 3", two, 3, corridor_phi)
    refused("reward is one number, not a vector of features; give phi", two)
    refused("reward is one number", "CartPole-v1", 2)
    refused("num_envs must", "CartPole-v1", 0)
    refused("num_envs=2 needs an environment's id or a function", Corridor(), 2, corridor_phi)
    refused("env must be an id", 3, 1)
    refused("limit can only be given with an environment's id", Corridor, 2, corridor_phi, limit=3)
    lengths = iter([3, 4])
    refused("must make the same environment every time", lambda: changing(next(lengths)), 2)
    silent = Cycle()
    silent.metadata = {}
    refused(r"must declare in metadata\['autoreset_mode'\] how it resets, got None", silent)
    refused(r"phi must return features of shape \(d,\), got shape \(1, 2\)", two, phi=lambda *_: [[1, 2]])


def changing(n):
    env = Answers(spaces.Discrete(n), [0], [1.0])
    env.reward_space = spaces.Box(0.0, 1.0, (1,))
    return env


def test_bad_steps_are_refused_when_they_happen():
    vector = open_vector(lambda: Vectors(Corridor()), 2)
    native = open_vector(Cycle(gives_final=False))
    for each in (vector, native):
        with pytest.raises(ValueError, match="no episode is running"):
            each.step([0, 0])
        each.reset(0)
        wrong = ([0], "one for each of 2"), ([0.0, 1.0], "whole numbers"), ([0, 2], "whole numbers from 0 to 1")
        for actions, message in wrong:
            with pytest.raises(ValueError, match=f"actions must be {message}"):
                each.step(actions)
    native.step([0, 0])
    with pytest.raises(ValueError, match="'final_obs'"):
        native.step([0, 0])

    box = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    for observations, features, message in (
        ([[0.0], [np.nan]], [1.0], "observation that is not in its space: obs must be finite"),
        ([[0.0], [1.0]], [np.nan], "features of a step must be finite"),
        ([[0.0], [1.0]], [1.0, 2.0], r"phi must return features of shape \(1,\), got shape \(2,\)"),
    ):

        def phi(obs, action, next_obs, info, features=features):
            return features

        phi.bounds = [[0, 1]]
        arrays = [np.array(obs) for obs in observations]
        for opened in (
            open_vector(lambda arrays=arrays: Answers(box, arrays, 0.0), 2, phi),
            open_vector(SyncVectorEnv([lambda arrays=arrays: Answers(box, arrays, 0.0)] * 2), phi=phi),
        ):
            opened.reset(0)
            with pytest.raises(ValueError, match=message):
                opened.step([0, 0])


def test_gymnasium_s_own_vector_class_with_vector_rewards_is_refused_in_a_sentence():
    native = SyncVectorEnv([lambda: gym.make("rasf/FourRoom-v0")] * 2)
    with pytest.raises(ValueError, match="rewards that are vectors"):
        open_vector(native)
