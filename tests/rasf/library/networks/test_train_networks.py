"""Networks for a library: the compiled loop of the reacher, what it is held to, and when environments are stepped."""

import subprocess
import sys
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rasf
from rasf.deep.agent import Agent, Tasks, preset
from rasf.deep.fit import Schedule, _compiled_advance, fit, start_lanes
from rasf.deep.train import RunConfig
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.reacher.env import ReacherEnv
from rasf.envs.reacher.world import Reacher
from rasf.library.networks.reacher import reacher_description
from rasf.library.networks.train import network_library
from rasf.risk import Entropic, MeanVariance

WORLD = Reacher()
TASKS = WORLD.tasks((0, 1))
SMALL = {"widths": (8,), "atoms": 7, "batch": 4, "target_period": 50}
OPTIONS = {"agent": "rasfc51", "tasks": TASKS, "steps_per_task": 100, "seed": 3, **SMALL}
AVERSE = MeanVariance(-6.0)
OBS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
COMPILED = (
    "the policies were trained by the compiled loop of their world, which learns from single steps by a uniform "
    "replay, without a warm-up"
)


@pytest.fixture(scope="module")
def library():
    return rasf.learn("rasf/Reacher-v0", risk=AVERSE, **OPTIONS)


def arrays_of(library):
    return library.sources.arrays() | {f"history/{name}": part for name, part in library.history.items()}


