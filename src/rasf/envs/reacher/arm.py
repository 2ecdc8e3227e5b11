"""The arm of the paper's reacher, in closed form: two links in a plane, driven by two torques.

A state (.., 4) consists of q1, q2, w1, w2: the angles and the angular velocities of shoulder and elbow, in rad and
rad/s. A step of DT seconds is semi-implicit Euler on M(q) dw/dt = torques + Coriolis terms - drag, with

    a1 = I + m lc^2 + (m + mf) L1^2     a2 = I + m lc^2 + mf Lt^2 + If     a3 = L1 (m lc + mf Lt)
    M11 = a1 + a2 + 2 a3 cos q2         M12 = a2 + a3 cos q2               M22 = a2

Here m and I are the mass and inertia of a link, lc is the distance from a link's joint to its centre, mf and If are the
mass and inertia of the tip, L1 is the length of the upper link, and Lt is the distance from elbow to tip.

The drag of every link and of the tip is proportional to v (1 + |v|), for translation and rotation at speed v. The elbow
stops at +-3 rad, and speeds are clipped at +-100 rad/s. Without these two limits, random torques make the integration
diverge. `tests/rasf/envs` compares the step with recorded PyBullet trajectories and with MuJoCo. Arrays may be numpy or
jax. Units are metres, kilograms and seconds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rasf.arrays import Array, array_namespace


def _single(number: float) -> float:
    return float(np.float32(number))


# PyBullet stores these numbers in single precision. With this rounding, the largest difference between a step and the
# recorded trajectories is 2e-13, without the rounding 3e-6. The mass of a link is computed from the rounded numbers.
LINK = _single(0.1)  # length of the upper link
TIP = _single(0.11)  # distance from elbow to tip
CENTRE = _single(0.05)  # distance from a link's joint to its centre
DAMPING = _single(0.04)
_LINK_RADIUS = _single(0.01)

DT = 0.0165
TORQUE = 0.05  # in N m, for an action of 1
_DENSITY, _TIP_RADIUS, _MARGIN = 1000.0, 0.01, 0.04
# a link is a capsule; as in PyBullet, its inertia is that of a box around the capsule and its collision margin
LINK_MASS = _DENSITY * math.pi * _LINK_RADIUS**2 * (LINK + 4 / 3 * _LINK_RADIUS)
LINK_INERTIA = LINK_MASS / 3 * ((_LINK_RADIUS + _MARGIN) ** 2 + (_LINK_RADIUS + LINK / 2 + _MARGIN) ** 2)
# the tip is a ball
TIP_MASS = _DENSITY * 4 / 3 * math.pi * _TIP_RADIUS**3
TIP_INERTIA = 2 / 5 * TIP_MASS * _TIP_RADIUS**2
ELBOW_LIMIT = 3.0
MAX_SPEED = 100.0
_TINY = 1e-30  # is added under a square root, so that it is differentiable at speed 0; is smaller than rounding errors
# up to _SOFT_DEPTH rad beyond its limit, the elbow is pushed back; further beyond, the elbow is only stopped
_SOFT_DEPTH, _SOFT_GAIN = 0.04, 0.2

_A1 = LINK_INERTIA + LINK_MASS * CENTRE**2 + (LINK_MASS + TIP_MASS) * LINK**2
_A2 = LINK_INERTIA + LINK_MASS * CENTRE**2 + TIP_MASS * TIP**2 + TIP_INERTIA
_A3 = LINK * (LINK_MASS * CENTRE + TIP_MASS * TIP)


class Inertia(NamedTuple):
    """The symmetric mass matrix of the two joints."""

    m11: Array
    m12: Array
    m22: float


def inertia(q2: Array) -> Inertia:
    """Return the mass matrix at the elbow angle q2."""
    cos = array_namespace(q2).cos(q2)
    return Inertia(_A1 + _A2 + 2 * _A3 * cos, _A2 + _A3 * cos, _A2)


def drag(state: Array) -> tuple[Array, Array]:
    """Return the torques (d1, d2) of the drag on shoulder and elbow, without the factor DAMPING."""
    xp = array_namespace(state)
    q2, w1, w2 = state[..., 1], state[..., 2], state[..., 3]
    sin, cos, w = xp.sin(q2), xp.cos(q2), w1 + w2
    vx = LINK * w1 * sin
    turning = (LINK_INERTIA + TIP_INERTIA) * w * (1 + xp.abs(w))
    upper_turning = LINK_INERTIA * w1 * (1 + xp.abs(w1))
    upper_moving = LINK_MASS * CENTRE**2 * w1 * (1 + CENTRE * xp.abs(w1))
    d1, d2 = upper_turning + upper_moving + turning, turning
    for mass, offset in ((LINK_MASS, CENTRE), (TIP_MASS, TIP)):
        vy = LINK * w1 * cos + offset * w
        k = mass * (1 + xp.sqrt(vx**2 + vy**2 + _TINY))
        d1 = d1 + k * (vx * LINK * sin + vy * (LINK * cos + offset))
        d2 = d2 + k * vy * offset
    return d1, d2


def speeds_allowed(q2: Array, w1: Array, w2: Array) -> tuple[Array, Array]:
    """Return the speeds of shoulder and elbow, changed so that they respect the elbow's limit and the largest speed.

    Args:
        q2: angle of the elbow at the start of the step; the limit applies if |q2| is at least ELBOW_LIMIT.
        w1: speed of the shoulder.
        w2: speed of the elbow.
    """
    xp = array_namespace(q2, w1, w2)
    depth, side, m = xp.abs(q2) - ELBOW_LIMIT, xp.sign(q2), inertia(q2)
    outward = xp.where(depth <= _SOFT_DEPTH, -_SOFT_GAIN * depth / DT, 0.0)
    stopped = (depth >= 0) & (side * w2 > outward)
    elbow = xp.where(stopped, side * outward, w2)
    shoulder = w1 - m.m12 / m.m11 * (elbow - w2)  # a torque on the elbow alone also changes w1
    return xp.clip(shoulder, -MAX_SPEED, MAX_SPEED), xp.clip(elbow, -MAX_SPEED, MAX_SPEED)


def physics(state: Array, action: Array) -> Array:
    """Return the state (.., 4) one step after `state` (.., 4) under the torques `action` (.., 2) in [-1, 1]."""
    xp = array_namespace(state, action)
    q1, q2, w1, w2 = (state[..., i] for i in range(4))
    h = _A3 * xp.sin(q2)
    d1, d2 = drag(state)
    f1 = TORQUE * action[..., 0] + h * w2 * (2 * w1 + w2) - DAMPING * d1
    f2 = TORQUE * action[..., 1] - h * w1**2 - DAMPING * d2
    m = inertia(q2)
    determinant = m.m11 * m.m22 - m.m12**2
    w1 = w1 + DT * (m.m22 * f1 - m.m12 * f2) / determinant
    w2 = w2 + DT * (m.m11 * f2 - m.m12 * f1) / determinant
    w1, w2 = speeds_allowed(q2, w1, w2)
    return xp.stack([q1 + DT * w1, q2 + DT * w2, w1, w2], axis=-1)


def tip_position(state: Array) -> Array:
    """Return the position (.., 2) of the tip in a state (.., 4)."""
    xp = array_namespace(state)
    q1, q12 = state[..., 0], state[..., 0] + state[..., 1]
    return xp.stack([LINK * xp.cos(q1) + TIP * xp.cos(q12), LINK * xp.sin(q1) + TIP * xp.sin(q12)], axis=-1)
