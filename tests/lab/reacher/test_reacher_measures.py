"""Runs gathered by label and seed, normalised; and what is made of them for tables and figures."""

from itertools import chain

import numpy as np
import pytest
from reacher_made_up import SEEDS, made_up, measured_of, without_seeds

from rasf_lab.common.claims import FIRST, SECOND
from rasf_lab.paper.reacher.measures import CHOICES, Measures, choices, map_arrays, measures, shown_maps, title
from rasf_lab.paper.reacher.runs import batches
from rasf_lab.paper.reacher.training import TARGETS, ReacherRun

# --- labels


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "sfdqn -3"),
        ({"bootstrap": "gpi"}, "sfdqn gpi -3"),
        ({"target_networks": False}, "sfdqn no-target -3"),
        ({"separate_heads": True}, "sfdqn separate-heads -3"),
        ({"adam_epsilon": 1e-7}, "sfdqn adam-1e-07 -3"),
        ({"late_tip": True}, "sfdqn late-tip -3"),
        ({"risky_last": True}, "sfdqn risky-last -3"),
        ({"atoms": 201}, "sfdqn 201-atoms -3"),
        ({"map_points": 61}, "sfdqn fine-maps -3"),
        ({"map_points": 5, "atoms": 11, "width": 4, "library": True}, "sfdqn -3"),  # smaller is no other reading
        ({"bootstrap": "gpi", "late_tip": True}, "sfdqn gpi late-tip -3"),
        ({"agent": "rac51", "target": 7}, "rac51 alone -3"),
    ],
)
def test_labels_tell_variants_apart(changes, name):
    assert ReacherRun(**({"agent": "sfdqn", "beta": -3.0, "seed": 0} | changes)).label == name


def test_titles_are_the_papers_whatever_the_variant():
    titles = {
        "rasfc51 -3": "RaSFC51 (3)",
        "rasfc51 0": "SFC51",
        "rac51 -4": "RaC51 (4)",
        "rac51 0": "C51",
        "sfdqn 0": "SFDQN",
        "rasfc51 fine-maps -3": "RaSFC51 (3)",
        "rasfc51 fine-maps 0": "SFC51",
        "rasfc51 gpi late-tip -3": "RaSFC51 (3)",
        "sfdqn no-target 0": "SFDQN",
    }
    assert {name: title(name) for name in titles} == titles


def test_labels_that_are_spoken_of_are_labels_of_the_papers_runs():
    there = {run.label for run in chain(*batches("paper", 0).values())}
    spoken = set(chain(*((ours, other) for _, ours, other in CHOICES)))
    rules = [rule for claim, rule in chain(FIRST.items(), SECOND.items()) if claim.startswith("R")]
    assert len(rules) > 20
    for rule in rules:
        spoken |= set(rule.labels(agent="rasfc51", when="final"))
    assert spoken <= there


# --- gathering


def arrays(level, tasks=12):
    return {"return": np.full((3, tasks), level), "failures": np.zeros((3, tasks)), "seconds": np.zeros(2)}


def normaliser():
    """C51 alone on every target: from 1 to 11; it trains for longer."""
    alone = {"return": np.array([[1.0], [9.0]]), "final_return": np.array([11.0])}
    return {ReacherRun("rac51", 0.0, s, target=target, evaluate_every=40): alone for s in (0, 1) for target in TARGETS}


def test_runs_are_joined_by_seed_and_normalised():
    like = {"agent": "rasfc51", "beta": -3.0, "evaluate_every": 10}
    found = {ReacherRun(seed=seed, **like): arrays(level) for seed, level in ((7, 6.0), (5, 6.0), (1, 3.5))}
    found[ReacherRun(seed=7, **like)]["tips"] = np.zeros((12, 3, 10, 2))  # of some seeds only
    found[ReacherRun(seed=5, **like)]["map_variance_pairs"] = np.zeros(1)  # newer runs measure more
    measured = measures(normaliser() | found)
    assert list(measured.arrays) == ["rasfc51 -3"]
    np.testing.assert_array_equal(measured.arrays["rasfc51 -3"]["seed"], [1, 5, 7])
    np.testing.assert_allclose(measured.test_return("rasfc51 -3")[:, 0], [0.25, 0.5, 0.5])
    np.testing.assert_array_equal(measured.steps, [0, 10, 20])
    assert measured.arrays["rasfc51 -3"].keys() == {"return", "failures", "seconds", "seed"}
    assert measured.alone_averse is None


def test_maps_have_the_size_of_their_label():
    sizes = {"rasfc51 -3": 31, "rasfc51 0": 7, "rasfc51 fine-maps -3": 61}
    found = {
        ReacherRun("rasfc51", float(name.split()[-1]), 0, map_points=points): arrays(1.0)
        for name, points in sizes.items()
    }
    measured = measures(normaliser() | found)
    assert {name: measured.points(name) for name in sizes} == sizes
    assert measured_of({"rasfc51 -3": {}}).points("rasfc51 -3") == 31  # the paper's, if nothing is said


