"""Parallel rollouts of the reacher's arm by a library of networks. A caller can stop the rollouts.

Histogram networks act inside one compiled program, 50 steps at a time, with the scores of `NetworkPolicies.act`. Other
networks, and networks that see the time left, are called step by step. Eight rollouts make a block. Blocks run in
parallel in threads, because the matrices of a block are too small for jax to use several cores. All random numbers
(initial angles, noise on the torques, and the numbers that decide on failures) are drawn beforehand. They depend only
on the seed, so they are equal for all risks.
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

from rasf.agents import LawKind
from rasf.arrays import Array, Bools, Floats, Ints
from rasf.envs.reacher.world import START_ANGLES, Noise, Reacher
from rasf.library.acting.rule import ActingRule, Memory
from rasf.library.ahead.policies import LookingAhead
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.networks.policies import HistogramTask, NetworkPolicies, RiskForm, choose_by_histograms
from rasf.risk import Risk
from rasf_lab.rollouts.by_rule import follow
from rasf_lab.rollouts.compiled import Steps

_PIECE = 50  # `stop` is called after this many steps, every few tens of milliseconds
_BLOCK = 8  # the number of rollouts in a block; fixed on all machines, because rounding depends on it


class ArmChances(NamedTuple):
    """Random numbers of n rollouts of T steps: initial states (n, 4), and the noise of every step (T, n, ..)."""

    states: npt.NDArray[np.float32]
    noise: Noise


class ArmRollouts(NamedTuple):
    """n rollouts of T steps: states (T + 1, n, 4) from the initial state on, and features (T, n, d).

    `memory` is the final memory of the acting rule, or None without an acting rule.
    """

    states: Floats
    phi: Floats
    memory: Memory | None = None


def arm_chances(world: Reacher, rollouts: int, seed: int) -> ArmChances:
    """Return the random numbers for this number of rollouts."""
    rng, steps = np.random.default_rng(seed), world.episode_length
    low, high = START_ANGLES.T
    angles = rng.uniform(low, high, (rollouts, 2))
    torque = world.action_noise * rng.standard_normal((steps, rollouts, 2))
    noise = Noise(torque.astype(np.float32), rng.random((steps, rollouts)).astype(np.float32))
    return ArmChances(np.concatenate([angles, np.zeros((rollouts, 2))], axis=1).astype(np.float32), noise)


def observed(sources: NetworkPolicies, world: Reacher, state: Array, t: int) -> npt.NDArray[np.float32]:
    """Return the inputs of networks at states (n, 4) after t steps: the observations, with the time left if needed."""
    seen = np.asarray(world.observe(state), np.float32)
    return seen if sources.clock is None else np.asarray(sources.clock.beside(seen, np.asarray(t)), np.float32)


def roll_out_by_rule(
    rule: ActingRule, world: Reacher, chances: ArmChances, stop: Callable[[], bool]
) -> ArmRollouts | None:
    """Run rollouts by an acting rule, step by step. Return the rollouts, or None if `stop` returned True.

    The other arguments are those of `roll_out_arm`.
    """
    arms, found = _Arms(rule.sources, world, chances), None
    for memory in follow(rule, arms, len(chances.states), world.episode_length):
        if stop():
            return None
        found = memory
    states, phi = (np.stack(parts).astype(np.float64) for parts in (arms.states, arms.phi))
    return ArmRollouts(states, phi, found)


def rows_of(sources: FrozenPolicies, world: Reacher, states: npt.NDArray[Any], t: int) -> npt.NDArray[Any]:
    """Return the inputs (B, n) of policies at states (B, 4) after t steps, with the states if policies look ahead."""
    base = sources.base if isinstance(sources, LookingAhead) else sources
    assert isinstance(base, NetworkPolicies)
    seen = observed(base, world, states, t)
    return sources.beside(seen, states.astype(np.float64)) if isinstance(sources, LookingAhead) else seen


class _Arms:
    """The arms of all rollouts as an `ArrayWorld` (module `by_rule`). No rollout ends before the last step."""

    def __init__(self, sources: FrozenPolicies, world: Reacher, chances: ArmChances) -> None:
        self._sources, self._world, self._noise = sources, world, chances.noise
        self.states, self.phi = [np.asarray(chances.states)], list[npt.NDArray[np.float32]]()

    def observe(self, t: int, running: Ints) -> npt.NDArray[Any]:
        return rows_of(self._sources, self._world, self.states[t], t)

    def step(self, t: int, running: Ints, actions: Ints) -> tuple[Floats, Bools]:
        after = self._world.advance(self.states[t], actions, Noise(*(part[t] for part in self._noise)))
        for kept, part in zip((self.states, self.phi), after, strict=True):
            kept.append(np.asarray(part))
        return self.phi[t].astype(np.float64), np.zeros(len(running), np.bool_)


def roll_out_arm(
    sources: NetworkPolicies, world: Reacher, w: Floats, risk: Risk, chances: ArmChances, stop: Callable[[], bool]
) -> ArmRollouts | None:
    """Run rollouts by GPI.

    Args:
        sources: the policies.
        world: the arm.
        w: weights of the task (d,).
        risk: the risk of the scores.
        chances: the random numbers of the rollouts.
        stop: called at least every 50 steps, from several threads; if it returns True, the rollouts stop.

    Returns:
        The rollouts, or None if `stop` returned True.
    """
    sources.check(risk)
    n = len(chances.states)
    # the last block is filled up with copies of the first rollouts, so that only one block size is compiled
    filled = np.arange(-(-n // _BLOCK) * _BLOCK) % n
    blocks = [
        ArmChances(chances.states[rows], Noise(*(part[:, rows] for part in chances.noise)))
        for rows in np.split(filled, len(filled) // _BLOCK)
    ]
    with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1)) as pool:
        found = list(pool.map(lambda block: _one_block(sources, world, w, risk, block, stop), blocks))
    done = [one for one in found if one is not None]
    if len(done) < len(found):
        return None
    states, phi = (np.concatenate([one[i] for one in done], axis=1)[:, :n] for i in range(2))
    return ArmRollouts(states, phi)


def _one_block(
    sources: NetworkPolicies, world: Reacher, w: Floats, risk: Risk, chances: ArmChances, stop: Callable[[], bool]
) -> ArmRollouts | None:
    in_one = sources.law_kind is LawKind.HISTOGRAM and not sources.limit
    compiled = sources.histogram_task(w, risk) if in_one else None
    state: Array = chances.states
    found: list[tuple[Array, Array]] = []
    for begin in range(0, world.episode_length, 1 if compiled is None else _PIECE):
        if stop():
            return None
        if compiled is not None:
            noise = Noise(*(part[begin : begin + _PIECE] for part in chances.noise))
            state, piece = _some_steps(world, *compiled, state, noise)
        else:
            noise = Noise(*(part[begin] for part in chances.noise))
            state, phi = world.advance(state, sources.act(observed(sources, world, state, begin), w, risk), noise)
            piece = (state[None], phi[None])
        found.append(jax.tree.map(np.asarray, piece))
    states, phi = (np.concatenate(parts).astype(np.float64) for parts in zip(*found, strict=True))
    return ArmRollouts(np.concatenate([chances.states[None], states]), phi)


@partial(jax.jit, static_argnames=("world", "form"))
def _some_steps(
    world: Reacher, task: HistogramTask, form: RiskForm, state: Array, noise: Noise
) -> tuple[Array, tuple[Array, Array]]:
    """Take one step for each row of `noise`. Return the last state, and the next state and features of every step."""
    steps: Steps[Array, None, Noise] = Steps(
        act=lambda state, noise: choose_by_histograms(task, world.observe(state), form),
        advance=world.advance,
        add=lambda totals, before, after, phi, noise: (totals, (after, phi)),
    )
    after, _, found = steps.scan(jnp.asarray(state), None, jax.tree.map(jnp.asarray, noise))
    return after, found
