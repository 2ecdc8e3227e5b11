"""`rasf/Reacher-v0`: the reacher for Gymnasium, in MO-Gymnasium's convention (the reward is the vector phi).

The environment is a `Reacher` that is stepped in numpy with double precision. The arm is simulated in closed form
(`rasf.envs.reacher.arm`) or by MuJoCo. Episodes never terminate. The environment truncates episodes itself, so it is
registered without `max_episode_steps`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Floats32
from rasf.checks import one_of
from rasf.envs.reacher.arm import LINK, TIP, physics, tip_position
from rasf.envs.reacher.world import START_ANGLES, TORQUES, TRAINING_TARGETS, Noise, Reacher
from rasf.files import Header

ENGINES = ("closed_form", "mujoco")
_PIXELS, _MARGIN = 480, 0.02  # size of the image in pixels, and margin around the scene in metres
_PAPER, _REACH, _REACH_EDGE = (255, 255, 255), (240, 243, 247), (205, 211, 219)
_RISK, _RISK_EDGE, _TARGET = (213, 94, 0), (190, 80, 0), (0, 100, 165)
_ARM, _JOINT, _TIP = (70, 74, 82), (176, 182, 190), (0, 0, 0)


class ReacherEnv(gym.Env[Floats32, Any]):
    """The reacher with the observations of `Reacher.observe`.

    Action 3 i + j, for i and j from 0 to 2, gives the shoulder the torque i - 1 and the elbow the torque j - 1. With
    `continuous=True`, an action is the vector of both torques, in [-1, 1].

    Args:
        engine: how the arm is simulated, "closed_form" or "mujoco". Default: "closed_form".
        render_mode: None or "rgb_array". Default: None.
        **world: keyword arguments of `Reacher`.
    """

    metadata: ClassVar[Header] = {"render_modes": ["rgb_array"], "render_fps": 60}

    def __init__(self, *, engine: str = "closed_form", render_mode: str | None = None, **world: Any) -> None:
        one_of("engine", engine, ENGINES)
        one_of("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.world = Reacher(**world)
        self.signs, self.events, self.max_episode_steps = self.world.signs, self.world.events, self.world.episode_length
        self.feature_names, self.preferred_agent = self.world.feature_names, self.world.preferred_agent
        self.engine, self.render_mode = engine, render_mode
        self._physics: Callable[..., Floats] = physics
        if engine == "mujoco":
            from rasf.envs.reacher.mujoco import MujocoArm  # an optional dependency

            self._physics = MujocoArm().step
        low, high = self.world.observation_bounds.T.astype(np.float32)
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)
        nine, torques = gym.spaces.Discrete(len(TORQUES)), gym.spaces.Box(-1.0, 1.0, (2,))
        self.action_space: gym.Space[Any] = torques if self.world.continuous else nine
        self.reward_dim = self.world.n_features
        low, high = self.world.feature_bounds.T.astype(np.float32)
        self.reward_space = gym.spaces.Box(low, high, dtype=np.float32)
        self._state, self._steps, self._running = np.zeros(4), 0, False
        self._picture: _Picture | None = None

    @property
    def compiled_world(self) -> Reacher | None:
        """The world in jax, or None if MuJoCo simulates the arm."""
        return self.world if self.engine == "closed_form" else None

    @property
    def world_state(self) -> Floats:
        """The current state (4,) of `compiled_world`."""
        return self._state

    def reset(self, *, seed: int | None = None, options: Header | None = None) -> tuple[Floats32, Header]:
        """Begin an episode at random angles with zero velocities; `options` are not used."""
        super().reset(seed=seed)
        angles = self.np_random.uniform(*START_ANGLES.T)
        self._state, self._steps, self._running = np.concatenate([angles, np.zeros(2)]), 0, True
        return self._observation(), self._info(tip_position(self._state), failure=False)

    def step(self, action: Any) -> tuple[Floats32, Floats32, bool, bool, Header]:
        """Take a step; the reward is phi (d,)."""
        if not self.action_space.contains(action):
            wanted = "two torques in [-1, 1], float32" if self.world.continuous else f"0 to {len(TORQUES) - 1}"
            raise ValueError(f"action must be {wanted}, got {action!r}")
        if not self._running:
            raise gym.error.ResetNeeded("no episode is running: call reset() before step()")
        noise = Noise(self.world.action_noise * self.np_random.standard_normal(2), np.array(self.np_random.random()))
        state, phi = self.world.advance(self._state, action, noise, self._physics)
        tip = self.world.tip(self._state, state)
        self._state, self._steps = state, self._steps + 1
        truncated = self._steps >= self.world.episode_length
        self._running = not truncated
        return self._observation(), phi.astype(np.float32), False, truncated, self._info(tip, failure=bool(phi[-1]))

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return an image of the arm, training targets (discs), test targets (rings) and risky circles (shaded)."""
        if self.render_mode is None:
            return None
        if self._picture is None:
            self._picture = _Picture(self.world)
        return self._picture.with_arm(self._state)

    def _observation(self) -> Floats32:
        return self.world.observe(self._state).astype(np.float32)

    def _info(self, tip: Floats, failure: bool) -> Header:
        in_circle = bool(self.world.in_circle(tip))
        return {"failure": failure, "in_circle": in_circle, "tip": tip, "state": self._state.copy()}


