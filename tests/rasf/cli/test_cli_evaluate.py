"""`rasf evaluate`, as a user meets it: tables, JSON, a picture, exit codes."""

import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from cli_help import files_in

import rasf

ASK = ("evaluate", "coin.rasf", "--w", "1,-1", "--risk", "neutral", "--risk", "mean-variance:-4", "--episodes", "40")


def test_evaluate_reports_what_compare_finds(trained, command, here):
    code, out, err = command(*ASK, "--seed", 5, "--json", "found.json", "--plot", "returns.png")
    assert code == 0, err
    risks = [rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)]
    expected = trained.compare("Coin-v0", [1.0, -1.0], risks, 40, seed=5)
    found = json.loads((here / "found.json").read_text())
    (comparison,) = found["comparisons"]
    assert comparison["w"] == [1.0, -1.0]
    for name, report in expected.reports.items():
        assert comparison["risks"][name]["measures"] == {m: list(i) for m, i in report.measures.items()}
        assert comparison["risks"][name]["returns"] == report.returns.tolist()
        for measure in ("return", "return_variance", "return_cvar", "failures"):
            assert f"{report.measures[measure].estimate:.3g}" in out
    assert "w = 1, -1" in out
    assert "mean-variance:-4 minus neutral, paired by episode: return" in out
    assert "wrote returns.png" in out
    assert (here / "returns.png").read_bytes().startswith(b"\x89PNG")


def test_prices_are_a_control_and_sums_are_shown(trained, command, here):
    code, out, err = command(*ASK, "--price", "1=4,10", "--price", "1=0.5", "--json", "found.json")
    assert code == 0, err
    found = json.loads((here / "found.json").read_text())
    rows = found["comparisons"][0]["risks"]
    assert list(rows) == ["neutral", "mean-variance:-4.0", "price 1 4", "price 1 10", "price 1 0.5"]
    assert found["prices"] == {"1": [4.0, 10.0, 0.5]}
    expected = trained.compare("Coin-v0", [1.0, -1.0], [rasf.MeanVariance(0.0)], 40, prices={1: 10})
    report = expected.reports["price 1 10"]
    assert rows["price 1 10"]["returns"] == report.returns.tolist()
    assert rows["price 1 10"]["features"] == report.phi.tolist()
    assert rows["price 1 10"]["sums"] == {name: list(interval) for name, interval in report.sums.items()}
    assert "sums of features" in out
    assert "price 1 10 minus neutral, paired by episode" in out
    assert "price 1 10: actions are chosen as if the weight of feature 1 were -11 instead of -1" in " ".join(
        out.split()
    )
    (here / "ask.toml").write_text('file = "coin.rasf"\nw = [1, -1]\njson = "-"\nepisodes = 4\n[price]\n1 = 4\n')
    asked = json.loads(command("evaluate", "--config", "ask.toml", "--risk", "neutral")[1])
    assert list(asked["comparisons"][0]["risks"]) == ["neutral", "price 1 4"]
    for given, sentence in {
        "oops": "price must be written as collision=4 or collision=4,10",
        "1=much": "price must be written as collision=4 or collision=4,10",
        "7=4": "prices must name a feature: a number from 0 to 1, got 7",
        "1=4,4": "prices of 1 must be one or more different numbers",
    }.items():
        code, _, err = command(*ASK, "--price", given)
        assert code == 1
        assert sentence in " ".join(err.split())
        assert " 0/" in err or "acting" not in err  # before any episode


def test_tables_fit_into_100_columns(trained, command):
    _, out, _ = command("evaluate", "coin.rasf", "--w", "-12345678.9,987654.3", "--episodes", 30)
    _, description, _ = command("evaluate", "coin.rasf")
    tables = [line for line in (out + description).splitlines() if re.match(r" (\S.*)? {2,}", line)]
    assert tables
    assert max(map(len, tables)) <= 100


