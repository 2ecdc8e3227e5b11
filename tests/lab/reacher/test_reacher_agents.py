"""The paper's baselines and ablations: one network that sees the task (C51), and bootstrap actions by GPI."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from deep.deep_twin import (
    Twin,
    assert_same_networks,
    constant_networks,
    create_agent,
    outputs,
    plain_networks,
    plain_run,
    random_learner,
    settings_of,
    softmax,
    unbounded,
    windows_of,
)
from deep.probe_worlds import Walk
from rasf.deep.agent import Agent, Tasks
from rasf.deep.fused import RunConfig, Schedule, chunks, start_lanes
from rasf.deep.laws import Histogram
from rasf.deep.replay import Windows
from rasf.deep.settings import HistogramSettings, MeanSettings
from rasf.risk import MeanVariance
from rasf_lab.paper.reacher import agents
from rasf_lab.paper.reacher.agents import ConditionedAgent, GpiAgent, paper_settings
from rasf_lab.paper.reacher.training import AGENTS_HERE
from rasf_lab.rollouts.compiled import Way, rollouts

OBS, ACTIONS, BATCH, ATOMS = 3, 3, 4, 5
BOUNDS = np.array([(-1.0, 1.0), (0.0, 1.0), (-2.0, 0.5)])
# the third task weighs every feature, the others not
TASKS = Tasks(
    np.array([[1.0, -3.0, 0.0], [0.0, -3.0, 1.0], [0.5, -1.0, -0.7]]), np.array([[0.3, -0.2], [1.0, 0.1], [-0.4, 0.0]])
)
SPARSE = Tasks(TASKS.weights[:2], TASKS.inputs[:2])


@pytest.fixture
def narrow(monkeypatch):
    """A support of the reward that random features reach, and leave."""
    monkeypatch.setattr(agents, "REWARD_BOUNDS", (-4.0, 3.0))


def make(name, kind, tasks=TASKS, **changes):
    more = {"relabelled": changes.pop("relabelled")} if "relabelled" in changes else {}
    settings = settings_of(name, widths=(4, 3), atoms=ATOMS, gamma=0.8, learning_rate=0.02, **changes)
    return create_agent(settings, OBS, ACTIONS, BOUNDS, tasks, kind, **more)


def make_batch(rng, tasks, n_step=1):
    follows = (np.arange(n_step) < rng.integers(1, n_step + 1, size=(BATCH, 1))).astype(float)
    return Windows(
        rng.normal(size=(BATCH, OBS)),
        rng.integers(ACTIONS, size=(BATCH, n_step)),
        rng.uniform(-1.2, 1.2, size=(BATCH, n_step, 3)),
        rng.normal(size=(BATCH, n_step, OBS)),
        (rng.random((BATCH, n_step)) > 0.3) * 1.0,
        rng.integers(len(tasks.weights), size=BATCH),
        follows,
    )


KINDS = {
    "rac51": ("rasfc51", ConditionedAgent, TASKS, {}),
    "rac51, two steps": ("rasfc51", ConditionedAgent, TASKS, {"n_step": 2}),
    "rac51 relabelled": ("rasfc51", ConditionedAgent, SPARSE, {"relabelled": True}),
    "rasfc51, gpi": ("rasfc51", GpiAgent, SPARSE, {}),
    "sfdqn, gpi, no target": ("sfdqn", GpiAgent, TASKS, {"target_period": 0}),
}


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("case", KINDS)
def test_updates_are_algorithm_2_s(case):
    name, kind, tasks, changes = KINDS[case]
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        agent = make(name, kind, tasks, **changes)
        learner, within = random_learner(agent), unbounded(3)
        update = jax.jit(lambda one, batch, beta, w: agent.update(one, batch, tasks, MeanVariance(beta), within, w))
        way = {"gpi": True} if kind is GpiAgent else {"conditioned": True, "relabelled": agent.relabelled}
        twin = Twin(agent, learner, *tasks, **way)
        for step in range(4):
            batch, beta = make_batch(rng, tasks, agent.settings.n_step), (-3.0, 0.0)[step % 2]
            weight = rng.uniform(0.5, 2.0, BATCH)
            learner, found = update(learner, batch, beta, weight)
            expected = twin.update(windows_of(batch), beta, weight)
            assert np.mean(found.each) == pytest.approx(expected, rel=1e-10)
            assert_same_networks(twin, learner, agent, atol=1e-9)
            if step == 1:
                learner = learner._replace(target=learner.online if learner.target else ())
                twin.copy_target()


def test_gpi_bootstrap_goes_by_the_risk_of_each_policy():
    agent = make("rasfc51", GpiAgent)
    learner, betas = random_learner(agent), np.array([-3.0, 0.0, 2.0], np.float32)
    x, w = np.random.default_rng(5).normal(size=(BATCH, OBS)).astype(np.float32), TASKS.weights.astype(np.float32)
    found = jax.jit(agent.bootstrap_scores)(learner.online, x, w, betas)
    by_one = jax.jit(lambda beta: agent.bootstrap_scores(learner.online, x, w, MeanVariance(beta)))
    for k, beta in enumerate(betas):
        np.testing.assert_allclose(found[k], by_one(beta)[k], rtol=1e-5)


def test_a_conditioned_network_has_one_histogram_of_the_reward_and_sees_the_task():
    agent = make("rasfc51", ConditionedAgent)
    assert type(agent.law) is Histogram
    assert (agent.policies, agent.inputs, agent.actions, agent.active_features) == (1, 5, ACTIONS, 1)
    (atoms,) = agent.law.atoms
    assert (len(atoms), atoms[0], atoms[-1]) == (ATOMS, -30.0, 10.0)
    assert agent.for_weights(np.ones((1, 3))) == agent
    assert hash(agent) == hash(make("rasfc51", ConditionedAgent))
    assert agent != make("rasfc51", ConditionedAgent, relabelled=True)


def test_settings_of_the_paper_s_agents():
    assert paper_settings("c51") == paper_settings("rac51") == paper_settings("rasfc51") == HistogramSettings()
    assert paper_settings("sfdqn") == MeanSettings()
    papers = {"rasfc51", "sfc51", "rac51", "c51", "rac51-relabelled", "sfdqn", "sfdqn-residual"}
    assert set(AGENTS_HERE) == papers | {"rasfdqn"}


@pytest.mark.usefixtures("narrow")
def test_a_conditioned_network_is_scored_by_the_reward_it_sees():
    with jax.enable_x64(True):
        agent = make("rasfc51", ConditionedAgent)
        networks = jax.tree.map(lambda leaf: 2 * leaf, random_learner(agent).online)
        risk, task_input, obs = (
            MeanVariance(-2.0),
            np.array([0.7, -0.1]),
            np.random.default_rng(5).normal(size=(2, OBS)),
        )
        task_heads = agent.task_heads(networks, TASKS.weights[2])
        scores = jax.jit(partial(agent.scores, risk=risk))(task_heads, obs, task_input)
    (network,) = plain_networks(networks[0], agent.law.shapes()[0])
    assert scores.shape == (1, 2, ACTIONS)
    for b, a in np.ndindex(2, ACTIONS):
        probs = softmax(outputs(network, np.concatenate([obs[b], task_input]))[0, a])
        assert scores[0, b, a] == pytest.approx(risk.histogram(probs, np.linspace(-4.0, 3.0, ATOMS)), abs=1e-10)


def test_a_conditioned_network_acts_on_the_task_it_sees():
    """Its one hidden unit is the task's input: positive prefers action 1."""
    world = Walk()
    tasks = Tasks(np.eye(3, dtype=np.float32), np.array([[1.0], [-1.0], [1.0]], np.float32))
    settings = settings_of("rasfc51", widths=(2,), atoms=2)
    agent = ConditionedAgent.for_world(settings, world, tasks)
    (network,) = constant_networks(agent, [np.zeros((1, 1, 3, 2))])
    weight = np.zeros((1, 4, 2), np.float32)
    weight[0, 3, 0] = 1.0
    heads = network.heads.weight.copy()
    heads[0, 0, 1, 1] = 1.0  # the logit of action 1's upper atom
    networks = (
        network._replace(
            hidden=(network.hidden[0]._replace(weight=weight),), heads=network.heads._replace(weight=heads)
        ),
    )
    act = jax.jit(partial(rollouts, agent, world, n=2, way=Way(epsilon=0.0)))
    phi = np.asarray(act(networks, jax.random.key(0), 0.0, tasks).phi)
    np.testing.assert_allclose(phi[:, 0, 2], [2.5, 0.0, 2.5])  # five steps, half the action's index each


