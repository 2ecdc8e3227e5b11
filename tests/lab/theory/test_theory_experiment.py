import numpy as np
import pytest

from rasf_lab.common import results
from rasf_lab.paper.theory import figures, measures, runs


def no_tick():
    pass


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    ticks = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "INSTANCES", {"quick": 12})
        measured = runs.run("quick", 5, lambda: ticks.append(1), tmp_path_factory.mktemp("theory"))
        assert len(ticks) == runs.total_ticks("quick")
    return measured


def test_every_theory_claim_has_a_verdict(result):
    assert {key: finding.verdict for key, finding in result.findings.items()} == dict.fromkeys(
        ("T1", "T2", "T3", "T4", "T5", "T6"), "holds"
    )


def test_the_printed_form_of_theorem_3_is_caught_failing():
    found = measures.backup_errors(30, 0, discounted=False, tick=no_tick)["readings"]
    assert found[measures.PROOF]["broken"] == 0
    assert found[measures.UNIFORM]["broken"] == 0
    assert found[measures.TRUE]["broken"] > 0
    assert found[measures.TRUE]["largest_error_over_eps"] > 100


@pytest.mark.parametrize("features", [2, 13])
def test_theorem_3_fails_in_the_induced_infinity_norm_after_one_step(features):
    found = measures.one_step(features)
    assert found["features"] == features
    assert found["error_over_eps"] == pytest.approx({"spectral": 1, "Frobenius": 1, "induced infinity": features})


def test_theorem_3_fails_in_the_induced_infinity_norm_on_random_mdps():
    found = measures.backup_errors(30, 0, discounted=False, tick=no_tick)
    infinity = found[measures.INFINITY]
    assert 0 < infinity["broken"] < found["checks"]
    assert 3 < infinity["largest_error_over_eps"] <= 5  # (2 d + 1) eps, with two features


def test_t4_tells_the_norm_and_keeps_its_verdict(result):
    finding = result.findings["T4"]
    assert finding.verdict == "holds"
    assert "13 eps" in finding.measured.split("infinity norm")[1]


def test_scoring_with_z_1_for_ever_is_caught_failing():
    found = measures.forgetful_scoring(40, 0, tick=no_tick)
    assert found["worse_than_best_source"] > 0
    assert found["worst"]["loss"] > 1e-3


def test_a_broken_bound_is_counted(monkeypatch):
    """GPI that picks the worst action must break Theorem 1: the check can fail."""
    from rasf.planning import certificate
    from rasf.transfer import gpi

    monkeypatch.setattr(certificate, "gpi", lambda scores: gpi(-scores))
    found = measures.bounds(30, 0, optimal_sources=False, discounted=False, tick=no_tick)
    assert found["violations"] > 0


def test_figure_7_has_the_table_s_values_at_variance_1():
    curves = measures.figure_7(points=191)  # steps of 0.01
    at_one = {law: float(curves[law][100]) for law in ("normal", "laplace", "logistic")}
    assert curves["variance"][100] == pytest.approx(1.0)
    y = np.sqrt(3.0)
    assert at_one == pytest.approx({"normal": 0.5, "laplace": np.log(2), "logistic": np.log(y / np.sin(y))})


def test_shipped_result_holds_what_a_small_rerun_holds(result):
    ours = results.shipped()["theory"]
    assert ours.preset == "paper"
    assert {key: finding.verdict for key, finding in ours.findings.items()} == {
        key: finding.verdict for key, finding in result.findings.items()
    }


def test_figure_is_drawn_from_the_saved_file(result, tmp_path):
    drawn = figures.draw(results.load(result.save(tmp_path)))
    assert len(drawn.axes[0].lines) == 4
