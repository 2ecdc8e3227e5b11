"""Levels of the dial, and the order of reports."""

import numpy as np
import pytest

from rasf_explorer.scenes.families import NEUTRAL_ONLY, cvar, entropic, mean_variance
from rasf_explorer.scenes.frontier import frontier, levels
from rasf_explorer.scenes.grid import GridScene
from rasf_explorer.scenes.scene import Stopped


@pytest.mark.parametrize("family", [
    mean_variance(-16.0, 4.0, 0.5, -8.0),
    mean_variance(-4.0, 1.0, 0.1, -2.0),
    entropic(-0.2, 0.1, 0.01, -0.1),
    entropic(-2.0, 1.0, 0.05, -1.0),
    cvar(0.2),
])  # fmt: skip
def test_levels_cover_the_dial_and_hold_neutral(family):
    found = levels(family)
    assert list(found) == sorted(set(found))
    assert 12 <= len(found) <= 14
    assert (found[0], found[-1]) == (family.low, family.high)
    assert family.neutral in found
    steps = (np.array(found) - family.low) / family.step
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    assert np.diff(found).max() < 3 * (family.high - family.low) / 12
    for level in found:
        family.make(level)
    even = np.linspace(family.low, family.high, 13)
    near = np.abs(np.subtract.outer(even, found)).min(axis=1)
    assert near.max() <= family.step / 2 + 1e-9, "neutral is added, and takes no other level's place"


def test_a_dial_of_one_place_has_one_level():
    assert levels(NEUTRAL_ONLY) == (0.0,)


def test_every_level_is_a_set_of_rollouts_on_the_same_seed():
    scene, seen = GridScene(), []
    family = scene.families[0]
    w = np.array([weight.default for weight in scene.weights])
    found = frontier(scene, w, family, 4, 60, lambda share, so_far: seen.append((share, len(so_far.points))))
    wanted = levels(family)
    assert found.family == "entropic"
    assert tuple(point.level for point in found.points) == wanted
    assert seen == [(pytest.approx((n + 1) / len(wanted)), n + 1) for n in range(len(wanted))]
    for point in found.points[::4]:
        measures = scene.roll_out(w, family.make(point.level), 60, 4).measures
        assert (point.returns, point.failures) == (measures["return"], measures["failures"])
    averse, neutral = found.points[0], next(point for point in found.points if point.level == 0)
    assert averse.failures.estimate < neutral.failures.estimate
    assert averse.returns.estimate < neutral.returns.estimate


def test_it_stops_between_levels():
    scene, seen = GridScene(), []
    w = np.array([weight.default for weight in scene.weights])
    with pytest.raises(Stopped):
        frontier(scene, w, scene.families[0], 0, 5, lambda *report: seen.append(report), lambda: len(seen) == 2)
    assert len(seen) == 2


def test_what_is_known_is_not_rolled_out_again(monkeypatch):
    scene, known, rolled = GridScene(), {}, []
    w, family = scene.default_task, scene.families[0]
    whole = frontier(scene, w, family, 0, 5, lambda *report: None, known=known)
    assert list(known) == [point.level for point in whole.points]
    gone = known.pop(family.low)
    roll_out = scene.roll_out
    monkeypatch.setattr(scene, "roll_out", lambda w, risk, *rest: rolled.append(risk) or roll_out(w, risk, *rest))
    assert frontier(scene, w, family, 0, 5, lambda *report: None, known=known) == whole
    assert rolled == [family.make(gone.level)]
