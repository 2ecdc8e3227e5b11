"""`rasf calibrate`, and limits of `rasf evaluate`, as a user meets them."""

import json

import pytest

import rasf

RISKS = ("--risk", "neutral", "--risk", "mean-variance:-4")
CALIBRATE = ("calibrate", "coin.rasf", "--episodes", "90", "--tasks", "6", *RISKS)


def test_calibrate_writes_its_result_and_evaluate_prints_bounds(trained, command, here):
    code, out, err = command(*CALIBRATE, "--plot", "reliability.png")
    assert code == 0, err
    for words in ("coin.rasf on Coin-v0, 90 episodes, seed 0", "predicted", "within limits", "wrote coin.rasf"):
        assert words in out
    assert (here / "reliability.png").read_bytes().startswith(b"\x89PNG")
    kept = rasf.load("coin.rasf").calibration
    assert kept.covered == ("neutral", "mean-variance:-4.0")
    assert len(kept.risks) == 18
    code, out, err = command("evaluate", "coin.rasf", "--w", "1,-1", "--risk", "neutral", "--risk", "mean-variance:-9")
    assert code == 0, err
    assert "neutral: bounds: mean at least" in out
    assert "mean-variance:-9.0 is outside the calibrated range" in out
    code, out, _ = command("evaluate", "coin.rasf", "--w", "1,-.1", "--limit", "1=0.1/episode", "--json", "-")
    report = json.loads(out)["comparisons"][0]["risks"]["neutral"]
    assert report["limits"] == {"1": "at most 0.1 an episode"}
    assert report["bounds"]["mean"].keys() == {"expected", "low", "high"}
    assert sum(report["failures"]) == 0


def test_another_file_and_given_weightings(trained, command, here):
    code, out, err = command(
        "calibrate", "coin.rasf", "--out", "sure.rasf", "--w", "1,-1", "--w", "1,0", "--episodes", 40, "--seed", 2
    )
    assert code == 0, err
    assert "wrote sure.rasf" in out
    assert rasf.load("sure.rasf").calibration.seed == 2


def test_limits_on_the_command_line(trained, command):
    ask = ("evaluate", "coin.rasf", "--w", "1,-.1", "--risk", "neutral", "--episodes", 30)
    code, out, err = command(*ask, "--limit", "1=0.1", "--floor", "0=0.5")
    assert code == 0, err
    assert "<= 0.1" in out
    assert "prices: 1 " in out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--limit", "oops"), "limit must be written as failure=0.05"),
        (("--limit", "failure=much"), "limit must be written as failure=0.05"),
        (("--limit", "1=0.1", "--limit", "1=0.2"), "limit must give 1 once"),
        (("--limit", "1=0.1", "--floor", "1=0"), "a feature can have a limit or a floor, not both, and 1 has both"),
        (("--limit", "failure=0.1"), "a number from 0 to 1, got 'failure'"),
        (("--limit", "1=0.1/episode"), "needs a calibrated library"),
    ],
)
def test_bad_limits(trained, command, options, sentence):
    code, _, err = command("evaluate", "coin.rasf", "--w", "1,-1", "--episodes", 2, *options)
    assert code == 1
    assert sentence in " ".join(err.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "file must be given"),
        (("coin.rasf", "--plot", "x.svg"), "plot must end in .png"),
        (("coin.rasf", "--episodes", "3"), "episodes must be at least"),
        (("coin.rasf", "--w", "1"), "tasks must be weights of shape (n, 2)"),
        (("coin.rasf", "--out", "no/where.rasf"), "out"),
    ],
)
def test_bad_calibrations(trained, command, options, sentence):
    code, _, err = command("calibrate", *options)
    assert code == 1
    assert sentence in " ".join(err.split())
