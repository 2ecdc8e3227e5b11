"""`rasf train` and `rasf evaluate`, as a user meets them: files, words, exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rasf
from rasf.cli.main import main
from rasf.library import learn as learning
from rasf.library.file import load
from rasf.library.progress import TrainingProgress
from rasf.library.training_log import TrainingLog

# Action 0 earns (1, 0) surely, action 1 a fair coin: (3, 0), or (0, 1) and a failure. One step an episode.
COIN = """
import time
import gymnasium as gym
import numpy as np
from gymnasium import spaces

class Coin(gym.Env):
    metadata = {"render_modes": []}

    def __init__(self, pause=0.0, stakes=1.0, mark="", breaks=0):
        self.observation_space, self.action_space = spaces.Discrete(2), spaces.Discrete(2)
        self.reward_space = spaces.Box(np.zeros(2, np.float32), np.full(2, 3.0 * stakes, np.float32))
        self.pause, self.stakes, self.mark, self.breaks, self.steps = pause, stakes, mark, breaks, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {"failure": False}

    def step(self, action):
        self.steps += 1
        if self.steps == self.breaks:
            raise RuntimeError("the coin is lost")
        if self.steps == 5 and self.mark:
            open(self.mark, "w").close()
        time.sleep(self.pause)
        failed = bool(action == 1 and self.np_random.random() < 0.5)
        phi = np.array([0.0, 1.0] if failed else [1.0 + 2.0 * action, 0.0], np.float32) * self.stakes
        return 1, phi, True, False, {"failure": failed}

if "Coin-v0" not in gym.registry:
    gym.register("Coin-v0", entry_point=Coin, disable_env_checker=True)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder with the module `coin`, to be in."""
    (tmp_path / "coin.py").write_text(COIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def command(here, monkeypatch, capsys):
    """Runs rasf in this process: exit code, standard output, standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["rasf", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code or 0, said.out, said.err

    return run


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """What TRAIN asks for, learned without the command line."""
    exec(COIN, {"__name__": "coin"})
    return rasf.learn(
        "Coin-v0",
        tasks=[[1, -1], [1, 0]],
        risk=[rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)],
        steps_per_task=600,
        gamma=0.9,
        epsilon=0.5,
    )


@pytest.fixture
def trained(learned, here):
    """The same from a file."""
    learned.save("coin.rasf")
    return load("coin.rasf")


TRAIN = ("train", "coin:Coin-v0", "--w", "1,-1", "--w", "1,0", "--risk", "neutral", "--risk", "mean-variance:-4",
         "--steps-per-task", "600", "--gamma", ".9", "--set", "epsilon=.5")  # fmt: skip


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def files_in(folder):
    return {path.name for path in folder.iterdir()} - {"coin.py", "__pycache__"}


# --- training


def test_train_saves_what_learn_gives_and_logs_every_watch(learned, command, here):
    code, *said = command(*TRAIN, "--out", "coin.rasf")
    assert code == 0, said
    trained = load("coin.rasf")
    assert trained.policies == learned.policies
    for name, array in learned.sources.arrays().items():
        np.testing.assert_array_equal(trained.sources.arrays()[name], array)
    lines = lines_of(here / "coin.log.jsonl")
    assert [(line["policy"], line["step"]) for line in lines] == [(k, step) for k in range(4) for step in (500, 600)]
    for line in lines:
        policy = trained.policies[line["policy"]]
        assert (tuple(line["w"]), line["risk"]) == (policy.w, policy.risk)
        assert line["loss"] is line["clipped"] is None
    ends = lines[1::2]
    np.testing.assert_array_equal([line["return"] for line in ends], trained.history["return"])
    np.testing.assert_array_equal([line["failures"] for line in ends], trained.history["failures"])
    assert [line["seconds"] for line in lines] == sorted(line["seconds"] for line in lines)


def test_train_says_what_it_does_and_shows_the_rate(command):
    code, out, err = command("train", "coin:Coin-v0", "--tasks", 3, "--steps-per-task", 600, "--out", "a.rasf")
    assert code == 0
    assert "Coin-v0: 3 policies, 600 steps each" in out
    assert "note: agent rasfql was chosen because it has at most 2 observations" in out
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


