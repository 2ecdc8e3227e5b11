"""Rollouts of a learner on novel tasks: they learn nothing, and leave everything as it was."""

import numpy as np
import pytest

from rasf import MeanVariance
from rasf.envs.four_room import FourRoom
from rasf.tabular.learner import SuccessorLearner
from rasf.tabular.settings import TableSettings
from rasf_lab.paper.four_room.novel import coefficients, moments_of, roll_out

ROOMS = FourRoom("S..T\n.1X.\n..2G", trap_probability=0.3, step_limit=30)
AVERSE = MeanVariance(-4.0)


def trained(tasks=4, steps=500):
    learner = SuccessorLearner(ROOMS.n_features, 4, TableSettings(learn_w=True), 3, tasks, AVERSE)
    for w in ROOMS.random_tasks(tasks, np.random.default_rng(3)):
        learner.learn_task(ROOMS, w, steps)
    return learner


def contents(learner):
    rows, policies = range(int(learner.states)), range(learner.task + 1)
    return np.array([[np.concatenate([m.ravel() for m in moments_of(learner, j, r)]) for j in policies] for r in rows])


def test_rollouts_leave_what_was_learned_alone():
    learner = trained()
    before = contents(learner)
    draws = np.random.default_rng(0).random((20, ROOMS.step_limit, 3))
    coefs = coefficients(learner, ROOMS.task([1.0, -1.0]), AVERSE)
    features, lengths, visits = roll_out(learner, ROOMS, coefs[None], 0.1, draws)
    assert visits.sum() == lengths.sum()
    assert (features[:, -2:].sum(axis=1) <= 1).all()
    np.testing.assert_array_equal(before, contents(learner)[: len(before)])
    again, _, _ = roll_out(learner, ROOMS, coefs[None], 0.1, draws)
    np.testing.assert_array_equal(features, again)


def test_constant_coefficients_at_every_step_act_like_one_set():
    learner = trained()
    draws = np.random.default_rng(1).random((10, ROOMS.step_limit, 3))
    coefs = coefficients(learner, ROOMS.task([1.0, 0.5]), AVERSE)
    once, _, _ = roll_out(learner, ROOMS, coefs[None], 0.1, draws)
    each, _, _ = roll_out(learner, ROOMS, np.tile(coefs, (ROOMS.step_limit, 1)), 0.1, draws)
    np.testing.assert_array_equal(once, each)


def test_training_goes_on_after_rollouts_as_if_there_had_been_none():
    plain = trained()
    disturbed = SuccessorLearner(ROOMS.n_features, 4, TableSettings(learn_w=True), 3, 4, AVERSE)
    for w in ROOMS.random_tasks(4, np.random.default_rng(3)):
        disturbed.learn_task(ROOMS, w, 500)
        coefs = coefficients(disturbed, w, MeanVariance(-1.0))[None]
        roll_out(disturbed, ROOMS, coefs, 0.0, np.full((1, 1, 3), 0.5))
    np.testing.assert_array_equal(contents(plain), contents(disturbed))


def test_bad_calls_are_refused():
    learner = trained(tasks=1, steps=10)
    with pytest.raises(ValueError, match="one per feature"):
        coefficients(learner, np.ones(5_000), AVERSE)
    with pytest.raises(ValueError, match="another world"):
        roll_out(learner, FourRoom("S12G"), np.zeros((1, 14)), 0.0, np.zeros((1, 5, 3)))
    with pytest.raises(ValueError, match="coefs must"):
        roll_out(learner, ROOMS, np.zeros((2, 14)), 0.0, np.zeros((1, 5, 3)))
    with pytest.raises(ValueError, match="draws must"):
        roll_out(learner, ROOMS, np.zeros((1, 14)), 0.0, np.zeros((1, 5, 2)))
