"""One update after another of every agent, in double precision, against Algorithm 2 written plainly."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from deep_twin import (
    Twin,
    assert_same_networks,
    constant_networks,
    create_agent,
    outputs,
    random_learner,
    settings_of,
    single_steps,
    softmax,
    unbounded,
    windows_of,
)

from rasf.deep.agent import Agent, Policies, Tasks
from rasf.deep.laws import Within
from rasf.deep.replay import Windows
from rasf.risk import MeanVariance

OBS, ACTIONS, BATCH = 3, 3, 4
BOUNDS = np.array([(-1.0, 1.0), (0.0, 1.0), (-2.0, 0.5)])
# the third task weighs every feature, the others not
TASKS = Tasks(
    np.array([[1.0, -3.0, 0.0], [0.0, -3.0, 1.0], [0.5, -1.0, -0.7]]), np.array([[0.3, -0.2], [1.0, 0.1], [-0.4, 0.0]])
)
SPARSE = Tasks(TASKS.weights[:2], TASKS.inputs[:2])  # two features of three: the others are not read


# of some features narrower than outputs are
WITHIN = Within(np.array([-0.2, 0.0, -0.4]), np.array([0.4, 0.3, 0.1]), np.array([1.0, 0.0, 1.0]))
SPREAD = np.array([0.5, 1.0, 2.0])


def make_batch(rng, tasks, terminated=0.3, n_step=1):
    """Windows, of which some are cut short; an episode may terminate at the last step of each."""
    lengths = rng.integers(1, n_step + 1, size=BATCH)
    follows = (np.arange(n_step) < lengths[:, None]).astype(float)
    not_terminated = np.ones((BATCH, n_step))
    not_terminated[np.arange(BATCH), lengths - 1] = rng.random(BATCH) > terminated
    return Windows(
        obs=rng.normal(size=(BATCH, OBS)),
        action=rng.integers(ACTIONS, size=(BATCH, n_step)),
        # some beyond the bounds, which are clipped, and some at them
        phi=np.clip(rng.uniform(-1.2, 1.2, size=(BATCH, n_step, 3)), BOUNDS[:, 0], BOUNDS[:, 1] + 0.2),
        next_obs=rng.normal(size=(BATCH, n_step, OBS)),
        not_terminated=not_terminated,
        task=rng.integers(len(tasks.weights), size=BATCH),
        follows=follows,
    )


AGENTS = {
    "rasfc51": ("rasfc51", {}, TASKS),
    "rasfc51, few features weighed": ("rasfc51", {}, SPARSE),
    "rasfc51, three steps": ("rasfc51", {"n_step": 3}, TASKS),
    "no target networks": ("rasfc51", {"target_period": 0}, SPARSE),
    "sfdqn": ("sfdqn", {}, TASKS),
    "residual, two steps": ("sfdqn-residual", {"n_step": 2}, TASKS),
    "residual": ("sfdqn-residual", {}, TASKS),
    "rasfdqn": ("rasfdqn", {"events": (1,), "shared": False, "decay": False, "n_step": 3}, TASKS),
    "rasfdqn, episodes": ("rasfdqn", {"events": (1,), "shared": False, "decay": False, "n_step": 2, "limit": 7}, TASKS),
    "sfdqn, episodes without discount": ("sfdqn", {"n_step": 3, "gamma": 1.0, "horizon": "episode", "limit": 7}, TASKS),
}


def aged(agent, batch, rng):
    """The batch as an agent with a time limit sees it: the windows begin at random steps of their episodes."""
    if not agent.limit:
        return batch
    n = batch.follows.shape[1]
    age = rng.integers(agent.limit - n + 1, size=BATCH)
    after = age[:, None] + 1 + np.arange(n)
    alive = batch.not_terminated * (after < agent.limit)
    return batch._replace(
        obs=agent.with_time(batch.obs, age), next_obs=agent.with_time(batch.next_obs, after), not_terminated=alive
    )


@pytest.mark.parametrize("name", AGENTS)
def test_updates_are_algorithm_2_s(name):
    """Also of sums over several steps, with weights of transitions, and of episodes with a time limit."""
    agent_name, changes, tasks = AGENTS[name]
    limit = {"limit": changes["limit"]} if "limit" in changes else {}
    usual = {"widths": (4, 3), "atoms": 5, "gamma": 0.8, "learning_rate": 0.02}
    settings = settings_of(agent_name, **usual | {key: value for key, value in changes.items() if key != "limit"})
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        agent = create_agent(settings, OBS, ACTIONS, BOUNDS, tasks, **limit)
        learner = random_learner(agent)

        def updated(learner, batch, beta, weight):
            return agent.update(learner, batch, tasks, MeanVariance(beta), WITHIN, weight, SPREAD)

        update, twin = jax.jit(updated), Twin(agent, learner, *tasks, within=WITHIN, spread=SPREAD)
        for step in range(4):
            batch, beta = aged(agent, make_batch(rng, tasks, n_step=settings.n_step), rng), (-3.0, 0.0)[step % 2]
            weight = rng.uniform(0.5, 2.0, BATCH) if step > 1 else np.ones(BATCH)
            learner, found = update(learner, batch, beta, weight)
            expected = twin.update(windows_of(batch), beta, weight)
            assert np.mean(found.each) == pytest.approx(expected, rel=1e-10)
            assert_same_networks(twin, learner, agent, atol=1e-9)
            if step == 1:
                learner = learner._replace(target=learner.online if learner.target else ())
                twin.copy_target()
        assert learner.updates == 4


@pytest.fixture(scope="module")
def small():
    """An agent, a learner, and the compiled update at beta = -3."""
    agent = create_agent(settings_of("rasfc51", widths=(4,), atoms=5, gamma=0.8), OBS, ACTIONS, BOUNDS, TASKS)
    return agent, random_learner(agent), compiled_update(agent, MeanVariance(-3.0))


def compiled_update(agent, by, tasks=TASKS):
    return jax.jit(partial(agent.update, tasks=tasks, by=by, within=unbounded(agent.law.features)))


def test_clipped_mass_is_the_mean_over_policies_features_and_batch(small):
    agent, learner, update = small
    batch = make_batch(np.random.default_rng(0), TASKS)
    batch.phi[0] = BOUNDS[:, 1] + 0.2
    clipped = update(learner, batch)[1].clipped
    twin, expected = Twin(agent, learner, *TASKS), np.zeros(2)
    for _, _, steps in windows_of(batch):
        _, phi, next_obs, not_terminated = steps[0]
        discount = 0.8 * not_terminated
        for k in range(3):
            next_action = int(np.argmax(twin.bootstrap_scores(k, next_obs, TASKS.weights[k], -3.0)))
            for i in range(3):
                probs = softmax(outputs(twin.parts[0][k], next_obs)[i, next_action])
                atoms, moved = twin.atoms[i], phi[i] + discount * twin.atoms[i]
                expected += [probs[moved < atoms[0] - 1e-9].sum(), probs[moved > atoms[-1] + 1e-9].sum()]
    np.testing.assert_allclose(clipped, expected / (BATCH * 9), rtol=1e-5)
    assert (np.asarray(clipped) > 0).any()


def test_after_the_end_the_next_state_does_not_matter(small):
    _, learner, update = small
    batch = make_batch(np.random.default_rng(3), TASKS)
    moved = batch._replace(next_obs=batch.next_obs + 1.0)

    def of(not_terminated):
        alive = np.full((BATCH, 1), not_terminated)
        return [update(learner, one._replace(not_terminated=alive))[1] for one in (batch, moved)]

    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), *of(0.0))
    losses = [np.mean(found.each) for found in of(1.0)]
    assert abs(losses[0] - losses[1]) > 1e-3


def test_padding_stays_zero_and_the_target_waits(small):
    agent, first, update = small
    learner = first
    for seed in range(3):
        learner, _ = update(learner, make_batch(np.random.default_rng(seed), TASKS))
    ((*_, heads),) = learner.online
    size = agent.law.shapes()[0].size
    assert all((np.asarray(part)[..., size:] == 0).all() for part in heads)
    jax.tree.map(np.testing.assert_array_equal, learner.target, first.online)
    assert not np.allclose(heads.bias, first.online[0].heads.bias)
    jax.tree.map(np.testing.assert_array_equal, jax.jit(agent.copy_target)(learner).target, learner.online)


def test_online_networks_choose_and_target_networks_evaluate():
    """MeanOnly networks that answer with their biases alone: online prefers action 2, the target knows its value."""
    settings = settings_of("sfdqn", widths=(2,), gamma=0.5, learning_rate=0.0)
    tasks = Tasks.of(np.ones((1, 1)))
    agent = create_agent(settings, OBS, ACTIONS, [(0.0, 1.0)], tasks)
    learner = random_learner(agent)
    online, target = (
        constant_networks(agent, [np.reshape(values, (1, 1, ACTIONS, 1))])
        for values in ([0.0, 1.0, 2.0], [50.0, 60.0, 8.0])
    )
    learner = learner._replace(online=online, target=target)
    obs, rows = np.zeros((BATCH, OBS)), np.ones(BATCH)
    batch = single_steps(obs, rows.astype(int), np.full((BATCH, 1), 3.0), obs, rows, np.zeros(BATCH, int))
    _, found = compiled_update(agent, MeanVariance(0.0), tasks)(learner, batch)
    np.testing.assert_allclose(found.each, (3.0 + 0.5 * 8.0 - 1.0) ** 2 / 2, rtol=1e-6)
    np.testing.assert_allclose(found.error, 3.0 + 0.5 * 8.0 - 1.0, rtol=1e-6)


def test_policies_are_frozen_and_their_distributions_are_learned_on():
    """Until update 4 of 10 the online networks choose, then the averaged ones of that update."""
    settings = settings_of("sfdqn", widths=(4,), freeze=0.6, average=3, learning_rate=0.02)
    agent = replace(create_agent(settings, OBS, ACTIONS, BOUNDS, TASKS), planned=10)
    learner, rng, choosers = jax.jit(agent.init)(jax.random.key(0)), np.random.default_rng(0), []
    update = compiled_update(agent, MeanVariance(0.0))
    for done in range(1, 11):
        learner, _ = update(learner, make_batch(rng, TASKS))
        choosers.append(learner.chooser)
        if done <= 4:
            expected = learner.online if done < 4 else learner.average
        jax.tree.map(np.testing.assert_array_equal, learner.chooser, expected)
    assert not np.allclose(learner.online[0].heads.weight, choosers[3][0].heads.weight)
    # the frozen networks choose: with others the losses differ
    batch = make_batch(rng, TASKS, terminated=0.0)
    other = jax.tree.map(lambda part: -part, learner.chooser)
    losses = [update(one, batch)[1].each for one in (learner, learner._replace(chooser=other))]
    assert not np.array_equal(*losses)
    unplanned = create_agent(settings, OBS, ACTIONS, BOUNDS, TASKS)
    assert jax.eval_shape(unplanned.init, jax.random.key(0)).chooser == ()


@pytest.mark.parametrize("name", [pytest.param("rasfc51", marks=pytest.mark.slow), "sfdqn-residual"])
def test_policies_of_several_risks_learn_as_if_each_risk_were_alone(name):
    """Six networks, three tasks at two risks, against two agents of three networks."""
    settings = settings_of(name, widths=(4,), atoms=5, gamma=0.8, learning_rate=0.02)
    betas, rng = (-3.0, 0.5), np.random.default_rng(2)
    with jax.enable_x64(True):
        alone = create_agent(settings, OBS, ACTIONS, BOUNDS, TASKS)
        learners = [random_learner(alone, seed) for seed in (1, 2)]
        atoms = np.array(alone.law.atoms) if name == "rasfc51" else None
        together = Agent.create(settings, OBS, ACTIONS, TASKS, atoms, policies=6)
        policies = Policies(jax.numpy.tile(TASKS.weights, (2, 1)), jax.numpy.repeat(jax.numpy.array(betas), 3))
        joined = jax.tree.map(lambda *parts: np.concatenate(parts), *[one.online for one in learners])
        both = random_learner(together)._replace(online=joined, target=joined)
        update = compiled_update(together, policies)
        each = [compiled_update(alone, MeanVariance(beta)) for beta in betas]
        for _ in range(3):
            batch = make_batch(rng, TASKS)
            both, found = update(both, batch)
            losses = 0.0
            for r in range(len(betas)):
                learners[r], one = each[r](learners[r], batch)
                losses += one.each
            np.testing.assert_allclose(found.each, losses, rtol=1e-10)
    expected = jax.tree.map(lambda *parts: np.concatenate(parts), *[one.online for one in learners])
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-10), both.online, expected)


def test_sums_over_several_steps_by_hand():
    """Features 1, 2, 4 at gamma 0.5, for two policies that want much and little of the feature.

    Networks answer 1, 0 and 0.9 for the three actions. So the first policy would take action 0, and nearly action 2,
    the other one action 1 only. A sum goes on while the next action is such a one.
    """
    tasks = Tasks.of([[1.0], [-1.0]])
    agent = create_agent(settings_of("sfdqn", gamma=0.5, widths=(2,)), 1, 3, [(0.0, 1.0)], tasks)
    constant = constant_networks(agent, [np.broadcast_to(np.reshape([1.0, 0.0, 0.9], (3, 1)), (2, 1, 3, 1))])
    learner = random_learner(agent)._replace(online=constant, target=constant)
    batch = Windows(
        obs=np.array([[10.0], [20.0], [30.0], [40.0]]),
        # whole windows, one that ends after two steps, one that is cut after one; the first action is never asked
        action=np.array([[1, 0, 2], [0, 1, 0], [2, 2, 1], [0, 0, 0]]),
        phi=np.tile(np.array([[[1.0], [2.0], [4.0]]]), (4, 1, 1)),
        next_obs=np.array([[11.0, 12, 13], [21, 22, 23], [31, 32, 99], [41, 99, 99]])[..., None],
        not_terminated=np.array([[1.0, 1, 1], [1, 1, 1], [1, 0, 1], [1, 0, 0]]),
        task=np.zeros(4, int),
        follows=np.array([[1.0, 1, 1], [1, 1, 1], [1, 1, 0], [1, 0, 0]]),
    )
    target = jax.jit(agent.target_of)(learner, batch, tasks.weights, np.zeros(2, np.float32), np.ones(1))
    np.testing.assert_allclose(target.phi[..., 0], [[1 + 1 + 1, 1, 1 + 1, 1], [1, 1 + 1, 1, 1]])
    np.testing.assert_allclose(target.discount, [[0.125, 0.5, 0.0, 0.5], [0.5, 0.25, 0.5, 0.5]])
    # what follows is asked for the best action
    np.testing.assert_allclose(target.following[0][:, :, 0, 0], [[1.0] * 4, [0.0] * 4], atol=1e-6)
    np.testing.assert_allclose(target.longest, 2.0)


def test_what_lies_beyond_a_window_changes_nothing():
    """Replays hold other rows there: those of another episode, old ones, or the last one again."""
    agent = create_agent(settings_of("sfdqn", widths=(4,), n_step=4, gamma=0.8), OBS, ACTIONS, BOUNDS, TASKS)
    learner, batch = random_learner(agent), make_batch(np.random.default_rng(2), TASKS, n_step=4)
    assert not batch.follows.all()
    beyond = batch.follows == 0
    other = batch._replace(
        action=np.where(beyond, (batch.action + 1) % ACTIONS, batch.action),
        phi=np.where(beyond[..., None], 7.0, batch.phi),
        next_obs=np.where(beyond[..., None], 1e3, batch.next_obs),
        not_terminated=np.where(beyond, 0.0, batch.not_terminated),
    )
    target_of = jax.jit(agent.target_of)
    given = np.asarray(TASKS.weights, np.float32), np.zeros(3, np.float32), np.ones(3)
    jax.tree.map(np.testing.assert_array_equal, *(target_of(learner, one, *given) for one in (batch, other)))
