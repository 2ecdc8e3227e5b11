"""Weightings that are drawn make sense in our own worlds too."""

import numpy as np
import pytest

from rasf.envs.gymnasium.single import open_environment
from rasf.envs.reacher.world import Reacher


@pytest.mark.parametrize(("name", "signs"), [("rasf/Grid-v0", (-1, 1, -1, -1)), ("rasf/Reacher-v0", Reacher().signs)])
def test_costs_are_costs(name, signs):
    env = open_environment(name)
    np.testing.assert_array_equal(env.signs, signs)
    env.close()
