"""One update after another of every agent, in double precision, against Algorithm 2 written plainly."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from deep_twin import Twin, assert_same_networks, constant_networks, create_agent, outputs, random_learner, softmax

from rasf.deep.agent import Agent, Policies, Tasks, preset
from rasf.deep.replay import Batch
from rasf.risk import MeanVariance

OBS, ACTIONS, BATCH = 3, 3, 4
BOUNDS = np.array([(-1.0, 1.0), (0.0, 1.0), (-2.0, 0.5)])
# the third task weighs every feature, the others not
TASKS = Tasks(
    np.array([[1.0, -3.0, 0.0], [0.0, -3.0, 1.0], [0.5, -1.0, -0.7]]), np.array([[0.3, -0.2], [1.0, 0.1], [-0.4, 0.0]])
)
SPARSE = Tasks(TASKS.weights[:2], TASKS.inputs[:2])  # two features of three: the others are not read


def make_batch(rng, tasks, terminated=0.3):
    return Batch(
        obs=rng.normal(size=(BATCH, OBS)),
        action=rng.integers(ACTIONS, size=BATCH),
        # some beyond the bounds, which are clipped, and some at them
        phi=np.clip(rng.uniform(-1.2, 1.2, size=(BATCH, 3)), BOUNDS[:, 0], BOUNDS[:, 1] + 0.2),
        next_obs=rng.normal(size=(BATCH, OBS)),
        not_terminated=(rng.random(BATCH) > terminated).astype(float),
        task=rng.integers(len(tasks.weights), size=BATCH),
    )


def listed(batch):
    return list(zip(*map(np.asarray, batch), strict=True))


AGENTS = {
    "rasfc51": (preset("rasfc51"), TASKS),
    "rasfc51, few features weighed": (preset("rasfc51"), SPARSE),
    "gpi bootstrap": (preset("rasfc51", bootstrap="gpi"), SPARSE),
    "no target networks": (preset("rasfc51", target_period=0), SPARSE),
    "rac51": (preset("rac51", bounds=(-4.0, 3.0)), TASKS),
    "rac51 relabelled": (preset("rac51-relabelled", bounds=(-4.0, 3.0)), SPARSE),
    "sfdqn": (preset("sfdqn"), TASKS),
    "sfdqn, gpi, no target": (preset("sfdqn", bootstrap="gpi", target_period=0), TASKS),
    "conditioned point": (preset("sfdqn", conditioned=True), TASKS),
    "residual": (preset("sfdqn-residual"), TASKS),
}


@pytest.mark.parametrize("name", AGENTS)
def test_updates_are_algorithm_2_s(name):
    settings, tasks = AGENTS[name]
    settings = replace(settings, widths=(4, 3), atoms=5, gamma=0.8, learning_rate=0.02)
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        agent = create_agent(settings, OBS, ACTIONS, BOUNDS, tasks)
        learner = random_learner(agent)
        update = jax.jit(lambda learner, batch, beta: agent.update(learner, batch, tasks, MeanVariance(beta)))
        twin = Twin(agent, learner, *tasks)
        for step in range(4):
            batch, beta = make_batch(rng, tasks), (-3.0, 0.0)[step % 2]
            learner, loss, _ = update(learner, batch, beta)
            assert loss == pytest.approx(twin.update(listed(batch), beta), rel=1e-10)
            assert_same_networks(twin, learner, agent, atol=1e-9)
            if step == 1:
                learner = learner._replace(target=learner.online if learner.target else ())
                twin.copy_target()


@pytest.fixture(scope="module")
def small():
    """An agent, a learner, and the compiled update at beta = -3."""
    agent = create_agent(preset("rasfc51", widths=(4,), atoms=5, gamma=0.8), OBS, ACTIONS, BOUNDS, TASKS)
    return agent, random_learner(agent), jax.jit(partial(agent.update, tasks=TASKS, risk=MeanVariance(-3.0)))


def test_clipped_mass_is_the_mean_over_policies_features_and_batch(small):
    agent, learner, update = small
    batch = make_batch(np.random.default_rng(0), TASKS)
    _, _, clipped = update(learner, batch)
    twin, expected = Twin(agent, learner, *TASKS), np.zeros(2)
    for _, _, phi, next_obs, not_terminated, _ in listed(batch):
        for k in range(3):
            next_action = twin.bootstrap_action(k, next_obs, TASKS.weights[k], -3.0)
            for i in range(3):
                probs = softmax(outputs(twin.parts[0][k], next_obs)[i, next_action])
                atoms, moved = twin.atoms[i], phi[i] + 0.8 * not_terminated * twin.atoms[i]
                expected += [probs[moved < atoms[0] - 1e-9].sum(), probs[moved > atoms[-1] + 1e-9].sum()]
    np.testing.assert_allclose(clipped, expected / (BATCH * 9), rtol=1e-5)
    assert (np.asarray(clipped) > 0).any()


def test_after_the_end_the_next_state_does_not_matter(small):
    _, learner, update = small
    batch = make_batch(np.random.default_rng(3), TASKS)
    moved = batch._replace(next_obs=batch.next_obs + 1.0)

    def of(not_terminated):
        return [
            update(learner, one._replace(not_terminated=np.full(BATCH, not_terminated)))[1:] for one in (batch, moved)
        ]

    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), *of(0.0))
    losses = [loss for loss, _ in of(1.0)]
    assert abs(losses[0] - losses[1]) > 1e-3


def test_padding_stays_zero_and_the_target_waits(small):
    agent, first, update = small
    learner = first
    for seed in range(3):
        learner, _, _ = update(learner, make_batch(np.random.default_rng(seed), TASKS))
    ((*_, heads),) = learner.online
    size = agent.law.shapes()[0].size
    assert all((np.asarray(part)[..., size:] == 0).all() for part in heads)
    jax.tree.map(np.testing.assert_array_equal, learner.target, first.online)
    assert not np.allclose(heads.bias, first.online[0].heads.bias)
    jax.tree.map(np.testing.assert_array_equal, jax.jit(agent.copy_target)(learner).target, learner.online)


def test_online_networks_choose_and_target_networks_evaluate():
    """MeanOnly networks that answer with their biases alone: online prefers action 2, the target knows its value."""
    settings = preset("sfdqn", widths=(2,), gamma=0.5, learning_rate=0.0)
    tasks = Tasks(np.ones((1, 1)), np.zeros((1, 1)))
    agent = create_agent(settings, OBS, ACTIONS, [(0.0, 1.0)], tasks)
    learner = random_learner(agent)
    online, target = (
        constant_networks(agent, [np.reshape(values, (1, 1, ACTIONS, 1))])
        for values in ([0.0, 1.0, 2.0], [50.0, 60.0, 8.0])
    )
    learner = learner._replace(online=online, target=target)
    batch = make_batch(np.random.default_rng(0), tasks)._replace(
        action=np.ones(BATCH, int), phi=np.full((BATCH, 1), 3.0), not_terminated=np.ones(BATCH)
    )
    _, loss, _ = jax.jit(partial(agent.update, tasks=tasks, risk=MeanVariance(0.0)))(learner, batch)
    assert loss == pytest.approx((3.0 + 0.5 * 8.0 - 1.0) ** 2 / 2)


def test_policies_settle_and_their_laws_are_learned_on():
    """Until update 4 of 10 those online choose, then those who would act, as they were."""
    settings = preset("sfdqn", widths=(4,), settle=0.6, average=3, learning_rate=0.02)
    agent = replace(create_agent(settings, OBS, ACTIONS, BOUNDS, TASKS), planned=10)
    learner, rng, choosers = agent.init(jax.random.key(0)), np.random.default_rng(0), []
    update = jax.jit(partial(agent.update, tasks=TASKS, risk=MeanVariance(0.0)))
    for done in range(1, 11):
        learner, _, _ = update(learner, make_batch(rng, TASKS))
        choosers.append(learner.chooser)
        if done <= 4:
            expected = learner.online if done < 4 else learner.average
        jax.tree.map(np.testing.assert_array_equal, learner.chooser, expected)
    assert not np.allclose(learner.online[0].heads.weight, choosers[3][0].heads.weight)
    # who chooses is asked: were the others asked, the loss would be another one
    batch = make_batch(rng, TASKS, terminated=0.0)
    other = jax.tree.map(lambda part: -part, learner.chooser)
    assert update(learner, batch)[1] != update(learner._replace(chooser=other), batch)[1]
    assert create_agent(settings, OBS, ACTIONS, BOUNDS, TASKS).init(jax.random.key(0)).chooser == ()  # nothing planned


@pytest.mark.parametrize("name", [pytest.param("rasfc51", marks=pytest.mark.slow), "residual"])
def test_policies_of_several_risks_learn_as_if_each_risk_were_alone(name):
    """Six networks, three tasks at two risks, against two agents of three networks."""
    settings = replace(AGENTS[name][0], widths=(4,), atoms=5, gamma=0.8, learning_rate=0.02)
    betas, rng = (-3.0, 0.5), np.random.default_rng(2)
    with jax.enable_x64(True):
        alone = create_agent(settings, OBS, ACTIONS, BOUNDS, TASKS)
        learners = [alone.init(jax.random.key(seed)) for seed in (1, 2)]
        atoms = np.array(alone.law.atoms) if name == "rasfc51" else None
        together = Agent.create(settings, OBS, ACTIONS, TASKS, atoms, policies=6)
        policies = Policies(jax.numpy.tile(TASKS.weights, (2, 1)), jax.numpy.repeat(jax.numpy.array(betas), 3))
        joined = jax.tree.map(lambda *parts: jax.numpy.concatenate(parts), *[one.online for one in learners])
        both = together.init(jax.random.key(0))
        both = both._replace(online=joined, target=joined)
        update = jax.jit(lambda learner, batch: together.update(learner, batch, TASKS, policies))
        for _ in range(3):
            batch = make_batch(rng, TASKS)
            both, loss, _ = update(both, batch)
            losses = 0.0
            for r, beta in enumerate(betas):
                learners[r], one, _ = alone.update(learners[r], batch, TASKS, MeanVariance(beta))
                losses += one
            assert float(loss) == pytest.approx(float(losses), rel=1e-10)
    expected = jax.tree.map(lambda *parts: np.concatenate(parts), *[one.online for one in learners])
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-10), both.online, expected)


def test_gpi_bootstrap_goes_by_the_risk_of_each_policy():
    settings = preset("rasfc51", widths=(4,), atoms=5, gamma=0.8, bootstrap="gpi")
    agent = create_agent(settings, OBS, ACTIONS, BOUNDS, TASKS)
    learner, betas = random_learner(agent), jax.numpy.array([-3.0, 0.0, 2.0])
    batch = make_batch(np.random.default_rng(5), TASKS)
    found = jax.jit(agent._bootstrap_actions)(learner.online, batch.next_obs, TASKS.weights, betas)
    for k, beta in enumerate(betas):
        alone = agent._bootstrap_actions(learner.online, batch.next_obs, TASKS.weights, MeanVariance(beta))
        np.testing.assert_array_equal(found[k], alone[k])
