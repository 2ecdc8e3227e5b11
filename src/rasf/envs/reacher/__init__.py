"""The paper's reacher: the arm in closed form, the world in pure JAX, its Gymnasium environment, the arm in MuJoCo."""

from rasf.envs.reacher.arm import physics as physics
from rasf.envs.reacher.arm import tip_position as tip_position
from rasf.envs.reacher.world import Reacher as Reacher
