"""Networks that act, and are scored, at observations of their own, in jax (see `rasf.library.ahead.followed`).

The functions of a simulation are compiled. So what they need is divided into arrays (`Arrays`), which are arguments of
compiled programs, and `Form`, which is hashable and part of the program. Policies with the same own risk form a group:
networks of the covariance are evaluated only for groups whose risk is not neutral. In shapes, K is the number of
policies, M of observations for each policy, n of inputs, and P of entries of an action that is a vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rasf.agents import LawKind
from rasf.arrays import Array, Floats
from rasf.deep.clock import Clock
from rasf.deep.laws import Law, TaskHeads
from rasf.deep.networks import Heads, Network, choose_policies, encode, read_heads
from rasf.library.ahead.followed import NEUTRAL, Own, Tails, own_tasks
from rasf.library.ahead.returns import equal_parts
from rasf.library.networks.actor_policies import ActorPolicies
from rasf.library.networks.policies import HistogramTask, NetworkPolicies
from rasf.risk import Risk
from rasf.risk.base import histogram_moments
from rasf.risk.cvar import convolution
from rasf.risk.names import is_neutral


class Arrays(NamedTuple):
    """The networks by which policies act: one `TaskHeads` for each group, or the actors if actions are vectors."""

    own: tuple[TaskHeads, ...]
    actor: Network | tuple[()]


@dataclass(frozen=True)
class Form:
    """What is fixed in a compiled program.

    Attributes:
        law: How the networks represent distributions.
        groups: For each group, its policies and its risk; None for a neutral risk.
        clock: The encoding of the time left; None without a time limit.
    """

    law: Law
    groups: tuple[tuple[tuple[int, ...], Risk | None], ...]
    clock: Clock | None

    def actions(self, arrays: Arrays, obs: Array) -> Array:
        """Return the policies' actions at observations (K, M, n), for compiled code.

        Args:
            arrays: The networks.
            obs: Observations (K, M, n).

        Returns:
            Actions (K, M), or (K, M, P) if actions are vectors.
        """
        if isinstance(arrays.actor, Network):
            shape = Heads(1, arrays.actor.heads.bias.shape[-1])
            return jnp.tanh(read_heads(arrays.actor.heads, encode(arrays.actor, obs), shape)[:, :, 0, 0])
        found = []
        for (rows, risk), heads in zip(self.groups, arrays.own, strict=True):
            outputs = self.outputs(heads, obs[np.array(rows)])
            values = self.law.means(outputs, heads) if risk is None else self.law.scores(outputs, heads, risk)
            found.append(values.argmax(axis=-1))
        order = np.argsort([row for rows, _ in self.groups for row in rows])
        return jnp.concatenate(found)[order]

    def moments(self, heads: TaskHeads | HistogramTask, obs: Array, actions: Array) -> tuple[Array, Array]:
        """Return mean and variance (K, M) of the policies' returns, for compiled code.

        Args:
            heads: The networks for the task, from `FollowedNetworks.heads`.
            obs: Observations (K, M, n).
            actions: The policies' actions, (K, M) or (K, M, P).
        """
        if isinstance(heads, HistogramTask):
            mean, variance = histogram_moments(jax.nn.softmax(_own_logits(heads, obs, actions)), heads.atoms)
            return jnp.sum(mean * heads.weights, axis=-1), jnp.sum(variance * heads.weights**2, axis=-1)
        is_vector = actions.ndim == 3
        rows = jnp.concatenate([actions, obs], axis=-1) if is_vector else obs
        found = self.law.moments(self.outputs(heads, rows), heads)
        mean, variance = (part[..., 0] if is_vector else _at(part, actions) for part in found)
        return mean, jnp.maximum(variance, 0.0)

    def outputs(self, heads: TaskHeads, obs: Array) -> tuple[Array, ...]:
        """Return the outputs (K, M, A, H, X) of every part at observations (K, M, n), for H heads of X numbers."""
        pairs = zip(heads.networks, self.law.task_shapes(heads), strict=True)
        found = tuple(read_heads(one.heads, encode(one, obs), shape) for one, shape in pairs)
        return found if self.clock is None else self.law.at_time(found, self.clock.share(obs))


class FollowedNetworks:
    """Networks at observations of their own.

    Args:
        base: The policies.
        own: The weights and the risk that each policy was trained for.
    """

    def __init__(self, base: NetworkPolicies, own: Own) -> None:
        tasks, self._base, self.policies = own_tasks(own), base, base.policies
        by_risk: dict[Risk | None, list[int]] = {}
        for i, (_, risk) in enumerate(tasks):
            by_risk.setdefault(None if is_neutral(risk) else risk, []).append(i)
        weights = np.stack([w for w, _ in tasks]).astype(np.float32)
        active = max(1, int((weights != 0).sum(axis=1).max()))
        vectors = isinstance(base, ActorPolicies)
        groups = {} if vectors else by_risk
        self.form = Form(base.law, tuple((tuple(rows), risk) for risk, rows in groups.items()), base.clock)
        heads = []
        for at, rows in groups.items():
            networks = tuple(choose_policies(network, np.array(rows)) for network in base.networks)
            law, mine = base.law, weights[rows]
            heads.append(law.mean_heads(networks, mine) if at is None else law.task_heads(networks, mine, active))
        actor = base.actor if isinstance(base, ActorPolicies) else ()
        self.arrays: Arrays = jax.tree.map(jnp.asarray, Arrays(tuple(heads), actor))
        self._kept: dict[bytes, TaskHeads | HistogramTask] = {}

    def heads(self, w: Floats) -> TaskHeads | HistogramTask:
        """Return the networks for weights w (d,), as `Form.moments` needs them."""
        key = w.tobytes()
        if key not in self._kept:
            base, single = self._base, w.astype(np.float32)
            if base.law_kind is LawKind.HISTOGRAM:
                found: Any = base.histogram_task(w, NEUTRAL)[0]
            else:
                each = np.tile(single, (base.policies, 1))
                found = base.law.task_heads(base.networks, each, max(1, int(np.count_nonzero(w))))
            self._kept = {} if len(self._kept) > 64 else self._kept
            self._kept[key] = jax.tree.map(jnp.asarray, found)
        return self._kept[key]

    def actions(self, obs: Array) -> Array:
        """Return the policies' actions at observations (K, M, n)."""
        return np.asarray(_actions(self.form, self.arrays, jnp.asarray(obs, jnp.float32)))

    def tails(self, obs: Array, actions: Array, w: Floats) -> Tails:
        """Return moments of returns; arguments as for `Followed`."""
        found = _moments(self.form, self.heads(w), jnp.asarray(obs, jnp.float32), jnp.asarray(actions))
        mean, variance = (np.asarray(part, np.float64) for part in found)
        if self._base.law_kind is LawKind.MEAN:
            variance = np.full_like(mean, np.nan)
        return Tails(mean, variance, np.ones(mean.shape, np.bool_))

    def histograms(self, obs: Array, actions: Array, w: Floats) -> Floats:
        """Return equally likely returns (K, M, L), from histograms."""
        heads = self.heads(w)
        if not isinstance(heads, HistogramTask):
            raise ValueError("these networks have no histograms")
        found = _histograms(heads, jnp.asarray(obs, jnp.float32), jnp.asarray(actions))
        return np.asarray(found, np.float64)


@partial(jax.jit, static_argnames="form")
def _actions(form: Form, arrays: Arrays, obs: Array) -> Array:
    return form.actions(arrays, obs)


@partial(jax.jit, static_argnames="form")
def _moments(form: Form, heads: TaskHeads | HistogramTask, obs: Array, actions: Array) -> tuple[Array, Array]:
    return form.moments(heads, obs, actions)


@jax.jit
def _histograms(task: HistogramTask, obs: Array, actions: Array) -> Array:
    probs, atoms = convolution(jax.nn.softmax(_own_logits(task, obs, actions)), task.atoms, task.weights)
    return equal_parts(probs, atoms)


def _own_logits(task: HistogramTask, obs: Array, actions: Array) -> Array:
    """Return the logits (K, M, H, L) of the H active features, for one action of each policy and observation."""
    outputs = read_heads(task.network.heads, encode(task.network, obs), Heads(*task.atoms.shape))
    return jnp.take_along_axis(outputs, actions[..., None, None, None], axis=2)[:, :, 0]


def _at(values: Array, actions: Array) -> Array:
    return jnp.take_along_axis(values, actions[..., None], axis=-1)[..., 0]
