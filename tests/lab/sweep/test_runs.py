import pytest

from rasf_lab.sweep.runs import Run, experiment_of, experiments

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


def test_numbers_are_spelled_in_one_way_inside_lists_and_tables_too():
    one, other = ({"w": [[1.0, 0.5]], "t": {"x": 2}}, {"w": [[1, 0.5]], "t": {"x": 2.0}})
    assert Run("k:K", one, 0).id == Run("k:K", other, 0).id
    assert Run("k:K", one, 0).id != Run("k:K", one | {"w": [[1, 0.25]]}, 0).id


@pytest.mark.parametrize("name", experiments())
def test_a_short_name_leads_to_an_experiment_and_is_what_ids_hash(name):
    experiment = experiment_of(name)
    assert all(callable(getattr(experiment, part)) for part in ("check", "uses_gpus", "pack", "execute"))
    assert Run(name, {}, 0).describe()["kind"] == name


def test_a_run_in_words_is_short():
    assert str(Run("k:PROBE", {"w": [[1.0] * 100], "a": 1}, 3)) == f"PROBE a=1 w={str([[1.0] * 100])[:40]}.. seed=3"


def test_true_is_not_one():
    assert Run("k:K", {"x": True}, 0).id != Run("k:K", {"x": 1}, 0).id


def test_nan_cannot_be_a_parameter():
    with pytest.raises(ValueError, match="not JSON compliant"):
        Run("k:K", {"x": float("nan")}, 0)
