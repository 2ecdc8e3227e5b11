import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from rasf.cli import terminal
from rasf.cli.main import app, main
from rasf_lab import demo
from rasf_lab.common.claims import CLAIMS
from rasf_lab.common.results import Finding, Reading, Result
from rasf_lab.paper import reproduce


def rasf_process(*arguments, cwd):
    # whoever runs the tests in the background has SIGINT ignored, and children inherit that
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, timeout=300)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture
def own_results(tmp_path):
    """A folder with results of four claims."""
    third = Reading("holds", "a third number, 0.1 [0.0, 0.2]", 6, "0.1")
    second = Reading("not decided", "a second number, 0.2 [0.1, 0.3]", 7, "0.2")
    findings = {
        "R1": Finding("does not hold", "a first [red] number, 0.5 [0.4, 0.6]", 10, "0.5", second_reading=second),
        "R2": Finding("holds", "another number", 9),
        "F11": Finding("holds", "a number", 8, "0.7", third_reading=third),
        "G5": Finding("holds", "a ratio", 1, "0.48", "4,321 rollouts"),
    }
    Result("made-up", "quick", 0, 1.0, {}, findings).save(tmp_path)
    return str(tmp_path)


def shown_claims(*arguments, columns=80):
    # a console looks for COLUMNS once, when it is made, which may have been for another test
    with patch.object(terminal.console, "_width", columns):
        out = CliRunner().invoke(app, ["claims", *arguments])
    assert out.exit_code == 0, out.output
    return out.stdout


def test_claims_as_json_have_the_documented_keys(own_results):
    rows = json.loads(shown_claims("--json"))
    assert all({"id", "verdict", "measured", "seeds", "second_reading", "third_reading"} <= set(row) for row in rows)
    assert [row["id"] for row in rows] == [claim.id for claim in CLAIMS]
    for row, claim in zip(rows, CLAIMS, strict=True):
        assert (row["second_reading"] is not None) == bool(claim.second_rule)
        assert (row["third_reading"] is not None) == bool(claim.third_rule)
    rows = {row["id"]: row for row in json.loads(shown_claims("--json", "--results", own_results))}
    assert (rows["R1"]["verdict"], rows["R1"]["seeds"]) == ("does not hold", 10)
    second = rows["R1"]["second_reading"]
    assert (second["verdict"], second["measured"]) == ("not decided", "a second number, 0.2 [0.1, 0.3]")
    assert second["rule"] == next(claim.second_rule for claim in CLAIMS if claim.id == "R1")
    assert rows["R2"]["second_reading"]["verdict"] == rows["T1"]["verdict"] == "not measured"


def test_some_claims_as_json(own_results):
    every = {row["id"]: row for row in json.loads(shown_claims("--json", "--results", own_results))}
    assert json.loads(shown_claims("R1", "--json", "--results", own_results)) == [every["R1"]]
    assert json.loads(shown_claims("T3", "F5", "--json", "--results", own_results)) == [every["T3"], every["F5"]]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("own", [False, True])