class _Picture:
    """An image of the world on which the arm is drawn; sizes of drawn marks are in pixels."""

    def __init__(self, world: Reacher) -> None:
        positions, risky = world.target_positions(), list(world.risky)
        to_targets = np.hypot(*positions.T)
        farthest = max(LINK + TIP, *to_targets, *(to_targets[risky] + world.radius))
        self._scale = _PIXELS / 2 / (farthest + _MARGIN)
        self._line = np.arange(_PIXELS) + 0.5 - _PIXELS / 2
        self._colours = np.empty((_PIXELS, _PIXELS, 3))
        self._colours[:] = _PAPER
        outside = self._away((0, 0)) - self._scale * (LINK + TIP)
        _paint(self._colours, outside, _REACH)
        _paint(self._colours, np.abs(outside) - 0.5, _REACH_EDGE)
        if risky:
            # the circles are shaded as one region, because the risk is not larger where circles overlap
            outside = np.min([self._away(positions[i]) for i in risky], axis=0) - self._scale * world.radius
            _paint(self._colours, outside, _RISK, 0.22)
            _paint(self._colours, np.abs(outside) - 1, _RISK_EDGE, 0.8)
        for position, target in zip(positions, world.targets, strict=True):
            away = self._away(position)
            _outlined(self._colours, away, 7, _TARGET)
            if tuple(target) not in TRAINING_TARGETS:
                _paint(self._colours, away - 4, _PAPER)

    def with_arm(self, state: Floats) -> npt.NDArray[np.uint8]:
        """Return the image (pixels, pixels, 3) with the arm in a state (4,)."""
        shoulder, tip = np.zeros(2), tip_position(state)
        elbow = LINK * np.array([np.cos(state[0]), np.sin(state[0])])
        colours = self._colours.copy()
        _outlined(colours, self._away(shoulder, elbow), 5.5, _ARM)
        _outlined(colours, self._away(elbow, tip), 5.5, _ARM)
        for joint in (shoulder, elbow):
            _paint(colours, self._away(joint) - 3, _JOINT)
        _outlined(colours, self._away(tip), 7, _TIP)
        return colours.round().astype(np.uint8)

    def _away(self, start: npt.ArrayLike, end: npt.ArrayLike | None = None) -> Floats:
        """Return each pixel's distance, in pixels, from the point `start`, or from the segment `start` to `end`."""
        x, y = self._scale * np.asarray(start, float)
        right, up = self._line[None, :] - x, -self._line[:, None] - y
        if end is not None:
            along_x, along_y = self._scale * np.subtract(end, start)
            share = np.clip((right * along_x + up * along_y) / (along_x**2 + along_y**2), 0, 1)
            right, up = right - share * along_x, up - share * along_y
        return np.sqrt(right**2 + up**2)


def _outlined(colours: Floats, away: Floats, radius: float, colour: tuple[int, int, int]) -> None:
    _paint(colours, away - radius - 1.5, _PAPER)
    _paint(colours, away - radius, colour)


def _paint(colours: Floats, outside: Floats, colour: tuple[int, int, int], opacity: float = 1.0) -> None:
    # for smooth edges, a pixel on an edge is coloured in proportion to its covered part
    touched = outside < 0.5
    share = opacity * np.minimum(0.5 - outside[touched], 1)[:, None]
    colours[touched] += share * (np.array(colour) - colours[touched])
