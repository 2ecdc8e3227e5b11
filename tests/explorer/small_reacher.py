"""A small library of random networks for the reacher."""

from deep.deep_twin import create_agent, random_learner, settings_of
from rasf.agents import AGENTS
from rasf.deep.agent import Tasks
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
