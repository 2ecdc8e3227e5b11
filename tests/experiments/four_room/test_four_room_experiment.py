import numpy as np
import pytest

from rasf import statistics
from rasf.experiments.common import results
from rasf.experiments.four_room import claims as four_room_findings
from rasf.experiments.four_room import experiment as four_room
from rasf.experiments.four_room import figures as four_room_figures
from rasf.experiments.four_room import runs as four_room_runs
from rasf.experiments.four_room.measures import dangerous_objects, novel_outcome, trap_cells

TINY = four_room.Preset(seeds=2, tasks=2, steps=300, tuning_seeds=1, shared_seeds=2, rollouts=2)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four-room")
    ticks = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(four_room.PRESETS, "quick", TINY)
        result = four_room.run("quick", 0, lambda: ticks.append(1), folder)
        assert len(ticks) == four_room.total_ticks("quick")
    return folder, result


def test_every_claim_gets_a_verdict(small):
    assert set(small[1].findings) == {*(f"F{n}" for n in range(1, 11)), "T7"}


def test_an_interrupted_batch_goes_on_where_it_stopped(small, monkeypatch):
    folder, result = small
    runs = folder / "four-room-runs" / "runs"
    victim = sorted(runs.iterdir())[0]
    before = {path.name: path.stat().st_mtime_ns for path in runs.iterdir()}
    victim.write_bytes(victim.read_bytes()[:40])  # a file that was cut short counts as absent
    monkeypatch.setitem(four_room.PRESETS, "quick", TINY)
    again = four_room.run("quick", 0, lambda: None, folder)
    assert again.findings == result.findings
    after = {path.name: path.stat().st_mtime_ns for path in runs.iterdir()}
    assert [name for name in after if after[name] != before[name]] == [victim.name]


def test_algorithms_of_a_seed_meet_the_same_tasks_and_other_seeds_do_not():
    runs = [four_room_runs.Run(kind, 0.0, 5, 3, 10) for kind in ("sfql", "prql", "q-learning")]
    for run in runs[1:]:
        np.testing.assert_array_equal(four_room_runs.tasks_of(runs[0]), four_room_runs.tasks_of(run))
    other = four_room_runs.Run("sfql", 0.0, 6, 3, 10)
    assert not np.array_equal(four_room_runs.tasks_of(runs[0]), four_room_runs.tasks_of(other))


def test_runs_have_different_ids():
    size = four_room.PRESETS["paper"]
    runs = [run for group in four_room.successor_runs(size, 0).values() for run in group]
    runs += [run for group in four_room.tuning_runs(size).values() for run in group]
    assert len({four_room_runs.swept(run).id for run in runs}) == len(runs)


def test_figures_are_drawn_from_the_saved_file(small):
    folder, result = small
    saved = results.load(result.save(folder))
    panels = {"figure_2": 1, "figure_3": 3, "figure_8": 4, "figure_9": 54}
    for name, count in panels.items():
        assert len(getattr(four_room_figures, name)(saved).axes) == count


def made_up(**scale):
    """Thirty seeds of curves whose totals follow `scale`, failures falling or rising by `trend`."""
    rng = np.random.default_rng(0)
    curves = {}
    for name in [f"sfql {n} {r}" for n in ("independent", "shared") for r in four_room_findings.RISKS] + [
        f"prql {r}" for r in four_room_findings.RISKS
    ]:
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
    said = {claim: rule(curves, "independent")[0] for claim, rule in four_room_findings._RULES.items()}
    assert said == {
        "F1": "holds",
        "F2": "holds",
        "F3": "holds",
        "F4": "holds",
        "F5": "holds",
        "F6": "holds",
        "F7": "holds",
        "F8": "not decided",
        "F9": "not decided",
    }
    turned = {claim: rule(curves, "shared")[0] for claim, rule in four_room_findings._RULES.items()}
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


def test_statistics_against_closed_forms():
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    interval = statistics.mean_interval(values)
    assert interval.estimate == pytest.approx(values.mean())
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std(ddof=1) / 20, rel=0.05)
    assert statistics.standard_error(values) == pytest.approx(values.std(ddof=1) / 20)
    assert statistics.slopes(np.array([[1.0, 3.0, 5.0], [4.0, 4.0, 4.0]])) == pytest.approx([2.0, 0.0])
    ratio = statistics.ratio_interval(2 * values, values)
    assert (ratio.low, ratio.estimate, ratio.high) == pytest.approx((2.0, 2.0, 2.0))
