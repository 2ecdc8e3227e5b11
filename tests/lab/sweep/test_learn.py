"""The experiment `learn`: `rasf.learn` from a sweep file, its libraries and its table."""

import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow.parquet
import pytest
from sweep_help import InlineEngine, spec_of, stable_bytes, sweep

import coin_world
import rasf
from rasf.library import learn as learning
from rasf_lab.sweep import learn as learn_module
from rasf_lab.sweep.learn import LEARN
from rasf_lab.sweep.runs import Run
from rasf_lab.sweep.store import Store
from rasf_lab.sweep.table import table_of

ROOT = Path(__file__).parents[3]
HEAD = 'sweep = "coins"\nkind = "learn"\n'
COIN = (
    HEAD
    + '[parameters]\nenv = "Coin-v0"\ntasks = [[1, -1], [1, 0]]\nsteps_per_task = 300\nepsilon = 0.5\ngamma = 0.9\n'
)
EVALUATE = "[evaluate]\ntasks = [[1, -1], [2, 0], [0, 1]]\nepisodes = 10\n"
AVERSE = rasf.MeanVariance(-4.0)


def rows_of(store):
    return table_of(store).to_pylist()


def library_of(store, row):
    return rasf.load(store.folder / row["library"])


def same_policies(one, other):
    assert one.policies == other.policies
    for name, array in one.sources.arrays().items():
        np.testing.assert_array_equal(other.sources.arrays()[name], array)


