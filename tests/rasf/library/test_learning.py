"""`learn`: ends and cuts told apart, same seed same bits, exact laws approached, one sentence for what is wrong."""

import functools
import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from library_worlds import gamble, random_world, scripted

import rasf
from rasf import CVaR, Entropic, MeanVariance, NestedEntropic
from rasf.envs.four_room import FourRoom
from rasf.envs.reacher import Reacher
from rasf.library.progress import TrainingLog

NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-1.0)
LINE = spaces.Box(-9.0, 9.0, (1,), np.float64)
DEEP = {"agent": "sfdqn", "widths": (8,), "batch": 8}


def one_line(call, said):
    with pytest.raises(ValueError, match=said) as refused:
        call()
    assert "\n" not in str(refused.value)


def same_bits(one, other):
    parts = [library.sources.arrays() | library.history for library in (one, other)]
    return all(np.array_equal(parts[0][name], parts[1][name], equal_nan=True) for name in parts[0])


# --- ends and cuts


def steady(at_end, cells=1, ends=1):
    """Feature 1 in every step, one observation (or a few, one after the other); every episode is of `ends` steps."""
    return scripted(LINE, [np.array([float(s)]) for s in range(cells)], [1.0], ends, at_end=at_end)


@pytest.mark.parametrize(("at_end", "psi"), [("terminated", 1.0), ("truncated", 2.0)])
def test_tables_bootstrap_after_a_cut_and_not_after_an_end(at_end, psi):
    library = rasf.learn(steady(at_end), tasks=[[1.0]], agent="rasfql", gamma=0.5, steps_per_task=200, epsilon=1.0)
    found = library.scores(np.zeros(1), [1.0], NEUTRAL)
    np.testing.assert_allclose(found.mean, psi, atol=1e-4)
    np.testing.assert_allclose(found.std, 0.0, atol=0.02)


def test_a_cut_bootstraps_from_where_it_was_cut_not_from_the_next_beginning():
    # 0 -> 1 -> 2, cut there; nothing is ever learned at 2, so it is worth its noise, and 0 again would be worth 1.5
    world = steady("truncated", cells=3, ends=2)
    library = rasf.learn(world, tasks=[[1.0]], agent="rasfql", gamma=0.5, steps_per_task=200, epsilon=1.0)
    found = library.scores(np.arange(3.0)[:, None], [1.0], NEUTRAL)
    np.testing.assert_allclose(found.mean[0], [[1.5, 1.5], [1.0, 1.0], [0.0, 0.0]], atol=0.01)
    np.testing.assert_array_equal(found.seen, [True, True, False])


@pytest.mark.parametrize("as_vector", [False, True])
@pytest.mark.parametrize(("at_end", "psi"), [("terminated", 1.0), ("truncated", 2.0)])
def test_networks_bootstrap_after_a_cut_and_not_after_an_end(as_vector, at_end, psi):
    # by default a vector environment spends a step on each reset; counted, it would spoil both numbers
    def make():
        return scripted(LINE, [np.zeros(1)], 7.0, 1, at_end=at_end)

    library = rasf.learn(
        gym.vector.SyncVectorEnv([make]) if as_vector else make(), tasks=[[1.0]], phi=lambda *_: [1.0], gamma=0.5,
        steps_per_task=400, learning_rate=0.02, target_period=20, **DEEP,
    )  # fmt: skip

    np.testing.assert_allclose(library.scores(np.zeros(1), [1.0], NEUTRAL).mean, psi, atol=0.05)


# --- exact laws


def test_a_learned_table_approaches_the_exact_law_of_its_policy_and_acts_as_planned():
    world, w, gamma = random_world(0), np.array([1.0, -0.3]), 0.7
    library = rasf.learn(
        world, tasks=[w], agent="rasfql", gamma=gamma, steps_per_task=15_000, epsilon=1.0, alpha=0.02, alpha_sigma=0.02
    )
    states, mdp = np.arange(3), world.mdp(gamma)
    policy = np.append(library.act(states, w, NEUTRAL), 0)
    np.testing.assert_array_equal(policy[:3], rasf.plan(mdp, w, NestedEntropic(0.0)).policy[:3])
    exact = rasf.successor_moments(mdp, policy)
    for v in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0], w):
        found = library.scores(states, v, NEUTRAL)
        variance = np.einsum("i,saij,j->sa", v, exact.Sigma[:3], v)
        np.testing.assert_allclose(found.mean[0], exact.psi[:3] @ v, atol=0.15 * np.sqrt(variance.max()))
        np.testing.assert_allclose(found.std[0] ** 2, variance, rtol=0.3, atol=0.02)


