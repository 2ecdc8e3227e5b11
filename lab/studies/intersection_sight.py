"""How much of what comes can be seen at the intersection: networks predict collisions, and a driver trusts one.

    python lab/studies/intersection_sight.py --episodes 16000
    python lab/studies/intersection_sight.py --case intersection-intentions

Episodes begin with some random seconds, then one more action of any kind, then the driver never brakes. From each
observation of that last part networks learn, by its outcome, how likely a collision is for the action taken: 30,000
batches of 64, Adam from 0.002 down to a fiftieth. Told are the log loss and the AUC (how often of two situations the
one that ends in a collision is thought worse) in the last sixth of the episodes. The driver then goes as long as a
network says that never braking again collides with less than some chance, else does what is safest; it meets the
beginnings of the suite. Nothing is learned from rewards: it shows what there is to see, and is no bound. With the
second command the others' destinations are seen too.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf_lab.suite import find_case
from rasf_lab.suite.trials import TRYING

FASTER, SLOWER = 2, 0
UPDATES, BATCH, RATE = 30_000, 64, 2e-3
NETWORKS = {  # sees cars alike, widths, and what its layers are of
    "flat, (256, 256), rectified": (False, (256, 256), jax.nn.relu),
    "alike, (64, 64, 64), tanh": (True, (64, 64, 64), jnp.tanh),
    "alike, (64, 64, 64, 64), tanh": (True, (64,) * 4, jnp.tanh),
    "alike, (64, 64, 64), rectified": (True, (64, 64, 64), jax.nn.relu),
    "alike, (64, 64, 64, 64), rectified": (True, (64,) * 4, jax.nn.relu),
    "alike, five of 64, rectified": (True, (64,) * 5, jax.nn.relu),
    "alike, (128, 128, 128, 128), rectified": (True, (128,) * 4, jax.nn.relu),
}
TRUSTED = "alike, (64, 64, 64, 64), rectified"


def gather(env, episodes):
    """Observations (n, rows, numbers), actions, outcomes and episodes (n,)."""
    rng, found = np.random.default_rng(0), []
    for episode in range(episodes):
        obs, over, crashed, seen = env.reset(1_000 + episode), False, False, []
        random, taken = int(rng.integers(6)), 0
        while not over:
            action = FASTER if taken > random else int(rng.integers(env.n_actions))
            if taken >= random:
                seen.append((np.array(obs, np.float32), action))
            step = env.step(action)
            obs, over, taken = step.obs, step.terminated or step.truncated, taken + 1
            crashed |= step.phi[2] > 0
        found += [(x, action, crashed, episode) for x, action in seen]
    return tuple(np.array(part) for part in zip(*found, strict=True))


def initial(key, alike, widths, shape, n_actions):
    """Glorot-uniform layers, for observations (rows, numbers)."""
    sizes = (2 * shape[1] if alike else shape[0] * shape[1], *widths, n_actions)
    pairs = zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True)
    return [
        (jax.random.uniform(one, (n, m), minval=-1.0, maxval=1.0) * (6 / (n + m)) ** 0.5, jnp.zeros(m))
        for one, n, m in pairs
    ]


def logits(layers, x, alike, of):
    """Of a collision (B, A), from observations (B, rows, numbers); all but the last layer see each car by itself."""
    *hidden, last, (weight, bias) = layers
    if alike:
        h = jnp.concatenate([jnp.broadcast_to(x[:, :1], x.shape), x], axis=-1)
        for w, b in hidden:
            h = of(h @ w + b)
        nobody = -1.0 if of is jnp.tanh else 0.0
        h = jnp.where((x != 0).any(axis=-1, keepdims=True), h, nobody).max(axis=1)
    else:
        h = x.reshape(len(x), -1)
        for w, b in hidden:
            h = of(h @ w + b)
    return of(h @ last[0] + last[1]) @ weight + bias


def fit(data, n_actions, alike, widths, of, seed=0):
    """Layers that predict best."""
    x, action, crashed = (jnp.asarray(part) for part in data)
    optimiser = optax.adam(optax.linear_schedule(RATE, RATE / 50, UPDATES))

    def loss(layers, chosen):
        said = jnp.take_along_axis(logits(layers, x[chosen], alike, of), action[chosen, None], axis=1)[:, 0]
        return optax.sigmoid_binary_cross_entropy(said, crashed[chosen].astype(jnp.float32)).mean()

    def update(state, key):
        layers, inner = state
        slope = jax.grad(loss)(layers, jax.random.randint(key, (BATCH,), 0, len(x)))
        steps, inner = optimiser.update(slope, inner)
        return (optax.apply_updates(layers, steps), inner), None

    layers = initial(jax.random.key(seed), alike, widths, x.shape[1:], n_actions)
    keys = jax.random.split(jax.random.key(seed + 1), UPDATES)
    return jax.jit(lambda state: jax.lax.scan(update, state, keys)[0])((layers, optimiser.init(layers)))[0]


def judged(said, crashed):
    """Log loss and AUC."""
    rank = said.argsort().argsort()
    above = rank[crashed].mean() - (crashed.sum() - 1) / 2
    return np.logaddexp(0, np.where(crashed, -said, said)).mean(), above / (~crashed).sum()


def drive(case, env, said, trust):
    """Collisions, speed and return, means over five times forty beginnings; returns, over the unseen weightings too."""
    crashes, speeds, returns = [], [], []
    for seed in range(5):
        for beginning in seeds_from(TRYING + seed, case.episodes):
            obs, over, total = env.reset(beginning), False, 0.0
            while not over:
                risk = said(np.array(obs, np.float32)[None])
                safest = int(risk.argmin()) if risk.min() < trust else SLOWER
                step = env.step(FASTER if risk[FASTER] < trust else safest)
                obs, over, total = step.obs, step.terminated or step.truncated, total + step.phi
                speeds.append(step.info["speed"])
            crashes.append(total[2])
            returns.append((np.array(case.unseen, float) @ total).mean())
    return np.mean(crashes), np.mean(speeds), np.mean(returns)


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=16_000)
    parser.add_argument("--case", default="intersection", choices=["intersection", "intersection-intentions"])
    chosen = parser.parse_args()
    case = find_case(chosen.case)
    env = open_environment(case.env, None, **case.env_kwargs)
    x, action, crashed, episode = gather(env, chosen.episodes)
    size = np.sqrt((x[x.any(axis=-1)] ** 2).mean(axis=0))
    x, learning = x / size, episode < chosen.episodes * 5 // 6
    print(f"{len(x):,} observations, {crashed.mean():.1%} before a collision", flush=True)
    for name, network in NETWORKS.items():
        began = time.perf_counter()
        layers = fit((x[learning], action[learning], crashed[learning]), env.n_actions, *network)
        ask = jax.jit(lambda x, layers=layers, network=network: logits(layers, x, network[0], network[2]))
        said = np.asarray(ask(x[~learning]))[np.arange((~learning).sum()), action[~learning]]
        loss, auc = judged(said, crashed[~learning])
        print(f"{name:40} log loss {loss:.3f}  AUC {auc:.3f}  {time.perf_counter() - began:.0f} s", flush=True)
        if name == TRUSTED:
            trusted = ask
    for trust in (0.6, 0.7, 0.8, 0.9, 0.95):
        told = drive(case, env, lambda x: np.asarray(jax.nn.sigmoid(trusted(x / size)))[0], trust)
        print(f"goes below {trust:g}: collisions {told[0]:.3f}  {told[1]:.2f} m/s  return {told[2]:.2f}", flush=True)


if __name__ == "__main__":
    main()
