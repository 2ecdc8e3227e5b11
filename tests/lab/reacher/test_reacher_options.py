"""What the paper leaves open, at toy size: each option changes what it should, and only that."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rasf.deep.fused import Schedule, start_lanes
from rasf.envs.reacher.arm import physics, tip_position
from rasf.envs.reacher.world import TORQUES, Noise, Reacher
from rasf_lab.paper.reacher.agents import SEPARATE_HEADS, GpiAgent
from rasf_lab.paper.reacher.beliefs import Mapped, beliefs, grid
from rasf_lab.paper.reacher.training import TARGETS, TRAINING, LaneProgram, LateTipReacher, ReacherRun

TOY = ReacherRun(
    "rasfc51",
    -3.0,
    0,
    steps_per_task=10,
    evaluate_every=10,
    rollouts=1,
    final_rollouts=1,
    width=4,
    atoms=3,
    target_period=10,
    map_points=5,
    truth_rollouts=2,
    truth_steps=2,
)


def program(**changes):
    return LaneProgram([replace(TOY, **changes), replace(TOY, seed=1, **changes)])


def same(first, second):
    return jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), first, second))


@pytest.mark.parametrize(
    ("changes", "settings", "parts", "world"),
    [
        ({}, {}, {}, Reacher()),
        ({"target_networks": False}, {"target_period": 0}, {}, Reacher()),
        ({"separate_heads": True}, {}, {"initialise": SEPARATE_HEADS}, Reacher()),
        ({"late_tip": True}, {}, {}, LateTipReacher()),
    ],
)
def test_an_option_changes_one_setting_and_nothing_else(changes, settings, parts, world):
    plain, other = program(), program(**changes)
    assert other.agent == replace(plain.agent, settings=replace(plain.agent.settings, **settings), **parts)
    assert_same_but_for_the_agent(plain, other, world)


def assert_same_but_for_the_agent(plain, other, world):
    assert plain.world == Reacher()
    assert other.world == world
    assert same(other.configs, plain.configs)
    assert same(other.tasks, plain.tasks)


def test_a_late_tip_is_the_one_a_step_began_at():
    state, calm, world = np.array([0.4, 1.0, 3.0, -6.0]), Noise(np.zeros(2), np.array(0.5)), LateTipReacher()
    for action in range(9):
        after, phi = world.advance(state, action, calm)
        assert (after == physics(state, TORQUES[action])).all()
        assert (phi == world.features(tip_position(state), calm.failure)).all()


def test_the_bootstrap_by_gpi_is_another_agent_with_the_same_fields():
    plain, other = program(), program(bootstrap="gpi")
    assert type(other.agent) is GpiAgent
    assert vars(other.agent) == vars(plain.agent)
    assert_same_but_for_the_agent(plain, other, Reacher())


def test_another_epsilon_of_adam_is_another_optimiser():
    plain, other = program(), program(adam_epsilon=1e-7)
    assert other.agent.optimiser.keywords == {"eps": 1e-7}
    assert other.agent.optimiser.func is plain.agent.optimiser
    assert replace(other.agent, optimiser=plain.agent.optimiser) == plain.agent
    assert_same_but_for_the_agent(plain, other, Reacher())


# --- the order of tasks


def test_risky_targets_may_come_last():
    usual, turned = TOY.training, replace(TOY, risky_last=True).training
    assert usual == TRAINING == (0, 1, 2, 3)
    assert turned == (2, 3, 0, 1)
    assert [target in Reacher().risky for target in turned] == [False, False, True, True]
    assert replace(TOY, risky_last=True).evaluated == TARGETS
    alone = ReacherRun("rac51", 0.0, 0, target=5, risky_last=True)
    assert alone.training == alone.evaluated == (5,)


def test_with_risky_targets_last_the_same_tasks_are_trained_in_another_order():
    plain, other = program(), program(risky_last=True)
    assert other.agent == plain.agent
    assert other.world == plain.world
    assert same(other.tasks, plain.tasks)  # on which it is measured
    assert same(other.configs._replace(tasks=plain.configs.tasks), plain.configs)
    weights, turned = plain.configs.tasks.weights, other.configs.tasks.weights
    assert weights.shape == (2, 4, 13)
    np.testing.assert_array_equal(turned, weights[:, [2, 3, 0, 1]])
    assert not np.array_equal(turned, weights)


def test_maps_and_libraries_are_of_policies_for_their_own_tasks_in_any_order():
    one = LaneProgram([replace(TOY, risky_last=True, map_points=32)])  # finer maps are of all pairs
    lanes = start_lanes(one.agent, one.world, one.configs, Schedule(TOY.steps_per_task, 4, TOY.evaluate_every))
    found = one.evaluate(TOY.steps_per_task, lanes)
    pairs = found["map_variance_pairs"]  # (lanes, policies, 12, P)
    assert pairs.shape == (1, 4, 12, grid(32).reached.sum())
    np.testing.assert_array_equal(found["map_variance"], pairs[:, np.arange(4), [2, 3, 0, 1]])
    assert not np.array_equal(found["map_variance"], pairs[:, np.arange(4), np.arange(4)])
    lane = jax.tree.map(lambda part: part[0], (lanes.learner.online, one.configs.beta, one.tasks))
    mapped = Mapped(one.tester, one.world, grid(32), np.array([2, 3, 0, 1]))
    expected = jax.jit(partial(beliefs, mapped))(*lane).variance
    np.testing.assert_allclose(pairs[0], expected, rtol=2e-3)  # kept in half precision
    # in its own phase, every policy was always at its target
    one.networks, seen = lanes.learner.online, np.eye(13)[[2, 3, 0, 1]]
    library = one.library(0, {"training_phi": seen, "loss": np.zeros(4), "clipped": np.zeros((4, 2))})
    np.testing.assert_array_equal([policy.w for policy in library.policies], Reacher().tasks((2, 3, 0, 1)))
    np.testing.assert_array_equal(library.history["return"], [TOY.steps_per_task] * 4)


# --- networks


@pytest.fixture(scope="module")
def initial():
    """Initial networks of wide enough layers, with all heads as one layer, and each as its own."""
    wide = {"width": 40, "atoms": 7}
    agents = [program(**wide, separate_heads=separate).agent for separate in (False, True)]
    return [jax.jit(agent.init)(jax.random.key(0)).online for agent in agents]


def test_separate_heads_begin_wider(initial):
    """Glorot's bound of a layer is sqrt(6 / (n + m)); n = 40, and m counts 9 actions of 13 features or of one."""
    used = 13 * 7  # the other columns align memory
    for (network,), bound in zip(initial, (np.sqrt(6 / (40 + 9 * 13 * 7)), np.sqrt(6 / (40 + 9 * 7))), strict=True):
        weights = np.asarray(network.heads.weight)
        assert weights.shape[:3] == (4, 40, 9)
        assert 0.99 * bound < np.abs(weights[..., :used]).max() <= bound
        assert (weights[..., used:] == 0).all()