def test_arguments_of_the_environment_are_passed_kept_and_changed(command, here):
    made = command(
        "train", "coin:Coin-v0", "--env-arg", "stakes=2", "--w", "1,0", "--steps-per-task", 50, "--out", "a.rasf"
    )
    assert made[0] == 0, made
    assert load("a.rasf").environment["kwargs"] == {"stakes": 2}
    for more, sure in (((), 2.0), (("--env-arg", "stakes=5"), 5.0)):
        asked = ("evaluate", "a.rasf", "--w", "1,-9", "--risk", "mean-variance:-4", "--episodes", 4, "--json", "-")
        found = json.loads(command(*asked, *more)[1])["comparisons"][0]["risks"]["mean-variance:-4.0"]
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
        "rasf: out must be a new file, and coin.rasf exists; replace it with --overwrite, or go on from it with "
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
    (line,) = lines_of(here / "own.jsonl")
    assert line["step"] == 80
    assert line["loss"] > 0
    assert line["clipped"] == 0.0
    events = EventAccumulator(str(here / "board" / "policy_000")).Reload()
    for name in ("return", "failures", "loss", "clipped", "steps_per_second"):
        (scalar,) = events.Scalars(name)
        assert scalar.step == 80
        assert scalar.value == pytest.approx(line[name], rel=1e-6)


# --- refusals


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("coin:Coin-v0", "--w", "1,0"), "out must say where to save"),
        (("coin:Coin-v0", "--out", "a.rasf"), "tasks must be given"),
        (("--w", "1,0", "--out", "a.rasf"), "env must be given"),
        (("coin:Coin-v0", "--w", "1,0", "--tasks", "3", "--out", "a.rasf"), "only one of tasks, tasks-file, w"),
        (("coin:Coin-v0", "--w", "1,0,0", "--out", "a.rasf"), "(n, 2)"),
        (("coin:Coin-v0", "--w", "1,0", "--w", "1", "--out", "a.rasf"), "as many each time"),
        (("coin:Coin-v0", "--w", "1,nan", "--out", "a.rasf"), "w must be numbers"),
        (("coin:Coin-v0", "--w", "one,two", "--out", "a.rasf"), "w must be numbers"),
        (("coin:Coin-v0", "--tasks", "0", "--out", "a.rasf"), "tasks must be a whole number from 1 on, got 0"),
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
            "epsilon must be a finite number",
        ),
        (("coin:Coin-v0", "--tasks", "1", "--set", "epsilon=2", "--out", "a.rasf"), "epsilon must be in [0, 1], got 2"),
        (("coin:Coin-v0", "--tasks", "1", "--set", "epsilon", "--out", "a.rasf"), "set must be written as name=value"),
        (("coin:Coin-v0", "--tasks", "1", "--set", "patience=1", "--out", "a.rasf"), "settings must be among"),
        (("coin:Coin-v0", "--tasks", "1", "--set", "callback=1", "--out", "a.rasf"), "set must name a setting"),
        (("coin:Coin-v0", "--tasks", "1", "--support", "1", "--out", "a.rasf"), "support must be low and high"),
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
        (("coin:Coin-v0", "--tasks-file", "coin.py", "--out", "a.rasf"), "must end in .csv, .json, .npy"),
        (("coin:Coin-v0", "--tasks-file", "no.csv", "--out", "a.rasf"), "no.csv: No such file"),
    ],
)
def test_train_refuses_in_one_sentence_and_leaves_nothing(arguments, words, command, here):
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
        ("tasks = '3'", "c.toml: tasks must be a whole number from 1 on, got '3'"),
        ("tasks = true", "tasks must be a whole number"),
        ("w = [[1, 'a']]", "w must be numbers"),
        ("w = 3", "w must be numbers"),
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
    assert err.startswith(f"rasf: tasks-file {name} ")
    assert err.count("\n") == 1


