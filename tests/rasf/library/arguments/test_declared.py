"""The table of arguments against what takes them: `learn`, `learn_from`, the command line and sweeps."""

import re
from inspect import Parameter, getdoc, signature

import pytest

import rasf
from rasf.agents import AGENTS
from rasf.library.arguments.declared import CALIBRATION, EVALUATION, FLAG, LEARN, LOG, SWEEP, TRAINING, given_at
from rasf_lab.sweep.learn import LEARN as EXPERIMENT


def documented(function):
    """The paragraph of each argument in a docstring, in one line."""
    listed = re.search(r"\nArgs:\n(.*?)\n\n", getdoc(function), re.DOTALL)[1]
    parts = re.split(r"\n {4}\*{0,2}(\w+): ", "\n" + listed)
    return {name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize(("function", "where", "of_the_command"), [
    (rasf.learn, LEARN, set()), (rasf.learn_from, LOG, {"out", "overwrite"}),
])  # fmt: skip
def test_the_table_has_the_parameters_of_the_function_and_so_has_its_docstring(function, where, of_the_command):
    declared = {row.name for row in TRAINING if where in row.where} - of_the_command
    assert declared == set(signature(function).parameters) == set(documented(function))


def test_the_docstring_of_learn_begins_with_the_help_and_ends_with_the_default():
    told, parameters = documented(rasf.learn), signature(rasf.learn).parameters
    assert [*told] == [*parameters]
    for row in given_at(TRAINING, LEARN).values():
        assert told[row.name].startswith(row.help), row.name
        if row.default:
            assert told[row.name].endswith(f"Default: {row.default}."), row.name
        else:
            assert parameters[row.name].default is Parameter.empty, row.name


def test_the_default_steps_and_agents_are_those_of_the_table_of_agents():
    rows = given_at(TRAINING, LEARN)
    for name, agent in AGENTS.items():
        if agent.makes_library:
            assert name in rows["agent"].help
            assert f"{agent.steps_per_task:,} for" in rows["steps_per_task"].default


def test_flags_and_names_are_unambiguous():
    for table in (TRAINING, EVALUATION, CALIBRATION):
        for where in (LEARN, LOG, SWEEP):
            names = [row.name for row in table if where in row.where and not (where is LOG and row.flag == "set")]
            assert len({*names}) == len(names)
        flags = [row.flag for row in table if FLAG in row.where]
        assert len({*flags}) == len(flags)
        assert all(row.read is not None for row in table if row.where & (FLAG | SWEEP))


def test_lists_and_tables_of_a_sweep_are_those_that_their_readers_take():
    assert {*EXPERIMENT.structured} == {
        "tasks", "risk", "support", "signs", "once", "env_kwargs", "widths", "evaluate",
    }  # fmt: skip