def test_json_on_standard_output_is_json_alone(trained, command):
    code, out, _ = command("evaluate", "coin.rasf", "--w", "1,-1", "--w", "1,0", "--episodes", 5, "--json", "-")
    assert code == 0
    found = json.loads(out)
    assert [each["w"] for each in found["comparisons"]] == [[1.0, -1.0], [1.0, 0.0]]
    # by default neutral and what it was trained for
    assert list(found["comparisons"][0]["risks"]) == ["neutral", "mean-variance:-4.0"]
    assert found["episodes"] == 5
    assert found["library"]["agent"] == "rasfql"


def test_json_goes_to_an_open_descriptor_as_it_does_to_standard_output(trained, command, here):
    """Also where that is a file, which is then not replaced."""
    with open(here / "printed", "w+") as printed:
        code, out, err = command(*ASK, "--json", f"/dev/fd/{printed.fileno()}")
        assert code == 0, err
        printed.seek(0)
        assert json.load(printed)["episodes"] == 40
    assert "w = 1, -1" in out


def test_discount_aware_shows_discounted_returns(trained, command):
    _, out, _ = command(*ASK, "--discount-aware", "--json", "-")
    asked = json.loads(out)
    assert asked["discount_aware"] is True
    expected = trained.compare("Coin-v0", [1.0, -1.0], [rasf.MeanVariance(-4.0)], 40, discount_aware=True)
    measures = asked["comparisons"][0]["risks"]["mean-variance:-4.0"]["measures"]
    assert measures["discounted"] == list(expected.reports["mean-variance:-4.0"].measures["discounted"])
    _, out, _ = command(*ASK, "--discount-aware")
    assert "discounted" in out.split("paired by episode")[0]  # a heading, which a narrow terminal breaks


def test_static_holds_a_risk_fixed(trained, command):
    _, out, _ = command(
        "evaluate", "coin.rasf", "--w", "1,-1", "--episodes", 40, "--risk", "cvar:0.5", "--static", "--json", "-"
    )
    expected = trained.compare("Coin-v0", [1.0, -1.0], [rasf.CVaR(0.5)], 40, static=True)
    measures = json.loads(out)["comparisons"][0]["risks"]["cvar:0.5"]["measures"]
    assert measures["discounted"] == list(expected.reports["cvar:0.5"].measures["discounted"])


def test_ahead_looks_ahead_in_copies_of_the_environment(trained, command):
    _, out, _ = command(*ASK, "--ahead", 2, "--particles", 3, "--json", "-")
    asked = json.loads(out)
    assert (asked["ahead"], asked["particles"]) == (2, 3)
    risks = [rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)]
    expected = trained.compare("Coin-v0", [1.0, -1.0], risks, 40, ahead=2, particles=3)
    for name, report in expected.reports.items():
        assert asked["comparisons"][0]["risks"][name]["returns"] == report.returns.tolist()
    code, _, err = command("evaluate", "coin.rasf", "--ahead", 2)
    assert code != 0
    assert "--ahead" in err or "ahead is for acting" in err


def test_evaluate_reads_a_config_file(trained, command, here):
    (here / "ask.toml").write_text('file = "coin.rasf"\nw = [1, -1]\nepisodes = 7\nrisk = "cvar:0.5"\njson = "-"\n')
    found = json.loads(command("evaluate", "--config", "ask.toml", "--episodes", 6)[1])
    assert found["episodes"] == 6
    assert list(found["comparisons"][0]["risks"]) == ["cvar:0.5"]


def test_without_weights_evaluate_says_what_the_library_is(trained, command):
    code, out, _ = command("evaluate", "coin.rasf")
    assert code == 0
    assert "coin.rasf: 4 policies of rasfql on Coin-v0" in out
    assert "features 2, actions 2, gamma 0.9" in out
    assert "trained for neutral, mean-variance:-4" in out
    assert "seed 0, 600 steps per task" in out
    assert "note: agent rasfql was chosen" in out
    assert re.search(r"3 +1, 0 +mean-variance:-4 ", out)
    assert "rasf evaluate coin.rasf --w 1,0.5" in out


