"""Networks for a library: the fused driver on the reacher and on a world of one's own, and when it is stepped."""

import subprocess
import sys
from dataclasses import replace
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probe_worlds import Walk

import rasf
from rasf.agents import AGENTS
from rasf.deep import fused
from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.fused import RunConfig, Schedule
from rasf.deep.settings import network_settings
from rasf.envs.gymnasium.description import world_description
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.reacher.env import ReacherEnv
from rasf.envs.reacher.world import Reacher
from rasf.library.networks.actor_policies import policies_of
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.risk import Entropic, MeanVariance

WORLD = Reacher()
TASKS = WORLD.tasks((0, 1))
SMALL = {"widths": (8,), "atoms": 7, "batch": 4, "target_period": 50}
OPTIONS = {"agent": "rasfc51", "tasks": TASKS, "steps_per_task": 100, "seed": 3, **SMALL}
AVERSE = MeanVariance(-6.0)
OBS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


@pytest.fixture
def fused_runs(monkeypatch):
    """How many trainings were by the fused driver."""
    runs, chunks = [], fused.chunks
    monkeypatch.setattr(fused, "chunks", lambda *given: runs.append(1) or chunks(*given))
    return runs


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


def fitted(agent="rasfc51", world=WORLD, risk=AVERSE, steps=100, **changes):
    """An agent, and its last chunk of each task, as `learn` makes them for seed 3."""
    own = {name: value for name, value in (SMALL | changes).items() if hasattr(network_settings(agent), name)}
    beta = np.full(2, risk.beta, np.float32)
    one = RunConfig(jax.random.key(3), beta, beta[0], Tasks.of(TASKS), Policies(np.float32(TASKS), beta))
    configs = jax.tree.map(lambda part: jnp.asarray(part)[None], one)
    made = Agent.for_world(
        replace(network_settings(agent), **own), world, Tasks.of(TASKS), planned=2 * steps, risk=type(risk)
    )
    last = {}
    for chunk in fused.chunks(made, world, configs, Schedule(steps, 2, 500)):
        last[chunk.task] = jax.tree.map(np.array, chunk)  # the next chunk takes its memory
    return made, last


def test_the_library_acts_and_is_saved_and_loaded(library, tmp_path):
    assert len(library.policies) == 2
    assert [policy.risk for policy in library.policies] == [AVERSE, AVERSE]
    np.testing.assert_array_equal([policy.w for policy in library.policies], TASKS)
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


def test_it_is_what_the_fused_driver_gives(library):
    agent, last = fitted()
    networks = fused.unscaled_networks(agent, last[1].lanes)
    policies, own = policies_of(agent, networks), tuple(SourcePolicy(tuple(w), AVERSE) for w in TASKS)
    made = PolicyLibrary(
        policies, world_description(WORLD), own, (AGENTS["rasfc51"],), library.history, (), {"seed": 3}
    )
    assert_same(made, library)
    assert made.describe() | {"notes": 0, "provenance": 0} == library.describe() | {"notes": 0, "provenance": 0}


def test_history_is_what_the_replay_holds(library):
    _, last = fitted()
    phi = np.asarray(last[1].lanes.ring.rows, np.float64)[0, :, 8:21].reshape(2, 100, 13)
    returns = [(phi[task] @ TASKS[task]).sum() for task in (0, 1)]
    np.testing.assert_allclose(library.history["return"], returns, rtol=1e-5)
    np.testing.assert_array_equal(library.history["failures"], phi[:, :, -1].sum(axis=1))
    np.testing.assert_allclose(library.history["clipped"], [last[task].clipped[0] for task in (0, 1)], atol=1e-6)


def test_an_id_an_environment_and_a_world_give_the_same_bits(library):
    for env in (WORLD, ReacherEnv(), gymnasium.make("rasf/Reacher-v0")):
        again = rasf.learn(env, risk=AVERSE, **OPTIONS)
        assert_same(again, library)
    assert rasf.learn(WORLD, risk=AVERSE, **OPTIONS).environment == library.environment
    other = rasf.learn(WORLD, risk=AVERSE, **OPTIONS | {"seed": 4})
    assert not np.array_equal(other.history["return"], library.history["return"])


@pytest.mark.slow
def test_several_risks_tasks_that_are_drawn_and_a_support_of_one_s_own():
    options = OPTIONS | {"tasks": 2, "agent": "auto", "support": [(-5.0, 5.0)] * 13}
    both = rasf.learn(WORLD, risk=[Entropic(-2.0), Entropic(-1.0)], **options)
    assert [policy.risk for policy in both.policies] == [Entropic(-2.0)] * 2 + [Entropic(-1.0)] * 2
    assert both.policies[0].w == both.policies[2].w
    np.testing.assert_array_equal(np.array(both.sources.law.atoms), [np.linspace(-5.0, 5.0, 7)] * 13)
    drawn = np.array([policy.w for policy in both.policies[:2]])
    alone = rasf.learn(WORLD, risk=Entropic(-1.0), **options | {"tasks": drawn})
    assert both.scores(OBS, w=drawn[0], risk=AVERSE).mean.shape[0] == 2 * len(alone.policies)
    assert both.history["return"].shape == (4,)