def test_one_table_gambles_or_not_by_the_risk_asked_for():
    # mean 2 and variance 4 against 1.5 for sure
    library = rasf.learn(
        gamble(), tasks=[[0, 1, 0], [-1, 0, 0]], agent="rasfql", gamma=1.0, steps_per_task=3000, alpha=0.02,
        alpha_sigma=0.02, epsilon=0.5,
    )  # fmt: skip
    found = library.scores(0, [0.0, 1.0, 0.0], NEUTRAL)
    np.testing.assert_allclose(found.mean[0], [1.5, 2.0], atol=0.3)
    np.testing.assert_allclose(found.std[0] ** 2, [0.0, 4.0], atol=0.6)
    for risk, action in ((NEUTRAL, 1), (MeanVariance(-1.0), 0), (CVaR(0.25), 0), (MeanVariance(0.5), 1)):
        assert library.act(0, [0.0, 1.0, 0.0], risk) == action
        assert library.act(0, [0.0, 2.0, 0.0], risk) == action
    assert library.act(0, [-1.0, 0.0, 0.0], NEUTRAL) == 1  # fewer steps
    assert library.act(0, [0.0, 1.0, -2.0], NEUTRAL) == 0  # a fall costs 2, half of the time


# --- what a call decides


@pytest.mark.parametrize("options", [{"agent": "rasfql"}, DEEP, DEEP | {"agent": "rasfc51", "atoms": 5}])
def test_the_same_seed_gives_the_same_bits(options):
    runs = [
        rasf.learn(random_world(1), tasks=[[1, 0], [0, 1]], steps_per_task=80, seed=seed, **options)
        for seed in (4, 4, 5)
    ]
    assert same_bits(runs[0], runs[1])
    assert not same_bits(runs[0], runs[2])


@pytest.mark.parametrize(
    "options", [{"agent": "rasfql"}, {"agent": "rasf-model"}, DEEP | {"agent": "rasfc51", "atoms": 5}]
)
def test_several_risks_give_a_policy_each_from_one_stream_and_gpi_runs_over_all(options):
    class Counted(gym.Wrapper):
        steps = 0

        def step(self, action):
            self.steps += 1
            return self.env.step(action)

    world, tasks, risks = Counted(random_world(2)), [[1.0, 0.2], [0.1, -1.0]], [NEUTRAL, MeanVariance(-3.0)]
    library = rasf.learn(world, tasks=tasks, risk=risks, steps_per_task=40, seed=3, **options)
    assert world.steps == 2 * 40
    assert [(policy.w, policy.risk) for policy in library.policies] == [
        ((1.0, 0.2), NEUTRAL), ((0.1, -1.0), NEUTRAL),
        ((1.0, 0.2), MeanVariance(-3.0)), ((0.1, -1.0), MeanVariance(-3.0)),
    ]  # fmt: skip
    states, w = np.arange(3), [0.4, -0.7]
    for risk in (NEUTRAL, AVERSE, CVaR(0.2)):
        found = library.scores(states, w, risk)
        assert found.values.shape == (4, 3, 2)
        np.testing.assert_array_equal(library.act(states, w, risk), found.values.max(axis=0).argmax(axis=-1))
    assert library.history["return"].shape == (4,)


def test_networks_learn_risks_of_one_kind_together():
    with pytest.raises(ValueError, match="risk must be of one kind"):
        rasf.learn(
            random_world(1), tasks=1, steps_per_task=4, risk=[MeanVariance(-1.0), Entropic(-1.0)],
            **DEEP | {"agent": "rasfc51"},
        )  # fmt: skip


def test_every_way_to_say_neutral_is_the_same():
    runs = [
        rasf.learn(random_world(1), tasks=[[1, 0]], agent=agent, risk=risk, steps_per_task=12, **options)
        for agent, options in (("sfql", {}), ("sfdqn", {"widths": (8,), "batch": 8}))
        for risk in (NEUTRAL, Entropic(0.0), CVaR(1.0))
    ]
    assert same_bits(runs[0], runs[1])
    assert same_bits(runs[0], runs[2])
    assert same_bits(runs[3], runs[4])


