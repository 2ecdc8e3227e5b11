"""What is measured of a batch: on every evaluation, at the end of every task, and at the very end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rasf.arrays import Array
from rasf.deep import evaluate
from rasf.deep.agent import Tasks
from rasf.deep.train import Lane
from rasf.envs.reacher.arm import tip_position
from rasf.experiments.reacher import maps as reacher_maps
from rasf.experiments.reacher import risks as reacher_risks
from rasf.experiments.reacher.batches import Arrays, Batch, Prepared, trials
from rasf.experiments.reacher.tensorboard_log import ScalarLog

EPSILON = 0.03


class Look:
    """Measures lanes; see the module's header. Scalars go to the log, if there is one."""

    def __init__(self, batch: Batch, made: Prepared, log: ScalarLog | None) -> None:
        self.batch, self.made, self.log = batch, made, log
        self.agent = made.agent.weighing(np.asarray(made.tasks.weights))
        self.where = reacher_maps.grid(batch.size.map_points)
        self.has_maps = made.agent.settings.law != "point" and not made.agent.settings.conditioned
        self._curve = jax.jit(jax.vmap(partial(self._outcome, n=batch.size.rollouts)))
        self._beliefs = jax.jit(self._lanes_one_by_one(self._beliefs_of))
        self._truth = jax.jit(self._lanes_one_by_one(self._truth_of))

    def __call__(self, step: int, lanes: Lane) -> dict[str, Any]:
        """For `fit`: curves always, maps at the end of a task."""
        online, plans = lanes.learner.online, self.made.plans
        found = self._curve(online, self._keys(1, step), plans.beta, self.made.tasks)
        if self.log is not None:
            for lane, (beta, seed, target) in enumerate(trials(self.batch)):
                alone = f"_target{target}" if self.batch.alone else ""
                name = f"{self.batch.name}/lane-{lane}_beta{beta:g}_seed{seed}{alone}"
                self.log.write_tasks(name, step, {key: part[lane] for key, part in found.items()})
        if self.has_maps and step and step % self.batch.size.steps_per_task == 0:
            own = np.arange(self.agent.policies)  # each policy on its own task
            beliefs = self._beliefs(online, self._keys(2, step), plans.beta, self.made.tasks)
            truth = self._truth(online, self._keys(3, step), plans.beta, self.made.tasks)
            found |= {
                "map_variance": beliefs.variance[:, own, own].astype(jnp.float16),
                "map_negative": beliefs.negative,
                "map_truth": truth[:, own, own].astype(jnp.float16),
            }
        return found

    def final(self, lanes: Lane) -> Arrays:
        """Many rollouts, with the paper's scores and with those that know the discount; maps of the objective.

        And the tips of three rollouts a task.
        """
        online, plans, size = lanes.learner.online, self.made.plans, self.batch.size
        arguments = (online, self._keys(4, 0), plans.beta, self.made.tasks)
        outcome = jax.jit(jax.vmap(partial(self._outcome, n=size.final_rollouts), in_axes=(0, 0, 0, 0, None)))
        found: Arrays = {}
        for way, risk_discount in (("final", 1.0), ("aware", self.agent.settings.gamma)):
            found |= {f"{way}_{name}": np.asarray(part) for name, part in outcome(*arguments, risk_discount).items()}
        states = jax.jit(jax.vmap(partial(self._states, n=3)))(*arguments)
        found["tips"] = np.asarray(tip_position(states).astype(jnp.float16))
        if self.agent.settings.law == "histogram":
            compared = jax.jit(self._lanes_one_by_one(self._risks))(online, plans.beta, self.made.tasks, states)
            found |= {f"risk_{name}": np.asarray(part) for name, part in compared.items()}
        if self.has_maps:
            found["map_objective"] = np.asarray(self._beliefs(*arguments).objective.astype(jnp.float16))
        return found

    def _keys(self, purpose: int, step: int) -> Array:
        both = jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, 2**31 + purpose), step))
        return both(self.made.plans.key)

    def _outcome(
        self, online: Any, key: Array, beta: Array, tasks: Tasks, risk_discount: Array | float = 1.0, *, n: int
    ) -> dict[str, Array]:
        """Of every task, means over n rollouts: return, failures, time in circles, distance held in the second half."""
        world = self.made.world
        half = world.episode_length // 2

        def watch(step: Array, state: Array) -> Array:
            tip = tip_position(state)
            late = jnp.where(step >= half, world.episode_length / (world.episode_length - half), 0.0)
            return jnp.concatenate([world.in_circle(tip)[None].astype(jnp.float32), late * world.distances(tip)])

        rolled = evaluate.rollouts(
            self.agent, world, online, key, beta, tasks, n, epsilon=EPSILON, risk_discount=risk_discount, watch=watch
        )
        goal = jnp.argmax(tasks.weights[:, :-1], axis=1)
        held = jnp.take_along_axis(rolled.watched[..., 1:], goal[:, None, None], axis=-1)[..., 0]
        returns = jnp.einsum("trd,td->tr", rolled.phi, tasks.weights)
        return {
            "return": jnp.mean(returns, axis=1),
            "return_variance": jnp.var(returns, axis=1),
            "discounted": jnp.mean(jnp.einsum("trd,td->tr", rolled.discounted, tasks.weights), axis=1),
            "failures": jnp.mean(rolled.phi[..., -1], axis=1),
            "in_circle": jnp.mean(rolled.watched[..., 0], axis=1),
            "distance": jnp.mean(held, axis=1),
        }

    def _states(self, online: Any, key: Array, beta: Array, tasks: Tasks, *, n: int) -> Array:
        world = self.made.world
        return evaluate.rollouts(self.agent, world, online, key, beta, tasks, n, epsilon=EPSILON, record=True).states

    def _risks(self, online: Any, beta: Array, tasks: Tasks, states: Array) -> dict[str, Array]:
        """Compared at every 25th state of the rollouts."""
        seen = states[:, :, ::25].reshape(len(tasks.weights), -1, states.shape[-1])
        return reacher_risks.compare(self.agent, self.made.world, online, beta, tasks, seen)

    def _beliefs_of(self, online: Any, key: Array, beta: Array, tasks: Tasks) -> reacher_maps.Beliefs:
        return reacher_maps.beliefs(self.agent, self.made.world, online, beta, tasks, self.where)

    def _truth_of(self, online: Any, key: Array, beta: Array, tasks: Tasks) -> Array:
        size = self.batch.size
        return reacher_maps.true_variance(
            self.agent,
            self.made.world,
            online,
            key,
            beta,
            tasks,
            self.where,
            rollouts=size.truth_rollouts,
            steps=size.truth_steps,
        )

    @staticmethod
    def _lanes_one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
        """Maps take much memory: one lane after the other."""
        return lambda *arguments: jax.lax.map(lambda lane: function(*lane), arguments)
