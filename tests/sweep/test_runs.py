import pytest

from rasf.sweep.runs import Run

PLAIN = Run("rasf.somewhere:KIND", {"risk": -1.5, "tasks": 128, "name": "a"}, 3)


def test_an_id_never_changes():
    # sha256 of {"kind": "rasf.somewhere:KIND", "parameters": {"name": "a", "risk": -1.5, "tasks": 128}, "seed": 3}
    assert PLAIN.id == "60b48cbeeaed673c"


@pytest.mark.parametrize(
    "same",
    [
        Run("rasf.somewhere:KIND", {"name": "a", "tasks": 128, "risk": -1.5}, 3),
        Run("rasf.somewhere:KIND", {"name": "a", "tasks": 128.0, "risk": -1.5}, 3),
        Run.from_description(PLAIN.describe()),
    ],
)
def test_order_and_spelling_of_numbers_do_not_matter(same):
    assert same.id == PLAIN.id


@pytest.mark.parametrize(
    "other",
    [
        Run("rasf.somewhere:OTHER", PLAIN.parameters, 3),
        Run("rasf.somewhere:KIND", PLAIN.parameters, 4),
        Run("rasf.somewhere:KIND", {**PLAIN.parameters, "risk": -1.0}, 3),
        Run("rasf.somewhere:KIND", {**PLAIN.parameters, "tasks": "128"}, 3),
        Run("rasf.somewhere:KIND", {"risk": -1.5, "tasks": 128}, 3),
    ],
)
def test_whatever_determines_the_numbers_is_in_the_id(other):
    assert other.id != PLAIN.id


def test_true_is_not_one():
    assert Run("k:K", {"x": True}, 0).id != Run("k:K", {"x": 1}, 0).id


def test_nan_cannot_be_a_parameter():
    with pytest.raises(ValueError, match="not JSON compliant"):
        Run("k:K", {"x": float("nan")}, 0)