def test_a_pickled_file_of_tasks_is_refused(command, here):
    np.save(here / "w.npy", np.array([[1, None]], dtype=object), allow_pickle=True)
    code, _, err = command("train", "coin:Coin-v0", "--tasks-file", "w.npy", "--out", "a.rasf")
    assert code == 1
    assert "cannot be read as numbers" in err


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
    assert "rasf: RuntimeError: the coin is lost; RASF_TRACEBACK=1 shows where" in err
    assert "Traceback" not in err
    assert files_in(here) == {"a.log.jsonl"}
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
        arguments += ["--env-arg", f"pause={pause}", "--env-arg", "mark=stepping", *more]
        whole = [sys.executable, "-c", "from rasf.cli.main import main; main()", *arguments]
        begun.append(subprocess.Popen(whole, cwd=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.communicate()


def wait_for(process, ready):
    until = time.monotonic() + 300  # it may have to compile first
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_ctrl_c_saves_a_usable_library(begin, here):
    process = begin(pause=0.0002)
    log = here / "a.log.jsonl"
    wait_for(process, lambda: log.exists() and log.stat().st_size > 0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "stopping soon" in err
    assert "what was learned so far is saved and can be used" in out
    library = load(here / "a.rasf")
    assert len(library.policies) == 1
    assert library.provenance["complete"] is False
    assert library.act(0, [1.0, 0.0], rasf.MeanVariance(0.0)) in (0, 1)
    step = lines_of(log)[-1]["step"]
    assert 0 < step < 100_000
    assert f"stopped at policy 1 of 2, step {step:,} of 100,000" in out


@pytest.mark.parametrize("old", [{}, {"a.rasf": "old library", "a.log.jsonl": "old log"}])
def test_ctrl_c_twice_leaves_at_once_saves_nothing_and_keeps_what_was_there(old, begin, here):
    for name, content in old.items():
        (here / name).write_text(content)
    process = begin(0.5, "--overwrite")  # training looks up in minutes only
    wait_for(process, (here / "stepping").exists)
    process.send_signal(signal.SIGINT)
    assert "stopping soon" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert files_in(here) == {"a.log.jsonl", "stepping", *old}
    assert all((here / name).read_text() == content for name, content in old.items())


def test_ctrl_c_twice_while_a_library_is_saved_leaves_no_half_of_it(trained, command, here, monkeypatch):
    fsync = os.fsync

    def written(*_):
        monkeypatch.setattr(os, "fsync", fsync)  # the log is put back without us
        signal.raise_signal(signal.SIGINT)
        assert [path for path in here.iterdir() if path.name.startswith(".coin.rasf")]
        signal.raise_signal(signal.SIGINT)

    before = (here / "coin.rasf").read_bytes()
    (here / "coin.log.jsonl").write_text("old")
    monkeypatch.setattr(os, "fsync", written)
    assert command(*TRAIN, "--out", "coin.rasf", "--overwrite")[0] == 130
    assert files_in(here) == {"coin.rasf", "coin.log.jsonl"}
    assert (here / "coin.rasf").read_bytes() == before
    assert (here / "coin.log.jsonl").read_text() == "old"


# --- evaluating


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
        for measure in ("return", "return variance", "return CVaR", "failures"):
            assert f"{report.measures[measure].estimate:.3g}" in out
    assert "w = 1, -1" in out
    assert "mean-variance:-4 against neutral, episode by episode: return" in out
    assert "wrote returns.png" in out
    assert (here / "returns.png").read_bytes().startswith(b"\x89PNG")


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


def test_discount_aware_shows_discounted_returns(trained, command):
    _, out, _ = command(*ASK, "--discount-aware", "--json", "-")
    asked = json.loads(out)
    assert asked["discount_aware"] is True
    expected = trained.compare("Coin-v0", [1.0, -1.0], [rasf.MeanVariance(-4.0)], 40, discount_aware=True)
    measures = asked["comparisons"][0]["risks"]["mean-variance:-4.0"]["measures"]
    assert measures["discounted"] == list(expected.reports["mean-variance:-4.0"].measures["discounted"])
    _, out, _ = command(*ASK, "--discount-aware")
    assert "discounted" in out.split("episode by episode")[0]  # a heading, which a narrow terminal breaks


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
    assert "seed 0, 600 steps a task" in out
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
        ({"id": "my/Coin-v0"}, "my/Coin-v0: rasf evaluate a.rasf --env MODULE:my/Coin-v0 --w 1,0.5\n", "as MODULE:my/"),
        ({"id": None}, "here or in Python: rasf evaluate a.rasf --env MODULE:ID --w 1,0.5\n", "as ID or MODULE:ID"),
        ({"phi": "my_phi"}, "only from Python, because its features come from a function, my_phi", "only from Python"),
    ],
)  # fmt: skip
def test_the_way_to_evaluate_is_told_where_the_environment_is_not_known(environment, words, refused, trained, command):
    trained.environment |= environment
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
    trained.environment["id"] = "antigravity:Coin-v0"
    trained.save("strange.rasf")
    asked = ("evaluate", "strange.rasf", "--w", "1,0"), ("train", "--grow", "strange.rasf", "--w", "1,0", "--out", "a")
    for arguments in asked:
        code, _, err = command(*arguments)
        assert code == 1
        assert "must not name a module" in err
        assert "antigravity" not in sys.modules


def test_a_library_of_an_environment_without_id_asks_for_one(trained, command):
    trained.environment["id"] = None
    trained.save("strange.rasf")
    code, _, err = command("evaluate", "strange.rasf", "--w", "1,0")
    assert code == 1
    assert "env must be given" in err
    assert command("evaluate", "strange.rasf", "--env", "coin:Coin-v0", "--w", "1,0", "--episodes", 2)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("coin.rasf", "--w", "1,0,0"), "w must be 2 numbers, got 3"),
        (("coin.rasf", "--w", "1,0", "--risk", "brave"), "risk must be written as"),
        (("coin.rasf", "--w", "1,0", "--episodes", "1"), "episodes must be a whole number from 2 on, got 1"),
        (("coin.rasf", "--w", "1,0", "--env", "CartPole-v1"), "not a vector of features"),
        (("coin.rasf", "--w", "1,0", "--env", "resource-gathering-v0"), "that the library was trained with"),
        (("coin.rasf", "--w", "1,0", "--plot", "returns.pdf"), "plot must end in .png"),
        (("coin.rasf", "--w", "1,0", "--plot", "no/returns.png"), "plot must be in a folder that exists"),
        (("coin.rasf", "--plot", "returns.png"), "plot shows 1 to 12 weightings, got 0"),
        (("coin.rasf", "--w", "1,0", "--json", "no/found.json"), "json must be in a folder that exists"),
        (("no.rasf",), "no.rasf does not exist"),
        (("coin.py",), "coin.py"),
        ((), "file must be given"),
    ],
)
def test_evaluate_refuses_in_one_sentence(arguments, words, trained, command, here):
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