def walk_agent(world, kind, **changes):
    settings = settings_of("rasfc51", widths=(4,), atoms=4, batch=3, learning_rate=0.02, gamma=0.8, target_period=8,
                           epsilon=0.3, **changes)  # fmt: skip
    return kind.for_world(settings, world, SPARSE)


def configs_of(tasks=SPARSE):
    given = Tasks(*(jnp.asarray(part) for part in tasks))
    one = RunConfig(jax.random.key(3), jnp.asarray(-3.0), jnp.asarray(-1.0), given)
    return one, jax.tree.map(lambda part: part[None], one)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("kind", [ConditionedAgent, pytest.param(GpiAgent, marks=pytest.mark.slow)])
def test_the_fused_loop_trains_them_as_algorithm_2_says(kind):
    with jax.enable_x64(True):
        world, schedule = Walk(), Schedule(12, 2, 16)
        agent, (config, configs) = walk_agent(world, kind), configs_of()
        first = jax.tree.map(lambda part: np.array(part[0]), start_lanes(agent, world, configs, schedule))
        *_, last = chunks(agent, world, configs, schedule)
        twin = Twin(agent, first.learner, *SPARSE, conditioned=kind is ConditionedAgent, gpi=kind is GpiAgent)
        plain_run(agent, world, config, schedule, twin)
        assert_same_networks(twin, jax.tree.map(lambda part: part[0], last.lanes.learner), agent, atol=1e-9)