def test_risk_aware_runs_alone_are_kept_by_target_and_do_not_normalise():
    averse = {
        ReacherRun("rac51", -3.0, seed, target=target): {
            "return": np.full((3, 1), 99.0),
            "final_return": np.array([1.0 + target + 10 * seed]),
        }
        for seed in (0, 1)
        for target in reversed(TARGETS)
    }
    measured = measures(normaliser() | averse | {ReacherRun("rasfc51", 0.0, 0): arrays(1.0)})
    expected = np.stack([np.arange(12) / 10, 1 + np.arange(12) / 10])
    np.testing.assert_allclose(measured.alone_averse, expected)
    np.testing.assert_array_equal((measured.begin, measured.end), ([1.0] * 12, [11.0] * 12))
    assert list(measured.arrays) == ["rasfc51 0"]


@pytest.mark.parametrize(("evaluations", "last"), [(10, [8, 9]), (11, [9, 10]), (3, [2])])
def test_late_is_the_last_fifth_of_training(evaluations, last):
    curve = np.random.default_rng(0).random((SEEDS, evaluations, 12))
    measured = measured_of({"rasfc51 0": {"return": curve, "failures": 2 * curve}})
    np.testing.assert_allclose(measured.late_test("rasfc51 0", "return"), curve[:, last, 4:].mean(axis=(1, 2)))
    expected = 2 * curve[:, last, 4:].sum(axis=2).mean(axis=1)
    np.testing.assert_allclose(measured.late_test("rasfc51 0", "failures"), expected)


# --- what is made of them


def test_choices_tell_the_change_of_the_seeds_that_both_have():
    measured = made_up({"sfdqn 0": 0.5}, {"sfdqn 0": 2.0}, noise=0.0)
    luck = np.array([0.0, 9.0, 2.0, 7.0, 1.0, 8.0])[:, None]
    ours = measured.arrays["sfdqn 0"]
    ours["final_return"] = ours["final_return"] + luck
    changed = {
        "final_return": ours["final_return"] + np.repeat([0.2, 0.1], [4, 8]),
        "final_failures": ours["final_failures"] - 1,
    }
    measured.arrays["sfdqn gpi 0"] = ours | changed
    (row,) = choices(without_seeds(measured, "sfdqn gpi 0", [1]))  # no runs of any other choice are there
    assert (row["of"], row["to"], row["seeds"]) == ("sfdqn 0", "sfdqn gpi 0", SEEDS - 1)
    level = 0.5 + 18 / 5  # the mean luck of the others
    for what, before, change in (("train_return", level, 0.2), ("test_return", level, 0.1), ("test_failures", 16, -8)):
        assert (row[what]["before"], row[what]["after"]) == pytest.approx((before, before + change))
        assert tuple(row[what]["change"]) == pytest.approx((change, change, change))


FINE = {"rasfc51 fine-maps 0", "rasfc51 fine-maps -3", "sfdqn-residual fine-maps -3"}
PLAIN = {"rasfc51 0", "rasfc51 -3", "rasfc51 -4", "sfdqn-residual -3", "sfdqn-residual 0", "rac51 0"}


@pytest.mark.parametrize(
    ("there", "shown"),
    [
        (PLAIN, ["rasfc51 0", "rasfc51 -3", "sfdqn-residual -3"]),
        (PLAIN | FINE, ["rasfc51 fine-maps 0", "rasfc51 fine-maps -3", "sfdqn-residual fine-maps -3"]),
        ({"rasfc51 fine-maps -3", "rasfc51 0"}, ["rasfc51 0", "rasfc51 fine-maps -3"]),
        ({"rac51 0", "rasfc51 gpi -3"}, []),
    ],
)
def test_the_finer_maps_are_shown_where_there_are_such(there, shown):
    assert shown_maps(measured_of({name: {} for name in there})) == shown


def test_maps_that_are_drawn_are_kept_as_means_over_seeds():
    rng = np.random.default_rng(0)
    maps = {f"map_{key}": rng.random((SEEDS, 4, 4, 5)) for key in ("objective", "objective_as_printed")}
    maps |= {f"map_{key}": rng.random((SEEDS, 4, 4, 5)) for key in ("variance", "truth", "variance_pairs", "negative")}
    older = {key: maps[key] for key in ("map_objective", "map_variance", "map_truth")}
    found = map_arrays(
        measured_of({"rasfc51 -3": maps, "rasfc51 0": older, "sfdqn-residual -3": maps, "rasfc51 gpi -3": maps})
    )
    objectives, variances = ("objective", "objective_as_printed"), ("variance", "truth", "variance_pairs")
    drawn = {f"rasfc51 -3/{key}" for key in (*objectives, *variances)} | {"rasfc51 0/objective"}
    assert found.keys() == drawn | {f"sfdqn-residual -3/{key}" for key in variances}
    for name, values in found.items():
        assert values.dtype == np.float16
        np.testing.assert_allclose(values, maps[f"map_{name.partition('/')[2]}"].mean(axis=0), rtol=1e-3)


def test_measures_of_common_seeds_keep_what_is_said_beside():
    measured = Measures(
        {"rasfc51 0": {"seed": np.arange(3)}},
        np.zeros(12),
        np.ones(12),
        np.arange(2.0),
        {"rasfc51 0": 61},
        np.ones((2, 12)),
    )
    both = measured.of_common_seeds("rasfc51 0")
    assert both.points("rasfc51 0") == 61
    assert both.alone_averse is measured.alone_averse