# --- parts


def test_a_line_of_the_log_holds_differences_to_the_line_before(tmp_path):
    times = iter([10.0, 12.0, 16.0, 17.0, 17.0])
    with TrainingLog(tmp_path / "log.jsonl", lambda: next(times)) as log:
        log.add(TrainingProgress(0, 100, 50.0, 1, {"loss": 0.5, "clipped_below": 0.25, "clipped_above": 0.125}))
        assert len(lines_of(tmp_path / "log.jsonl")) == 1  # written at once
        log.add(TrainingProgress(0, 300, 40.0, 2, {"loss": float("nan")}))
        log.add(TrainingProgress(1, 30, 6.0, 0))
        log.add(TrainingProgress(1, 30, 6.0, 0))
    names = ("policy", "step", "return", "reward_per_step", "loss", "clipped", "steps_per_second", "seconds")
    assert [tuple(line[name] for name in names) for line in lines_of(tmp_path / "log.jsonl")] == [
        (0, 100, 50.0, 0.5, 0.5, 0.375, 50.0, 2.0),
        (0, 300, 40.0, -0.05, None, None, 50.0, 6.0),
        (1, 30, 6.0, 0.2, None, None, 30.0, 7.0),
        (1, 30, 6.0, None, None, None, None, 7.0),
    ]


def test_the_figure_shows_every_episode_and_marks_mean_and_cvar(trained):
    from rasf.experiments.common import comparison_figure

    risks = [rasf.MeanVariance(0.0), rasf.MeanVariance(-4.0)]
    compared = [trained.compare("Coin-v0", w, risks, 30) for w in ([1.0, -1.0], [1.0, 0.0])]
    drawn = comparison_figure.draw(compared, False, "a test")
    assert len(drawn.axes) == 2
    for axes, each in zip(drawn.axes, compared, strict=True):
        marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() in ("o", "<")]
        expected = [report.measures[m].estimate for report in each.reports.values() for m in ("return", "return CVaR")]
        assert marks == expected
        for row, report in enumerate(each.reports.values()):
            bars = [bar for bar in axes.patches if bar.get_y() == 1 - row]
            values, counts = np.unique(report.returns, return_counts=True)
            np.testing.assert_allclose([bar.get_x() + bar.get_width() / 2 for bar in bars], values)
            np.testing.assert_allclose([bar.get_height() / bars[0].get_height() for bar in bars], counts / counts[0])
    with pytest.raises(ValueError, match="1 to 12 comparisons, got 13"):
        comparison_figure.draw(compared[:1] * 13, False, "a test")


def test_the_figure_bins_returns_that_all_differ():
    from rasf.experiments.common import comparison_figure
    from rasf.library.evaluation import Comparison, Report

    returns = np.arange(80.0)
    nothing, ones = np.zeros(80), np.ones(80, np.int64)
    parts = (returns, returns / 2, np.zeros((80, 1)), None, ones, nothing > 0, 0.0)
    report = Report(np.ones(1), rasf.MeanVariance(0.0), 0.9, *parts)
    for discounted, last in ((False, 79.0), (True, 39.5)):
        drawn = comparison_figure.draw([Comparison({"neutral": report})], discounted, "a test")
        heights, edges, base = drawn.axes[0].patches[0].get_data()
        assert (edges[0], edges[-1], base) == (0.0, last, 0)
        np.testing.assert_allclose(heights, heights[0])  # two in each of 40 bins