def test_sizes_of_a_conditioned_agent_are_checked():
    world, schedule = Walk(), Schedule(16, 2, 8)
    agent = walk_agent(world, ConditionedAgent)
    start = partial(start_lanes, world=world, schedule=schedule)
    fewer = ConditionedAgent.for_world(agent.settings, world, SPARSE._replace(inputs=np.zeros((2, 1))))
    with pytest.raises(ValueError, match=r"agent must have 5 inputs .*, got 4"):
        start(fewer, configs=configs_of()[1])
    wider = SPARSE._replace(weights=np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"configs must have 3 features .*, got 4"):
        start(agent, configs=configs_of(wider)[1])
    dense = SPARSE._replace(weights=np.ones((2, 3)))
    start(agent, configs=configs_of(dense)[1])  # it reads no features, so it leaves none out
    with pytest.raises(ValueError, match="agent must have 3 inputs"):
        start(Agent.for_world(agent.settings, Walk2(), SPARSE), configs=configs_of()[1])


class Walk2(Walk):
    observation_size = 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observation_size": -1}, "observation_size must"),
        ({"n_actions": 0}, "n_actions must"),
    ],
)
def test_sizes_that_cannot_be_are_refused(change, words):
    given = {"observation_size": 4, "n_actions": 9, "training": TASKS, **change}
    with pytest.raises(ValueError, match=words) as refusal:
        ConditionedAgent.create(HistogramSettings(), **given)
    assert "\n" not in str(refusal.value)