@pytest.mark.slow
def test_the_example_of_the_docs(tmp_path):
    page = (ROOT / "docs" / "cli.md").read_text()
    spec, results = re.search(r"```toml\n(sweep = .*?)```(.*)", page, re.DOTALL).groups()
    (tmp_path / "rooms.toml").write_text(spec)
    done = subprocess.run(
        [sys.executable, "-m", "rasf", "sweep", "rooms.toml"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "4 of 4 runs are done; wrote rasf-sweeps/rooms/table.parquet" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rasf-sweeps", "rooms.toml"]

    rows = pyarrow.parquet.read_table(tmp_path / "rasf-sweeps" / "rooms" / "table.parquet").to_pylist()
    header, _, *shown = [line.strip("| ").split(" | ") for line in results.splitlines() if line.startswith("| ")][:6]
    assert [[f"{row[name]:g}" if name != "risk" else row[name] for name in header] for row in rows] == shown

    library = rasf.load(tmp_path / "rasf-sweeps" / "rooms" / rows[3]["library"])
    assert len(library.policies) == rows[3]["policies"] == 32
    assert {policy.risk for policy in library.policies} == {AVERSE}
    obs, _ = gymnasium.make("rasf/FourRoom-v0").reset(seed=0)
    assert library.act(obs, [1, -0.5, 0.5, 1, -2], AVERSE) in range(4)


def test_a_run_is_what_learn_and_compare_give(tmp_path):
    spec = spec_of(tmp_path, COIN + 'risk = ["neutral", "mean-variance:-4"]\n' + EVALUATE)
    store, progress = sweep(tmp_path / "s", spec)
    assert progress.done == 1, store.failures(spec.runs)
    (row,), (run,) = rows_of(store), spec.runs
    library = library_of(store, row)
    given = {"steps_per_task": 300, "epsilon": 0.5, "gamma": 0.9, "risk": [rasf.MeanVariance(0.0), AVERSE]}
    same_policies(rasf.learn("Coin-v0", tasks=[[1, -1], [1, 0]], **given), library)
    assert (row["agent"], row["policies"], row["seed"]) == ("rasfql", 4, 0)
    assert row["train_return"] == library.history["return"].mean()
    assert row["train_failures"] == library.history["failures"].mean()

    arrays = store.finished(run).arrays
    np.testing.assert_array_equal(arrays["evaluated_w"], [[1, -1], [2, 0], [0, 1]])
    np.testing.assert_array_equal(arrays["history_return"], library.history["return"])
    for name, risk in (("neutral", rasf.MeanVariance(0.0)), ("mean-variance:-4", AVERSE)):  # by default
        reports = [library.evaluate("Coin-v0", w, risk, 10) for w in ([1, -1], [2, 0], [0, 1])]
        for measure in reports[0].measures:
            expected = [list(report.measures[measure]) for report in reports]
            np.testing.assert_array_equal(arrays[f"{measure}@{name}"], expected)
            assert row[f"{measure}@{name}"] == np.mean([estimate for estimate, *_ in expected])


def test_without_evaluate_a_library_is_only_trained(tmp_path):
    store, _ = sweep(tmp_path / "s", spec_of(tmp_path, COIN))
    (row,) = rows_of(store)
    assert not [name for name in row if "@" in name or "evaluate" in name]
    assert library_of(store, row).provenance["complete"]


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tmp_path):
    text = COIN.replace("tasks = [[1, -1], [1, 0]]", "tasks = 3") + EVALUATE
    spec = spec_of(tmp_path, text.replace('kind = "learn"\n', 'kind = "learn"\nseeds = 2\n'))
    first, _ = sweep(tmp_path / "a", spec)
    sweep(tmp_path / "b", spec, limit=1)  # interrupted, and resumed
    second, progress = sweep(tmp_path / "b", spec)
    assert (progress.done, progress.fresh) == (2, 1)
    assert stable_bytes(first.folder) == stable_bytes(second.folder)
    (one, other), (again, _) = rows_of(first), rows_of(second)
    same_policies(library_of(first, one), library_of(second, again))
    assert library_of(first, one).policies != library_of(first, other).policies


def test_changing_only_what_is_evaluated_does_not_train_again(tmp_path, monkeypatch):
    before, _ = sweep(tmp_path / "s", spec_of(tmp_path, COIN + EVALUATE))
    (old,) = rows_of(before)
    monkeypatch.setattr(learning, "learn", lambda *_, **__: pytest.fail("trained"))
    spec = spec_of(tmp_path, COIN + EVALUATE.replace("10", "12"))
    store, progress = sweep(tmp_path / "s", spec)
    assert progress.done == 1, store.failures(spec.runs)
    (new,) = rows_of(store)
    assert new["library"] == old["library"]
    assert new["id"] != old["id"]


def test_a_damaged_library_is_trained_again(tmp_path):
    store, _ = sweep(tmp_path / "s", spec_of(tmp_path, COIN + EVALUATE))
    (old,) = rows_of(store)
    path = store.folder / old["library"]
    path.write_bytes(path.read_bytes()[:-1])
    for run in (store.folder / "runs").iterdir():
        run.unlink()
    store, _ = sweep(tmp_path / "s", spec_of(tmp_path, COIN + EVALUATE))
    (new,) = rows_of(store)
    assert {name: value for name, value in new.items() if "@" in name} == {n: v for n, v in old.items() if "@" in n}
    assert len(library_of(store, new).policies) == 2


def test_an_environment_of_ones_own_tasks_from_a_file_and_arguments(tmp_path, monkeypatch):
    (tmp_path / "own_coin.py").write_text(Path(coin_world.__file__).read_text().replace("Coin-v0", "Own/Coin-v0"))
    (tmp_path / "w.csv").write_text("1,-1\n0,1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = spec_of(
        tmp_path,
        HEAD
        + '[parameters]\nenv = "own_coin:Own/Coin-v0"\ntasks = "w.csv"\nsteps_per_task = 50\n'
        + '[evaluate]\nepisodes = 4\nrisk = "neutral"\n[env_kwargs]\nstakes = 2.0\n',
    )
    assert spec.runs[0].parameters["tasks"] == [[1.0, -1.0], [0.0, 1.0]]  # the content determines the run, not the name
    store, _ = sweep(tmp_path / "s", spec)
    (row,) = rows_of(store)
    assert (row["env"], row["env_kwargs"]) == ("own_coin:Own/Coin-v0", '{"stakes": 2.0}')
    library = library_of(store, row)
    assert (library.environment.id, library.environment.kwargs) == ("Own/Coin-v0", {"stakes": 2.0})
    np.testing.assert_array_equal(store.finished(spec.runs[0]).arrays["evaluated_w"], [[1, -1], [0, 1]])


def test_networks_are_learned_too(tmp_path):
    text = COIN.replace("gamma = 0.9", 'gamma = 0.5\nagent = "rasfc51"\nwidths = [4]\natoms = 3\nnum_envs = 2')
    store, progress = sweep(tmp_path / "s", spec_of(tmp_path, text.replace("300", "40") + EVALUATE))
    assert progress.done == 1, json.loads(next((store.folder / "failed").iterdir()).read_text())["details"]
    (row,) = rows_of(store)
    assert row["widths"] == "[4]"
    assert library_of(store, row).agent == "rasfc51"


def test_only_named_agents_that_learn_networks_use_gpus():
    runs = {name: Run("learn", {"agent": name}, 0) for name in ("auto", "rasfql", "rasfc51")}
    assert not LEARN.uses_gpus([runs["auto"], runs["rasfql"], Run("learn", {}, 0)])
    assert LEARN.uses_gpus(list(runs.values()))


def test_a_run_says_how_far_it_is(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(learn_module, "_REPORT_EVERY_S", -1.0)
    monkeypatch.setattr(learn_module, "report_progress", lambda scratch, share: told.append(share))
    sweep(tmp_path / "s", spec_of(tmp_path, COIN.replace("300", "1000") + 'risk = ["neutral", "mean-variance:-4"]\n'))
    assert told == [share / 4 for share in range(1, 5)]  # two tasks, each led by two risks for 500 steps


def test_a_bad_file_is_refused_with_the_line(subtests, tmp_path):
    for text, line, what in [
        (HEAD + "[parameters]\ntasks = 3", 1, "env is missing"),
        (HEAD + '[parameters]\nenv = "Coin-v0"', 1, "tasks is missing"),
        (COIN.replace('"Coin-v0"', '"Coin-v77"'), 4, "env 'Coin-v77' cannot be used"),
        (COIN.replace('"Coin-v0"', '"CartPole-v1"'), 4, "env 'CartPole-v1' cannot be used"),
        (COIN.replace('"Coin-v0"', '"no_such_module:Coin-v0"'), 4, "env 'no_such_module:Coin-v0' cannot be made"),
        (COIN.replace('"Coin-v0"', "3"), 4, "env must be text"),
        (COIN + "[env_kwargs]\ncolour = 1", 4, "env 'Coin-v0' cannot be used"),
        (COIN.replace("[[1, -1], [1, 0]]", "[[1, -1, 0]]"), 5, "tasks must be weights of shape (n, 2)"),
        (COIN.replace("[[1, -1], [1, 0]]", "0"), 5, "tasks must be a whole number"),
        (COIN.replace("[[1, -1], [1, 0]]", "true"), 5, "tasks must"),
        (COIN.replace("[[1, -1], [1, 0]]", '"no.txt"'), 5, "tasks must"),
        (COIN.replace("300", "0"), 6, "steps_per_task must"),
        (COIN.replace("0.5", "1.5"), 7, "epsilon must"),
        (COIN.replace("gamma = 0.9", "gamma = 1.5"), 8, "gamma must"),
        (COIN.replace("gamma = 0.9", "gamma = inf"), 8, "gamma must be finite"),
        (COIN + "patience = 1", 9, "patience is unknown; known are env, tasks, agent,"),
        (COIN + "widths = [8]", 9, "widths is unknown"),  # of networks, not of tables
        (COIN + 'agent = "genius"', 9, "agent must be auto"),
        (COIN + 'agent = "prql"', 9, "agent must be auto"),  # which makes no library
        (COIN + 'risk = "brave"', 9, "risk must be written as"),
        (COIN + 'risk = "cvar:0.1"', 9, "risk must be MeanVariance"),
        (COIN + '[grid]\nagent = ["rasfql", "sfql"]\nrisk = ["mean-variance:-4"]', 10, "agent 'sfql' is risk-neutral"),
        (COIN + 'risk = ["neutral", "neutral"]', 9, "risk must name each risk once"),
        (COIN + 'agent = "rasfc51"\nsupport = [[0, 1]]', 10, "support must"),
        (COIN + "epsilons = [0.1]", 9, "epsilons must be a number, a truth value or text"),
        (COIN + EVALUATE + "colour = 1", 12, "evaluate.colour is unknown; known are tasks, risk, episodes"),
        (COIN + EVALUATE.replace("10", "1"), 11, "evaluate.episodes must be a whole number of at least 2"),
        (COIN + EVALUATE.replace("[0, 1]]", "[0]]"), 10, "evaluate.tasks must"),
        (COIN + EVALUATE.replace("[[1, -1], [2, 0], [0, 1]]", "5"), 10, "evaluate.tasks must"),
        (COIN + EVALUATE + 'risk = "entropic:-1"', 12, "evaluate.risk must be a risk that rasfql can act for"),
        (COIN + 'agent = "sfql"\n' + EVALUATE + 'risk = "cvar:0.1"', 13, "evaluate.risk must be a risk that sfql can"),
        (COIN + EVALUATE + "seed = -1", 12, "evaluate.seed must"),
        (COIN + "evaluate = 3", 9, "evaluate must be a table"),
        (COIN + "evaluate = {episodes = 3}\n" + EVALUATE, 10, "evaluate is given twice"),
        (
            HEAD + "[evaluate]\nepisodes = nan\n[parameters]\n" + COIN.partition("[parameters]\n")[2],
            3,
            "evaluate must be",
        ),
    ]:
        with subtests.test(text=text, line=line, what=what):
            with pytest.raises(ValueError, match=re.escape(what)) as refused:
                spec_of(tmp_path, text)
            assert str(refused.value).startswith(f"{tmp_path / 'spec.toml'}, line {line}: ")
            assert "\n" not in str(refused.value)


def test_a_run_that_cannot_be_fails_at_once_with_its_reason(tmp_path):
    spec = spec_of(tmp_path, COIN + "num_envs = 2")  # a table learns from one
    store, progress = sweep(tmp_path / "s", spec, InlineEngine(tmp_path / "s"))
    assert progress.failed == 1
    assert "num_envs must be 1" in Store(store.folder).failures(spec.runs)[spec.runs[0].id]