def test_claims_are_a_line_each_and_fit_the_screen(columns, own, own_results):
    lines = shown_claims(*(["--results", own_results] if own else []), columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    ids = [line.split()[0] for line in lines if re.match(r"[GFRTM]\d+ ", line)]
    assert ids == [claim.id for claim in CLAIMS]
    assert len(lines) <= len(CLAIMS) + 8  # a heading before, some words after


def test_a_line_has_both_verdicts_and_a_number(own_results):
    lines = {line.split()[0]: line for line in shown_claims("--results", own_results, columns=120).splitlines() if line}
    shorts = {claim.id: claim.short for claim in CLAIMS}
    for name, rest in {"R1": "does not undecided 0.5", "R2": "holds -", "G5": "holds 0.48", "T1": "-"}.items():
        assert " ".join(lines[name].split()) == f"{name} {shorts[name]} {rest}"


@pytest.mark.parametrize("columns", [80, 120])
def test_all_about_one_claim(columns, own_results):
    shown = shown_claims("R1", "--results", own_results, columns=columns)
    assert max(map(len, shown.splitlines())) <= columns
    words = " ".join(shown.split())
    claim = next(claim for claim in CLAIMS if claim.id == "R1")
    first = [claim.sentence, claim.rule, "does not hold", "a first [red] number, 0.5 [0.4, 0.6]", "10 seeds"]
    second = [claim.second_rule, claim.second_reason, "not decided", "a second number, 0.2 [0.1, 0.3]", "7 seeds"]
    places = [words.index(part) for part in [*first, *second, f"docs/figures/{claim.figure}.png"]]
    assert places == sorted(places)


def test_a_third_reading_has_a_line_of_its_own(own_results):
    lines = shown_claims("--results", own_results).splitlines()
    row = next(n for n, line in enumerate(lines) if line.startswith("F11 "))
    assert " ".join(lines[row + 1].split()) == "third reading holds 0.1"
    assert "by a third reading of 1: 1 hold" in " ".join(" ".join(lines).split())


def test_all_about_a_claim_with_three_readings(own_results):
    words = " ".join(shown_claims("F11", "--results", own_results, columns=120).split())
    claim = next(claim for claim in CLAIMS if claim.id == "F11")
    parts = ["a number", "8 seeds", claim.second_rule, "not measured", claim.third_rule, claim.third_reason]
    places = [words.index(part) for part in [*parts, "a third number, 0.1 [0.0, 0.2]", "6 seeds"]]
    assert places == sorted(places)


def test_of_several_claims_all_is_told_in_the_order_asked_for(own_results):
    words = " ".join(shown_claims("G5", "T1", "R2", "--results", own_results).split())
    sentences = {claim.id: claim.sentence for claim in CLAIMS}
    places = [words.index(part) for part in ("G5", sentences["G5"], "4,321 rollouts", "T1", "R2", sentences["R2"])]
    assert places == sorted(places)
    assert not any(sentence in words for name, sentence in sentences.items() if name[0] == "F")


def without(modules, *arguments, cwd, first=""):
    """Run a command in a process of its own that fails if it imported one of these modules."""
    code = f"import sys\n{first}\nfrom rasf.cli.main import app\napp(sys.argv[1:], standalone_mode=False)\n"
    code += f"found = [name for name in {modules} if name in sys.modules]; assert not found, found"
    out = rasf_process("-c", code, *arguments, cwd=cwd)
    assert out.returncode == 0, out.stderr
    return out.stdout


def test_reproduce_grid_writes_result_and_figure_and_needs_no_jax(tmp_path):
    without(["jax", "rasf_lab.paper.reacher"], "reproduce", "grid", "--preset", "quick", "--out", "r", cwd=tmp_path)
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == ["figure_1.png", "grid.json"]
    own = CliRunner().invoke(app, ["claims", "--json", "--results", str(tmp_path / "r")])
    verdicts = {row["id"]: row["verdict"] for row in json.loads(own.stdout)}
    assert verdicts["G2"] == "holds"
    assert verdicts["T1"] == "not measured"


def test_claims_are_printed_without_jax_and_matplotlib(tmp_path):
    shown = without(["jax", "matplotlib", "numba", "rasf_lab.paper.reacher"], "claims", cwd=tmp_path)
    assert "R15" in shown


def test_demo_tells_both_stories_saves_the_picture_and_needs_no_posix(tmp_path):
    first = "sys.modules.update(fcntl=None, resource=None, pwd=None, termios=None)\n"
    first += "from rasf_lab import demo; demo.TASKS, demo.STEPS, demo.EPISODES = 2, 200, 2"
    shown = without(["rasf_lab.sweep.store", "rasf_lab.paper.reacher"], "demo", cwd=tmp_path, first=first)
    assert "risk-neutral" in shown
    assert "risk-aware" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["rasf-demo.png"]
    assert (tmp_path / "rasf-demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["claims", "--results", "nowhere"], "nowhere is not a folder with results"),
        (["claims", "--results", "."], ". is not a folder with results"),
        (["claims", "R99"], "id must"),
        (["claims", "R1", "R99", "--json"], "id must"),
        (["demo", "--out", "/proc/nowhere/picture.png"], "out cannot be written: /proc: "),
        (["demo", "--out", "/proc/picture.png"], "out cannot be written: /proc: "),
        (["reproduce", "theory", "--out", "file"], "file: Not a directory"),
        (["reproduce", "grid", "--out", "/proc/abc"], "out cannot be written: /proc: "),
        (["reproduce", "four-room", "--batch", "foo"], "batch needs the experiment reacher"),
        (["reproduce", "grid", "--device", "gpu"], "device needs the experiment reacher"),
        (["reproduce", "theory", "--tensorboard", "tb"], "tensorboard needs the experiment reacher"),
        (["reproduce", "grid", "--library", "a.rasf"], "library needs the experiment reacher"),
        (["reproduce", "reacher", "--tensorboard", "file"], "tensorboard cannot be written: "),
        (["reproduce", "reacher", "--library", "nowhere/a.rasf"], "library must"),
        (["reproduce", "all", "--batch", "foo", "--preset", "quick"], "batch must"),
        (["reproduce", "all", "--device", "gpu", "--preset", "quick"], "jax finds no gpu here"),
    ],
)
def test_errors_are_one_sentence_no_traceback_and_no_work(arguments, words, tmp_path, monkeypatch, capsys):
    def work(*_):
        pytest.fail("worked")

    monkeypatch.setattr(demo, "train_and_meet", work)
    monkeypatch.setattr(reproduce, "reproduce", work)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setattr(sys, "argv", ["rasf", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    err = capsys.readouterr().err
    assert left.value.code == 1
    assert err.startswith("rasf: ")
    assert err.count("\n") == 1
    assert words in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_package_is_a_command_too(tmp_path):
    out = rasf_process("-m", "rasf", "claims", "--results", "nowhere", cwd=tmp_path)
    assert out.returncode == 1
    assert out.stderr.startswith("rasf: nowhere is not a folder")
    assert out.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["reproduce", "moon"], ["reproduce", "grid", "--preset", "huge"], ["nothing"]])
