import numpy as np
import pytest

from rasf.experiments.common import results
from rasf.experiments.four_room import claims, figures, runs
from rasf.experiments.four_room.measures import RISKS, dangerous_objects, novel_outcome, trap_cells
from rasf.sweep.spec import read_spec

TINY = runs.Preset(seeds=2, tasks=2, steps=300, tuning_seeds=1, shared_seeds=2, rollouts=2)
UNTUNED = dict.fromkeys(RISKS, (0.3, 1.0))
GOOD = {"algorithm": "sfql", "risk": -1.0, "tasks": 2, "steps": 10}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four-room")
    ticks = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(runs.PRESETS, "quick", TINY)
        result = runs.run("quick", 0, lambda: ticks.append(1), folder)
        assert len(ticks) == runs.total_ticks("quick")
    return folder, result


def test_every_claim_gets_a_verdict(small):
    assert set(small[1].findings) == {*(f"F{n}" for n in range(1, 11)), "T7"}


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
    with pytest.raises(ValueError, match="seed must be below"):
        runs.run("quick", runs.TUNING_SEED, lambda: None, tmp_path)


def test_algorithms_of_a_seed_meet_the_same_tasks_and_other_seeds_do_not():
    first, *others = [runs.FourRoomRun(name, 0.0, 5, 3, 10) for name in ("sfql", "prql", "q-learning")]
    for run in others:
        np.testing.assert_array_equal(runs.tasks_of(first), runs.tasks_of(run))
    assert not np.array_equal(runs.tasks_of(first), runs.tasks_of(runs.FourRoomRun("sfql", 0.0, 6, 3, 10)))


def test_the_papers_runs_differ_and_are_those_that_tick():
    size = runs.PRESETS["paper"]
    groups = [*runs.tuning_runs(size).values(), *runs.reported_runs(size, 0, UNTUNED).values()]
    every = [runs.swept(run) for group in groups for run in group]
    assert len({run.id for run in every}) == len(every) == runs.total_ticks("paper") == 225 + 150 + 50 + 150 + 30
    for run in every:
        runs.FOUR_ROOM.check(run.parameters)


def test_a_sweep_file_names_the_runs_that_reproduce_runs(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text("""
sweep = "four-room"
kind = "four-room"
seeds = 30
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
    panels = {"figure_2_four_room": 1, "figure_3": 3, "figure_8": 4, "figure_9": 54}
    assert {name: len(draw(saved).axes) for name, draw in figures.FIGURES.items()} == panels


def made_up(**scale):
    """Thirty seeds of curves whose totals follow `scale`, failures falling or rising by `trend`."""
    rng = np.random.default_rng(0)
    names = [f"sfql {noise} {risk:g}" for noise in runs.NOISES for risk in RISKS] + [f"prql {risk:g}" for risk in RISKS]
    curves = {}
    for name in names:
        level, failures, trend = scale.get(name.replace(" ", "_").replace("-", "m"), (1.0, 10.0, 0.0))
        curves[name] = {
            "return": level + 0.01 * rng.normal(size=(30, 32)),
            "failures": failures + trend * np.arange(32) + 0.01 * rng.normal(size=(30, 32)),
        }
    return curves


def test_verdicts_follow_the_numbers():
    curves = made_up(
        sfql_independent_0=(4.0, 20.0, 0.1),
        sfql_independent_m2=(3.5, 8.0, -0.1),
        sfql_independent_m4=(3.0, 6.0, -0.1),
        prql_0=(2.0, 20.0, 0.0),
        prql_m2=(1.0, 12.0, 0.0),
        prql_m4=(0.5, 9.0, 0.0),
    )
    said = {claim: rule(curves, "independent").verdict for claim, rule in claims.RULES.items()}
    assert said == dict.fromkeys(("F1", "F2", "F3", "F4", "F5", "F6", "F7"), "holds") | {
        "F8": "not decided",
        "F9": "not decided",
    }
    turned = {claim: rule(curves, "shared").verdict for claim, rule in claims.RULES.items()}
    assert turned["F2"] == "does not hold"
    assert turned["F6"] == "does not hold"


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
