"""Events by what they come to on average: targets by hand, their fixed point and their noise, every way to train."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_twin import create_agent
from probe_worlds import Walk
from rasf.deep.events import EventModel
from rasf.deep.stepping import SteppedLearner
from rasf.deep.train import RunConfig

from rasf.deep import fit
from rasf.deep.agent import Agent, Tasks, preset
from rasf.deep.laws import Expected, MeanLogDiagonal, Within
from rasf.deep.networks import plain_outputs
from rasf.deep.replay import Batch
from rasf.mdp import FiniteMDP
from rasf.planning.moments import successor_moments
from rasf.risk import MeanVariance

K, B, D, GAMMA = 2, 4, 3, 0.7
BOUNDS = np.array([(-1.0, 1.0), (0.0, 2.0)])


def test_the_targets_by_hand():
    """A network that says m = 0.2 and q = 0.3 of the second feature, whatever comes."""
    settings = preset("rasfdqn", gamma=GAMMA, widths=(5,), events=(1,), expected_events=True, average=0)
    tasks = Tasks(np.array([[1.0, -1.0, 0.0], [0.5, -2.0, 1.0]], np.float32), np.zeros((2, 0), np.float32))
    agent = create_agent(settings, 2, 3, [(-1.0, 1.0)] * D, tasks)
    learner, rng = jax.jit(agent.init)(jax.random.key(0)), np.random.default_rng(0)
    constant = jax.tree.map(jnp.zeros_like, learner.events.network)
    bias = constant.heads.bias.at[0, 0, :2].set(np.log([0.2, 0.3]))
    constant = constant._replace(heads=constant.heads._replace(bias=bias))
    learner = learner._replace(events=learner.events._replace(network=constant))
    obs, next_obs, phi = (rng.normal(size=(B, n)).astype(np.float32) for n in (2, 2, D))
    phi[:, 1] = [0.0, 3.0, 0.0, 1.0]  # which must not matter
    batch = Batch(obs, rng.integers(3, size=B), phi, next_obs, np.array([1, 0, 1, 1], np.float32), np.zeros(B, int))
    after, loss, _ = jax.jit(partial(agent.update, tasks=tasks, risk=MeanVariance(-1.0)))(learner, batch)
    (network,), (shape,) = jax.tree.map(np.asarray, learner.online), agent.law.shapes()
    said, said_next = (plain_outputs(network, x, shape) for x in (obs, next_obs))
    scores = agent.own_scores(learner.online, next_obs, jnp.asarray(tasks.weights), MeanVariance(-1.0))
    total = 0.0
    for k, b, i in np.ndindex(K, B, D):
        now, later = said[k, b, batch.action[b], :, i], said_next[k, b, np.argmax(scores[k, b]), :, i]
        discount = GAMMA * batch.not_terminated[b]
        if i == 1:
            target, known = 0.2 + discount * np.exp(later[0]), 0.3 - 0.2**2
            total += np.exp(now[0]) - target * now[0]
            off = target - np.exp(now[0])
        else:
            off, known = phi[b, i] + discount * later[0] - now[0], 0.0
            total += off**2 / 2
        spread = off**2 + known + discount**2 * np.exp(later[1])
        total += np.exp(now[1]) - spread * now[1]
    assert float(loss) == pytest.approx(total / B, rel=1e-4)
    # what came is what the network learns from: 4 in 4 steps, and 10 by their squares, are more than it says
    assert (np.asarray(after.events.network.heads.bias)[0, 0, :2] > np.log([0.2, 0.3])).all()


def test_what_came_still_surprises():
    rng = np.random.default_rng(0)
    chosen, following = rng.normal(size=(2, K, B, 2, D))
    phi, discount, law = np.abs(rng.normal(size=(B, D))), np.full(B, 0.9), MeanLogDiagonal(D, (1,))
    given = (chosen,), (following,), phi, discount
    plain, surprise = law.each_loss(*given)
    expected = Expected(jnp.asarray(phi).at[:, 1].set(0.2), jnp.zeros((B, D)))
    other, same = law.each_loss(*given, expected)
    np.testing.assert_array_equal(surprise, same)
    assert (np.asarray(plain) != np.asarray(other)).all()
    certain = law.each_loss(*given, Expected(phi, np.zeros((B, D))))[0]
    np.testing.assert_allclose(plain, certain, rtol=1e-6)


def test_what_is_expected_stays_within_bounds_too():
    """However wrong the network of events is, slopes are no larger than what returns can be."""
    chosen, following = np.full((2, K, B, 2, D), 30.0)
    law, within = MeanLogDiagonal(D, (1,)), Within(np.zeros(D), np.full(D, 2.0))
    expected = Expected(jnp.full((B, D), 2e4), jnp.full((B, D), 2e4))

    def loss(out):
        return law.each_loss((out,), (following,), np.zeros((B, D)), np.full(B, 0.9), expected, within)[0].sum()

    slope = np.asarray(jax.grad(loss)(jnp.asarray(chosen)))
    assert (slope[:, :, 1] >= 0).all()  # what is far too large is drawn back
    assert (slope[:, :, 0, 1] >= 0).all()
    assert slope[:, :, 1].max() <= 1.5 * 4


# state and action: outcomes (sixteenths, successor, phi); 2 is the end, and looks like 0
OUTCOMES = {
    (0, 0): ((7, 0, (1.0, 0.0)), (1, 0, (1.0, 1.0)), (8, 1, (0.0, 0.0))),
    (0, 1): ((4, 1, (0.5, 0.0)), (8, 1, (0.5, 1.0)), (4, 0, (0.0, 2.0))),
    (1, 0): ((12, 1, (0.2, 0.0)), (2, 0, (1.0, 0.0)), (2, 2, (1.0, 1.0))),
    (1, 1): ((16, 0, (0.0, 0.0)),),
}


def test_the_fixed_point_is_the_true_one():
    """Where what an event comes to depends on the action, on the successor, and on whether anything follows."""
    rows = [(s, a, to, phi) for (s, a), some in OUTCOMES.items() for n, to, phi in some for _ in range(n)]
    s, a, to, phi = map(np.array, zip(*rows, strict=True))
    seen, alive = np.eye(2, dtype=np.float32), (to < 2).astype(np.float32)
    batch = Batch(seen[s], a, phi.astype(np.float32), seen[to % 2], alive, np.zeros(len(s), int))
    tasks, risk = Tasks(np.array([[1.0, -1.0]], np.float32), np.zeros((1, 0), np.float32)), MeanVariance(-0.2)
    small = {"widths": (32,), "learning_rate": 1e-2, "average": 20}
    settings = preset("rasfdqn", gamma=GAMMA, **small, events=(1,), expected_events=True)
    updates = 2_000
    agent = create_agent(settings, 2, 2, BOUNDS, tasks, planned=updates)
    learner = after_updates(agent, lambda _: batch, tasks, risk, updates, jax.random.key(0))
    listed = [(s, a, to, n / 16, np.array(phi)) for (s, a), some in OUTCOMES.items() for n, to, phi in some]
    mdp = FiniteMDP.from_transitions(listed, 3, 2, [2], GAMMA)
    policy = np.argmax(agent.own_scores(learner.online, jnp.asarray(seen), tasks.weights, risk)[0], axis=-1)
    exact = successor_moments(mdp, np.append(policy, 0))
    said = plain_outputs(jax.tree.map(np.asarray, learner.average[0]), seen, agent.law.shapes()[0])[0]
    np.testing.assert_allclose(np.exp(said[:, :, 0, 1]), exact.psi[:2, :, 1], rtol=0.01)
    np.testing.assert_allclose(np.exp(said[:, :, 1, 1]), exact.Sigma[:2, :, 1, 1], rtol=0.02)


def after_updates(agent, draw, tasks, risk, updates, key):
    """A learner after updates on what is drawn by keys; target networks copied every 20."""

    def step(learner, key):
        return agent.update(learner, draw(key), tasks, risk)[0], None

    def period(learner, keys):
        return agent.copy_target(jax.lax.scan(step, learner, keys)[0]), None

    def run(key):
        keys = jax.random.split(key, (updates // 20, 20))
        return jax.lax.scan(period, agent.init(key), keys)[0]

    return jax.jit(run)(key)


@pytest.mark.slow
def test_less_is_left_to_chance():
    """Any action leads anywhere, and in one of four states an eighth fails: the law of failures is the same throughout.

    Of 800 steps 200 could fail and about 25 did, one or two of each state and action.
    """
    n_states, n_actions, steps, gamma, p = 4, 4, 800, 0.5, 1 / 8
    tasks, risk = Tasks(np.array([[1.0, -1.0]], np.float32), np.zeros((1, 0), np.float32)), MeanVariance(0.0)
    mean, variance = p / 4 / (1 - gamma), p / 4 * (1 - p / 4) / (1 - gamma**2)
    small = {"widths": (16,), "learning_rate": 1e-2, "batch": 64, "average": 200, "gamma": gamma, "events": (1,)}

    def relative_errors(on, key):
        """Of mean and variance, root mean squares over states and actions."""
        settings = preset("rasfdqn", expected_events=on, **small)
        agent = create_agent(settings, n_states, n_actions, BOUNDS, tasks, planned=1_000)
        keys = jax.random.split(key, 4)
        s, to = jax.random.randint(keys[0], (2, steps), 0, n_states)
        a, failed = jax.random.randint(keys[1], (steps,), 0, n_actions), jax.random.uniform(keys[2], (steps,)) < p
        phi = jnp.stack([jnp.zeros(steps), (to == 3) & failed], axis=1)
        seen = jnp.eye(n_states)
        replay = Batch(seen[s], a, phi, seen[to], jnp.ones(steps), jnp.zeros(steps, int))

        def draw(key):
            at = jax.random.randint(key, (64,), 0, steps)
            return jax.tree.map(lambda part: part[at], replay)

        learner = after_updates(agent, draw, tasks, risk, 1_000, keys[3])
        heads = agent.task_heads(learner.average, jnp.array([0.0, 1.0]))
        found = agent.moments(heads, seen, jnp.zeros((n_states, 0)))
        return jnp.array([jnp.mean((one / true - 1) ** 2) for one, true in zip(found, (mean, variance), strict=True)])

    keys = jax.random.split(jax.random.key(0), 8)
    off, on = (jnp.sqrt(jnp.mean(jax.vmap(partial(relative_errors, so))(keys), axis=0)) for so in (False, True))
    assert (on < 0.85 * off).all(), (off, on)  # 0.37 and 0.49, of which 0.2 is how often failures came at all


@pytest.mark.parametrize("warmup", [0, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("surprise", [0.0, pytest.param(0.9, marks=pytest.mark.slow)])
def test_stepped_from_python(surprise, warmup):
    """One step that pays 20 in an eighth of the cases; a warm-up scales it, and surprise draws those more often."""
    small = {"widths": (4,), "n_step": 1, "batch": 32, "learning_rate": 0.01, "average": 100, "gamma": 0.9}
    settings = preset("rasfdqn", **small, warmup=warmup, surprise=surprise, events=(0,), expected_events=True)
    task = Tasks(np.ones((1, 1), np.float32), np.zeros((1, 0), np.float32))
    agent = create_agent(settings, 1, 1, np.array([(0.0, 20.0)]), task, planned=2_000)
    learner = SteppedLearner(agent, task, 0.0, 0, 1, 1_000)
    learner.begin_task(0)
    for i in range(400):
        learner.act(np.zeros((1, 1)))
        learner.observe(np.zeros((1, 1)), [[20.0 * (i % 8 == 0)]], [True], [True])
    learner.learn(2_000)
    heads = agent.law.plain_heads(learner.networks, np.ones(1, np.float32))
    mean, variance = agent.moments(heads, jnp.zeros((1, 1)), jnp.zeros((1, 0)))
    assert mean.item() == pytest.approx(20 / 8, rel=0.1)
    assert variance.item() == pytest.approx(400 * 7 / 64, rel=0.15)


@pytest.mark.slow
def test_compiled_and_from_a_checkpoint(tmp_path):
    world, tasks = Walk(), np.array([[1.0, -1.0, 0.0]], np.float32)
    settings = preset(
        "rasfdqn", widths=(4,), events=(1,), expected_events=True, frequency=1.0, target_period=10, average=5, batch=4,
    )  # fmt: skip
    agent = Agent.for_world(settings, world, Tasks(tasks, np.zeros((1, 0), np.float32)))
    keys = jnp.stack([jax.random.key(seed) for seed in range(2)])
    given = Tasks(jnp.stack([tasks] * 2), jnp.zeros((2, 1, 0)))
    configs, schedule = RunConfig(keys, jnp.zeros(2), jnp.zeros(2), given), fit.Schedule(20, 1, 10)
    middle, end = (jax.tree.map(np.array, chunk) for chunk in fit.chunks(agent, world, configs, schedule))
    before = fit.start_lanes(agent, world, configs, schedule)
    assert isinstance(end.lanes.learner.events, EventModel)
    moved = jax.tree.map(
        lambda a, b: bool((a != b).any()), before.learner.events.average, end.lanes.learner.events.average
    )
    assert moved.heads.bias
    fit._save(tmp_path / "run", middle.lanes, {}, {"step": 10})
    step, lanes, _ = fit._resume(tmp_path / "run", before, {})
    (again,) = fit.chunks(agent, world, configs, schedule, lanes, step)
    jax.tree.map(np.testing.assert_array_equal, again.lanes, end.lanes)


def test_the_memory_counts_it():
    tasks = Tasks(np.ones((1, 2), np.float32), np.zeros((1, 0), np.float32))
    plain, more = (
        create_agent(preset("rasfdqn", events=(1,), expected_events=on), 3, 2, BOUNDS, tasks) for on in (False, True)
    )
    assert 4e4 < more.memory_needed(0, 3, 2) - plain.memory_needed(0, 3, 2) < 1e6


@pytest.mark.parametrize("change", [{"law": "log-moments"}, {"law": "moments"}, {}])
def test_expected_events_need_events(change):
    with pytest.raises(ValueError, match=r"^expected_events is for the law 'log-moments' with events such as"):
        preset("rasfc51", expected_events=True, **change)