def test_a_number_of_tasks_is_drawn_from_the_environment_or_else_uniformly():
    own = rasf.learn("rasf/FourRoom-v0", tasks=3, agent="sfql", steps_per_task=20, seed=9)
    drawn = FourRoom().random_tasks(3, np.random.default_rng([9, 77]))
    np.testing.assert_array_equal([policy.w for policy in own.policies], drawn)
    assert not any("[-1, 1]" in note for note in own.notes)
    world = random_world(0, d=2)
    other = rasf.learn(world, tasks=40, agent="sfql", steps_per_task=1, seed=9)
    weights = np.array([policy.w for policy in other.policies])
    assert any("40 weightings were drawn from [0, 1] with the signs [1, 1]" in note for note in other.notes)
    assert weights.shape == (40, 2)
    assert 0 <= weights.min() < 0.2
    assert 0.8 < weights.max() <= 1
    again = rasf.learn(world, tasks=40, agent="sfql", steps_per_task=1, seed=10)
    assert (np.array([policy.w for policy in again.policies]) != weights).all()
    cost = rasf.learn(world, tasks=40, agent="sfql", steps_per_task=1, seed=9, signs=(1, -1))
    np.testing.assert_array_equal([policy.w for policy in cost.policies], weights * [1, -1])


def phi_of_two(obs, action, next_obs, info):
    return [1.0, float(action)]


def test_a_number_of_tasks_needs_signs_so_that_costs_are_not_rewarded():
    world, cost = random_world(0, d=2), random_world(0, d=2)
    del world.signs
    said = r"tasks=8 cannot be drawn, because it is unknown which of the 2 features are costs: give weights \(n, 2\)"
    for options in ({}, {"phi": phi_of_two}, {"agent": "auto"}, DEEP):
        one_line(lambda options=options: rasf.learn(world, tasks=8, steps_per_task=1, **options), said)
    one_line(
        lambda: rasf.learn(world, tasks=[[1.0, -1.0]], extra_tasks=3, steps_per_task=1, **DEEP), "^extra_tasks=3 cannot"
    )
    one_line(lambda: rasf.learn("rasf/FourRoom-v0", tasks=8, phi=phi_of_two), said)
    cost.signs = (1, -1)
    declared = functools.update_wrapper(functools.partial(phi_of_two), phi_of_two)
    declared.signs = [0, -1]
    for env, options, low, high in (
        (cost, {}, (0, -1), (1, 0)),
        (gym.wrappers.TimeLimit(cost, 5), {}, (0, -1), (1, 0)),
        (world, {"signs": [0, 0]}, (-1, -1), (1, 1)),
        (world, {"phi": declared}, (-1, -1), (1, 0)),
        (world, {"phi": declared, "signs": (-1, 1)}, (-1, 0), (0, 1)),
    ):
        drawn = rasf.learn(env, tasks=40, agent="sfql", steps_per_task=1, seed=9, **options)
        weights = np.array([policy.w for policy in drawn.policies])
        np.testing.assert_allclose(weights.min(axis=0), low, atol=0.2)
        np.testing.assert_allclose(weights.max(axis=0), high, atol=0.2)
        assert ((np.array(low) <= weights) & (weights <= high)).all()
    for signs in ([2, 1], [1], "ab", [[1], [1, 1]], 3, np.nan):
        one_line(lambda signs=signs: rasf.learn(world, tasks=2, agent="sfql", signs=signs), "signs must be 2 numbers")
    declared.signs = [2, 1]
    one_line(lambda: rasf.learn(world, phi=declared, tasks=2, agent="sfql"), "signs must be 2 numbers")


def test_weights_may_be_learned_from_rewards():
    told = rasf.learn(gamble(), tasks=[[0.5, 1.0, -2.0]], agent="rasfql", steps_per_task=2000, epsilon=1.0)
    learned = rasf.learn(
        gamble(), tasks=[[0.5, 1.0, -2.0]], agent="rasfql", steps_per_task=2000, epsilon=1.0, learn_w=True, alpha_w=0.05
    )
    assert told.policies[0].w == (0.5, 1.0, -2.0)
    assert learned.policies[0].w != told.policies[0].w
    np.testing.assert_allclose(learned.policies[0].w, (0.5, 1.0, -2.0), atol=1e-3)


def test_history_is_what_training_saw():
    class Counting(gym.Wrapper):
        earned, failures = 0.0, 0

        def step(self, action):
            obs, phi, *ends, info = self.env.step(action)
            self.earned, self.failures = self.earned + phi @ [0.1, 1.0, -1.0], self.failures + info["failure"]
            return obs, phi, *ends, info

    for options in ({"agent": "rasfql"}, DEEP | {"epsilon": 0.5}):  # often enough to fail
        counted = Counting(gamble())
        library = rasf.learn(counted, tasks=[[0.1, 1.0, -1.0]], steps_per_task=60, **options)
        np.testing.assert_allclose(library.history["return"], [counted.earned], rtol=1e-5)
        np.testing.assert_array_equal(library.history["failures"], [counted.failures])
        assert counted.failures > 0


