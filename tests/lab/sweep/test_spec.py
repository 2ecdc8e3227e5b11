import re

import pytest
from sweep_help import HEAD, spec_of

from rasf_lab.sweep.runs import RunLimits
from rasf_lab.sweep.spec import read_spec


def test_grid_list_and_seeds_are_crossed(tmp_path):
    spec = spec_of(
        tmp_path,
        HEAD
        + """seeds = [5, 7]
[parameters]
sleep = 0
[grid]
scale = [1.0, 2.0]
[[list]]
fail = "raise"
[[list]]
fail = "hang"
unless = "x"
[limits]
seconds = 60
""",
    )
    assert spec.name == "try"
    assert spec.limits == RunLimits(60, None)
    chosen = [({"fail": "raise"}), ({"fail": "hang", "unless": "x"})]
    assert [(run.parameters, run.seed) for run in spec.runs] == [
        ({"sleep": 0, "scale": scale, **one}, seed) for one in chosen for scale in (1.0, 2.0) for seed in (5, 7)
    ]
    assert {run.kind for run in spec.runs} == {"sweep_experiments:PROBE"}


def test_seeds_count_from_zero(tmp_path):
    assert [run.seed for run in spec_of(tmp_path, HEAD + "seeds = 3").runs] == [0, 1, 2]


def test_a_kind_of_ones_own_is_named_by_its_module(tmp_path):
    spec = spec_of(tmp_path, 'sweep = "try"\nkind = "sweep_experiments:LANES"\n')
    assert spec.runs[0].kind == "sweep_experiments:LANES"


def test_a_kind_whose_module_breaks_is_refused_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "broken_experiment.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"line 2: kind .*ZeroDivisionError"):
        spec_of(tmp_path, 'sweep = "try"\nkind = "broken_experiment:MINE"\n')


