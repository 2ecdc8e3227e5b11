"""Libraries of random networks for the roads."""

import numpy as np

from deep.deep_twin import create_agent, random_learner, settings_of
from rasf.agents import AGENTS
from rasf.deep.agent import Tasks
from rasf.envs.gymnasium.encoder import Encoder
from rasf.envs.gymnasium.single import open_environment
from rasf.library.networks.actor_policies import policies_of
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.risk import MeanVariance


def random_driver(road="Highway", seed=0, **kwargs):
    """Two networks of 16 units with weights at random, in an environment made with `kwargs`."""
    env = open_environment(f"rasf/{road}-v0", **kwargs)
    described, signs = env.describe(), np.array(env.signs)
    env.close()
    weights = np.stack([signs, 0.5 * signs]).astype(float)
    settings = settings_of("rasfdqn", widths=(16, 16), gamma=0.8)
    size = Encoder(described.observations).vector_size
    agent = create_agent(settings, size, described.n_actions, described.bounds, Tasks.of(weights))
    sources = policies_of(agent, random_learner(agent, seed).online)
    policies = tuple(SourcePolicy(tuple(w), MeanVariance(0.0)) for w in weights.tolist())
    return PolicyLibrary(sources, described, policies, (AGENTS["rasfdqn"],), {}, (), {"seed": seed})
