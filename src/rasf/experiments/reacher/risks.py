"""How far mean-variance is from the entropic utility on learned histograms (claim R15), and what the tails do to it.

The exact utility, by the sum rule in log space, is always finite. Written plainly, exp(beta w z) overflows. And it
hangs on the tails: softmax leaves a trace of mass on every atom, and at the far end of the failure feature a trace
counts exp(180) times at the paper's beta = -3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from rasf.arrays import Array
from rasf.deep.agent import Agent, Tasks
from rasf.deep.laws import Networks
from rasf.envs.reacher.world import Reacher
from rasf.risk import Entropic, MeanVariance
from rasf.risk.base import Risk
from rasf.transfer import gpi

_TRACE = 1e-9  # of mass, on every atom


@dataclass(frozen=True)
class _Plain(Risk):
    """The entropic utility as it is written, in the arithmetic at hand."""

    beta: Array
    supports: ClassVar[frozenset[str]] = frozenset({"independent"})

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """log E exp(beta w_i Z_i) / beta, summed."""
        return jnp.sum(jnp.log(jnp.sum(probs * jnp.exp(self.beta * w[:, None] * atoms), axis=-1)) / self.beta, axis=-1)


@dataclass(frozen=True)
class _Traced(Risk):
    """The exact utility after a trace of mass was put on every atom."""

    beta: Array
    supports: ClassVar[frozenset[str]] = frozenset({"independent"})

    def independent(self, probs: Array, atoms: Array, w: Array) -> Array:
        """`Entropic` of the mixture with an even law."""
        share = _TRACE * probs.shape[-1]
        return Entropic(self.beta).independent((1 - share) * probs + _TRACE, atoms, w)


def compare(
    agent: Agent, world: Reacher, networks: Networks, beta: Array, tasks: Tasks, states: Array
) -> dict[str, Array]:
    """Over states (T, n, 4) of every task: how often GPI's actions agree, how far scores are apart, what overflows.

    apart: quantiles 0.1, 0.5, 0.9 of |entropic - mean-variance|. level: the median |mean-variance|. trace: quantiles of
    the change by a trace of mass. lost: the share of scores that the plain formula cannot compute.
    """

    def of_task(task: tuple[Array, Array, Array]) -> tuple[Array, ...]:
        w, task_input, here = task
        task_heads, obs = agent.task_heads(networks, w), world.observe(here)
        rules = (MeanVariance(beta), Entropic(beta), _Plain(beta), _Traced(beta))
        return tuple(agent.scores(task_heads, obs, task_input, rule) for rule in rules)

    approximate, exact, plain, traced = jax.lax.map(of_task, (tasks.weights, tasks.inputs, states))  # (T, K, n, A)
    over_policies = [jnp.moveaxis(scores, 1, 0) for scores in (approximate, exact)]
    same = gpi(over_policies[0]).policy == gpi(over_policies[1]).policy
    at = jnp.array([0.1, 0.5, 0.9])
    return {
        "agree": jnp.mean(same),
        "apart": jnp.quantile(jnp.abs(exact - approximate), at),
        "level": jnp.median(jnp.abs(approximate)),
        "trace": jnp.quantile(jnp.abs(traced - exact), at),
        "lost": jnp.mean(~jnp.isfinite(plain)),
    }