def test_separate_heads_change_no_other_layer(initial):
    (one,), (separate,) = initial
    assert same(one.hidden, separate.hidden)
    assert same(one.heads.bias, separate.heads.bias)


def test_agents_with_one_head_do_not_tell_separate_heads_apart():
    """RaC51 has one histogram, SFDQN one layer of means."""
    for agent in ("rac51", "sfdqn"):
        plain, other = (
            jax.jit(program(agent=agent, separate_heads=separate).agent.init)(jax.random.key(0))
            for separate in (False, True)
        )
        assert same(plain, other)


@pytest.mark.parametrize("epsilon", [1e-8, 1e-7])
def test_adam_s_first_step_is_the_gradient_over_its_size_and_epsilon(epsilon):
    agent = program(adam_epsilon=epsilon).agent
    gradient = np.array([1e-7, -1e-6, 1.0], np.float32)
    steps, _ = agent.gradient_step.update(gradient, agent.gradient_step.init(np.zeros(3, np.float32)))
    expected = -agent.settings.learning_rate * gradient / (np.abs(gradient) + epsilon)
    np.testing.assert_allclose(steps, expected, rtol=1e-3)


# --- refusals


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"separate_heads": "yes"}, "separate_heads"),
        ({"late_tip": 2}, "late_tip"),
        ({"risky_last": None}, "risky_last"),
        ({"adam_epsilon": -1e-8}, "adam_epsilon"),
        ({"adam_epsilon": "small"}, "adam_epsilon"),
        ({"bootstrap": "both"}, "bootstrap"),
    ],
)
def test_what_is_no_option_is_refused(changes, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        replace(TOY, **changes)
