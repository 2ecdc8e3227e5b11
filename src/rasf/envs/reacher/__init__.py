"""The paper's reacher: the arm in closed form and in MuJoCo, the world in JAX, and the Gymnasium environment."""

from rasf.envs.reacher.arm import physics as physics
from rasf.envs.reacher.arm import tip_position as tip_position
from rasf.envs.reacher.world import Reacher as Reacher