def test_a_bad_file_is_refused_with_the_line(subtests, tmp_path):
    for text, line, what in [
        ('sweep = "a"\nkind = "sweep_experiments:PROBE"\ncolour = 1', 3, "unknown key 'colour'"),
        ('sweep = "a"\nkind = "sweep_experiments:PROBE"\n\n[colours]\nx = 1', 4, "unknown key 'colours'"),
        ('kind = "sweep_experiments:PROBE"\nsweep = "../up"', 2, "sweep must be a name"),
        ('kind = "sweep_experiments:PROBE"\nsweep = 3', 2, "sweep must be a name"),
        ('kind = "sweep_experiments:PROBE"', 1, "sweep must be a name"),
        (
            'sweep = "a"\nkind = "prob"',
            2,
            "kind must be one of learn, four-room, reacher, suite, module:attribute",
        ),
        ('sweep = "a"\nkind = ["learn"]', 2, "kind must be one of"),
        ('sweep = "a"\nkind = "no.such:KIND"', 2, "kind 'no.such:KIND' cannot be imported: ModuleNotFoundError"),
        (
            'sweep = "a"\nkind = "sweep_experiments:NONE"',
            2,
            "cannot be imported: AttributeError",
        ),
        ('sweep = "a"\nkind = "math:pi"', 2, "an object that has check, pack, execute, uses_gpus, got 3.14"),
        ('sweep = "a"\nkind = "sweep_experiments:Probe"', 2, "got <class 'sweep_experiments.Probe'>"),
        (HEAD + "seeds = 0", 3, "seeds must be a whole number of at least 1"),
        (HEAD + "seeds = -2", 3, "seeds must be"),
        (HEAD + "seeds = 1.5", 3, "seeds must be"),
        (HEAD + "seeds = true", 3, "seeds must be"),
        (HEAD + "seeds = []", 3, "seeds must be"),
        (HEAD + "seeds = [1, 2, 1]", 3, "seeds must be"),
        (HEAD + "seeds = [1, 9223372036854775808]", 3, "seeds must be"),
        (HEAD + "seeds = 1000000000", 3, "more than 100000 runs"),
        (HEAD + "[grid]", 3, "[grid] is empty"),
        (HEAD + "[grid]\nsleep = [1]\nscale = []", 5, "scale must be a list that is not empty"),
        (HEAD + "[grid]\nscale = 3", 4, "scale must be a list"),
        (HEAD + "[grid]\nscale = [1.0, nan]", 4, "scale must be finite, got nan"),
        (HEAD + "[grid]\nscale = [1.0, [2.0]]", 4, "scale must be a number, a truth value or text"),
        (HEAD + "[grid]\nscale = [1.0, 2.0, 1]", 4, "scale has 1.0 twice"),
        (HEAD + f"[grid]\nscale = {list(range(1000))}\nsleep = {list(range(1000))}", 3, "more than 100000 runs"),
        (HEAD + "grid = 3", 3, "[grid] must be a table"),
        (HEAD + "grid = {sleep = [1], scale = []}", 3, "scale must be a list"),
        (HEAD + "grid.sleep = [1]\ngrid.scale = []", 4, "scale must be a list"),
        (HEAD + "[parameters]\nscale = inf", 4, "scale must be finite, got inf"),
        (HEAD + "[parameters]\nscale = 2024-01-01", 4, "scale must be a number, a truth value or text"),
        (HEAD + "[parameters]\nscale = 9223372036854775808", 4, "scale must be at most"),
        (HEAD + "[parameters]\nscale = {a = 1}", 4, "scale must be a number, a truth value or text"),
        (HEAD + "[grid]\nscale = [1]\n[parameters]\nscale = 1", 4, "scale is given twice"),
        (HEAD + "[parameters]\nscale = 1\n[[list]]\nsleep = 1\n[[list]]\nscale = 2", 8, "scale is given twice"),
        (HEAD + "list = []", 3, "[[list]] must be tables"),
        (HEAD + "list = [1]", 3, "[[list]] must be tables"),
        (HEAD + "[[list]]\nscale = 1\n[[list]]\nscale = 1.0", 5, "are declared twice"),
        (HEAD + "[[list]]\nscale = 1\n[[list]]\nscale = nan", 6, "scale must be finite"),
        (HEAD + "[limits]\nhours = 3", 4, "unknown limit 'hours'; known are seconds, memory_gb"),
        (HEAD + "[limits]\nseconds = 0", 4, "seconds must be a positive number"),
        (HEAD + "[limits]\nseconds = nan", 4, "seconds must be a positive number"),
        (HEAD + "[limits]\nseconds = inf", 4, "seconds must be a positive number"),
        (HEAD + "[limits]\nseconds = [1]", 4, "seconds must be a positive number"),
        (HEAD + "[limits]\nseconds = 3\nmemory_gb = true", 5, "memory_gb must be a positive number"),
        (HEAD + "[limits]\nmemory_gb = 8.5", 4, "memory_gb must be at most 8.0 on this machine, got 8.5"),
        (HEAD + "[parameters]\nsleep = 0\ncolour = 1", 5, "colour is unknown"),
        (HEAD + "[grid]\nsleep = [0]\nscale = [1, 13]", 5, "scale must not be 13"),
        (HEAD + "[[list]]\nscale = 1\n[[list]]\nscale = 13", 6, "scale must not be 13"),
    ]:
        with subtests.test(text=text, line=line, what=what):
            path = tmp_path / "bad.toml"
            path.write_text(text)
            with pytest.raises(ValueError, match=re.escape(what)) as refused:
                read_spec(path, memory_gb=8.0)
            assert str(refused.value).startswith(f"{path}, line {line}: ")


def test_a_file_that_is_not_toml_is_refused_with_the_line(tmp_path):
    with pytest.raises(ValueError, match=r"TOML .*line 2"):
        spec_of(tmp_path, 'sweep = "a"\nkind probe')


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "s.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not a TOML file"):
        read_spec(tmp_path / "s.toml")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path):  # errors that the command line says in one sentence
        with pytest.raises(OSError, match=str(path)):
            read_spec(path)
