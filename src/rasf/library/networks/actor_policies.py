"""Frozen actors and critics: policies with continuous actions.

An action is a vector of P numbers in [-1, 1]. The candidates of GPI at an observation are the *proposals*: the actions
of the K policies. Scores have shape (K, B, A) for B observations and A candidates, so A = K. `actions` turns indices of
candidates into vectors.

A file contains the number P as `action_size`, the critics as in `NetworkPolicies`, and these arrays of the actors:

    actor/hidden/<i>/weight, bias        actor/heads/weight (K, m, 1, P), bias (K, 1, P)

The last hidden layer has m units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from rasf.arrays import Array, Floats, Ints
from rasf.checks import whole
from rasf.deep.actors import ActorCritic, by_proposal, proposals, rows_of
from rasf.deep.agent import Agent
from rasf.deep.laws import Law, Parts, TaskHeads
from rasf.deep.networks import Heads, Layer, Network, encode, kinds_of_layers, read_heads
from rasf.files import Arrays
from rasf.library.networks.policies import NetworkPolicies, Single, checked, joined, padded, plain, rounded, sizes
from rasf.risk import Risk
from rasf.risk.names import is_neutral
from rasf.transfer import gpi_actions


class ActorPolicies(NetworkPolicies):
    """Policies with actions in [-1, 1]^P; see the module's header.

    Args:
        law: The object that defines how the critics represent return distributions.
        gamma: The discount.
        networks: K critics and K actors.
        n_inputs: Number n of inputs of the actors.
        limit: As for `NetworkPolicies`. Default: 0.
    """

    def __init__(self, law: Law, gamma: float, networks: ActorCritic, n_inputs: int, limit: int = 0) -> None:
        super().__init__(law, gamma, networks.critic, n_inputs, limit)
        self.action_size = networks.actor.heads.bias.shape[-1]
        self.actor = plain(networks.actor, Heads(1, self.action_size))
        self.n_actions = self._few = self.policies

    def proposals(self, obs: npt.NDArray[Any]) -> Single:
        """Return the actions (B, K, P) of every policy at observations (B, n)."""
        seen = np.asarray(obs, np.float32)
        if len(seen) == 1:
            return proposals(self.actor, seen)
        on_device = self._keep(b"actor", lambda: jax.tree.map(jnp.asarray, self.actor))
        return np.asarray(_proposals(on_device, padded(seen)))[: len(seen)]

    def actions(self, obs: npt.NDArray[Any], chosen: Ints) -> Single:
        """Return actions (B, P): at each observation, the proposal of the policy `chosen`.

        Args:
            obs: Observations (B, n).
            chosen: Indices (B,) of policies.
        """
        return self.proposals(obs)[np.arange(len(obs)), chosen]

    def act(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Single:  # type: ignore[override]
        """Return actions (B, P) by GPI; arguments as for `NetworkPolicies`."""
        self.check(risk)
        found = [self._chosen(few, w, risk) for few in self._chunks(obs)]
        return np.concatenate(found)

    def act_one(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Single:  # type: ignore[override]
        """Return the action (P,) for one observation; arguments as for `NetworkPolicies`."""
        self.check(risk)
        return self._chosen(np.asarray(obs, np.float32)[None], w, risk)[0]

    def _chosen(self, obs: Single, w: Floats, risk: Risk) -> Single:
        """Return actions (B, P) by GPI. The actors are evaluated only once."""
        actions, neutral = self.proposals(obs), is_neutral(risk)
        read, folded = self._read_at(actions, obs, w, only_means=neutral)
        values = self.law.means(read, folded) if neutral else self.law.scores(read, folded, risk)
        return actions[np.arange(len(obs)), np.asarray(gpi_actions(values))]

    def _read(self, obs: Single, w: Floats, *, only_means: bool = False) -> tuple[Parts, TaskHeads]:
        return self._read_at(self.proposals(obs), obs, w, only_means=only_means)

    def _read_at(self, actions: Single, obs: Single, w: Floats, *, only_means: bool) -> tuple[Parts, TaskHeads]:
        """Return the critics' outputs (K, B, K, H, M) at actions (B, K, P), for H heads of M numbers, and the critics.

        The weights w are folded into the last layer of these critics.
        """
        read, folded = super()._read(rows_of(actions, obs), w, only_means=only_means)
        return by_proposal(read, self.policies), folded

    def describe(self) -> dict[str, Any]:
        widths = [layer.bias.shape[1] for layer in self.actor.hidden]
        return super().describe() | {"actions": 1, "action_size": self.action_size, "actor_widths": widths}

    def arrays(self, precision: str = "single") -> Arrays:
        widths = [layer.bias.shape[1] for layer in self.actor.hidden]
        layout = _layout(self.policies, self.n_inputs, widths, self.action_size, len(self.actor.hidden[0].weight) == 1)
        leaves = zip(layout, jax.tree.leaves(self.actor), strict=True)
        return super().arrays(precision) | {name: rounded(array, precision) for name, array in leaves}

    @classmethod
    def restore(cls, description: Mapping[str, object], arrays: Arrays) -> Self:
        """Return the policies of a file; arguments as for `NetworkPolicies`."""
        size, policies, inputs = (whole(name, description.get(name)) for name in ("action_size", "policies", "inputs"))
        widths, sines = sizes("actor_widths", description.get("actor_widths")), description.get("sines", False) is True
        of_actor = {name: array for name, array in arrays.items() if name.startswith("actor/")}
        others = {name: array for name, array in arrays.items() if name not in of_actor}
        law, gamma, critic, inputs, limit = cls._read_file(description, others, size)
        # after `merge`, the actors may share hidden layers even if the critics do not
        first = arrays.get("actor/hidden/0/weight", np.zeros(0))
        layout = _layout(policies, inputs, widths, size, first.shape[:1] == (1,))
        if set(of_actor) != set(layout):
            different = min(set(of_actor) ^ set(layout))
            raise ValueError(f"arrays must be those of actors of widths {widths}; {different!r} is missing or unknown")
        leaves = [checked(of_actor, name, shape) for name, shape in layout.items()]
        like = Network(tuple(kind(0, 0) for kind in kinds_of_layers(len(widths), 0, sines)), Layer(0, 0))
        actor = jax.tree.unflatten(jax.tree.structure(like), leaves)
        return cls(law, gamma, ActorCritic(critic, actor), inputs, limit)

    @classmethod
    def _merged(cls, parts: Sequence[Self]) -> ActorCritic:
        return ActorCritic(super()._merged(parts), joined([part.actor for part in parts]))


def _layout(policies: int, inputs: int, widths: Sequence[int], size: int, shared: bool) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the stored arrays of actors, in the order in which jax lists them."""
    layout: dict[str, tuple[int, ...]] = {}
    for i, (n, m) in enumerate(pairwise((inputs, *widths))):
        stacks = 1 if shared else policies
        layout |= {f"actor/hidden/{i}/weight": (stacks, n, m), f"actor/hidden/{i}/bias": (stacks, m)}
    return layout | {"actor/heads/weight": (policies, widths[-1], 1, size), "actor/heads/bias": (policies, 1, size)}


def policies_of(agent: Agent, networks: Any) -> NetworkPolicies:
    """Return the policies of an agent.

    Args:
        agent: The agent.
        networks: The networks that the agent has learned.
    """
    kind = ActorPolicies if agent.action_size else NetworkPolicies
    return kind(agent.law, agent.settings.gamma, networks, agent.inputs, agent.limit)


@jax.jit
def _proposals(actor: Network, obs: Array) -> Array:
    outputs = read_heads(actor.heads, encode(actor, obs), Heads(1, actor.heads.bias.shape[-1]))
    return jnp.tanh(outputs[:, :, 0, 0]).swapaxes(0, 1)