def test_totals_that_are_not_known_are_not_shown_as_numbers(trained, command):
    trained.history = {"return": np.arange(4.0), "failures": np.full(4, np.nan)}
    trained.save("a.rasf")
    _, out, _ = command("evaluate", "a.rasf")
    assert re.search(r"mean-variance:-4 +3 +- *\n", out)
    assert "nan" not in out
    assert "return and failures are totals over training" in out
    trained.history = {"return": np.arange(4.0)}
    trained.save("a.rasf")
    assert "\nreturn is a total over training" in command("evaluate", "a.rasf")[1]
    trained.history = {}
    trained.save("a.rasf")
    assert "over training" not in command("evaluate", "a.rasf")[1]


@pytest.mark.parametrize(
    ("environment", "words", "refused"),
    [
        ({"id": "my/Coin-v0"}, "rasf evaluate a.rasf --env MODULE:my/Coin-v0 --w 1,0.5\n", "as MODULE:my/"),
        ({"id": None}, "rasf evaluate a.rasf --env MODULE:ID --w 1,0.5\n", "as ID or MODULE:ID"),
        ({"phi": "my_phi"}, "give --phi MODULE:NAME, because its features come from a function, my_phi", "by --phi"),
    ],
)  # fmt: skip
def test_the_way_to_evaluate_is_told_where_the_environment_is_not_known(environment, words, refused, trained, command):
    trained.environment = replace(trained.environment, **environment)
    trained.save("a.rasf")
    assert words in command("evaluate", "a.rasf")[1]
    code, _, err = command("evaluate", "a.rasf", "--w", "1,0")
    assert code == 1
    assert err.count("\n") == 1
    assert refused in err


def test_the_progress_of_evaluation_counts_episodes(trained, command, monkeypatch):
    from rich.progress import Progress

    told = []
    monkeypatch.setattr(Progress, "update", lambda bar, task, *, completed, **_: told.append(completed))
    ways = ("--risk", "neutral", "--risk", "cvar:0.5", "--episodes", 20)
    assert command("evaluate", "coin.rasf", "--w", "1,0", "--w", "1,0", *ways)[0] == 0
    assert told == [16, 20, 36, 40, 56, 60, 76, 80]  # 16 at a time, each one step long


def test_a_strangers_library_does_not_drive_the_terminal(trained, command):
    trained.notes = ("\x1b]0;mine\x07[red]hello[/red]",)
    trained.save("strange.rasf")
    code, out, err = command("evaluate", "strange.rasf")
    assert code == 0, err
    assert "\x1b" not in out
    assert "note: ?]0;mine?[red]hello[/red]" in out


def test_a_strangers_library_does_not_import_modules(trained, command):
    trained.environment = replace(trained.environment, id="antigravity:Coin-v0")
    trained.save("strange.rasf")
    asked = ("evaluate", "strange.rasf", "--w", "1,0"), ("train", "--grow", "strange.rasf", "--w", "1,0", "--out", "a")
    for arguments in asked:
        code, _, err = command(*arguments)
        assert code == 1
        assert "must not name a module" in err
        assert "antigravity" not in sys.modules


def test_a_library_of_an_environment_without_id_asks_for_one(trained, command):
    trained.environment = replace(trained.environment, id=None)
    trained.save("strange.rasf")
    code, _, err = command("evaluate", "strange.rasf", "--w", "1,0")
    assert code == 1
    assert "env must be given" in err
    assert command("evaluate", "strange.rasf", "--env", "coin:Coin-v0", "--w", "1,0", "--episodes", 2)[0] == 0


