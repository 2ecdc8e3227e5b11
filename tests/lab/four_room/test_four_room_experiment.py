"""The four-room runs at toy size: what is run and kept, how PRQL is tuned, numbers made of it."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from rasf_lab.common import results
from rasf_lab.paper.four_room import figures, measures, prql, runs
from rasf_lab.paper.four_room.measures import CHOICES, dangerous_objects, novel_outcome, trap_cells
from rasf_lab.sweep.engines import machine
from rasf_lab.sweep.spec import read_spec
from rasf_lab.sweep.store import Store

TINY = runs.FourRoomSize(
    seeds=3, tasks=2, steps=300, tuning_seeds=1, shared_seeds=2, rollouts=2, model_seeds=2, optimum_tasks=0,
    library_seeds=1, library_rollouts=5,
)  # fmt: skip
UNTUNED = dict.fromkeys(runs.policy_reuse_settings(), (0.3, 1.0))
GOOD = {"algorithm": "sfql", "risk": -1.0, "tasks": 2, "steps": 10}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four-room")
    ticks = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(runs.PRESETS, "quick", TINY)
        patch.setattr(machine, "cores", lambda: 1)  # several processes would each compile
        result = runs.run("quick", 0, lambda: ticks.append(1), folder)
        assert len(ticks) == runs.total_ticks("quick")
    return folder, result


def test_every_claim_gets_a_verdict(small):
    findings = small[1].findings
    ours = {f"M{n}" for n in range(1, 10)}
    assert set(findings) == {*(f"F{n}" for n in range(1, 18)), "T7"} | ours
    assert {claim for claim, one in findings.items() if one.second_reading} == {
        "F5",
        "F7",
        "F8",
        "F10",
        "F11",
        "F12",
        "M8",
    }
    assert {claim for claim, one in findings.items() if one.third_reading} == {"F11"}
    assert {claim: findings[claim].seeds for claim in ("F1", "F17", "T7", "M1", "M8")} == {
        "F1": 3,
        "F17": 3,
        "T7": 3,
        "M1": 2,
        "M8": 1,
    }


def test_an_interrupted_batch_goes_on_where_it_stopped(small, monkeypatch):
    folder, result = small
    files = folder / "four-room-runs" / "runs"
    victim = sorted(files.iterdir())[0]
    before = {path.name: path.stat().st_mtime_ns for path in files.iterdir()}
    victim.write_bytes(victim.read_bytes()[:40])  # a file that was cut short counts as absent
    monkeypatch.setitem(runs.PRESETS, "quick", TINY)
    again = runs.run("quick", 0, lambda: None, folder)
    assert again.findings == result.findings
    after = {path.name: path.stat().st_mtime_ns for path in files.iterdir()}
    assert [name for name in after if after[name] != before[name]] == [victim.name]


def test_seeds_of_tuning_are_not_reported(tmp_path):
    with pytest.raises(ValueError, match="seed must be at most"):
        runs.run("quick", runs.TUNING_SEED, lambda: None, tmp_path)


def test_algorithms_of_a_seed_meet_the_same_tasks_and_other_seeds_do_not():
    first, *others = [runs.FourRoomRun(name, 0.0, 5, 3, 10) for name in ("sfql", "prql", "q-learning")]
    for run in others:
        np.testing.assert_array_equal(runs.tasks_of(first), runs.tasks_of(run))
    assert not np.array_equal(runs.tasks_of(first), runs.tasks_of(runs.FourRoomRun("sfql", 0.0, 6, 3, 10)))


def test_the_papers_runs_differ_and_are_those_that_tick():
    size = runs.PRESETS["paper"]
    tuning, reported = runs.tuning_runs(size), runs.reported_runs(size, 0, UNTUNED)
    counts = {"independent": 600, "shared": 50, "w-given": 600, "diagonal": 120}
    for name, count in counts.items():
        assert sum(len(group) for curve, group in reported.items() if curve.startswith(f"sfql {name} ")) == count
    # PRQL in three readings at five risks, but C's step says nothing at 0
    assert sum(len(group) for curve, group in reported.items() if curve.startswith("prql ")) == 14 * 120
    assert len(reported["q-learning"]) == 120
    assert sum(map(len, tuning.values())) == 14 * 9 * 30
    every = [runs.swept(run) for group in chain(tuning.values(), reported.values()) for run in group]
    ours = [len(reported[f"{name} {risk}"]) for name in ("rasf-model", "optimum") for risk in (0, -2)]
    assert ours == [30] * 4
    assert {run.tasks for run in reported["optimum 0"]} == {4}
    assert len({run.id for run in every}) == len(every) == runs.total_ticks("paper")
    assert len(every) == 3_780 + 1_370 + 1_680 + 120 + 301
    for run in every:
        runs.FOUR_ROOM.check(run.parameters)


# --- other readings


@pytest.mark.parametrize(
    ("curve", "like", "changes"),
    [
        ("sfql w-given -2", "sfql independent -2", {"learn_w": False, "rollouts": 0}),
        ("sfql w-given 0", "sfql independent 0", {"learn_w": False, "rollouts": 0}),
        ("sfql diagonal -2", "sfql independent -2", {"covariance": "diagonal", "rollouts": 0}),
        ("prql c-step-0.1 -4", "prql -4", {"rho": 0.2}),
        ("prql as-printed 0", "prql 0", {"as_printed": True}),
        ("prql as-printed -4", "prql -4", {"as_printed": True}),
    ],
)
def test_another_reading_is_the_same_runs_with_one_change(curve, like, changes):
    reported = runs.reported_runs(runs.PRESETS["paper"], 3, UNTUNED)
    assert reported[curve] == [replace(run, **changes) for run in reported[like]]
    assert [run.seed for run in reported[curve]] == list(range(3, 123))


def test_the_step_of_c_is_a_tenth():
    assert prql.Rule._field_defaults["alpha"] * runs.POLICY_REUSE["prql c-step-0.1"]["rho"] == pytest.approx(0.1)
    assert ("prql c-step-0.1", 0.0) not in runs.policy_reuse_settings()


def outcome(**given):
    run = runs.swept(runs.FourRoomRun(**({"seed": 0, "tasks": 6, "steps": 1_000, "eta": 0.3} | given)))
    (found,) = runs.FOUR_ROOM.execute([run], None)
    return found.arrays


@pytest.mark.parametrize(
    ("given", "change", "differs"),
    [
        ({"algorithm": "sfql", "risk": -2.0}, {"learn_w": False}, True),
        ({"algorithm": "sfql", "risk": -2.0}, {"covariance": "diagonal"}, True),
        ({"algorithm": "prql", "risk": -2.0}, {"rho": 0.2}, True),
        ({"algorithm": "prql", "risk": 0.0}, {"rho": 0.2}, False),  # which is why it is not run
        ({"algorithm": "prql", "risk": 0.0}, {"as_printed": True}, True),
    ],
)
def test_other_readings_come_to_other_numbers(given, change, differs):
    plain, other = outcome(**given), outcome(**given, **change)
    same = [np.array_equal(plain[name], other[name]) for name in ("return", "failures")]
    assert all(same) is not differs


def test_every_setting_is_tuned_by_itself_and_reported_with_its_own_best(small):
    folder, result = small
    searched, tuned = result.numbers["searched"], result.numbers["tuned"]
    names = {f"{name} {omega:g}": (name, omega) for name, omega in runs.policy_reuse_settings()}
    assert searched.keys() == tuned.keys() == names.keys()
    for name, search in searched.items():
        assert [(one["eta"], one["tau"]) for one in search] == [(e, t) for e in runs.ETAS for t in runs.TAUS]
        best = max(search, key=lambda one: one["return"])
        assert tuned[name] == {"eta": best["eta"], "tau": best["tau"]}
    assert len({tuple(one.values()) for one in tuned.values()}) > 1  # or the next would say little
    chosen = {names[name]: (one["eta"], one["tau"]) for name, one in tuned.items()}
    expected = chain(*runs.tuning_runs(TINY).values(), *runs.reported_runs(TINY, 0, chosen).values())
    there = {run.id for run in Store(folder / "four-room-runs").runs()}
    assert there == {runs.swept(run).id for run in expected}


def test_the_search_is_told_as_means_over_the_tuning_seeds():
    search = {(0.1, 1.0): np.array([1.0, 2.0]), (0.3, 10.0): np.array([-4.0, 3.0])}
    assert measures.search_summary(search) == [
        {"eta": 0.1, "tau": 1.0, "return": 1.5},
        {"eta": 0.3, "tau": 10.0, "return": -0.5},
    ]


def test_choices_tell_the_change_of_the_same_seeds(small):
    assert [row["to"] for row in small[1].numbers["choices"]] == [other for _, _, other in CHOICES]
    luck = np.array([9.0, 1.0, 5.0, 2.0])[:, None] * np.ones(3)
    curves = {name: {"return": luck, "failures": 2 * luck} for _, name, _ in CHOICES}
    curves |= {other: {"return": luck + 1, "failures": 2 * luck} for *_, other in CHOICES}
    curves["sfql shared -2"] = {"return": luck[:2] - 1, "failures": luck[:2]}  # of the first seeds only
    rows = {row["to"]: row for row in measures.choices(curves)}
    assert rows.keys() == {other for *_, other in CHOICES}
    row = rows["prql as-printed -2"]
    assert (row["of"], row["seeds"]) == ("prql -2", 4)
    assert (row["return"]["before"], row["return"]["after"]) == (12.75, 15.75)
    assert tuple(row["return"]["change"]) == (3.0, 3.0, 3.0)
    assert tuple(row["failures"]["change"]) == (0.0, 0.0, 0.0)
    fewer = rows["sfql shared -2"]
    assert (fewer["seeds"], fewer["return"]["before"], fewer["return"]["after"]) == (2, 15.0, 12.0)
    assert tuple(fewer["return"]["change"]) == (-3.0, -3.0, -3.0)
    assert (fewer["failures"]["before"], fewer["failures"]["after"]) == (30.0, 15.0)


def test_a_sweep_file_names_the_runs_that_reproduce_runs(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text("""
sweep = "four-room"
kind = "four-room"
seeds = 120
[parameters]
algorithm = "sfql"
tasks = 128
steps = 20_000
[grid]
risk = [-0.5, -1.0, -4]
""")
    reported = runs.reported_runs(runs.PRESETS["paper"], 0, UNTUNED)
    expected = [runs.swept(run) for risk in ("-0.5", "-1", "-4") for run in reported[f"sfql independent {risk}"]]
    assert [run.id for run in read_spec(path).runs] == [run.id for run in expected]
    assert expected[0].kind == "four-room"  # not where its code lies


def test_good_parameters_pass():
    runs.FOUR_ROOM.check(GOOD)
    assert not runs.FOUR_ROOM.uses_gpus([])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nope": 1}, "nope is unknown"),
        ({"algorithm": "dqn"}, "algorithm must"),
        ({"noise": "none"}, "noise must"),
        ({"tasks": 0}, "tasks must"),
        ({"steps": 2.5}, "steps must"),
        ({"risk": "high"}, "risk must"),
        ({"rho": "slow"}, "rho must"),
        ({"learn_w": "no"}, "learn_w must"),
        ({"covariance": "none"}, "covariance must"),
        ({"as_printed": 3}, "as_printed must"),
        ({"risk": None}, "risk is missing"),
    ],
)
def test_bad_parameters_are_refused(changes, words):
    parameters = {key: value for key, value in (GOOD | changes).items() if value is not None}
    with pytest.raises(ValueError, match=words):
        runs.FOUR_ROOM.check(parameters)


def test_figures_are_drawn_from_the_saved_file(small):
    folder, result = small
    saved = results.load(result.save(folder))
    panels = {"figure_2_four_room": 1, "figure_3": 3, "figure_8": 4, "figure_9": 54, "figure_model": 2}
    assert {name: len(draw(saved).axes) for name, draw in figures.FIGURES.items()} == panels


def test_outcomes_by_hand():
    features = np.zeros((1, 27, 2, 5))
    features[0, :, 0, 3] = 1.0  # one rollout reaches the goal, the other fails
    features[0, :, 1, 4] = 1.0
    outcome = novel_outcome(features)
    assert outcome["return"] == pytest.approx([-0.5])
    assert outcome["variance"] == pytest.approx([2.25])
    assert outcome["failures"] == pytest.approx([0.5])
    assert outcome["objective"] == pytest.approx([-5.0])


def test_dangerous_cells_of_the_map():
    assert trap_cells().sum() == 12
    # by hand: (0, 7), (5, 7), (5, 12) in the room of the goal, (7, 0), (7, 5), (12, 5) in the room of the start
    assert np.flatnonzero(dangerous_objects()).tolist() == [7, 72, 77, 91, 96, 161]
