"""A scene with nothing behind it, for tests of what surrounds scenes."""

from types import SimpleNamespace

from rasf.explorer.scenes.scene import Family, Layout, Weight
from rasf.risk import CVaR, MeanVariance

WEIGHTS = (Weight("good", -1.0, 1.0, 0.1, 0.5), Weight("bad", -4.0, 0.0, 0.1, -2.0))
BETA = Family("mean-variance", "Mean and variance", "beta", -8.0, 2.0, 0.5, 0.0, -4.0, MeanVariance)
ALPHA = Family("cvar", "CVaR", "alpha", 0.05, 1.0, 0.05, 1.0, 0.2, CVaR)
LAYOUT = Layout(2, 3, "S#1..G", {"S": "start"}, 0, (1,), (), (5,), (2,))

MAP = SimpleNamespace(weights=WEIGHTS, families=(BETA, ALPHA), layout=LAYOUT)
ARM = SimpleNamespace(weights=WEIGHTS, families=(BETA,), arm=object())
LIBRARY = SimpleNamespace(weights=WEIGHTS, families=(BETA,))