@pytest.mark.parametrize("options", [{"agent": "rasfql"}, DEEP])
def test_failures_that_nobody_names_are_not_counted_as_none(options, tmp_path):
    with TrainingLog(tmp_path / "log.jsonl") as log:
        for failing, counted in ((None, np.nan), ((), 0.0)):
            library = rasf.learn(
                gamble(failing=failing),
                tasks=1,
                steps_per_task=8,
                callback=lambda record: not log.add(record),
                **options,
            )
            library.save(tmp_path / "a.rasf")
            np.testing.assert_array_equal(rasf.load(tmp_path / "a.rasf").history["failures"], [counted])
    assert [json.loads(line)["failures"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [None, 0]


@pytest.mark.parametrize("options", [{"agent": "rasfql"}, DEEP | {"agent": "sfdqn-residual"}])
def test_a_failure_named_late_makes_the_tasks_before_it_have_none(options):
    class Late(gym.Wrapper):
        """Fails once, after 14 steps, when the second risk leads the second task."""

        steps = 0

        def step(self, action):
            self.steps += 1
            *given, _ = self.env.step(action)
            return *given, {"failure": True} if self.steps == 14 else {}

    risks = [MeanVariance(0.0), MeanVariance(-1.0)]
    library = rasf.learn(Late(gamble()), tasks=2, risk=risks, steps_per_task=8, **options)
    np.testing.assert_array_equal(library.history["failures"], [0.0, 0.0, 0.0, 1.0])
    known = rasf.learn(Late(gamble()), tasks=3, risk=risks[:1], steps_per_task=8, **options)
    np.testing.assert_array_equal(known.history["failures"], [0.0, 1.0, 0.0])


@pytest.mark.parametrize("options", [{"agent": "rasfql"}, {"agent": "rasf-model"}, DEEP | {"agent": "sfdqn-residual"}])
def test_a_rule_may_say_what_a_failure_is(options):
    seen = []

    def failure(step):
        seen.append(step)
        return step.obs == 2

    library = rasf.learn(gamble(failing=None), tasks=1, steps_per_task=40, failure=failure, **options)
    assert len(seen) == 40
    assert library.history["failures"].tolist() == [sum(step.obs == 2 for step in seen)]
    with pytest.raises(ValueError, match="failure must be a function"):
        rasf.learn(gamble(), tasks=1, steps_per_task=4, failure=3, **options)


def test_a_rule_is_for_environments_that_show_their_steps():
    with pytest.raises(ValueError, match="failure is for single Gymnasium environments"):
        rasf.learn(Reacher(), tasks=1, steps_per_task=4, failure=lambda step: True)


def test_an_environment_may_be_an_id_an_environment_a_function_or_a_class():
    made = []

    class Recorded(type(gamble())):
        def __init__(self):
            other = gamble()
            super().__init__(other.P, other.phi, other.ends)
            made.append(self)

    mine = Recorded()
    runs = [rasf.learn(env, tasks=[[1, 1, 1]], agent="rasfql", steps_per_task=30) for env in (Recorded, Recorded, mine)]
    runs.append(rasf.learn(lambda: Recorded(), tasks=[[1, 1, 1]], agent="rasfql", steps_per_task=30))
    assert all(same_bits(runs[0], other) for other in runs[1:])
    assert [world.closed for world in made] == [False, True, True, True]  # what the caller made is the caller's
    rasf.learn(Recorded, tasks=[[1, 1, 1]], steps_per_task=8, num_envs=2, **DEEP)
    assert all(world.closed for world in made[1:])
    with pytest.raises(ValueError, match="tasks must"):
        rasf.learn(Recorded, tasks=[[1]], agent="rasfql")
    assert all(world.closed for world in made[1:])


def test_numbers_of_numpy_and_lists_are_taken_and_can_be_saved(tmp_path):
    library = rasf.learn(
        random_world(1), tasks=np.int64(2), agent="sfdqn", widths=[8], batch=8, seed=np.int64(1),
        steps_per_task=np.int32(8), num_envs=np.int64(1), gamma=np.float32(0.5),
    )  # fmt: skip
    library.save(tmp_path / "a.rasf")
    assert rasf.load(tmp_path / "a.rasf").gamma == 0.5


def test_a_large_seed_will_do(tmp_path):
    for seed in (2**32, 2**63 - 1):
        for options in ({"agent": "rasfql"}, DEEP):
            rasf.learn(random_world(1), tasks=1, steps_per_task=8, seed=seed, **options).save(tmp_path / "a.rasf")
            assert rasf.load(tmp_path / "a.rasf").provenance["seed"] == seed


class Meeting(gym.Env):
    """Someone at a place, a row (place, 1), and up to two others, who stay at theirs or are nobody.

    Steps to the left or right; the features count the steps and those in which somebody else is near.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Box(-5.0, 5.0, (3, 2), np.float32)
    action_space = spaces.Discrete(2)
    reward_space = spaces.Box(0.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.rows = np.ones((3, 2), np.float32)
        self.rows[:, 0] = self.np_random.uniform(-4, 4, 3)
        self.rows[1:][self.np_random.random(2) < 0.4] = 0
        self.time = 0
        return self.rows.copy(), {}

    def step(self, action):
        self.rows[0, 0] = np.clip(self.rows[0, 0] + 2 * action - 1, -5, 5)
        self.time += 1
        near = any(other[1] and abs(other[0] - self.rows[0, 0]) < 1 for other in self.rows[1:])
        return self.rows.copy(), np.array([1.0, near], np.float32), near, self.time >= 10, {}


def test_lists_of_objects_are_learned_saved_and_loaded(tmp_path):
    settings = {"widths": (8, 6), "batch": 8, "warmup": 20, "objects": 2, "epsilon_z": True}
    library = rasf.learn(Meeting(), tasks=[[0, 1], [-1, 0]], steps_per_task=40, **settings)
    assert (library.agent, library.sources.describe()["objects"], library.sources.n_inputs) == ("rasfdqn", 2, 6)
    library.save(tmp_path / "a.rasf")
    again = rasf.load(tmp_path / "a.rasf")
    again.save(tmp_path / "b.rasf")
    assert (tmp_path / "a.rasf").read_bytes() == (tmp_path / "b.rasf").read_bytes()
    env, w = Meeting(), [-0.2, 1.0]
    obs = np.stack([env.reset(seed=seed)[0] for seed in range(6)])
    found, same = (one.scores(obs, w, AVERSE) for one in (library, again))
    for part in ("values", "mean", "std"):
        np.testing.assert_array_equal(getattr(same, part), getattr(found, part))
    np.testing.assert_array_equal(library.act(obs, w, AVERSE), again.act(obs, w, AVERSE))
    np.testing.assert_array_equal([library.act(one, w, AVERSE) for one in obs], library.act(obs, w, AVERSE))
    # in whichever order the others are listed
    np.testing.assert_allclose(again.scores(obs[:, [0, 2, 1]], w, AVERSE).values, found.values, atol=1e-5)
    assert np.ptp(found.values, axis=1).max() > 1e-3
    one_line(
        lambda: rasf.learn(Meeting(), tasks=[[0, 1]], steps_per_task=40, **settings | {"objects": 4}),
        r"objects must be 2, the numbers in a row of observations \(3, 2\), got 4",
    )


def test_an_image_that_is_flattened_is_noted():
    space = spaces.Box(0, 255, (7, 7, 3), np.uint8)
    world = scripted(space, [np.zeros((7, 7, 3), np.uint8)], [1.0, 0.0], 4)
    said = "the image of shape (7, 7, 3) in an observation is flattened to 147 numbers for fully connected networks"
    options = {"tasks": [[1.0, 1.0]], "steps_per_task": 8}
    assert any(said in note for note in rasf.learn(world, **options, **DEEP).notes)
    vector = gym.vector.SyncVectorEnv([lambda: scripted(space, [np.zeros((7, 7, 3), np.uint8)], 1.0, 4)])
    library = rasf.learn(vector, phi=lambda *_: [1.0, 0.0], **options, **DEEP)
    assert any(said in note for note in library.notes)
    for other in (
        rasf.learn(world, agent="sfql", **options),
        rasf.learn(steady("truncated"), tasks=[[1]], steps_per_task=8, **DEEP),
    ):
        assert not any("image" in note for note in other.notes)


# --- progress


@pytest.mark.parametrize("options", [{"agent": "rasfql"}, DEEP])
def test_a_callback_stops_training_and_leaves_the_policies_begun(options, tmp_path):
    records = []

    def callback(record):
        records.append(record)
        return record.policy == 1

    library = rasf.learn(random_world(1), tasks=np.eye(2)[[0, 1, 0]], steps_per_task=8, callback=callback, **options)
    assert [(record.policy, record.step) for record in records] == [(0, 8), (1, 8)]
    assert len(library.policies) == library.sources.policies == 2
    np.testing.assert_allclose(library.history["return"], [record.total for record in records])
    assert library.provenance["complete"] is False
    library.save(tmp_path / "part.rasf")
    again = rasf.load(tmp_path / "part.rasf")
    assert again.act(1, [1, 1], NEUTRAL) == library.act(1, [1, 1], NEUTRAL)
    finished = rasf.learn(random_world(1), tasks=np.eye(2), steps_per_task=8, callback=lambda record: None, **options)
    assert finished.provenance["complete"] is True
    assert same_bits(finished, library) == (options["agent"] == "rasfql")  # networks of all tasks learn together


def test_a_callback_is_told_of_the_policies_of_all_risks_and_says_what_they_learn_for():
    seen = []
    tasks = [[1.0, 0.5], [0.0, -1.0]]
    library = rasf.learn(
        random_world(1), tasks=tasks, agent="rasfql", risk=[NEUTRAL, AVERSE], steps_per_task=5, callback=seen.append
    )
    assert [record.policy for record in seen] == [0, 2, 1, 3]  # the risks take turns within a task
    assert [record.share for record in seen] == [0.25, 0.5, 0.75, 1.0]
    trained_for = [(policy.w, policy.risk) for policy in library.policies]
    assert [(record.w, record.risk) for record in seen] == [trained_for[k] for k in (0, 2, 1, 3)]
    short = rasf.learn(
        random_world(1), tasks=2, agent="rasfql", risk=[NEUTRAL, AVERSE], steps_per_task=5,
        callback=lambda record: record.policy == 2,
    )  # fmt: skip
    assert [policy.risk for policy in short.policies] == [NEUTRAL, AVERSE]  # of the one task that was begun


# --- what is wrong


@pytest.mark.parametrize(("change", "said"), [
    ({"env": "CartPole-v1"}, "the environment's reward is one number, not a vector of features; give phi"),
    (
        {"env": "Pendulum-v1", "phi": lambda *_: [1.0]},
        r"^agent must be one for the environment's actions \(a Box of size 1\), such as rasftd3; got rasfql$",
    ),
    ({"agent": "rasftd3"}, r"^agent must be one .* actions \(Discrete\), such as sfql, .*; got rasftd3$"),
    ({"env": "nothing-v0"}, "or MODULE:ID to import its module, got 'nothing-v0'"),
    ({"env": 5}, "env must"),
    ({"env": None}, "env must"),
    ({"env": lambda: None}, "env must"),
    ({"env_kwargs": {"size": 3}}, "size can only be given with an environment's id"),
    ({"env_kwargs": 3}, "env_kwargs must be a dict of arguments by name, got 3"),
    ({"env_kwargs": 0}, "env_kwargs must be a dict"),
    ({"env_kwargs": [("a", 1)]}, "env_kwargs must be a dict"),
    ({"env_kwargs": {3: 1}}, "env_kwargs must be a dict"),
    ({"env": "FrozenLake-v1", "env_kwargs": {"map_name": "nowhere"}}, "cannot be made: KeyError 'nowhere'"),
    ({"base_library": 3}, "base_library must be a policy library, got int"),
    ({"once": [0, 0], "agent": "rasfdqn"}, "the argument `once` must list different indices of features, 0 to 1"),
    ({"extra_tasks": "many", "agent": "sfdqn"}, "extra_tasks must be weights"),
    ({"extra_tasks": -1, "agent": "sfdqn"}, "extra_tasks must be a whole number"),
    ({"env": "rasf/Grid-v0", "agent": "sfdqn", "num_envs": 10**9}, "num_envs must be at most 10000"),
    ({"phi": 3}, "phi must"),
    ({"phi": lambda *_: 1.0}, "phi must"),
    ({"tasks": [[1.0]]}, "tasks must"),
    ({"tasks": [[1.0, np.nan]]}, "tasks must"),
    ({"tasks": []}, "tasks must"),
    ({"tasks": np.ones((1, 1, 2))}, "tasks must"),
    ({"tasks": [[1.0], [1.0, 2.0]]}, "tasks must"),
    ({"tasks": "three"}, "tasks must"),
    ({"tasks": 0}, "tasks must"),
    ({"tasks": True}, "tasks must"),
    ({"risk": "neutral"}, "risk must"),
    ({"risk": None}, "risk must"),
    ({"risk": -4.0}, "risk must"),
    ({"risk": []}, "risk must"),
    ({"risk": [AVERSE, "x"]}, "risk must"),
    ({"risk": CVaR(0.1)}, "risk must"),
    ({"risk": Entropic(-1.0)}, "risk must"),
    ({"agent": "sfql", "risk": AVERSE}, "agent 'sfql' is risk-neutral; for mean-variance:-1.0 use 'rasfql'"),
    ({"agent": "sfql", "risk": [NEUTRAL, AVERSE]}, "agent 'sfql' is risk-neutral"),
    ({"agent": "c51"}, "agent must"),
    ({"agent": None}, "agent must"),
    ({"steps_per_task": 0}, "steps_per_task must"),
    ({"steps_per_task": 1e4}, "steps_per_task must"),
    ({"seed": -1}, "seed must"),
    ({"seed": None}, "seed must"),
    ({"seed": 2**63}, "seed must"),
    ({"num_envs": 0}, "num_envs must"),
    ({"num_envs": 2}, "num_envs must"),
    ({"gamma": 1.5}, "gamma must"),
    ({"gamma": "much"}, "gamma must"),
    ({"gamma": np.nan}, "gamma must"),
    ({"speed": 3}, "settings must"),
    ({"epsilon": 2.0}, "epsilon must"),
    ({"epsilon": "much"}, "epsilon must|settings must"),
    ({"support": [[0, 1], [0, 1]]}, "support is for histograms; rasfql has none"),
    ({"agent": "sfdqn", "support": [[0, 1], [0, 1]]}, "support is for histograms; sfdqn has none"),
    ({"agent": "sfdqn", "learn_w": True}, "^learn_w is for"),
    ({"agent": "sfdqn", "gamma": 1.0}, "gamma must"),
    ({"agent": "sfdqn", "widths": 64}, "widths must|settings must"),
    ({"agent": "sfdqn", "num_envs": 2}, "num_envs=2 needs an environment's id or a function"),
    ({"agent": "rasfc51", "support": [[0, 1]]}, "support must"),
    ({"agent": "rasfc51", "support": "wide"}, "support must"),
    ({"agent": "rasfc51", "support": [[0, 1], [1, 1]]}, "support must"),
])  # fmt: skip
def test_what_cannot_be_learned_is_refused_in_one_sentence(change, said):
    asked = {"env": random_world(0), "tasks": [[1.0, 0.0]], "agent": "rasfql", "steps_per_task": 5} | change
    one_line(lambda: rasf.learn(asked.pop("env"), **asked), said)


def test_a_distribution_of_tasks_that_is_none_is_refused():
    world, said = random_world(0), "the environment's random_tasks must be"
    for tasks in (np.ones((3, 5)), np.full((3, 2), np.nan), "three"):
        world.random_tasks = lambda count, rng, tasks=tasks: tasks
        one_line(lambda: rasf.learn(world, tasks=3, agent="sfql", steps_per_task=5), said)
    world.random_tasks = 3
    one_line(lambda: rasf.learn(world, tasks=3, agent="sfql", steps_per_task=5), said + " a function")


def test_a_vector_environment_is_for_networks_and_has_its_own_number():
    vector = gym.vector.SyncVectorEnv([lambda: scripted(LINE, [np.zeros(1)], 7.0, 3)] * 2)
    asked = {"env": vector, "tasks": [[1, 1]], "steps_per_task": 4, "phi": lambda *_: [1.0, 0.0]}

    def learned(**more):
        options = asked | more
        return rasf.learn(options.pop("env"), **options)

    one_line(lambda: learned(agent="rasfql"), "env must be a single environment for rasfql")
    one_line(lambda: learned(num_envs=3), "num_envs must equal the vector environment's num_envs, 2")
    one_line(lambda: learned(env_kwargs={"a": 1}), "a can only be given with an environment's id")
    # nothing bounds the features: histograms need a support, a mean does not
    one_line(lambda: learned(agent="rasfc51"), "support must be given for a vector environment")
    assert learned(**DEEP).act(np.zeros(1), [1, 1], NEUTRAL) in (0, 1)


@pytest.mark.parametrize("options", [{"agent": "rasfql"}, DEEP, {"agent": "auto"}])
@pytest.mark.parametrize("broken", ["features", "observation", "shape"])
def test_an_environment_that_breaks_in_the_middle_is_refused_and_nothing_is_written(
    options, broken, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    shown = [np.array([float(t == 9 and broken == "observation") or 0.0]) for t in range(10)]
    if broken == "observation":
        shown[9][:] = np.nan
    amiss = {"features": [np.nan, 0.0], "shape": [1.0], "observation": [1.0, 0.0]}[broken]
    world = scripted(LINE, shown, lambda time: amiss if time == 30 else [1.0, 0.0], ends=40)
    said = {
        "features": "the features of a step must be finite",
        "shape": r"the environment's reward must be features of shape \(2,\), got shape \(1,\)",
        "observation": "the environment gave an observation that is not in its space: obs must be finite",
    }[broken]
    one_line(lambda: rasf.learn(world, tasks=2, steps_per_task=100, **options).save("library.rasf"), said)
    assert list(tmp_path.iterdir()) == []


# --- declared bounds


class Changed(gym.Wrapper):
    """From the 30th step on, another feature 1."""

    steps = 0

    def __init__(self, world, value, wants=30):
        super().__init__(world)
        self.value, self.wants = value, wants

    def step(self, action):
        obs, phi, *rest = self.env.step(action)
        self.steps += 1
        return obs, np.array([phi[0], self.value if self.steps >= self.wants else phi[1]]), *rest


def bounded(low, high):
    world = scripted(LINE, [np.zeros(1)], [0.5, 0.5], ends=7)
    world.reward_space = spaces.Box(np.array([0.0, low], np.float32), np.array([1.0, high], np.float32))
    return world


HISTOGRAM = DEEP | {"agent": "rasfc51", "atoms": 5}


@pytest.mark.parametrize(("value", "bounds"), [(7.0, "-1, 1"), (-1.0001, "-1, 1"), (-1.5, "-1, inf")])
def test_a_feature_outside_its_declared_bounds_is_refused_when_it_comes(value, bounds):
    low, high = map(float, bounds.split(", "))
    world = Changed(bounded(low, high), value)
    if not np.isfinite(high):
        world.wants += 2000  # the walk that estimates the bound that is open
    said = rf"feature 1 of a step must be within its declared bounds \[{bounds}\], the environment gave {value:g};"
    one_line(lambda: rasf.learn(world, tasks=2, steps_per_task=100, **HISTOGRAM), said)
    assert world.steps == world.wants


@pytest.mark.parametrize("options", [{"agent": "rasfql"}, DEEP, HISTOGRAM | {"support": [[0, 10], [0, 10]]}])
def test_where_nothing_follows_from_declared_bounds_they_may_be_wrong(options):
    library = rasf.learn(Changed(bounded(-1.0, 1.0), 7.0), tasks=1, steps_per_task=60, **options)
    assert library.history["return"].shape == (1,)


@pytest.mark.parametrize("value", [1.0, np.nextafter(np.float32(1), np.float32(2)), 1 + 5e-6, 0.0])
def test_the_ends_rounding_and_nothing_at_an_end_are_within_the_bounds(value):
    # mo-mountaincar declares -1 for every step, and gives 0 at the goal
    rasf.learn(Changed(bounded(0.25, 1.0), value), tasks=1, steps_per_task=40, **HISTOGRAM)


@pytest.mark.parametrize("as_vector", [False, True])
def test_bounds_that_a_function_declares_are_kept_too(as_vector):
    def phi(obs, action, next_obs, info):
        return [0.5, 3.0]

    def make():
        return scripted(LINE, [np.zeros(1)], 7.0, ends=4)

    phi.signs = [1, 1]
    phi.bounds = [[0.5, 1.0], [-2.0, 2.0]]  # a vector environment's steps that only reset are 0, below the first
    env = gym.vector.SyncVectorEnv([make, make]) if as_vector else make
    asked = {"tasks": 1, "steps_per_task": 40, "phi": phi, "num_envs": 2, **HISTOGRAM}
    one_line(lambda: rasf.learn(env, **asked), r"feature 1 .* declared bounds \[-2, 2\], the environment gave 3;")
    phi.bounds[1] = [-2.0, 3.0]
    rasf.learn(env, **asked)


def test_bounds_that_were_only_estimated_bind_nobody():
    world = Changed(scripted(LINE, [np.zeros(1)], [0.5, 0.5], ends=7), 7.0, wants=2030)
    library = rasf.learn(world, tasks=1, steps_per_task=60, **DEEP | {"agent": "rasfc51", "atoms": 5})
    assert world.steps > world.wants
    assert any("bounds of the features come from" in note for note in library.notes)
