"""The command line with continuous actions: train, describe, evaluate and grow a library on the reacher."""

import json

import numpy as np
import pytest

import rasf
from rasf.envs.reacher import Reacher
from rasf.library.file import load

TASKS = Reacher().tasks((0, 1))
SETTINGS = {"widths": (8, 8), "batch": 8, "warmup": 20, "updates": 0.5, "target_period": 10}
PLAIN = str.maketrans("", "", "() ")  # widths are written as 8,8


@pytest.fixture
def trained(command, here):
    """A library that `rasf train` has written."""
    given = [f"--w={','.join(f'{one:g}' for one in w)}" for w in TASKS]
    changes = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}".translate(PLAIN))]
    code, out, err = command(
        "train", "rasf/Reacher-v0", "--env-arg", "continuous=true", "--env-arg", "episode_length=40", *given,
        "--risk", "neutral", "--risk", "mean-variance:-2", "--steps-per-task", 100, *changes, "--out", "arm.rasf",
    )  # fmt: skip
    assert code == 0, err
    return out


@pytest.mark.slow
def test_train_and_evaluate_with_continuous_actions(trained, command, here):
    assert "wrote arm.rasf, 4 policies of rasftd3" in trained
    library = load("arm.rasf")
    assert library.environment.kwargs == {"continuous": True, "episode_length": 40}
    world, risks = Reacher(continuous=True, episode_length=40), [rasf.MeanVariance(0.0), rasf.MeanVariance(-2.0)]
    same = rasf.learn(world, tasks=TASKS, risk=risks, steps_per_task=100, **SETTINGS)
    for name, array in same.sources.arrays().items():
        np.testing.assert_array_equal(library.sources.arrays()[name], array)
    obs = np.zeros(4, np.float32)
    action = library.act(obs, TASKS[0])
    assert (action.shape, action.dtype) == ((2,), np.float32)
    code, out, err = command("evaluate", "arm.rasf")
    assert code == 0, err
    assert "4 policies of rasftd3 on rasf/Reacher-v0" in out
    assert "features 13, actions vectors of 2 numbers, gamma 0.99" in out
    weights = ",".join(f"{one:g}" for one in TASKS[1])
    code, out, err = command("evaluate", "arm.rasf", f"--w={weights}", "--episodes", 3, "--json", "-")
    assert code == 0, err
    (compared,) = json.loads(out)["comparisons"]
    assert list(compared["risks"]) == ["neutral", "mean-variance:-2.0"]
    report = library.evaluate(
        "rasf/Reacher-v0", TASKS[1], episodes=3, env_kwargs={"continuous": True, "episode_length": 40}
    )
    np.testing.assert_allclose(compared["risks"]["neutral"]["returns"], report.returns, atol=1e-4)
    more = ",".join(f"{one:g}" for one in Reacher().tasks((5,))[0])
    code, out, err = command(
        "train", "--grow", "arm.rasf", f"--w={more}", "--steps-per-task", 60, "--set", "batch=8",
        "--set", "warmup=20", "--out", "more.rasf",
    )  # fmt: skip
    assert code == 0, err
    assert load("more.rasf").sources.policies == 5


def test_an_agent_for_the_other_kind_of_actions_is_refused(command):
    for agent, kind, arguments in (("rasfc51", "a Box of size 2", ("--env-arg", "continuous=true")),
                                   ("rasftd3", "Discrete", ())):  # fmt: skip
        code, _, err = command(
            "train", "rasf/Reacher-v0", *arguments, "--tasks", 2, "--agent", agent, "--out", "a.rasf"
        )
        assert code == 1
        assert f"environment's actions ({kind}), such as" in " ".join(err.split())


@pytest.mark.slow
def test_a_library_of_continuous_actions_does_not_act_with_numbered_ones(trained, command):
    weights = ",".join(f"{one:g}" for one in TASKS[0])
    code, _, err = command("evaluate", "arm.rasf", f"--w={weights}", "--env-arg", "continuous=false", "--episodes", 2)
    assert code == 1
    assert "n_actions" in err
