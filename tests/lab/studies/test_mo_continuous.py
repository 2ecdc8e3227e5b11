"""The study of continuous actions on MO-Gymnasium: its problems, its disturbances, its table, and stand-ins."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

STUDIES = Path(__file__).parents[3] / "lab" / "studies"


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"studied_{Path(name).stem}", STUDIES / name)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study():
    pytest.importorskip("mo_gymnasium", reason="the study needs the extra `mo`")
    return loaded("mo_continuous.py")


def steps(problem, seed, n=60):
    env = problem.make()
    env.reset(seed=seed)
    rng, found = np.random.default_rng(0), []
    for _ in range(n):
        obs, reward, terminated, *_ = env.step(rng.uniform(env.action_space.low, env.action_space.high))
        found.append(np.concatenate([np.ravel(obs), reward]))
        if terminated:
            break
    env.close()
    return np.array(found)


@pytest.mark.parametrize("name", ["mountaincar", "reservoir"])
def test_the_seed_of_an_episode_decides_on_its_disturbances(study, name):
    (disturbed,) = (one for other, one in study.PROBLEMS.items() if other.startswith(f"{name}-"))
    first, again, plain = steps(disturbed, 3), steps(disturbed, 3), steps(study.PROBLEMS[name], 3)
    np.testing.assert_array_equal(first, again)
    assert first.shape != plain.shape or not np.array_equal(first, plain)
    assert not np.array_equal(first, steps(disturbed, 4))


@pytest.mark.parametrize("name", ["mountaincar", "reservoir"])
def test_problems_have_as_many_objectives_as_their_environments(study, name):
    problem = study.PROBLEMS[name]
    assert problem.make().unwrapped.reward_space.shape == (problem.objectives,)
    np.testing.assert_allclose(problem.trained.sum(axis=1), 1.0)
    np.testing.assert_allclose(problem.asked.sum(axis=1), 1.0)
    assert (steps(problem, 0).sum(axis=0)[-problem.objectives :] > problem.reference).all()


def test_measures_of_a_line(study):
    returns = np.array([[[-9.0, -1.0], [-7.0, -1.0]], [[-2.0, -5.0], [-2.0, -7.0]]])  # 2 weightings, 2 episodes
    line = {
        "problem": "mountaincar", "weightings": [[0, 1], [1, 0]], "ways": {"neutral": {"returns": returns.tolist()}},
    }  # fmt: skip
    found = study.measures(line, "neutral")
    assert found["utility as acted"] == found["EUM"] == pytest.approx((-1 - 2) / 2)
    assert found["EUM of CVaR(0.1)"] == pytest.approx((-1 - 2) / 2)
    assert found["hypervolume"] == pytest.approx(992 * 999 + 998 * 994 - 992 * 994)
    assert found["sparsity"] == pytest.approx(6**2 + 5**2)


def test_the_stand_in_of_cdd_finds_the_corners_of_an_upper_envelope():
    """v >= 4 x, v >= 2 y on the line x + y = 1: corners at both ends and where 4 x = 2 y."""
    cdd = loaded("stand_ins/cdd.py")
    rows = [[0, -4, 0, 1], [0, 0, -2, 1], [1, -1, -1, 0], [-1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    found = cdd.Polyhedron(cdd.Matrix(rows, number_type="float")).get_generators()
    expected = [(1, 0, 1, 2), (1, 1 / 3, 2 / 3, 4 / 3), (1, 1, 0, 4)]
    np.testing.assert_allclose(sorted(found), expected, atol=1e-6)
    assert not found.lin_set