def test_unknown_words_are_usage_errors(arguments):
    out = CliRunner().invoke(app, arguments)
    assert out.exit_code == 2


def test_every_command_has_help_with_an_example():
    for command in ("demo", "reproduce", "claims"):
        out = CliRunner().invoke(app, [command, "--help"])
        assert "Example:" in out.stdout


# --- Ctrl-C

# where Python's own answer, an exception, gets lost
LOST = """
import gc, os, signal
def interrupt(phase, info):
    gc.callbacks.remove(interrupt)
    os.kill(os.getpid(), signal.SIGINT)
def interrupted(*_, **__):
    gc.callbacks.append(interrupt)
    gc.collect()
"""
# where it is waited for
HEARD = """
import os, signal, time
def interrupted(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        print("workers are stopped")
        raise
"""


@pytest.mark.parametrize(
    ("how", "arguments", "module", "name", "said"),
    [
        (LOST, "demo", "rasf_lab.demo", "run", ""),
        (LOST, "reproduce theory", "rasf_lab.paper.theory.runs", "run", ""),
        (LOST, "train rasf/Grid-v0 --tasks 1 --out a.rasf", "rasf.library.learn", "learn", ""),
        (HEARD, "reproduce four-room", "rasf_lab.common.runs", "drive", "workers are stopped\n"),
        (HEARD, "sweep spec.toml", "rasf_lab.sweep.spec", "read_spec", "workers are stopped\n"),
        (HEARD, "explore", "rasf_explorer.app", "serve", "workers are stopped\n"),
    ],
)
def test_ctrl_c_ends_a_command_at_once_unless_it_has_something_to_stop(how, arguments, module, name, said, tmp_path):
    code = f"{how}\nimport {module} as it; it.{name} = interrupted; from rasf.cli.main import main; main()"
    out = rasf_process("-c", code, *arguments.split(), cwd=tmp_path)
    assert (out.returncode, out.stdout) == (130, said), out.stderr
    assert "KeyboardInterrupt" not in out.stderr
    assert not (tmp_path / "a.rasf").exists()


def test_a_second_ctrl_c_in_training_is_no_exception(tmp_path):
    twice = """
import rasf.library.learn as it
learn = it.learn
def twice(*arguments, **options):
    if "callback" not in options:
        return learn(*arguments, **options)
    signal.raise_signal(signal.SIGINT)
    interrupted()
it.learn = twice
from rasf.cli.main import main; main()
"""
    arguments = ["train", "rasf/Grid-v0", "--tasks", "1", "--out", "a.rasf"]
    out = rasf_process("-c", LOST + twice, *arguments, cwd=tmp_path)
    assert out.returncode == 130, out.stderr
    assert "stopping soon" in out.stderr
    assert "KeyboardInterrupt" not in out.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.log.jsonl.part"]


def test_ctrl_c_while_the_command_line_is_imported_is_silent(tmp_path):
    (tmp_path / "typer.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    out = rasf_process("-m", "rasf", "claims", cwd=tmp_path)
    assert (out.returncode, out.stdout, out.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_stays_ignored_where_it_was(tmp_path):
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import rasf_lab.common.claims as it\n"
    code += "it.table = lambda *_: signal.raise_signal(signal.SIGINT) or []; from rasf.__main__ import main; main()"
    out = rasf_process("-c", code, "claims", "--json", cwd=tmp_path)
    assert (out.returncode, out.stdout) == (0, "[]\n"), out.stderr


def test_a_risk_before_a_colon_is_no_picture(capsys):
    said = "mean-variance:-1: 5 of 50 episodes were cut off by a time limit"
    terminal.say(said)
    terminal.on_stderr().print(said)
    assert list(map(str.strip, capsys.readouterr())) == [said, said]