def assert_same(one, other):
    first, second = arrays_of(one), arrays_of(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        # by hand atoms may differ in the last bit, beyond what networks compute with
        exact = np.float32 if name == "atoms" else array.dtype
        np.testing.assert_array_equal(array.astype(exact), second[name].astype(exact))


def by_hand(agent="rasfc51", world=WORLD, risk=AVERSE, **changes):
    """An agent and its one lane, as `learn` makes them for seed 3."""
    settings = preset(agent, **SMALL | changes, risk=type(risk))
    tasks = Tasks(jnp.asarray(TASKS[None], jnp.float32), jnp.zeros((1, 2, 0)))
    beta = jnp.full(1, risk.beta, jnp.float32)
    agent = Agent.for_world(settings, world, Tasks(TASKS, np.zeros((2, 0))))
    return agent, RunConfig(jnp.stack([jax.random.key(3)]), beta, beta, tasks)


def fitted(world=WORLD, **changes):
    """Agent, lanes and history after 100 steps per task."""
    agent, configs = by_hand(world=world, **changes)
    return agent, *fit(agent, world, configs, Schedule(100, 2, 100), lambda *_: {}, description={})


def test_the_library_acts_and_is_saved_and_loaded(library, tmp_path):
    assert len(library.policies) == 2
    assert [policy.risk for policy in library.policies] == [AVERSE, AVERSE]
    np.testing.assert_array_equal([policy.w for policy in library.policies], TASKS)
    assert COMPILED in library.notes
    assert (library.environment.id, library.agent, library.gamma) == ("rasf/Reacher-v0", "rasfc51", 0.9)
    assert {name: part.shape for name, part in library.history.items()} == {
        "return": (2,), "failures": (2,), "loss": (2,), "clipped": (2, 2),
    }  # fmt: skip
    library.save(tmp_path / "reacher.rasf")
    loaded = rasf.load(tmp_path / "reacher.rasf")
    assert_same(loaded, library)
    np.testing.assert_array_equal(loaded.act(OBS, w=TASKS[0], risk=AVERSE), library.act(OBS, w=TASKS[0], risk=AVERSE))
    short = partial(gymnasium.make, "rasf/Reacher-v0", max_episode_steps=20)
    assert library.evaluate(short, w=TASKS[1], risk=AVERSE, episodes=2).lengths.tolist() == [20, 20]


def test_it_is_what_the_fused_loop_gives(library):
    agent, lanes, _ = fitted()
    networks = jax.tree.map(lambda part: part[0], lanes.learner.online)
    described = {"environment": reacher_description(WORLD), "tasks": TASKS, "risks": [AVERSE] * len(TASKS)}
    made = network_library(agent, networks, **described, history=library.history, provenance={"seed": 3})
    assert_same(made, library)
    neutral = network_library(
        agent, networks, **described | {"risks": [MeanVariance(0.0)] * len(TASKS)}, history={}, provenance={}
    )
    assert (made.agent, neutral.agent) == ("rasfc51", "sfc51")
    assert made.describe() | {"notes": 0, "provenance": 0} == library.describe() | {"notes": 0, "provenance": 0}


def test_history_is_what_the_replay_holds(library):
    _, lanes, history = fitted()
    phi = np.asarray(lanes.rows, np.float64)[0, :, 8:21].reshape(2, 100, 13)
    returns = [(phi[task] @ TASKS[task]).sum() for task in (0, 1)]
    np.testing.assert_allclose(library.history["return"], returns, rtol=1e-5)
    np.testing.assert_array_equal(library.history["failures"], phi[:, :, -1].sum(axis=1))
    np.testing.assert_allclose(library.history["clipped"], history["clipped"][:, 0], atol=1e-6)


def test_an_id_an_environment_and_a_world_give_the_same_bits(library):
    for env in (WORLD, ReacherEnv(), gymnasium.make("rasf/Reacher-v0")):
        again = rasf.learn(env, risk=AVERSE, **OPTIONS)
        assert_same(again, library)
        assert COMPILED in again.notes
    assert rasf.learn(WORLD, risk=AVERSE, **OPTIONS).environment == library.environment
    other = rasf.learn(WORLD, risk=AVERSE, **OPTIONS | {"seed": 4})
    assert not np.array_equal(other.history["return"], library.history["return"])


@pytest.mark.slow
def test_several_risks_tasks_that_are_drawn_and_a_support_of_one_s_own():
    options = OPTIONS | {"tasks": 2, "agent": "auto", "support": [(-5.0, 5.0)] * 13}
    both = rasf.learn(WORLD, risk=[Entropic(-2.0), Entropic(-1.0)], **options)
    assert [policy.risk for policy in both.policies] == [Entropic(-2.0)] * 2 + [Entropic(-1.0)] * 2
    assert both.policies[0].w == both.policies[2].w
    assert both.notes.count(COMPILED) == 1
    np.testing.assert_array_equal(np.array(both.sources.law.atoms), [np.linspace(-5.0, 5.0, 7)] * 13)
    drawn = np.array([policy.w for policy in both.policies[:2]])
    alone = rasf.learn(WORLD, risk=Entropic(-1.0), **options | {"tasks": drawn})
    assert both.scores(OBS, w=drawn[0], risk=AVERSE).mean.shape[0] == 2 * len(alone.policies)
    assert both.history["return"].shape == (4,)


@pytest.mark.slow
def test_periods_that_a_task_s_end_cuts_short():
    """50 steps in periods of 20, 20 and 10; target networks are copied after each."""
    seen = []
    options = OPTIONS | {"steps_per_task": 50, "target_period": 20}
    found = rasf.learn(WORLD, risk=AVERSE, callback=seen.append, **options)
    assert [(one.policy, one.step) for one in seen] == [(0, 40), (0, 50), (1, 40), (1, 50)]
    assert seen[1].total == found.history["return"][0]
    agent, configs = by_hand(target_period=20)
    lanes = start_lanes(agent, WORLD, configs, Schedule(50, 2, 20))
    for task, begin, periods, length in ((0, 0, 2, 20), (0, 40, 1, 10), (1, 50, 2, 20), (1, 90, 1, 10)):
        lanes, _ = _compiled_advance(agent, WORLD, periods, length)(configs, lanes, begin, 50 * task, task)
    jax.tree.map(np.testing.assert_array_equal, lanes.learner.target, lanes.learner.online)
    weight = np.asarray(lanes.learner.online[0].heads.weight)[0, ..., : 13 * 7]
    np.testing.assert_array_equal(found.sources.networks[0].heads.weight, weight)


def test_a_callback_sees_where_training_stands_and_may_stop_it(library):
    seen = []

    def stop(progress):
        seen.append(progress)
        return len(seen) == 1

    half = rasf.learn(WORLD, risk=AVERSE, callback=stop, **OPTIONS)
    (progress,) = seen
    assert (progress.policy, progress.step, progress.risk, progress.w) == (0, 100, AVERSE, tuple(TASKS[0]))
    assert progress.total == library.history["return"][0]
    assert progress.failures == library.history["failures"][0]
    assert progress.extras["loss"] == library.history["loss"][0]
    assert len(half.policies) == 1
    assert half.provenance["complete"] is False
    np.testing.assert_array_equal(half.history["return"], library.history["return"][:1])


@pytest.mark.parametrize("agent", ["sfdqn", pytest.param("sfdqn-residual", marks=pytest.mark.slow)])
def test_other_agents_where_every_step_fails(agent):
    always = Reacher(failure_probability=1.0, radius=9.0)
    found = rasf.learn(always, **OPTIONS | {"agent": agent})
    _, lanes, _ = fitted(always, agent=agent, risk=MeanVariance(0.0))
    weight = np.asarray(lanes.learner.online[0].heads.weight)[0, ..., :13]
    np.testing.assert_array_equal(found.sources.networks[0].heads.weight, weight)
    np.testing.assert_array_equal(found.history["failures"], [100.0, 100.0])
    assert (found.history["return"] < -200).all()  # each costs 3
    np.testing.assert_array_equal(found.history["clipped"], np.zeros((2, 2)))


def first_four(obs, action, next_obs, info):
    return next_obs


@pytest.mark.parametrize(
    "change",
    [
        {"env": "rasf/Reacher-v0", "num_envs": 2},
        {"env": "rasf/Reacher-v0", "env_kwargs": {"max_episode_steps": 10}},
        {"env": gymnasium.wrappers.TimeLimit(ReacherEnv(), 10)},
        {"env": ReacherEnv(), "phi": first_four, "tasks": np.eye(4)[:1], "support": [(-9.0, 9.0)] * 4},
    ],
    ids=["two", "a limit", "a wrapper", "phi"],
)
def test_what_needs_single_steps_is_stepped(change):
    found = rasf.learn(**OPTIONS | {"steps_per_task": 20, "tasks": TASKS[:1]} | change)
    assert len(found.policies) == 1
    assert COMPILED not in found.notes


def test_a_library_of_the_compiled_loop_grows_by_steps(library):
    grown = library.grow(WORLD, tasks=WORLD.tasks((2,)), steps_per_task=20, batch=4)
    assert len(grown.policies) == 3
    assert grown.sources.law == library.sources.law


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"env_kwargs": {"radius": 0.1}}, "env_kwargs"),
        ({"phi": first_four}, "phi"),
        ({"num_envs": 2}, "num_envs"),
        ({"agent": "rasfql"}, "env must"),
        ({"steps_per_task": 0}, "steps_per_task must"),
        ({"support": [(-5.0, 5.0)] * 2}, "support must"),
        ({"support": [(-5.0, 5.0)] * 13, "agent": "sfdqn"}, "support is for"),
        ({"atoms": 1}, "atoms must"),
        # what the compiled loop would ignore
        ({"agent": "rasfdqn", "n_step": 3}, "n_step cannot be set for the compiled loop"),
        ({"agent": "rasfdqn", "surprise": 0.2, "replay": 50}, "surprise, replay cannot be set"),
        ({"warmup": 10}, "warmup cannot be set"),
        ({"lasting": True}, "lasting cannot be set"),
    ],
)
def test_arguments_that_do_not_fit_a_world_are_refused(change, words):
    settings = {name: value for name, value in OPTIONS.items() if change.get("agent") != "rasfql" or name not in SMALL}
    with pytest.raises(ValueError, match=words):
        rasf.learn(WORLD, **settings | change)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"observation": "sincos", "late_tip": True},
        {"observation": "wrapped", "episode_length": 50},
        {"targets": ((0.3, 0.3), (0.1, 0.1)), "risky": (0,)},
    ],
    ids=str,
)
def test_a_world_is_described_as_its_environment(kwargs):
    assert reacher_description(Reacher(**kwargs)) == open_environment("rasf/Reacher-v0", **kwargs).describe()


