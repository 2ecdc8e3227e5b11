"""The generic view: what it says, what it refuses, and that evaluation is the library's own."""

from dataclasses import replace

import numpy as np
import pytest
from small_reacher import random_reacher

import rasf
from rasf import CVaR, MeanVariance
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.reacher import Reacher
from rasf.library.policy_library import PolicyLibrary
from rasf_explorer.scenes.four_room import FourRoomScene
from rasf_explorer.scenes.library import LibraryScene
from rasf_explorer.scenes.reacher import ReacherScene
from rasf_explorer.scenes.scene import Stopped, Ways
from rasf_explorer.views import scene_of, shipped_reacher

MAP = {"layout": "S.1T\n.X..\n1.TG", "trap_probability": 0.3, "step_limit": 30}
W = np.array([0.5, 1.0, -1.0])
RISKS = {"plain": MeanVariance(0.0), "careful": MeanVariance(-4.0)}


@pytest.fixture(scope="module")
def library():
    return rasf.learn(
        "rasf/FourRoom-v0", tasks=[[0.5, 1.0, -2.0], [-3.0, 1.0, -2.0]], risk=list(RISKS.values()), agent="rasfql",
        steps_per_task=400, env_kwargs=MAP,
    )  # fmt: skip


def changed(library, **environment):
    return PolicyLibrary(
        library.sources, replace(library.environment, **environment), library.policies, library.agents,
        library.history, library.notes, library.provenance,
    )  # fmt: skip


def test_words_and_sliders(library):
    scene = LibraryScene(library)
    assert scene.title == "rasf/FourRoom-v0"
    assert [(one.low, one.high, one.default) for one in scene.weights] == [(-3, 1, 0.5), (-1, 1, 1), (-2, 1, -2)]
    assert all(0.01 <= one.step <= 0.1 for one in scene.weights)
    assert scene.policies[1] == "w -3, 1, -2; neutral"
    assert scene.policies[2] == "w 0.5, 1, -2; mean-variance -4"
    assert [family.name for family in scene.families] == ["monotone", "mean-variance", "cvar"]
    facts = dict(scene.facts())
    assert facts["agent"] == "rasfql"
    assert facts["states visited"] == f"{library.sources.states:,}"
    assert facts["discount"] == "0.95"
    assert facts["complete"] == "yes"
    assert "trap_probability 0.3" in facts["settings"]
    networks = LibraryScene(random_reacher(episode_length=12))
    assert [family.name for family in networks.families] == ["monotone", "mean-variance", "entropic", "cvar"]
    assert dict(networks.facts())["hidden layers"] == "16 x 16"
    (only,) = LibraryScene(random_reacher("point", episode_length=12)).families
    assert only.low == only.high == 0.0


def test_evaluation_is_compare_and_tells_how_far_it_is(library):
    scene, shares = LibraryScene(library), []
    found = scene.evaluate(W, RISKS, 37, 5, shares.append)
    wanted = library.compare("rasf/FourRoom-v0", W, RISKS, 37, seed=5)
    assert list(found.reports) == list(wanted.reports)
    assert found.describe() == wanted.describe()
    for name, report in wanted.reports.items():
        np.testing.assert_array_equal(found.reports[name].returns, report.returns)
        np.testing.assert_array_equal(found.reports[name].lengths, report.lengths)
    assert shares == sorted(shares)
    assert len(set(shares)) > 5
    assert 0.5 in shares
    assert shares[-1] == 1.0


def test_evaluation_can_be_given_up(library):
    shares = []
    with pytest.raises(Stopped):
        LibraryScene(library).evaluate(W, RISKS, 1_000, 0, shares.append, lambda: len(shares) == 3)
    assert len(shares) == 3