@pytest.mark.slow
def test_a_period_that_a_task_cuts_goes_on_in_the_next_task():
    """50 steps for each task, target networks copied after every 20: at 20, 40, 60, 80, 100."""
    seen = []
    options = OPTIONS | {"steps_per_task": 50, "target_period": 20}
    found = rasf.learn(WORLD, risk=AVERSE, callback=seen.append, **options)
    assert [(one.policy, one.step) for one in seen] == [(0, 40), (0, 50), (1, 10), (1, 50)]
    assert seen[1].total == found.history["return"][0]
    _, last = fitted(steps=50, target_period=20)
    online, target = last[0].lanes.learner[:2]
    assert not np.array_equal(target[0].heads.weight, online[0].heads.weight)
    jax.tree.map(np.testing.assert_array_equal, *last[1].lanes.learner[:2])


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
    options = {name: value for name, value in OPTIONS.items() if name != "atoms"}
    found = rasf.learn(always, **options | {"agent": agent})
    _, last = fitted(agent, always, MeanVariance(0.0))
    weight = last[1].lanes.learner.online[0].heads.weight[0, ..., :13]
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
def test_what_needs_single_steps_is_stepped(change, fused_runs):
    found = rasf.learn(**OPTIONS | {"steps_per_task": 20, "tasks": TASKS[:1]} | change)
    assert len(found.policies) == 1
    assert not fused_runs


class Steeper(ReacherEnv):
    """Another world, as a subclass may be."""


class OtherReacher(Reacher):
    """Another world by itself."""


def test_a_subclass_is_not_taken_for_the_world_it_derives_from(fused_runs):
    rasf.learn(Steeper(), **OPTIONS | {"steps_per_task": 20, "tasks": TASKS[:1]})
    assert not fused_runs
    library = rasf.learn(OtherReacher(), **OPTIONS | {"steps_per_task": 20, "tasks": TASKS[:1]})
    assert len(fused_runs) == 1
    assert library.environment.id is None
    assert type(open_environment(OtherReacher()).env.unwrapped).__name__ == "WorldEnv"


def test_a_library_of_the_fused_driver_grows_by_steps(library, fused_runs):
    grown = library.grow(WORLD, tasks=WORLD.tasks((2,)), steps_per_task=20, batch=4)
    assert len(grown.policies) == 3
    assert not fused_runs
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
        ({"events": (1,)}, "settings must be among"),
        ({"updates": 0.3}, "updates must be a whole number for a round of 1 steps"),
    ],
)
def test_arguments_that_do_not_fit_a_world_are_refused(change, words):
    foreign = {"rasfql": SMALL, "sfdqn": ("atoms",)}.get(change.get("agent"), ())
    settings = {name: value for name, value in OPTIONS.items() if name not in foreign}
    with pytest.raises(ValueError, match=words):
        rasf.learn(WORLD, **settings | change)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"observation": "sincos"},
        {"observation": "wrapped", "episode_length": 50},
        {"targets": ((0.3, 0.3), (0.1, 0.1)), "risky": (0,)},
    ],
    ids=str,
)
def test_a_world_is_described_as_its_environment(kwargs):
    assert world_description(Reacher(**kwargs)) == open_environment("rasf/Reacher-v0", **kwargs).describe()


def test_any_world_is_trained_evaluated_and_grown(fused_runs, tmp_path):
    """Nothing is known of it but the protocol; episodes terminate at its edge."""
    world, w = Walk(episode_length=7, edge=0.9), np.array([(1.0, 0.0, -0.5), (0.0, 1.0, 0.3)])
    small = {"steps_per_task": 120, "widths": (8,), "batch": 8, "warmup": 20}
    library = rasf.learn(world, tasks=w, risk=[MeanVariance(0.0), AVERSE], seed=1, **small)
    assert (len(fused_runs), library.agent, library.environment.id) == (1, "rasfdqn", None)
    assert np.isnan(library.history["failures"]).all()  # the world names none
    library.save(tmp_path / "walk.rasf")
    loaded = rasf.load(tmp_path / "walk.rasf")
    report = loaded.evaluate(world, w=w[0], risk=AVERSE, episodes=5)
    assert report.lengths.max() <= 7
    assert len(loaded.grow(world, tasks=-w[:1], **small | {"steps_per_task": 40}).policies) == 5
    with pytest.raises(ValueError, match="cannot be drawn"):
        rasf.learn(world, tasks=2, **small)


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
        ({"widths": (10**6, 10**6)}, "need about .* GB, but .* GB are available"),
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
