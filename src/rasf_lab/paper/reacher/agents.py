"""The paper's baselines and ablations on the reacher, as subclasses of the library's deep agent.

ConditionedAgent    C51 and RaC51: a single network, with the target's position as an input, learns a histogram of the
                    return
GpiAgent            GPI over all policies chooses the bootstrap action, as in the SFDQN code of the paper's author

The bootstrap action is the next action in the learning target. `Agent` chooses it by the policy that learns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

from rasf import checks
from rasf.agents import AGENTS, LawKind
from rasf.arrays import Array
from rasf.deep.agent import Agent, Learner, Policies, Tasks
from rasf.deep.laws import Losses, Networks, Within, support_atoms
from rasf.deep.networks import init_network
from rasf.deep.replay import Windows
from rasf.deep.settings import HistogramSettings, NetworkSettings, network_settings
from rasf.risk import Risk

REWARD_BOUNDS = (-30.0, 10.0)  # the support of a ConditionedAgent's histogram
SEPARATE_HEADS = partial(init_network, separate_heads=True)  # each feature's heads are initialised as a separate layer


def adam(epsilon: float) -> Any:
    """Return optax's Adam with this epsilon. The default of optax is 1e-8."""
    return optax.adam if epsilon == 1e-8 else partial(optax.adam, eps=epsilon)


def paper_settings(agent: str) -> NetworkSettings:
    """Return the default settings of an agent of the paper. C51 and RaC51 have `HistogramSettings`."""
    return HistogramSettings() if AGENTS[agent].law is LawKind.REWARD else network_settings(agent)


@dataclass(frozen=True)
class ConditionedAgent(Agent):
    """An agent with a single network of the return distribution. Its input is the observation and the task input.

    Args:
        relabelled: whether every transition is used for all training tasks, not only for the task in which the
            transition was collected. Default: False.
    """

    relabelled: bool = False

    @classmethod
    def create(
        cls,
        settings: NetworkSettings,
        observation_size: int,
        n_actions: int,
        training: Tasks,
        atoms: Array | None = None,
        policies: int | None = None,
        **more: Any,
    ) -> Self:
        assert isinstance(settings, HistogramSettings)
        observation_size = checks.whole("observation_size", observation_size)
        seen = np.shape(training.inputs)[1]
        of_reward = support_atoms([REWARD_BOUNDS], 0.0, settings.atoms)
        one = Tasks.of(np.ones((1, 1)))
        return super().create(settings, observation_size + seen, n_actions, one, of_reward, **more)

    def for_weights(self, weights: npt.ArrayLike) -> Self:
        return self

    def sizes(self, observation_size: int, policies: int, features: int, seen: int) -> list[tuple[str, int, int]]:
        return [("inputs", self.inputs, observation_size + seen)]

    def weights_for_all(self, w: Array) -> Array:
        return jnp.ones((1, 1))

    def see(self, obs: Array, task_input: Array) -> Array:
        return jnp.concatenate([obs, jnp.broadcast_to(task_input, (len(obs), task_input.shape[-1]))], axis=-1)

    def update(
        self,
        learner: Learner,
        batch: Windows,
        tasks: Tasks,
        by: Risk | Policies,
        within: Within,
        weight: Array | float = 1.0,
        spread: Array | float = 1.0,
    ) -> tuple[Learner, Losses]:
        """Update the networks as the base class does, with the reward as the only feature."""
        assert isinstance(by, Risk)
        if self.relabelled:
            batch = _for_every_task(batch, len(tasks.weights))
            weight = jnp.repeat(jnp.asarray(weight), len(tasks.weights)) if jnp.ndim(weight) else weight
        seen, n = jnp.asarray(tasks.inputs)[batch.task], batch.next_obs.shape[1]
        reward = jnp.einsum("bnd,bd->bn", batch.phi, jnp.asarray(tasks.weights)[batch.task])
        after = jnp.concatenate([batch.next_obs, jnp.repeat(seen[:, None], n, axis=1)], axis=-1)
        own = batch._replace(obs=self.see(batch.obs, seen), next_obs=after, phi=reward[..., None])
        return super().update(learner, own, Tasks.of(np.ones((1, 1))), by, within, weight)


def _for_every_task(batch: Windows, tasks: int) -> Windows:
    """Return a copy of every transition for each task, labelled with the task."""
    repeated: Windows = jax.tree.map(lambda part: jnp.repeat(part, tasks, axis=0), batch)
    return repeated._replace(task=jnp.tile(jnp.arange(tasks), len(batch.task)))


@dataclass(frozen=True)
class GpiAgent(Agent):
    """An agent whose bootstrap action is chosen by GPI over all policies."""

    def bootstrap_scores(self, networks: Networks, x: Array, w: Array, risk: Risk | Array) -> Array:
        def by_all(own: Array, own_risk: Risk | Array) -> Array:
            shared = own_risk if isinstance(own_risk, Risk) else self.risk(own_risk)
            return self.own_scores(networks, x, self.weights_for_all(own), shared).max(axis=0)

        if isinstance(risk, Risk):
            return jax.vmap(lambda own: by_all(own, risk))(w)
        return jax.vmap(by_all)(w, risk)