def test_first_scores_are_those_at_the_first_observation(library):
    found = LibraryScene(library).first_scores(W, CVaR(0.3), 7)
    assert found.gamma == library.gamma < 1
    env = open_environment("rasf/FourRoom-v0", **MAP)
    wanted = library.scores(env.reset(7), W, CVaR(0.3))
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.std, wanted.std)
    assert (found.action, found.driver, found.seen) == (wanted.action, wanted.source, True)


@pytest.mark.parametrize(("environment", "reason"), [
    ({"id": None}, "without an id; start with --env MODULE:ID"),
    ({"id": "os:rasf/FourRoom-v0"}, "names a module to import"),
    ({"id": "rasf/NoSuchRoom-v0"}, "id 'rasf/NoSuchRoom-v0' is known here; start with --env MODULE:ID"),
    ({"phi": "my_features"}, "my_features, which a file cannot hold"),
    ({"kwargs": {"layout": "<Layout>"}}, "the library could not store the value of layout"),
])  # fmt: skip
def test_no_environment_is_made_from_what_a_file_may_not_say(library, environment, reason):
    scene = LibraryScene(changed(library, **environment))
    assert reason in scene.can_run()
    assert scene.can_run().endswith(".")
    for ask in (lambda: scene.first_scores(W, RISKS["plain"], 0), lambda: scene.evaluate(W, RISKS, 4, 0, print)):
        with pytest.raises(ValueError, match=reason):
            ask()


@pytest.mark.parametrize("env_id", [None, "rasf/NoSuchRoom-v0"])
def test_an_environment_named_by_the_user_is_acted_in(library, env_id):
    import gymnasium

    if "Named-v0" not in gymnasium.registry:
        gymnasium.register("Named-v0", "rasf.envs.four_room:FourRoomEnv", kwargs=MAP, disable_env_checker=True)
    scene = scene_of(changed(library, id=env_id), "Named-v0")
    assert isinstance(scene, LibraryScene)
    assert scene.can_run() is None
    found = scene.evaluate(W, RISKS, 4, 0, lambda share: None)
    assert found.describe() == library.compare("rasf/FourRoom-v0", W, RISKS, 4, seed=0).describe()
    wanted = LibraryScene(library).first_scores(W, RISKS["plain"], 3)
    np.testing.assert_array_equal(scene.first_scores(W, RISKS["plain"], 3).values, wanted.values)
    assert isinstance(scene_of(library, "rasf/FourRoom-v0"), FourRoomScene)


def test_the_most_telling_scene_is_chosen(library):
    assert LibraryScene(library).can_run() is None
    assert isinstance(scene_of(library), FourRoomScene)
    assert isinstance(scene_of(random_reacher(episode_length=12)), ReacherScene)
    for other in (
        changed(library, id="Other-v0"),
        changed(library, phi="my_features"),
        changed(library, kwargs={}),  # the paper's map has more objects
        changed(library, kwargs={"layout": 3}),
        changed(library, kwargs=MAP | {"step_limit": 10**9}),
        random_reacher(episode_length=10**6),
    ):
        assert isinstance(scene_of(other), LibraryScene)


def test_the_shipped_networks_are_the_reacher_s():
    library = shipped_reacher()
    assert library.environment.id == "rasf/Reacher-v0"
    assert len(library.policies) == 8


def test_a_calibrated_library_has_a_limit_and_bounds(library):
    assert LibraryScene(library).limit is None
    calibrated = changed(library)
    calibrated.calibrate("rasf/FourRoom-v0", 120, tasks=4, risks=list(RISKS.values()))
    scene = LibraryScene(calibrated)
    assert scene.limit.name == "failure at most, in 95 % of tasks"
    assert scene.limit.low == 0.0 < scene.limit.high
    assert "queries at neutral" in dict(scene.facts())["bounds"]
    assert dict(LibraryScene(library).facts())["bounds"] == "not calibrated"
    ways = Ways(limit=0.1, static=False)
    found = scene.evaluate(W, RISKS, 20, 3, lambda share: None, ways=ways)
    limits = {2: rasf.Limit(0.1, per_episode=True)}
    expected = calibrated.evaluate("rasf/FourRoom-v0", W, RISKS["plain"], episodes=20, seed=3, limits=limits)
    np.testing.assert_array_equal(found.reports["plain"].returns, expected.returns)
    assert found.reports["careful"].limits is None
    assert found.reports["plain"].bounds is not None
    assert scene.first_scores(W, RISKS["plain"], 3, ways).action == int(
        calibrated.scores(calibrated_start(), W, limits=limits).action
    )


