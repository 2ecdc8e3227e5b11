import sys

import gymnasium as gym
import numpy as np
import pytest

from rasf.envs.gymnasium.single import open_environment
from rasf.risk import CVaR, MeanVariance
from rasf_lab.suite import Case, case_names, find_case
from rasf_lab.suite.cases import PRESETS, Acting, is_dial, is_price

# whose worlds come from packages of the extra `suite`
pytest.importorskip("mo_gymnasium")


def opened(case):
    try:
        return open_environment(case.env, None, **case.env_kwargs)
    except (ValueError, ImportError, gym.error.Error) as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", case_names())
def test_a_case_is_as_it_says(name):
    case = find_case(name)
    assert len(case.unseen) == PRESETS["full"].unseen
    assert not set(case.unseen) & set(case.tasks)
    assert case.actings[0] == "neutral"
    assert sum(map(is_dial, case.actings)) >= 3
    env = opened(case)
    assert env.n_features == len(case.features)
    rng, steps = np.random.default_rng(0), []
    env.reset(0)
    for _ in range(200):
        steps.append(env.step(int(rng.integers(env.n_actions))))
        if steps[-1].terminated or steps[-1].truncated:
            env.reset()
    assert all(case.failure(one) in (True, False) for one in steps) if case.failure else env.reports_failures
    if case.gauge:
        assert all(np.isfinite(one.info[case.gauge]) for one in steps)
    env.close()


@pytest.mark.parametrize(
    ("name", "seen"),
    [("resource-gathering", [-1, 0, 0]), ("lunar-lander", [-100, 0, 0, 0]), ("inventory", [0] * 4 + [1])],
)  # fmt: skip
def test_rules_name_the_failure(name, seen):
    from rasf.envs.gymnasium.single import Step

    case = find_case(name)
    for phi, failed in ((seen, True), (np.zeros(len(seen)), False)):
        assert case.failure(Step(0, np.array(phi, float), True, False, False)) is failed


def made(**changes):
    given = {
        "env": "Coin-v0", "about": "a coin", "features": ("won", "lost"), "tasks": ((1, 0), (0, 1)),
        "unseen": ((1, 0.5),), "steps_per_task": 10, "failures": "losses", "actings": ("neutral", "cvar:0.1"),
    }  # fmt: skip
    return Case(**given | changes)


def test_ways_to_act():
    case, w = made(priced=1), np.array([1.0, -0.5])
    assert Acting.read("mean-variance:-2", case, w).risk == MeanVariance(-2.0)
    assert Acting.read("static cvar:0.1", case, w)[1:] == (CVaR(0.1), {"static": True})
    dearer = Acting.read("price 4", case, w)
    assert dearer.w.tolist() == [1.0, -4.5]
    assert dearer.risk == MeanVariance(0.0)
    assert w.tolist() == [1.0, -0.5]
    assert Acting.read("price 4", made(priced=1, harm=-1), w).w.tolist() == [1.0, 3.5]
    (limit,) = Acting.read("limit 0.1", case, w).ways["limits"].values()
    assert (limit.at_most, limit.at_least) == (0.1, None)
    (limit,) = Acting.read("limit 0.1", made(priced=0, harm=-1), w).ways["limits"].values()
    assert (limit.at_most, limit.at_least) == (None, -0.1)
    assert [is_dial(text) for text in ("neutral", "cvar:0.1", "static cvar:0.1", "limit 1", "price 1")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert is_price("price 3")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"actings": ("brave",)}, "risk"), ({"actings": ("neutral", "price 3")}, "actings"),
        ({"unseen": ((1, 2, 3),)}, "unseen"), ({"tasks": ()}, "tasks"),
    ],
)  # fmt: skip
def test_a_case_that_cannot_be_is_refused(changes, word):
    with pytest.raises(ValueError, match=word):
        made(**changes)


def test_cases_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "mine_of_suite.py").write_text("CASE = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ValueError, match="case"):
        find_case("mine_of_suite:CASE")
    with pytest.raises(ValueError, match="case"):
        find_case("no_such_module_here:CASE")
    with pytest.raises(ValueError, match="resource-gathering"):
        find_case("no-such-case")