def test_evaluate_refuses_in_one_sentence(subtests, trained, command, here):
    for arguments, words in [
        (("coin.rasf", "--w", "1,0,0"), "w must be 2 numbers, got 3"),
        (("coin.rasf", "--w", "1,0", "--risk", "brave"), "risk must be written as"),
        (("coin.rasf", "--w", "1,0", "--episodes", "1"), "episodes must be a whole number of at least 2"),
        (("coin.rasf", "--w", "1,0", "--env", "CartPole-v1"), "not a vector of features"),
        (("coin.rasf", "--w", "1,0", "--env", "resource-gathering-v0"), "that the library was trained with"),
        (("coin.rasf", "--w", "1,0", "--plot", "returns.pdf"), "plot must end in .png"),
        (("coin.rasf", "--w", "1,0", "--plot", "no/returns.png"), "plot must be in a folder that exists"),
        (("coin.rasf", "--env", "coin:Coin-v0"), "env is for acting, which needs weights: give 2 numbers by --w"),
        (("coin.rasf", "--risk", "neutral"), "risk is for acting"),
        (("coin.rasf", "--plot", "returns.png"), "plot is for 1 to 12 tasks, got 0"),
        (("coin.rasf", "--w", "1,0", "--json", "no/found.json"), "json must be in a folder that exists"),
        (("no.rasf",), "no.rasf does not exist"),
        (("coin.py",), "coin.py"),
        ((), "file must be given"),
    ]:
        with subtests.test(arguments=arguments, words=words):
            before = files_in(here)
            code, _, err = command("evaluate", *arguments)
            assert code == 1
            said = [line for line in err.splitlines() if line.startswith("rasf: ")]
            assert len(said) == 1
            assert words in said[0]
            assert "Traceback" not in err
            assert files_in(here) == before


def test_both_commands_have_help_with_examples(command):
    for name, option in (("train", "--steps-per-task"), ("evaluate", "--discount-aware")):
        code, out, _ = command(name, "--help")
        assert code == 0
        assert out.count("Example:") >= 3
        assert option in out


def test_the_figure_shows_every_episode_and_marks_mean_and_cvar(trained):
    from rasf import drawing

    risks = [rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)]
    compared = [trained.compare("Coin-v0", w, risks, 30) for w in ([1.0, -1.0], [1.0, 0.0])]
    drawn = drawing.comparison(compared, False, "a test")
    assert len(drawn.axes) == 2
    for axes, each in zip(drawn.axes, compared, strict=True):
        marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() in ("o", "<")]
        expected = [report.measures[m].estimate for report in each.reports.values() for m in ("return", "return_cvar")]
        assert marks == expected
        for row, report in enumerate(each.reports.values()):
            bars = [bar for bar in axes.patches if bar.get_y() == 1 - row]
            values, counts = np.unique(report.returns, return_counts=True)
            np.testing.assert_allclose([bar.get_x() + bar.get_width() / 2 for bar in bars], values)
            np.testing.assert_allclose([bar.get_height() / bars[0].get_height() for bar in bars], counts / counts[0])
    with pytest.raises(ValueError, match="comparisons, got 13"):
        drawing.comparison(compared[:1] * 13, False, "a test")


def test_the_figure_bins_returns_that_all_differ():
    from rasf import drawing
    from rasf.library.acting.gpi import PerStateRisk
    from rasf.library.acting.rule import Memory
    from rasf.library.evaluation import Comparison, Report

    returns, sources = np.arange(80.0), SimpleNamespace(gamma=0.9, check=lambda risk: None)
    report = Report(
        rule=PerStateRisk(sources, np.ones(1), rasf.MeanVariance(0.0), np.ones(1)),
        memory=Memory.fresh(80),
        phi=returns[:, None],
        discounted_phi=returns[:, None] / 2,
        failures=None,
        lengths=np.ones(80, np.int64),
        truncated=np.zeros(80, bool),
        rest=np.zeros(80),
        unseen=0.0,
        starts=np.zeros((80, 1)),
    )
    for discounted, last in ((False, 79.0), (True, 39.5)):
        drawn = drawing.comparison([Comparison({"neutral": report})], discounted, "a test")
        heights, edges, base = drawn.axes[0].patches[0].get_data()
        assert (edges[0], edges[-1], base) == (0.0, last, 0)
        np.testing.assert_allclose(heights, heights[0])  # two in each of 40 bins
