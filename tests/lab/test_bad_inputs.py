"""The classes of `lab/robustness/bad_inputs.py`: what counts as a refusal in one sentence, and what as internals."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import rasf

SCRIPT = Path(__file__).parents[2] / "lab" / "robustness" / "bad_inputs.py"


@pytest.fixture(scope="module")
def outcome_of():
    spec = importlib.util.spec_from_file_location("bad_inputs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["bad_inputs"] = module
    spec.loader.exec_module(module)
    yield module.outcome_of
    del sys.modules["bad_inputs"]


def test_what_happens_is_classified(outcome_of, tmp_path):
    def raises(error):
        raise error

    for call, must, kind in [
        (lambda: rasf.CVaR(2.0), "refuse", "refused"),
        (lambda: rasf.CVaR(2.0), "serve", "silently wrong"),
        (lambda: rasf.load(tmp_path / "none.rasf"), "refuse", "refused"),
        (lambda: rasf.CVaR(0.1), "refuse", "silently wrong"),
        (lambda: rasf.CVaR(0.1), "either", "served"),
        (lambda: False, "serve", "silently wrong"),
        (lambda: np.asarray("x", float), "refuse", "internals"),  # numpy's sentence, not ours
        (lambda: raises(ValueError("two\nlines")), "refuse", "internals"),
        (lambda: raises(KeyError("x")), "refuse", "internals"),
        (lambda: raises(MemoryError), "either", "internals"),
        (lambda: raises(SystemExit(1)), "refuse", "refused"),
    ]:
        assert outcome_of(call, must).kind == kind, call
