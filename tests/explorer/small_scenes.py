"""Scenes with nothing behind them, for tests of what surrounds scenes."""

import numpy as np

from rasf.risk import CVaR, MeanVariance
from rasf_explorer.scenes.scene import Arm, ArmScene, Layout, MapScene, RiskFamily, Scene, Weight

BETA = RiskFamily("mean-variance", "Mean and variance", "beta", -8.0, 2.0, 0.5, 0.0, -4.0, MeanVariance)
ALPHA = RiskFamily("cvar", "CVaR", "alpha", 0.05, 1.0, 0.05, 1.0, 0.2, CVaR)
LAYOUT = Layout(2, 3, "S#1..G", {"S": "start"}, 0, (1,), (), (5,), (2,))


class Small:
    weights = (Weight("good", -1.0, 1.0, 0.1, 0.5), Weight("bad", -4.0, 0.0, 0.1, -2.0))
    families = (BETA, ALPHA)
    title, about, policies = "Small", "Nothing happens.", ("one", "two")

    def __init__(self):
        self.warmed = []

    def warm(self, stop):
        self.warmed.append(stop())

    def roll_out(self, w, risk, episodes, seed, stop=lambda: False, ways=None):
        raise NotImplementedError

    policy = cell = field = at = posture = roll_out


class SmallMap(Small, MapScene):
    layout = LAYOUT


class SmallArm(Small, ArmScene):
    families = (BETA,)
    arm = Arm(np.zeros((1, 2)), (), 0.06, (0.1, 0.11), 1)


class SmallScene(Small, Scene):
    families = (BETA,)
    layers = {"scores": "Scores"}  # noqa: RUF012


class LimitedMap(SmallMap):
    limit = Weight("failures at most", 0.0, 0.2, 0.005, 0.2)
    offers_static = True


MAP, ARM, LIBRARY, LIMITED = SmallMap(), SmallArm(), SmallScene(), LimitedMap()
