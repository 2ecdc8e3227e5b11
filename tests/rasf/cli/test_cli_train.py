"""`rasf train`, as a user meets it: files, words, exit codes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_help import files_in, lines_of

import rasf
from coin_world import Coin
from rasf.library import learn as learning
from rasf.library.file import load
from rasf.risk.names import risk_from_text

TRAIN = ("train", "coin:Coin-v0", "--w", "1,-1", "--w", "1,0", "--risk", "neutral", "--risk", "mean-variance:-4",
         "--steps-per-task", "600", "--gamma", ".9", "--set", "epsilon=.5")  # fmt: skip


def test_train_saves_what_learn_gives_and_logs_every_watch(learned, command, here):
    code, *said = command(*TRAIN, "--out", "coin.rasf")
    assert code == 0, said
    trained = load("coin.rasf")
    assert trained.policies == learned.policies
    for name, array in learned.sources.arrays().items():
        np.testing.assert_array_equal(trained.sources.arrays()[name], array)
    lines = lines_of(here / "coin.log.jsonl")
    # two tasks, each led by the two risks for 300 steps; policies are numbered risk by risk
    assert [(line["policy"], line["step"]) for line in lines] == [(k, 300) for k in (0, 2, 1, 3)]
    for line in lines:
        policy = trained.policies[line["policy"]]
        assert (tuple(line["w"]), risk_from_text(line["risk"])) == policy
        assert line["loss"] is line["clipped"] is None
    ends = sorted(lines, key=lambda line: line["policy"])
    np.testing.assert_array_equal([line["return"] for line in ends], trained.history["return"])
    np.testing.assert_array_equal([line["failures"] for line in ends], trained.history["failures"])
    assert [line["seconds"] for line in lines] == sorted(line["seconds"] for line in lines)


def test_train_says_what_it_does_and_shows_the_rate(command):
    code, out, err = command("train", "coin:Coin-v0", "--tasks", 3, "--steps-per-task", 600, "--out", "a.rasf")
    assert code == 0
    assert "Coin-v0: 3 policies, 600 steps per task" in out
    assert "note: agent rasfql was chosen because the environment has at most 2 observations" in out
    assert "note: the environment has no distribution of tasks" in out
    assert "wrote a.rasf, 3 policies of rasfql, and a.log.jsonl" in out
    assert "steps/s" in err
    drawn = [tuple(line["w"]) for line in lines_of(Path("a.log.jsonl"))[1::2]]
    assert drawn == [policy.w for policy in load("a.rasf").policies]


def test_config_file_and_flags_train_the_same_library(trained, command, here):
    (here / "coin.toml").write_text(
        """
        env = "coin:Coin-v0"
        w = [[1, -1], [1, 0]]
        risk = ["neutral", "mean-variance:-4"]
        steps-per-task = 600
        gamma = 0.9
        out = "other.rasf"
        [set]
        epsilon = 0.5
        """
    )
    assert command("train", "--config", "coin.toml")[0] == 0
    for name, array in load("other.rasf").sources.arrays().items():
        np.testing.assert_array_equal(trained.sources.arrays()[name], array)


def test_flags_win_over_the_config_file(command, here):
    (here / "coin.toml").write_text(
        """
        env = "coin:Coin-v0"
        tasks = 7
        seed = 3
        steps-per-task = 50
        out = "no.rasf"
        [set]
        epsilon = 0.5
        alpha = 0.25
        """
    )
    code, *said = command("train", "--config", "coin.toml", "--w", "1,2", "--out", "yes.rasf", "--set", "epsilon=.75")
    assert code == 0, said
    assert files_in(here) == {"coin.toml", "yes.rasf", "yes.log.jsonl"}
    library = load("yes.rasf")
    assert [policy.w for policy in library.policies] == [(1.0, 2.0)]
    assert library.provenance["seed"] == 3
    assert library.provenance["settings"] == {"epsilon": "0.75", "alpha": "0.25"}


def test_arguments_of_the_environment_are_passed_kept_and_given_again(command, here):
    made = command(
        "train", "coin:Coin-v0", "--env-arg", "stakes=2", "--w", "1,0", "--steps-per-task", 50, "--out", "a.rasf"
    )
    assert made[0] == 0, made
    assert load("a.rasf").environment.kwargs == {"stakes": 2}
    asked = ("evaluate", "a.rasf", "--w", "1,-9", "--risk", "mean-variance:-4", "--episodes", 4, "--json", "-")
    code, _, err = command(*asked)
    assert code == 1  # a file may set an environment that rasf does not know to nothing
    assert "the file sets stakes of Coin-v0 to 2" in " ".join(err.split())
    for sure in (2.0, 5.0):
        said = command(*asked, "--env-arg", f"stakes={sure}")[1]
        found = json.loads(said)["comparisons"][0]["risks"]["mean-variance:-4.0"]
        assert set(found["returns"]) <= {sure, 3 * sure, -9 * sure}


@pytest.mark.parametrize("name", ["w.csv", "w.json", "w.npy"])
def test_tasks_are_read_from_files(name, command, here):
    weights = [[1.0, -0.5], [0.0, 2.0]]
    if name == "w.npy":
        np.save(here / name, np.array(weights))
    else:
        (here / name).write_text(json.dumps(weights) if name == "w.json" else "1,-0.5\n0,2\n")
    code, *said = command("train", "coin:Coin-v0", "--tasks-file", name, "--steps-per-task", 20, "--out", "a.rasf")
    assert code == 0, said
    assert [policy.w for policy in load("a.rasf").policies] == [(1.0, -0.5), (0.0, 2.0)]


def test_grow_keeps_the_old_policies_and_adds_new_ones(trained, command):
    code, out, _ = command("train", "--grow", "coin.rasf", "--w", "0,1", "--steps-per-task", 100, "--out", "more.rasf")
    assert code == 0, out
    grown = load("more.rasf")
    assert grown.policies[:4] == trained.policies
    assert grown.policies[4].w == (0.0, 1.0)
    assert [line["policy"] for line in lines_of(Path("more.log.jsonl"))] == [0]


def test_a_library_that_is_there_stays_unless_asked_otherwise(trained, command, here):
    (here / "coin.toml").write_text('env = "coin:Coin-v0"\nw = [0, 1]\nsteps-per-task = 20\nout = "coin.rasf"\n')
    before = (here / "coin.rasf").read_bytes()
    code, _, err = command("train", "--config", "coin.toml")
    assert code == 1
    assert err == (
        "rasf: out must be a new file, and coin.rasf exists; replace it with --overwrite, or add to its policies with "
        "--grow coin.rasf --out OTHER\n"
    )
    assert (here / "coin.rasf").read_bytes() == before
    assert files_in(here) == {"coin.toml", "coin.rasf"}
    assert command("train", "--config", "coin.toml", "--grow", here / "coin.rasf")[0] == 0
    assert [policy.w for policy in load("coin.rasf").policies[4:]] == [(0.0, 1.0)]
    assert command("train", "--config", "coin.toml", "--overwrite")[0] == 0
    assert [policy.w for policy in load("coin.rasf").policies] == [(0.0, 1.0)]
    (here / "coin.toml").write_text((here / "coin.toml").read_text() + "overwrite = true\n")
    assert command("train", "--config", "coin.toml", "--w", "1,1")[0] == 0
    assert [policy.w for policy in load("coin.rasf").policies] == [(1.0, 1.0)]


def test_networks_log_loss_clipping_and_tensorboard(command, here):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    code, *said = command(
        "train", "coin:Coin-v0", "--w", "1,-1", "--agent", "rasfc51", "--num-envs", 2, "--steps-per-task", 80,
        "--support", "0,3", "--support", "0,1", "--set", "widths=4", "--set", "atoms=3", "--tensorboard", "board",
        "--out", "deep.rasf", "--log", "own.jsonl",
    )  # fmt: skip
    assert code == 0, said
    line = lines_of(here / "own.jsonl")[-1]
    assert line["step"] == 80
    assert line["share"] == 1.0
    assert line["seconds_left"] == 0.0
    assert 0 < line["environment_share"] < 1
    assert line["loss"] > 0
    assert line["clipped"] == 0.0
    events = EventAccumulator(str(here / "board" / "policy_000")).Reload()
    for name in ("return", "failures", "loss", "clipped", "steps_per_second"):
        scalar = events.Scalars(name)[-1]
        assert scalar.step == 80
        assert scalar.value == pytest.approx(line[name], rel=1e-6)


def test_features_and_failures_from_functions_of_a_module(command, here):
    (here / "mine.py").write_text(
        "def phi(obs, action, next_obs, info):\n    return [1.0, float(action)]\n\n\n"
        "def failure(step):\n    return step.phi[1] > 0\n"
    )
    asked = ("--phi", "mine:phi", "--failure", "mine:failure")
    train = ("train", "coin:Coin-v0", "--w", "1,-1", "--agent", "sfql", "--steps-per-task", 60, "--out", "mine.rasf")
    code, *said = command(*train, *asked)
    assert code == 0, said
    assert lines_of(here / "mine.log.jsonl")[-1]["failures"] > 0
    code, *said = command("evaluate", "mine.rasf", "--w", "1,-1", "--episodes", 3, "--json", "told.json", *asked)
    assert code == 0, said
    told = json.loads((here / "told.json").read_text())
    assert told["phi"] == "mine:phi"
    assert told["comparisons"][0]["risks"]["neutral"]["failures"] == [0.0] * 3
    refused = (("mine", "MODULE:NAME"), ("mine:none", "has none called none"), ("no:phi", "cannot be imported"))
    for wrong, words in refused:
        code, *said = command(*train, "--overwrite", "--phi", wrong)
        assert code != 0
        assert any(words in one for one in said)


def test_once_is_a_support_of_its_own(command, here):
    deep = ("train", "coin:Coin-v0", "--w", "1,-1", "--steps-per-task", 8, "--set", "widths=4", "--out", "once.rasf")
    code, *said = command(*deep, "--agent", "rasfc51", "--once", "1", "--gamma", ".9")
    assert code == 0, said
    atoms = np.array(rasf.load(here / "once.rasf").sources.law.atoms)
    reach = np.ptp(atoms, axis=1)
    assert reach[0] == pytest.approx(10 * reach[1])
    for more, words in ((("--once", "7"), "`once` must list"), (("--once", "x"), "once must be whole numbers")):
        code, *said = command(*deep, "--overwrite", "--agent", "rasfc51", *more)
        assert code != 0
        assert any(words in one for one in said), said
    code, *said = command(*deep, "--overwrite", "--agent", "sfdqn", "--once", "1")
    assert any("`once` is for agents that learn histograms or means of events" in one for one in said), said


# --- refusals


def test_train_refuses_in_one_sentence_and_leaves_nothing(subtests, command, here):
    for arguments, words in [
        (("coin:Coin-v0", "--w", "1,0"), "out must be given: the file for the library"),
        (("coin:Coin-v0", "--out", "a.rasf"), "tasks must be given"),
        (("--w", "1,0", "--out", "a.rasf"), "env must be given"),
        (("coin:Coin-v0", "--w", "1,0", "--tasks", "3", "--out", "a.rasf"), "only one of tasks, tasks-file, w"),
        (("coin:Coin-v0", "--w", "1,0,0", "--out", "a.rasf"), "(n, 2)"),
        (("coin:Coin-v0", "--w", "1,0", "--w", "1", "--out", "a.rasf"), "w must"),
        (("coin:Coin-v0", "--w", "1,nan", "--out", "a.rasf"), "w must"),
        (("coin:Coin-v0", "--w", "one,two", "--out", "a.rasf"), "w must"),
        (("coin:Coin-v0", "--tasks", "0", "--out", "a.rasf"), "tasks must be a whole number"),
        (("coin:Coin-v0", "--tasks", "1", "--seed", "-1", "--out", "a.rasf"), "seed must be a whole number"),
        (("coin:Coin-v0", "--tasks", "1", "--risk", "brave", "--out", "a.rasf"), "risk must be written as"),
        (("coin:Coin-v0", "--tasks", "1", "--risk", "cvar:.1", "--out", "a.rasf"), "risk must be MeanVariance"),
        (
            ("coin:Coin-v0", "--tasks", "1", "--agent", "sfql", "--risk", "mean-variance:-4", "--out", "a.rasf"),
            "neutral",
        ),
        (("coin:Coin-v0", "--tasks", "1", "--agent", "genius", "--out", "a.rasf"), "agent must be auto"),
        (
            ("coin:Coin-v0", "--tasks", "1", "--set", "epsilon=much", "--out", "a.rasf"),
            "epsilon must",
        ),
        (("coin:Coin-v0", "--tasks", "1", "--set", "epsilon=2", "--out", "a.rasf"), "epsilon must"),
        (("coin:Coin-v0", "--tasks", "1", "--set", "epsilon", "--out", "a.rasf"), "set must be written as name=value"),
        (("coin:Coin-v0", "--tasks", "1", "--set", "patience=1", "--out", "a.rasf"), "settings must be among"),
        (("coin:Coin-v0", "--tasks", "1", "--set", "callback=1", "--out", "a.rasf"), "set must name a setting"),
        (("coin:Coin-v0", "--tasks", "1", "--support", "1", "--out", "a.rasf"), "support is for histograms"),
        (("coin:Coin-v0", "--tasks", "1", "--num-envs", "2", "--out", "a.rasf"), "num_envs must be 1"),
        (("coin:Coin-v0", "--tasks", "1", "--env-arg", "colour=1", "--out", "a.rasf"), "cannot be made"),
        (("coin:Coin-v0", "--tasks", "1", "--env-arg", "breaks=1", "--out", "a.rasf"), "the coin is lost"),
        (("coin:Coin-v0", "--tasks", "1", "--out", "nowhere/a.rasf"), "out must be in a folder that exists"),
        (("coin:Coin-v0", "--tasks", "1", "--out", "."), "out must name a file"),
        (("coin:Coin-v0", "--tasks", "1", "--out", "coin.py/a.rasf"), "out must be in a folder"),
        (("coin:Coin-v0", "--tasks", "1", "--out", "/proc/a.rasf"), "out cannot be written"),
        (("coin:Coin-v0", "--tasks", "1", "--out", "a.rasf", "--log", "a.rasf"), "log must be another file"),
        (("coin:Coin-v0", "--tasks", "1", "--out", "a.rasf", "--tensorboard", "coin.py/x"), "tensorboard cannot be"),
        (("Nothing-v0", "--tasks", "1", "--out", "a.rasf"), "'Nothing-v0'"),
        (("CartPole-v1", "--tasks", "1", "--out", "a.rasf"), "not a vector of features"),
        (("nothing:Coin-v0", "--tasks", "1", "--out", "a.rasf"), "No module named 'nothing'"),
        (("--grow", "no.rasf", "--tasks", "1", "--out", "a.rasf"), "no.rasf does not exist"),
        (("--grow", "coin.py", "--tasks", "1", "--out", "a.rasf"), "coin.py"),
        (("--config", "no.toml"), "no.toml: No such file"),
        (("--config", "coin.py"), "coin.py is not a TOML file"),
        (
            ("coin:Coin-v0", "--tasks-file", "coin.py", "--out", "a.rasf"),
            "tasks-file must be a file that ends in .csv, .json, .npy",
        ),
        (("coin:Coin-v0", "--tasks-file", "no.csv", "--out", "a.rasf"), "no.csv: No such file"),
    ]:
        with subtests.test(arguments=arguments, words=words):
            code, _, err = command("train", *arguments, "--steps-per-task", 20)
            assert code == 1
            assert err.startswith("rasf: ")
            assert err.count("\n") == 1
            assert words in err
            assert files_in(here) == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps_per_task = 20", "must hold only env, tasks"),
        ("tasks = '3'", "c.toml: tasks must be a whole number"),
        ("tasks = true", "tasks must be a whole number"),
        ("w = [[1, 'a']]", "w must"),
        ("w = 3", "tasks must"),
        ("gamma = inf", "gamma must be a finite number"),
        ("risk = 3", "risk must be written as"),
        ("risk = ['neutral', 'neutral']", "risk must name each risk once"),
        ("env = 3", "env must be text"),
        ("tasks = 2\nw = [1, 0]", "only one of tasks, tasks-file, w"),
        ("tasks = ", "is not a TOML file"),
    ],
)
def test_a_config_file_is_checked(text, words, command, here):
    (here / "c.toml").write_text(text)
    code, _, err = command("train", "coin:Coin-v0", "--out", "a.rasf", "--config", "c.toml")
    assert code == 1
    assert err.count("\n") == 1
    assert words in err
    assert files_in(here) == {"c.toml"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("w.csv", b"1,2\n3\n"), ("w.csv", b"a,b\n"), ("w.csv", b""), ("w.json", b"{"), ("w.json", b"[[1], [2, 3]]"),
        ("w.json", b"[1, 2]"), ("w.npy", b"\x93NUMPY"), ("w.npy", b""), ("w.csv", b"1,inf\n"),
    ],
)  # fmt: skip
def test_bad_files_of_tasks_are_refused(name, content, command, here):
    (here / name).write_bytes(content)
    code, _, err = command("train", "coin:Coin-v0", "--tasks-file", name, "--out", "a.rasf")
    assert code == 1
    assert err.startswith("rasf: tasks-file must be a file of weights")
    assert name in err
    assert err.count("\n") == 1


def test_a_pickled_file_of_tasks_is_refused(command, here):
    np.save(here / "w.npy", np.array([[1, None]], dtype=object), allow_pickle=True)
    code, _, err = command("train", "coin:Coin-v0", "--tasks-file", "w.npy", "--out", "a.rasf")
    assert code == 1
    assert "tasks-file must be a file of weights" in err


def test_a_bad_place_for_the_library_is_noticed_before_any_training(command, monkeypatch):
    monkeypatch.setattr(learning, "learn", lambda *_, **__: pytest.fail("trained"))
    code, _, err = command("train", "coin:Coin-v0", "--tasks", 1, "--out", "/proc/a.rasf")
    assert code == 1
    assert "out cannot be written" in err


def test_a_missing_tensorboard_is_noticed_before_any_training(command, here, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    code, _, err = command(*TRAIN, "--out", "a.rasf", "--tensorboard", "board")
    assert code == 1
    assert "rasf: TensorBoard is not installed; pip install rasf[tensorboard]" in err
    assert files_in(here) == set()


def test_an_environment_that_breaks_in_training_leaves_no_library(command, here):
    arguments = ("train", "coin:Coin-v0", "--tasks", 1, "--env-arg", "breaks=30", "--steps-per-task", 100)
    code, _, err = command(*arguments, "--out", "a.rasf")
    assert code == 1
    assert "rasf: RuntimeError: the coin is lost; to see the traceback, set the environment variable RASF_" in err
    assert "Traceback" not in err
    assert files_in(here) == {"a.log.jsonl.part"}
    for name in ("a.rasf", "a.log.jsonl"):
        (here / name).write_text("old")
    assert command(*arguments, "--out", "a.rasf", "--overwrite")[0] == 1
    assert (here / "a.rasf").read_text() == (here / "a.log.jsonl").read_text() == "old"


# --- Ctrl-C


@pytest.fixture
def begin(here):
    """Starts training in a process of its own, with a pause at every step."""
    begun = []

    def run(pause, *more):
        arguments = ["train", "coin:Coin-v0", "--tasks", "2", "--steps-per-task", "100000", "--out", "a.rasf"]
        arguments += ["--env-arg", f"pause={pause}", "--env-arg", "mark=stepping"]
        arguments = [*([] if pause is None else arguments), *more]
        whole = [sys.executable, "-c", "from rasf.cli.main import main; main()", *arguments]
        begun.append(subprocess.Popen(whole, cwd=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.communicate()


def begin_command(begin, *arguments):
    """Start the command line with just these arguments."""
    return begin(None, *arguments)


def finished(process):
    """What the process printed; it must have succeeded."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def wait_for(process, ready):
    until = time.monotonic() + 300  # it may have to compile first
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_ctrl_c_saves_a_usable_library(begin, here):
    process = begin(pause=0.0002)
    log = here / "a.log.jsonl.part"
    wait_for(process, lambda: log.exists() and log.stat().st_size > 0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "stopping soon" in err
    assert "the policies learned so far are saved and can be used" in out
    library = load(here / "a.rasf")
    assert len(library.policies) == 1
    assert library.provenance["complete"] is False
    assert library.act(0, [1.0, 0.0], rasf.MeanVariance(0.0)) in (0, 1)
    step = lines_of(here / "a.log.jsonl")[-1]["step"]
    assert 0 < step < 100_000
    assert files_in(here) == {"a.rasf", "a.log.jsonl", "stepping"}
    assert f"stopped at policy 1 of 2, step {step:,} of 100,000" in out


@pytest.mark.parametrize("old", [{}, {"a.rasf": "old library", "a.log.jsonl": "old log"}])
def test_ctrl_c_twice_leaves_at_once_saves_nothing_and_keeps_what_was_there(old, begin, here):
    for name, content in old.items():
        (here / name).write_text(content)
    process = begin(0.1, "--overwrite")  # training looks up after a minute only
    wait_for(process, (here / "stepping").exists)
    process.send_signal(signal.SIGINT)
    assert "stopping soon" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert files_in(here) == {"a.log.jsonl.part", "stepping", *old}
    assert all((here / name).read_text() == content for name, content in old.items())


def test_ctrl_c_twice_while_a_library_is_saved_leaves_no_half_of_it(trained, command, here, monkeypatch):
    fsync = os.fsync

    def written(*_):
        monkeypatch.setattr(os, "fsync", fsync)
        signal.raise_signal(signal.SIGINT)
        assert [path for path in here.iterdir() if path.name.endswith(".partial")]
        signal.raise_signal(signal.SIGINT)

    before = (here / "coin.rasf").read_bytes()
    (here / "coin.log.jsonl").write_text("old")
    monkeypatch.setattr(os, "fsync", written)
    assert command(*TRAIN, "--out", "coin.rasf", "--overwrite")[0] == 130
    assert files_in(here) == {"coin.rasf", "coin.log.jsonl", "coin.log.jsonl.part"}
    assert (here / "coin.rasf").read_bytes() == before
    assert (here / "coin.log.jsonl").read_text() == "old"


# --- kills, full disks, two at once


@pytest.mark.slow  # tests/rasf/library/test_checkpoint.py goes on within one process
def test_a_killed_training_goes_on_to_the_same_bits(begin, here):
    """Twice killed with SIGKILL; the log has no line twice, and the old library keeps its own until the end."""
    command = ("train", "coin:Coin-v0", "--tasks", "2", "--steps-per-task", "4000", "--checkpoint-seconds", "0")
    for name in ("a.rasf", "a.log.jsonl"):
        (here / name).write_text("old")
    for share in (0.2, 0.6):
        process, part = begin_command(begin, *command, "--out", "a.rasf", "--overwrite"), here / "a.log.jsonl.part"

        def far(share=share, part=part):
            held = part.read_text().splitlines() if part.exists() else []
            whole = [line for line in held if line.endswith("}")]
            return bool(whole) and json.loads(whole[-1])["share"] > share and (here / "a.rasf.checkpoint").exists()

        wait_for(process, far)
        process.kill()
        process.communicate()
        assert (here / "a.rasf").read_text() == (here / "a.log.jsonl").read_text() == "old"
    out = finished(begin_command(begin, *command, "--out", "a.rasf", "--overwrite"))
    assert "this run resumes from a.rasf.checkpoint" in out
    assert files_in(here) == {"a.rasf", "a.log.jsonl"}
    finished(begin_command(begin, *command, "--out", "b.rasf"))
    killed, whole = load(here / "a.rasf"), load(here / "b.rasf")
    for name, part in whole.sources.arrays().items():
        np.testing.assert_array_equal(killed.sources.arrays()[name], part)
    for name, part in whole.history.items():
        np.testing.assert_array_equal(killed.history[name], part)
    steps = [
        [(line["policy"], line["step"], line["return"]) for line in lines_of(here / f"{name}.log.jsonl")]
        for name in "ab"
    ]
    assert steps[0] == steps[1]


def test_a_checkpoint_of_another_training_is_refused_or_replaced(begin, command, here):
    arguments = ("train", "coin:Coin-v0", "--w", "1,0", "--steps-per-task", "3000", "--out", "a.rasf")
    process = begin_command(begin, *arguments, "--checkpoint-seconds", "0", "--env-arg", "pause=0.001")
    wait_for(process, (here / "a.rasf.checkpoint").exists)
    code, _, err = command(*arguments, "--env-arg", "pause=0.001")
    assert code == 1
    assert "out must not be in use; another training is writing to a.rasf" in err
    process.kill()
    process.communicate()
    code, _, err = command(*arguments, "--seed", "5")
    assert code == 1
    assert "a.rasf.checkpoint is the checkpoint of another training: environment, seed differ" in err
    assert "--overwrite" in err
    assert command(*arguments, "--seed", "5", "--overwrite")[0] == 0
    assert files_in(here) == {"a.rasf", "a.log.jsonl"}


def test_a_full_disk_ends_the_log_and_not_the_training(learned, command, caplog):
    assert command(*TRAIN, "--out", "coin.rasf", "--log", "/dev/full")[0] == 0
    assert caplog.messages == ["/dev/full cannot be written: No space left on device; training continues"]
    for name, array in learned.sources.arrays().items():
        np.testing.assert_array_equal(load("coin.rasf").sources.arrays()[name], array)


def test_a_library_that_cannot_be_saved_is_saved_elsewhere(command, here, monkeypatch):
    save = rasf.PolicyLibrary.save

    def full(library, path):
        if Path(path).name == "a.rasf" and Path(path).parent == Path():
            raise OSError(28, "cannot be written: No space left on device", str(path))
        save(library, path)

    monkeypatch.setattr(rasf.PolicyLibrary, "save", full)
    code, _, err = command(*TRAIN, "--out", "a.rasf")
    assert code == 1
    assert "a.rasf: cannot be written: No space left on device; the library was saved as " in err
    elsewhere = Path("".join(err.split()).partition("savedas")[2])
    assert len(load(elsewhere).policies) == 4
    shutil.rmtree(elsewhere.parent)


# --- elsewhere


def test_nothing_but_sweeps_needs_posix(here):
    """Windows has no fcntl; only what the engines of sweeps do may ask for it."""
    modules = ("rasf_lab.demo", "rasf_lab.paper.reproduce", "rasf_explorer.app", "rasf_lab.sweep.store")
    code = f"""
import sys
sys.modules["fcntl"] = None
import {", ".join(modules)}
from rasf.__main__ import main
for arguments in (
    ["demo", "--help"],
    ["explore", "--help"],
    ["sweep", "--help"],
    ["train", "coin:Coin-v0", "--w", "1,0", "--steps-per-task", "50", "--out", "a.rasf"],
    ["evaluate", "a.rasf", "--env", "coin:Coin-v0", "--w", "1,0", "--episodes", "2"],
):
    sys.argv = ["rasf", *arguments]
    try:
        main()
    except SystemExit as left:
        assert not left.code, arguments
    else:
        raise AssertionError(arguments)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=here)
    assert done.returncode == 0, done.stderr


# --- from a log


@pytest.fixture
def coin_log(here):
    with rasf.Recorder(Coin(), here / "log") as env:
        env.reset(seed=0)
        for step in range(300):
            if any(env.step(step % 2)[2:4]):
                env.reset()
    return "log"


def test_a_library_is_learned_from_a_log(coin_log, command, here):
    given = ("--from", coin_log, "--w", "1,-1", "--risk", "neutral", "--risk", "mean-variance:-4", "--gamma", ".9")
    code, out, err = command("train", *given, "--set", "least_tries=2", "--out", "a.rasf")
    assert (code, err) == (0, "")
    library = load("a.rasf")
    assert library.agent == "rasf-model"
    assert "note: the log has 300 steps" in out
    assert "wrote a.rasf, 2 policies of rasf-model" in out
    assert f"policy 0: {library.history['value'][0]:.4g} [" in out
    code, out, _ = command("evaluate", "a.rasf")
    assert code == 0
    assert "from the log log" in out
    assert "'predicted': the policy's risk measure" in out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--from", "none", "--w", "1,-1"), "none does not exist"),
        (("--from", "log", "--w", "1"), "tasks must be weights of shape (n, 2)"),
        (("--from", "log", "--w", "1,-1", "--num-envs", 2, "--support", "0,1"), "num-envs, support cannot be given"),
        (("--from", "log", "--w", "1,-1", "--set", "tasks=3"), "tasks is not a setting, or has its own"),
        (("--from", "log"), "tasks must be given"),
        (("FrozenLake-v1", "--from", "log", "--w", "1,-1"), "reward is one number"),
        (("resource-gathering-v0", "--from", "log", "--w", "1,-1"), "the log is of another environment"),
    ],
)
def test_what_a_log_cannot_do_is_said_in_a_sentence(coin_log, command, given, said):
    code, _, err = command("train", *given, "--out", "a.rasf")
    assert code != 0
    assert said in err
    assert len(err.strip().splitlines()) == 1
