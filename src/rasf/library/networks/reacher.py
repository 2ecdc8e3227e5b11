"""Rollouts of a network library with the reacher's arm, many at once, in pieces between which one may stop.

Histogram networks act inside one compiled program, 50 steps at a time, with the scores that `NetworkPolicies.act` has;
other networks are asked step by step. Eight rollouts make a block, and blocks run side by side in threads: a block's
matrices are too small for jax to share out among cores by itself. All chance is drawn before, from the seed alone:
first postures, noise on the torques, and the numbers that decide on failures. So two risks meet the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Floats
from rasf.envs.reacher.world import START_ANGLES, Noise, Reacher
from rasf.library.networks.policies import NetworkPolicies
from rasf.risk import Risk

_PIECE = 50  # steps between two questions whether to stop: some tens of milliseconds
_BLOCK = 8  # fixed, whatever the machine: rounding depends on the size of a batch


class ArmChances(NamedTuple):
    """What chance gives n rollouts of T steps: first states (n, 4), and the noise of every step (T, n, ..)."""

    states: npt.NDArray[np.float32]
    noise: Noise


class ArmRollouts(NamedTuple):
    """States (T + 1, n, 4), the first ones included, and features (T, n, d)."""

    states: Floats
    phi: Floats


def arm_chances(world: Reacher, rollouts: int, seed: int) -> ArmChances:
    """The chances of a seed."""
    rng, steps = np.random.default_rng(seed), world.episode_length
    low, high = START_ANGLES.T
    angles = rng.uniform(low, high, (rollouts, 2))
    torque = world.action_noise * rng.standard_normal((steps, rollouts, 2))
    noise = Noise(torque.astype(np.float32), rng.random((steps, rollouts)).astype(np.float32))
    return ArmChances(np.concatenate([angles, np.zeros((rollouts, 2))], axis=1).astype(np.float32), noise)


def roll_out_arm(
    sources: NetworkPolicies, world: Reacher, w: Floats, risk: Risk, chances: ArmChances, stop: Callable[[], bool]
) -> ArmRollouts | None:
    """A rollout for each of the chances; None if `stop` said so on the way."""
    sources.check(risk)
    n = len(chances.states)
    filled = np.arange(-(-n // _BLOCK) * _BLOCK) % n  # the last block is filled up, so that one size compiles
    blocks = [
        ArmChances(chances.states[rows], Noise(*(part[:, rows] for part in chances.noise)))
        for rows in np.split(filled, len(filled) // _BLOCK)
    ]
    with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1)) as pool:
        found = list(pool.map(lambda block: _one_block(sources, world, w, risk, block, stop), blocks))
    done = [one for one in found if one is not None]
    if len(done) < len(found):
        return None
    return ArmRollouts(*(np.concatenate(parts, axis=1)[:, :n] for parts in zip(*done, strict=True)))


def _one_block(
    sources: NetworkPolicies, world: Reacher, w: Floats, risk: Risk, chances: ArmChances, stop: Callable[[], bool]
) -> ArmRollouts | None:
    program = sources.histogram_program(w, risk)
    state: Any = chances.states
    found: list[tuple[Any, Any]] = []
    for begin in range(0, world.episode_length, _PIECE if program is not None else 1):
        if stop():
            return None
        if program is not None:
            noise = Noise(*(part[begin : begin + _PIECE] for part in chances.noise))
            state, piece = _some_steps(world, program.choose, program.form, program.arguments, state, noise)
        else:
            noise = Noise(*(part[begin] for part in chances.noise))
            state, phi = world.advance(state, sources.act(world.observe(state), w, risk), noise)
            piece = (state[None], phi[None])
        found.append(jax.tree.map(np.asarray, piece))
    states, phi = (np.concatenate(parts).astype(np.float64) for parts in zip(*found, strict=True))
    return ArmRollouts(np.concatenate([chances.states[None], states]), phi)


@partial(jax.jit, static_argnames=("world", "choose", "form"))
def _some_steps(
    world: Reacher, choose: Callable[..., Array], form: Any, arguments: Any, state: Array, noise: Noise
) -> Any:
    """The state after, and every step's next state and features."""
    network, atoms, w, beta = arguments

    def step(state: Array, noise: Noise) -> tuple[Array, tuple[Array, Array]]:
        action = choose(network, atoms, w, world.observe(state), beta, form)
        after, phi = world.advance(state, action, noise)
        return after, (after, phi)

    return jax.lax.scan(step, jnp.asarray(state), jax.tree.map(jnp.asarray, noise))
