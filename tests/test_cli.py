import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rasf.cli import app
from rasf.experiments import demo


def rasf_command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-c", "from rasf.cli import main; main()", *arguments], capture_output=True, text=True, cwd=cwd
    )


def test_claims_as_json_has_the_promised_keys():
    out = CliRunner().invoke(app, ["claims", "--json"])
    assert out.exit_code == 0
    rows = json.loads(out.stdout)
    assert all({"id", "verdict", "measured", "seeds"} <= set(row) for row in rows)


def test_claims_as_a_table_names_every_claim():
    out = CliRunner().invoke(app, ["claims"], env={"COLUMNS": "160"})
    assert out.exit_code == 0
    assert all(f" {key} " in out.stdout for key in ("G1", "F10", "R15", "T7"))


def test_reproduce_grid_writes_result_and_figure(tmp_path):
    out = CliRunner().invoke(app, ["reproduce", "grid", "--preset", "quick", "--out", str(tmp_path)])
    assert out.exit_code == 0, out.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure_1.png", "grid.json"]
    own = CliRunner().invoke(app, ["claims", "--json", "--results", str(tmp_path)])
    verdicts = {row["id"]: row["verdict"] for row in json.loads(own.stdout)}
    assert verdicts["G2"] == "holds"
    assert verdicts["T1"] == "not measured"


def test_demo_tells_both_stories_and_saves_the_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TASKS", 2)
    monkeypatch.setattr(demo, "STEPS", 500)
    monkeypatch.setattr(demo, "ROLLOUTS", 2)
    picture = tmp_path / "picture.png"
    out = CliRunner().invoke(app, ["demo", "--out", str(picture)], env={"COLUMNS": "120"})
    assert out.exit_code == 0, out.output
    assert "risk-neutral" in out.stdout
    assert "risk-aware" in out.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["claims", "--results", "nowhere"], "nowhere is not a folder with results"),
        (["demo", "--out", "/proc/nowhere/picture.png"], "/proc/nowhere: No such file"),
    ],
)
def test_errors_are_one_sentence_and_no_traceback(arguments, words, tmp_path):
    out = rasf_command(*arguments, cwd=tmp_path)
    assert out.returncode == 1
    assert words in out.stderr
    assert "Traceback" not in out.stderr


@pytest.mark.parametrize("arguments", [["reproduce", "moon"], ["reproduce", "grid", "--preset", "huge"], ["nothing"]])
def test_unknown_words_are_usage_errors(arguments):
    out = CliRunner().invoke(app, arguments)
    assert out.exit_code == 2


def test_every_command_has_help_with_an_example():
    for command in ("demo", "reproduce", "claims"):
        out = CliRunner().invoke(app, [command, "--help"])
        assert "Example:" in out.stdout