def calibrated_start():
    return np.array([0, 0, 0, 0])


SUITE = {  # sliders, and what a failure is
    "resource-gathering": (("killed (-1)", "gold", "gem"), "deaths", 4.0),
    "breakable-bottles": (("time (-1)", "delivered", "dropped (-1)"), "bottles dropped", 0.5),
    "inventory": (("sold", "ordered", "orders", "held", "failure"), "months with lost demand", 0.05),
    "deep-sea-treasure": (("treasure", "time (-1)"), "dives without a treasure", 1.0),
}


@pytest.mark.parametrize("name", SUITE)
def test_any_library_of_the_suite_opens_with_its_names_failures_and_dial(name, tmp_path):
    """Tables, some of dictionaries as observations, some of environments with settings."""
    pytest.importorskip("mo_gymnasium")
    from rasf_lab.suite.cases import find_case

    case, (features, failures, farthest) = find_case(name), SUITE[name]
    rasf.learn(
        case.env, tasks=case.tasks[:2], agent="rasfql", steps_per_task=150, env_kwargs=dict(case.env_kwargs) or None
    ).save(tmp_path / "small.rasf")
    scene = scene_of(rasf.load(tmp_path / "small.rasf"))
    scene.warm(lambda: False)
    assert type(scene) is LibraryScene
    assert scene.can_run() is None
    assert tuple(weight.name for weight in scene.weights) == features
    assert scene.about.endswith(f"Failures are {failures}.")
    assert scene.families[0].low == -farthest
    assert scene.first_scores(scene.default_task, RISKS["careful"], 0).seen
    (report,) = scene.evaluate(scene.default_task, {"plain": RISKS["plain"]}, 4, 0, lambda share: None).reports.values()
    assert report.failures is not None
    assert report.lengths.max() <= case.max_steps


def test_what_is_missing_is_said_once_it_was_looked_for(library, monkeypatch):
    from rasf.envs.gymnasium import single

    def refuses(*_, **__):
        raise ValueError("env 'x' cannot be made: it needs Box2D")

    monkeypatch.setattr(single, "make", refuses)
    scene = LibraryScene(changed(library))
    assert scene.can_run() is None
    scene.warm(lambda: False)
    assert scene.can_run() == "The library cannot act here: env 'x' cannot be made: it needs Box2D."


@pytest.mark.slow
def test_policies_with_continuous_actions_have_the_generic_view():
    """The actions that are scored are those of the policies."""
    world = Reacher(continuous=True, episode_length=12)
    arm = rasf.learn(world, tasks=world.tasks((0, 1)), steps_per_task=40, widths=(4,), batch=4, warmup=10)
    assert type(scene_of(arm)) is ReacherScene
    scene = LibraryScene(arm)
    w, risk = world.tasks((3,))[0], MeanVariance(-1.0)
    scores = scene.first_scores(w, risk, 0)
    assert scores.values.shape == scores.std.shape == (2, 2)
    assert scores.action == scores.values.max(axis=0).argmax()
    assert scores.driver == scores.values[:, scores.action].argmax()
    assert scores.proposals.actions.shape == (2, 2)
    assert (scores.proposals.low == -1).all()
    assert (scores.proposals.high == 1).all()
    assert scores.proposals.entry_names == ("entry 1", "entry 2")
    found = scene.evaluate(w, {"plain": risk}, 3, 0, lambda share: None)
    assert found.reports["plain"].lengths.tolist() == [12] * 3
