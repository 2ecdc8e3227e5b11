"""Small libraries with random networks or tables, and looking ahead written plainly: loops over single paths."""

import jax
import numpy as np

from deep.deep_twin import create_agent, random_learner, settings_of
from deep.probe_worlds import Push, Walk
from rasf.agents import AGENTS, acting_risk
from rasf.deep.actors import ActorAgent
from rasf.deep.agent import Tasks
from rasf.envs.gymnasium.description import world_description
from rasf.library.networks.actor_policies import policies_of
from rasf.library.policy_library import PolicyLibrary, SourcePolicy
from rasf.risk import MeanVariance

NEUTRAL = MeanVariance(0.0)
OWN = (
    SourcePolicy((1.0, 0.0, 0.2), NEUTRAL),
    SourcePolicy((0.3, -1.0, 0.0), MeanVariance(-2.0)),
    SourcePolicy((-1.0, 0.5, 0.4), NEUTRAL),
)


def walk_library(agent="rasfdqn", world=None, gamma=0.8, seed=0, **changes):
    """Three policies with random networks of 8 units for a `Walk` or a `Push`."""
    world = world or (Push() if AGENTS[agent].continuous else Walk())
    described, weights = world_description(world), np.array([policy.w for policy in OWN])
    settings = settings_of(agent, atoms=9, widths=(8, 8), gamma=gamma, **changes)
    more = {"kind": ActorAgent, "action_size": 2} if AGENTS[agent].continuous else {}
    made = create_agent(settings, 3, world.n_actions or 1, np.array(described.bounds), Tasks.of(weights), **more)
    if AGENTS[agent].continuous:
        networks = jax.tree.map(np.asarray, made.init(jax.random.key(seed)).online)
    else:
        networks = random_learner(made, seed).online
    sources = policies_of(made, networks)
    own = tuple(policy._replace(risk=NEUTRAL) for policy in OWN) if agent == "sfdqn" else OWN
    return PolicyLibrary(sources, described, own, (AGENTS[agent],), {}, (), {})


def states_of(world, count, seed=0):
    """Start states of a world as arrays (count, ..)."""
    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(seed), count))
    return jax.tree.map(np.asarray, states)


def plain_paths(library, world, states, ahead, particles, turn=1):
    """For every policy, state, first action and particle: features, gamma^h or 0, last observation and own action."""
    sources, B = library.sources, len(jax.tree.leaves(states)[0])
    keys = jax.random.split(jax.random.key(turn), 1 << (B - 1).bit_length())
    found = {}
    for b in range(B):
        state0 = jax.tree.map(lambda part, b=b: part[b], states)
        first = sources.proposals(np.asarray(world.observe(state0), np.float32)[None])
        for k, (w, risk) in enumerate(library.policies):
            for a in range(sources.n_actions):
                for n in range(particles):
                    state, action, z, features = state0, a if first is None else first[0, a], 1.0, np.zeros(3)
                    for t in range(ahead):
                        key = jax.random.split(jax.random.fold_in(keys[b], t), particles)[n]
                        state, phi = world.advance(state, action, world.noise(key))
                        features = features + z * np.asarray(phi)
                        z = 0.0 if bool(world.terminated(state)) else z * library.gamma
                        obs = np.asarray(world.observe(state), np.float32)
                        action = own_action(sources, obs, k, w, risk)
                    found[k, b, a, n] = features, z, obs, action
    return found


def own_action(sources, obs, k, w, risk):
    """The action that policy k takes for its own task at its own risk."""
    if sources.action_size:
        return sources.proposals(obs[None])[0, k]
    return int(sources.scores(obs[None], np.array(w), acting_risk(risk)).values[k, 0].argmax())


def plain_moments(library, paths, w):
    """Mean and variance (K, B, A) of the return, by the law of total variance over the paths."""
    sources, shape = library.sources, np.max(list(paths), axis=0) + 1
    mean, variance = np.zeros((2, *shape[:3]))
    for k, b, a in np.ndindex(*shape[:3]):
        x, spread = [], []
        for n in range(shape[3]):
            features, z, obs, action = paths[k, b, a, n]
            tail = sources.scores(obs[None], w, NEUTRAL)
            own = k if sources.action_size else action  # the proposal of policy k has index k
            x.append(features @ w + z * tail.mean[k, 0, own])
            spread.append(z**2 * np.nan_to_num(tail.std[k, 0, own]) ** 2)
        mean[k, b, a], variance[k, b, a] = np.mean(x), np.var(x) + np.mean(spread)
    return mean, variance
