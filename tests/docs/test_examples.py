"""Every example runs as a script with --quick, and prints its table and what it shows."""

import importlib.util
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ACTING = {
    "resource_gathering": ["neutral", "averse"],
    "deep_sea_treasure": ["neutral", "averse"],
    "four_room": ["neutral", "averse"],
    "logs": ["neutral, log", "averse, log", "neutral, lived", "averse, lived"],
    "minecart": ["random", "neutral", "averse"],
    "lunar_lander": ["random", "neutral", "averse"],
}
DEEP = ("minecart", "lunar_lander")
NUMBER = r"-?\d[\d.e+-]*"
INTERVAL = rf"{NUMBER} \[{NUMBER}, {NUMBER}\]"


def example(name, monkeypatch):
    """The module of an example, which imports the file beside it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested():
    assert set(ACTING) | {"showing"} == {path.stem for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DEEP)) for name in ACTING])
def test_quick_run_prints_a_row_for_each_weighting_and_way_to_act(name, monkeypatch):
    module = example(name, monkeypatch)
    text = module.main(quick=True, seed=3)
    header, _, *rows = text.split("\n\n")[0].splitlines()
    assert header.split() == ["weighting", "acting", "return", "discounted", "variance", "failures", "CVaR"]
    assert len(rows) == len(module.NEW) * len(ACTING[name])
    for row, (w, acting) in zip(rows, [(w, a) for w in module.NEW for a in ACTING[name]], strict=True):
        assert re.match(rf"{re.escape(str(w))} +{acting} ", row)
        # return, discounted, variance, CVaR; failures where they are named
        assert len(re.findall(INTERVAL, row)) == (4 if name in ("deep_sea_treasure", "four_room") else 5)
    assert not {str(w) for w in module.NEW} & {str(w) for w in module.TRAINED}, "never trained on"
    assert text.split("\n\n")[1].rstrip().endswith(".")
