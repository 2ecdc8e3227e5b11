"""Small libraries of random networks for the reacher."""

import jax
import numpy as np

from deep.deep_twin import create_agent, random_learner, settings_of
from rasf.agents import AGENTS
from rasf.deep.actors import ActorAgent
from rasf.deep.agent import Tasks
from rasf.deep.settings import ActorSettings
from rasf.envs.gymnasium.single import open_environment
from rasf.envs.reacher.world import Reacher
from rasf.library.networks.actor_policies import policies_of
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.risk import MeanVariance

NAMES = {"histogram": "rasfc51", "point": "sfdqn", "residual": "sfdqn-residual"}


def random_reacher(law="histogram", seed=0, **kwargs):
    """Two networks of 16 units with weights at random, in an environment made with `kwargs`."""
    env = open_environment("rasf/Reacher-v0", **kwargs)
    described = env.describe()
    env.close()
    weights = Reacher().tasks((0, 3))
    settings = settings_of(NAMES[law], widths=(16, 16), atoms=9, gamma=0.8)
    agent = create_agent(settings, 4, 9, described.bounds, Tasks.of(weights))
    sources = policies_of(agent, random_learner(agent, seed).online)
    policies = tuple(SourcePolicy(tuple(w), MeanVariance(-6.0)) for w in weights.tolist())
    return PolicyLibrary(sources, described, policies, (AGENTS[NAMES[law]],), {}, (), {"seed": seed})


def random_torques(seed=0, limit=0, **kwargs):
    """Actors and critics of 16 units with weights at random, for two tasks and torques in [-1, 1]^2.

    With a limit, the networks see the time left.
    """
    env = open_environment("rasf/Reacher-v0", continuous=True, **kwargs)
    described = env.describe()
    env.close()
    weights, rng = Reacher().tasks((0, 3)), np.random.default_rng(seed)
    settings = ActorSettings(widths=(16, 16), gamma=0.8, horizon="episode" if limit else "continuing")
    agent = ActorAgent.create(settings, 4, 0, Tasks.of(weights), policies=2, action_size=2, limit=limit)
    shapes = jax.eval_shape(agent.initial, jax.random.key(0))
    networks = jax.tree.map(lambda leaf: (0.5 * rng.normal(size=leaf.shape)).astype(leaf.dtype), shapes)
    policies = tuple(SourcePolicy(tuple(w), MeanVariance(-6.0)) for w in weights.tolist())
    sources = policies_of(agent, networks)
    return PolicyLibrary(sources, described, policies, (AGENTS["rasftd3"],), {}, (), {"seed": seed})
