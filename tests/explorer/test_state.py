import copy
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_scenes import ARM, LIBRARY, LIMITED, MAP

from rasf_explorer.scenes.scene import Ways, Weight
from rasf_explorer.state import State, default_state, from_query


def read(query, scene=MAP, view="here", seed=0):
    return from_query(dict(parse_qsl(query, keep_blank_values=True)), view, scene, seed)


def test_a_scene_is_met_with_its_own_defaults():
    assert default_state("here", MAP, 7) == State(
        "here", (0.5, -2.0), "mean-variance", -4.0, cell=0, seed=7, layer="drivers"
    )
    assert default_state("here", ARM) == State("here", (0.5, -2.0), "mean-variance", -4.0, layer="objective")
    assert default_state("here", LIBRARY) == State("here", (0.5, -2.0), "mean-variance", -4.0, layer="scores")


@settings(max_examples=200, deadline=None)
@given(
    good=st.floats(-1.0, 1.0),
    bad=st.floats(-4.0, 0.0),
    risk=st.one_of(
        st.tuples(st.just("mean-variance"), st.floats(-8.0, 2.0)), st.tuples(st.just("cvar"), st.floats(0.05, 1.0))
    ),
    cell=st.sampled_from([0, 2, 3, 4, 5]),
    context=st.integers(0, 1),
    seed=st.integers(0, 2**31),
    layer=st.sampled_from(["drivers", "visits", "trajectory"]),
    rollout=st.integers(0, 20),
    step=st.integers(0, 1000),
)
def test_every_state_of_a_map_comes_back_from_its_link(good, bad, risk, cell, context, seed, layer, rollout, step):
    state = State("here", (good, bad), *risk, cell, None, context, seed, layer, rollout, step)
    assert read(state.to_query()) == (state, [])


@given(x=st.floats(-1.0, 1.0), y=st.floats(-1.0, 1.0))
def test_the_tip_of_an_arm_comes_back(x, y):
    state = State("here", (0.5, -2.0), "mean-variance", 0.1, tip=(x, y), layer="plain")
    assert read(state.to_query(), ARM) == (state, [])


def test_the_link_is_readable():
    state = State("grid", (-1.0, 20.0), "entropic", -0.1, cell=20, layer="drivers")
    assert state.to_query() == "view=grid&w=-1.0,20.0&risk=entropic:-0.1&seed=0&cell=20&layer=drivers"
    assert state.rolled() == "view=grid&w=-1.0,20.0&risk=entropic:-0.1&seed=0"


def test_limits_and_static_risk_come_back():
    state = State("here", (0.5, -2.0), "cvar", 0.2, cell=0, layer="drivers", limit=0.05, static=True)
    assert "risk=cvar:0.2&limit=0.05&static=1&" in state.to_query()
    assert read(state.to_query(), LIMITED) == (state, [])
    assert "limit=0.05&static=1" in state.rolled()
    assert state.ways == Ways(0.05, True)


@pytest.mark.parametrize("query", ["limit=0.5", "limit=x", "limit=-1", "risk=cvar:0.2&static=2", "static=1"])
def test_limits_that_do_not_fit(query):
    state, (complaint,) = read(query, LIMITED)  # at the usual risk, mean-variance, nothing can be held fixed
    assert (state.limit, state.static) == (None, False)
    assert complaint.startswith(f"The link's {query.rpartition('&')[2].partition('=')[0]} must be ")


def test_simulated_steps_come_back():
    scene = copy.copy(ARM)
    scene.ahead = Weight("simulated steps", 0.0, 15.0, 1.0, 0.0)
    state = State("here", (0.5, -2.0), "mean-variance", 0.1, layer="objective", ahead=8)
    assert "ahead=8" in state.to_query()
    assert "ahead=8" in state.rolled()
    assert read(state.to_query(), scene) == (state, [])
    assert state.ways == Ways(ahead=8)
    for query in ("ahead=16", "ahead=-1", "ahead=x", "ahead=1.5"):
        found, (complaint,) = read(query, scene)
        assert found.ahead == 0
        assert complaint.startswith("The link's ahead must be a whole number from 0 to 15")
    _, (complaint,) = read("ahead=1", ARM)
    assert complaint.startswith("The link's ahead must be left out in this view")


def test_a_scene_without_limits_says_so():
    _, (complaint,) = read("limit=0.1")
    assert "must be left out in this view" in complaint


def test_what_does_not_fit_is_said_in_one_sentence_and_left_at_its_default(subtests):
    for query, name in [
        ("w=1", "w"),
        ("w=1,2,3", "w"),
        ("w=nan,0", "w"),
        ("w=0,-5", "w"),
        ("w=a,b", "w"),
        ("w=", "w"),
        ("risk=entropic:-1", "risk"),
        ("risk=mean-variance:-9", "risk"),
        ("risk=mean-variance:nan", "risk"),
        ("risk=mean-variance", "risk"),
        ("risk=__import__('os')", "risk"),
        ("cell=1", "cell"),  # a wall
        ("cell=6", "cell"),
        ("cell=-1", "cell"),
        ("cell=²", "cell"),
        ("cell=99999999999999999999", "cell"),
        ("context=2", "context"),
        ("seed=1.5", "seed"),
        ("layer=<script>", "layer"),
        ("rollout=x", "rollout"),
        ("step=-3", "step"),
    ]:
        with subtests.test(query=query, name=name):
            state, complaints = read(query)
            assert state == default_state("here", MAP)
            (complaint,) = complaints
            assert complaint.startswith(f"The link's {name} must be ")
            assert complaint.endswith("the default is shown instead.")
            assert "\n" not in complaint


def test_the_rest_of_a_bad_link_still_counts():
    state, complaints = read("w=0.25,-1&risk=cvar:7&cell=4")
    assert (state.w, state.family, state.level, state.cell) == ((0.25, -1.0), "mean-variance", -4.0, 4)
    assert len(complaints) == 1
    assert "cvar:alpha in [0.05, 1]" in complaints[0]


def test_a_long_wrong_text_is_cut():
    _, (complaint,) = read("layer=" + 10_000 * "x")
    assert len(complaint) < 250