WITHOUT_GYMNASIUM = """
import sys
sys.modules["gymnasium"] = None
import numpy as np, rasf
from rasf.envs.reacher import Reacher
world = Reacher()
library = rasf.learn(world, agent="rasfc51", tasks=world.tasks((0, 1)), risk=rasf.MeanVariance(-6.0), seed=3,
                     steps_per_task=100, widths=(8,), atoms=7, batch=4, target_period=50)
library.save(sys.argv[1])
print(rasf.load(sys.argv[1]).act(np.zeros(4, np.float32), w=world.tasks((5,))[0], risk=rasf.MeanVariance(-1.0)))
"""


def test_it_works_without_gymnasium(library, tmp_path):
    path = tmp_path / "reacher.rasf"
    command = [sys.executable, "-c", WITHOUT_GYMNASIUM, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) in range(9)
    found = rasf.load(path)
    assert found.environment == library.environment
    assert_same(found, library)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"widths": (10**6, 10**6)}, "need about .* GB, and there are"),
        ({"batch": 10**9}, "batches of 1000000000 .* need about"),
        ({"steps_per_task": 10**12}, "a replay of .* need about"),
        ({"learning_rate": 1e30}, "learning_rate must be at most 1"),
        ({"tasks": 10**9}, "tasks must be at most 32767"),
    ],
)
def test_what_cannot_be_afforded_is_refused_before_anything_is_compiled(given, said, monkeypatch):
    monkeypatch.setattr(Agent, "init", lambda *_: pytest.fail("a network was made"))
    with pytest.raises(ValueError, match=said) as caught:
        rasf.learn(WORLD, risk=AVERSE, **OPTIONS | given)
    assert "\n" not in str(caught.value)
