"""Risks as text: what is written is read back, and everything else is refused in one sentence."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_mdps import examples
from rasf import CVaR, Elliptical, Entropic, MeanVariance, MonotoneMeanVariance, NestedEntropic
from rasf.risk import SkewNormal
from rasf.risk.names import is_neutral, risk_from_text, risk_to_text


@pytest.mark.parametrize(("text", "risk"), [
    ("neutral", MeanVariance(0.0)),
    (" neutral ", MeanVariance(0.0)),
    ("mean-variance:-4", MeanVariance(-4.0)),
    ("mean-variance:0", MeanVariance(0.0)),
    ("monotone:-4", MonotoneMeanVariance(-4.0)),
    ("monotone:0", MonotoneMeanVariance(0.0)),
    ("entropic:-1", Entropic(-1.0)),
    ("entropic:2.5e-1", Entropic(0.25)),
    ("nested-entropic:-1", NestedEntropic(-1.0)),
    ("cvar:0.1", CVaR(0.1)),
    ("cvar:1", CVaR(1.0)),
])  # fmt: skip
def test_a_text_names_a_risk(text, risk):
    found = risk_from_text(text)
    assert found == risk
    assert type(found) is type(risk)


@given(st.sampled_from([MeanVariance, Entropic, NestedEntropic]), st.floats(-1e6, 1e6).filter(bool))
@examples(200)
def test_a_risk_with_a_beta_comes_back_bit_for_bit(kind, beta):
    again = risk_from_text(risk_to_text(kind(beta)))
    assert type(again) is kind
    assert again.beta == beta


@given(st.floats(-1e6, 0.0, exclude_max=True))
@examples(50)
def test_monotone_mean_variance_comes_back_bit_for_bit(beta):
    assert risk_from_text(risk_to_text(MonotoneMeanVariance(beta))) == MonotoneMeanVariance(beta)


@given(st.floats(1e-6, 1.0))
@examples(50)
def test_cvar_comes_back_bit_for_bit(alpha):
    assert risk_from_text(risk_to_text(CVaR(alpha))) == CVaR(alpha)


def test_numbers_of_numpy_and_jax_are_written_as_numbers():
    assert risk_to_text(MeanVariance(np.float64(-4.0))) == "mean-variance:-4.0"
    assert risk_to_text(Entropic(jnp.float32(-0.5))) == "entropic:-0.5"
    assert risk_to_text(MeanVariance(-4)) == "mean-variance:-4.0"
    assert risk_to_text(CVaR(np.float32(0.5))) == "cvar:0.5"


@pytest.mark.parametrize(("risk", "neutral"), [
    (MeanVariance(0.0), True),
    (MeanVariance(-0.0), True),
    (MeanVariance(np.float32(0)), True),
    (MonotoneMeanVariance(0.0), True),
    (MonotoneMeanVariance(-1e-3), False),
    (Entropic(0), True),
    (CVaR(1.0), True),
    (MeanVariance(-1e-300), False),
    (Entropic(1.0), False),
    (CVaR(0.999), False),
    (Elliptical(-1.0), False),
    (NestedEntropic(0.0), False),  # it cannot score a law at all
])  # fmt: skip
def test_neutral_is_the_mean(risk, neutral):
    assert is_neutral(risk) is neutral
    assert (risk_to_text(risk) == "neutral") is (neutral and not isinstance(risk, CVaR))


@pytest.mark.parametrize("risk", [Elliptical(-1.0), SkewNormal(-1.0)])
def test_a_risk_without_a_short_name_is_written_as_python_does(risk):
    assert risk_to_text(risk) == repr(risk)
    with pytest.raises(ValueError, match="risk must"):
        risk_from_text(repr(risk))


def test_what_names_no_risk_is_refused(subtests):
    for text, said in [
        ("", "risk must be written as"),
        (
            "averse",
            "risk must be written as neutral, monotone:-4, mean-variance:-4, entropic:-1 or cvar:0.1, got 'averse'",
        ),
        ("neutral:0", "risk must be written as"),
        ("mean-variance", "risk must be written as"),
        ("mean-variance:", "risk must be written as"),
        ("Mean-Variance:-4", "risk must be written as"),
        (":-4", "risk must be written as"),
        (-4.0, "risk must be written as"),
        (None, "risk must be written as"),
        ("mean-variance:much", "risk 'mean-variance:much' cannot be made"),
        ("mean-variance:nan", "risk 'mean-variance:nan' cannot be made: beta must be finite"),
        ("entropic:-inf", "risk 'entropic:-inf' cannot be made: beta must be finite"),
        ("monotone:1", "risk 'monotone:1' cannot be made: beta of MonotoneMeanVariance must be at most 0, got 1.0"),
        ("cvar:0", r"risk 'cvar:0' cannot be made: alpha must be in \(0, 1\]"),
        ("cvar:1.5", "risk 'cvar:1.5' cannot be made"),
        ("cvar:0.1:0.2", "cannot be made"),
    ]:
        with subtests.test(text=text, said=said):
            with pytest.raises(ValueError, match=said) as refused:
                risk_from_text(text)
            assert "\n" not in str(refused.value)
