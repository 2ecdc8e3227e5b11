"""The arm of `rasf.envs.reacher.arm` in MuJoCo, with the same constants and MuJoCo's equations of motion.

The MuJoCo model has no contacts, limits, damping or armature. Drag is an applied force. A second applied force enforces
the elbow's limit and the largest speed, by correcting the speeds that MuJoCo would otherwise reach.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.envs.reacher import arm as arm

try:
    import mujoco
except ImportError as error:
    raise ImportError("engine='mujoco' needs the package mujoco: pip install rasf[mujoco]") from error


def _inertial(at: float, mass: float, inertia: float) -> str:
    return f'<inertial pos="{at} 0 0" mass="{mass}" diaginertia="{inertia} {inertia} {inertia}"/>'


MODEL = f"""
<mujoco>
  <compiler angle="radian"/>
  <option integrator="Euler" timestep="{arm.DT}" gravity="0 0 0"><flag contact="disable"/></option>
  <default>
    <joint type="hinge" axis="0 0 1" limited="false" damping="0" armature="0"/>
    <motor gear="{arm.TORQUE}" ctrllimited="true" ctrlrange="-1 1"/>
  </default>
  <worldbody>
    <body name="upper">
      <joint name="shoulder"/>
      {_inertial(arm.CENTRE, arm.LINK_MASS, arm.LINK_INERTIA)}
      <body name="lower" pos="{arm.LINK} 0 0">
        <joint name="elbow"/>
        {_inertial(arm.CENTRE, arm.LINK_MASS, arm.LINK_INERTIA)}
        <body name="tip" pos="{arm.TIP} 0 0">
          {_inertial(0.0, arm.TIP_MASS, arm.TIP_INERTIA)}
          <site name="tip"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="shoulder"/>
    <motor joint="elbow"/>
  </actuator>
</mujoco>
"""


class MujocoArm:
    """An arm simulated by MuJoCo; every step begins by setting the arm to the given state."""

    def __init__(self) -> None:
        self._model = mujoco.MjModel.from_xml_string(MODEL)
        self._data = mujoco.MjData(self._model)
        self._push = np.zeros(2)

    def step(self, state: npt.NDArray[np.float64], action: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the state (4,) one step after `state` (4,) under the torques `action` (2,) in [-1, 1]."""
        model, data = self._model, self._data
        data.qpos[:], data.qvel[:], data.ctrl[:] = state[:2], state[2:], action
        data.qfrc_applied[:] = -arm.DAMPING * np.array(arm.drag(state))
        mujoco.mj_forward(model, data)
        reached = data.qvel + arm.DT * data.qacc
        allowed = np.array(arm.speeds_allowed(data.qpos[1], *reached))
        mujoco.mj_mulM(model, data, self._push, (allowed - reached) / arm.DT)
        data.qfrc_applied[:] += self._push
        mujoco.mj_step(model, data)
        return np.concatenate([data.qpos, data.qvel])
