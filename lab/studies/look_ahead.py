"""Looking ahead on the reacher: return and failures by h and beta, controls, errors of the model, time per decision.

    python lab/studies/look_ahead.py --out look_ahead.json             the study; on an H200 some minutes
    python lab/studies/look_ahead.py --learned 240000 --out learned.json   the same for a library with a learned model
    python lab/studies/look_ahead.py --toy --out toy.json              every part at a small size, on a CPU

The library is the shipped one (four training targets, neutral and averse, nine actions). It acts for the eight targets
that it was not trained for, in episodes of 500 steps, at the paper's beta 0, -1 and -3. All ways to act have the same
start states and the same noise. Rules, written before the first run, are in lab/notes/look_ahead.md. Episodes of a
target run as one batch in one compiled program. No Gymnasium is needed.

Ways to act: "h 8"; "no tail, h 8", the same planner without the library's tail; "shooting, h 8", random shooting with
as many simulated steps; at h = 8 and -3 also a model with 15 % less torque, or with circles 1 cm too small or too
large, and other numbers of particles. Last, the time of single decisions by the library's own interface. `--only`
selects ways by the first letters of their names.

With `--learned STEPS`, a library of `rasfdqn` with a learned model is trained, and saved beside `--out`. It
acts in the same ways, and "learned, h 8" looks ahead in its own model; "learned, quantile 0.5" and "1" change the
probability of events. `--library` accepts such a file too.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import rasf
from rasf.envs.reacher.arm import physics as true_physics
from rasf.envs.reacher.world import Reacher
from rasf.library.ahead.learned import LearnedModel
from rasf.library.ahead.networks import FollowedNetworks
from rasf.library.ahead.returns import path_moments
from rasf.library.ahead.world import simulate
from rasf.library.policy_library import PolicyLibrary
from rasf.risk import MeanVariance
from rasf.transfer import gpi_actions

BETAS = (0.0, -1.0, -3.0)  # of the paper, which has no factor 1/2: MeanVariance(2 beta)
AHEAD = (0, 3, 8, 15)
USUAL, STRONG = 8, -3.0  # the h and the beta of the controls and the errors
TESTS = range(4, 12)


@dataclass(frozen=True)
class Weak(Reacher):
    """A reacher whose torques are 15 % weaker."""

    def advance(self, state, action, noise, physics=true_physics):
        """Take a step with weaker torques."""
        return super().advance(state, action, noise, lambda before, torque: physics(before, 0.85 * torque))


MODELS = {}


def set_models(library):
    """Fill `MODELS` for the observations of a library, with the library's own model if it has one."""
    seen = {"observation": library.environment.kwargs.get("observation", "raw")}
    MODELS.update({
        "exact": Reacher(**seen), "torque 15 % weak": Weak(**seen),
        "circles 1 cm too small": Reacher(radius=0.05, **seen), "circles 1 cm too large": Reacher(radius=0.07, **seen),
    })  # fmt: skip
    if library.model is not None:
        own = library.model.having(None)
        MODELS["learned"] = own
        for quantile in (0.5, 1.0):
            MODELS[f"learned, quantile {quantile:g}"] = replace(own, form=replace(own.form, quantile=quantile))


@dataclass(frozen=True)
class Way:
    """A way to act: `kind` is library (with its tail), no tail, or shooting."""

    ahead: int
    particles: int
    kind: str = "library"
    model: str = "exact"


def scored(way, form, gamma, arrays, parameters, heads, w, beta, state, key):
    """Actions (B,) of the policies for states (B, 4)."""
    world, obs = MODELS[way.model], MODELS["exact"].observe(state)
    learned = isinstance(world, LearnedModel)
    policies, actions = len(heads.weights), world.n_actions
    begun, own = (world.begin(obs), parameters) if learned else (state, None)
    if way.ahead == 0:  # today's choice
        outputs = form.outputs(heads, jnp.broadcast_to(obs, (policies, *obs.shape)))
        return gpi_actions(form.law.scores(outputs, heads, MeanVariance(beta)))
    first = jnp.broadcast_to(jnp.arange(actions), (len(obs), actions))
    paths = simulate(world, form, way.ahead, way.particles, gamma, False, arrays, obs, begun, first, key, own)
    mean = variance = jnp.zeros(paths.discount.shape)
    if way.kind == "library":
        mean, variance = (part.reshape(mean.shape) for part in form.moments(heads, paths.obs, paths.actions))
    mean, variance = path_moments(paths, w, mean, variance)
    return gpi_actions(mean + beta / 2 * variance)


def shot(way, sequences, gamma, w, beta, state, key):
    """Actions (B,) by random shooting: the first of the best of `sequences` random sequences of `ahead` actions."""
    world, (to_draw, to_act), B = MODELS[way.model], jax.random.split(key), len(state)
    drawn = jax.random.randint(to_draw, (B, sequences, way.ahead), 0, world.n_actions)
    drawn = drawn.at[:, :, 0].set(jnp.arange(sequences) % world.n_actions)  # every first action equally often

    def of_sequence(state, actions, keys):
        def step(carry, given):
            state, mean, variance, z = carry
            action, key = given
            after, _ = world.advance(state, action, world.noise(key))
            psi, sigma = world.step_moments(state, action, after)
            return (after, mean + z * psi @ w, variance + z**2 * w @ sigma @ w, z * gamma), None

        start = (state, jnp.zeros(()), jnp.zeros(()), jnp.ones(()))
        (_, mean, variance, _), _ = jax.lax.scan(step, start, (actions, keys))
        return mean, variance

    each = jax.vmap(of_sequence, (None, None, 0))  # over particles
    each = jax.vmap(jax.vmap(each, (None, 0, None)), (0, 0, 0))  # over sequences, with the same noise, and states
    mean, variance = each(state, drawn, jax.random.split(to_act, (B, way.particles, way.ahead)))
    score = mean.mean(axis=-1) + beta / 2 * (mean.var(axis=-1) + variance.mean(axis=-1))
    return jnp.take_along_axis(drawn[:, :, 0], score.argmax(axis=1)[:, None], axis=1)[:, 0]


@partial(jax.jit, static_argnames=("way", "form", "gamma", "steps", "episodes"))
def roll(way, form, gamma, steps, episodes, arrays, parameters, heads, w, beta, seed):
    """Sums of the features and discounted sums (B, d), of B episodes in the true world."""
    truth, policies = MODELS["exact"], len(heads.weights)
    starts, of_truth, of_planner = jax.random.split(jax.random.key(seed), 3)

    def step(carry, t):
        state, total, discounted, z = carry
        key = jax.random.fold_in(of_planner, t)
        if way.kind == "shooting":
            action = shot(way, policies * truth.n_actions, gamma, w, beta, state, key)
        else:
            action = scored(way, form, gamma, arrays, parameters, heads, w, beta, state, key)
        noise = jax.vmap(truth.noise)(jax.random.split(jax.random.fold_in(of_truth, t), episodes))
        state, phi = jax.vmap(truth.advance)(state, action, noise)
        return (state, total + phi, discounted + z * phi, z * gamma), None

    state = jax.vmap(truth.reset)(jax.random.split(starts, episodes))
    zero = jnp.zeros((episodes, truth.n_features))
    (_, total, discounted, _), _ = jax.lax.scan(step, (state, zero, zero, jnp.ones(())), jnp.arange(steps))
    return total, discounted


def run(way, beta, library, followed, given):
    """Return, failures and discounted return, (targets, episodes) each, and the seconds."""
    world, found, began = MODELS["exact"], [], time.perf_counter()
    for i, target in enumerate(given.targets):
        (w,) = world.tasks((target,))
        total, discounted = roll(
            way, followed.form, library.gamma, given.steps, given.episodes, followed.arrays,
            getattr(library.model, "parameters", None), followed.heads(w),
            jnp.asarray(w, jnp.float32), jnp.float32(2 * beta), given.seed + i,
        )  # fmt: skip
        total, discounted = np.asarray(total, np.float64), np.asarray(discounted, np.float64)
        found.append([total @ w, total[:, -1], discounted @ w])
    return np.array(found).swapaxes(0, 1), time.perf_counter() - began


def summary(numbers, beta, steps):
    """Means over targets and episodes; return and closeness are per step, failures per 500 steps."""
    returns, failures, _ = numbers
    return {
        "return": returns.mean() / steps, "closeness": (returns + 3 * failures).mean() / steps,
        "failures": failures.mean() * 500 / steps, "utility": utility(numbers, beta).mean(),
    }  # fmt: skip


def utility(numbers, beta):
    """Mean return + beta variance of the discounted return over episodes, (targets,); beta is the paper's."""
    returns, _, discounted = numbers
    return returns.mean(axis=-1) + beta * discounted.var(axis=-1)


def differences(one, other, beta, steps, draws=2_000):
    """Intervals of 95 % of `one` minus `other`, over targets and episodes together."""
    rng, (targets, episodes), found = np.random.default_rng(0), one.shape[1:], []
    for _ in range(draws):
        which, when = rng.integers(targets, size=targets), rng.integers(episodes, size=episodes)
        both = [part[:, which][:, :, when] for part in (one, other)]
        first, second = (
            (utility(part, beta).mean(), part[0].mean() / steps, part[1].mean() * 500 / steps) for part in both
        )
        found.append(np.subtract(first, second))
    low, high = np.quantile(found, (0.025, 0.975), axis=0)
    return {name: [float(low[i]), float(high[i])] for i, name in enumerate(("utility", "return", "failures"))}


def ways(given):
    """Names and ways of every part, with the betas at which they act."""
    many = given.particles
    found = {f"h {h}": (Way(h, many), BETAS) for h in given.ahead}
    found |= {f"no tail, h {h}": (Way(h, many, "no tail"), BETAS) for h in given.ahead if h}
    found |= {f"shooting, h {h}": (Way(h, many, "shooting"), BETAS) for h in given.ahead if h}
    learned = "learned" in MODELS
    found |= {f"learned, h {h}": (Way(h, many, model="learned"), BETAS) for h in given.ahead if h and learned}
    others = MODELS.keys() - {"exact", "learned"}
    found |= {name: (Way(USUAL, many, model=name), (STRONG,)) for name in MODELS if name in others}
    return found | {f"particles {n}": (Way(USUAL, n), (STRONG,)) for n in (1, 2, 4, 16)}


def times(library, given):
    """Milliseconds of single decisions by `sources.act`, for h, K and N; the shortest of ten after compiling."""
    world, found = MODELS["exact"], []
    (w,) = world.tasks((4,))
    state = np.array([0.3, 0.2, 0.0, 0.0], np.float32)
    half = PolicyLibrary(
        library.sources.merge([_policies(library, 4)]), library.environment, library.policies[:4], library.agents, {},
        (), {},
    )  # fmt: skip
    grid = [(h, n) for h in given.ahead for n in ((1, 2, 4, 8, 16) if h else (1,))]
    for some in (library, half):
        for h, n in grid:
            sources = some.rule(w, MeanVariance(-6.0), model=world, ahead=h, particles=n).sources
            obs = np.asarray(world.observe(state), np.float32)[None]
            spent = []
            for i in range(11):
                rows = obs if h == 0 else sources.beside(obs, sources.model.rows(state + 1e-3 * i, None))
                begin = time.perf_counter()
                sources.act(rows, w, MeanVariance(-6.0))
                spent.append(time.perf_counter() - begin)
            found.append({"K": len(some.policies), "h": h, "N": n, "ms": round(1e3 * min(spent[1:]), 2)})
            print(found[-1], flush=True)
    return found


def trained(steps, seed, toy):
    """A library of rasfdqn with a learned model, trained for `steps` steps in all on the paper's four targets."""
    world = Reacher(observation="sincos")
    small = {"widths": (16, 16)} if toy else {"widths": (256, 256)}
    return rasf.learn(
        world, agent="rasfdqn", tasks=world.tasks((0, 1, 2, 3)), gamma=0.9, steps_per_task=steps // 4, seed=seed,
        risk=[MeanVariance(2 * beta) for beta in BETAS], horizon="continuing", model=True, **small,
    )  # fmt: skip


def _policies(library, count):
    """The first policies of a library, as a library's policies."""
    from rasf.deep.networks import choose_policies
    from rasf.library.networks.policies import NetworkPolicies

    own = library.sources
    networks = tuple(choose_policies(one, slice(0, count)) for one in own.networks)
    return NetworkPolicies(own.law, own.gamma, networks, own.n_inputs, own.limit)


def main():
    """Run all parts, print a line for each way, and write everything after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=str(files("rasf_lab") / "shipped" / "reacher.rasf"))
    parser.add_argument("--learned", type=int, metavar="STEPS", help="steps of a library trained with a model")
    parser.add_argument("--episodes", type=int, default=16, help="for each target")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--targets", type=int, nargs="+", default=[*TESTS])
    parser.add_argument("--ahead", type=int, nargs="+", default=[*AHEAD])
    parser.add_argument("--particles", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="run only ways whose name begins so, or times")
    parser.add_argument("--toy", action="store_true", help="two targets, two episodes of 30 steps, one particle")
    parser.add_argument("--out", default="look_ahead.json")
    given = parser.parse_args()
    if given.toy:
        given = replace_fields(given, targets=[4, 9], episodes=2, steps=30, particles=1, ahead=[0, 3, 8])
    if given.learned:
        given.library = str(Path(given.out).with_suffix(".rasf"))
        trained(given.learned, given.seed, given.toy).save(given.library)
    library = rasf.load(given.library)
    print(*library.notes, sep="\n")
    set_models(library)
    own = tuple((policy.w, policy.risk) for policy in library.policies)
    followed, kept = FollowedNetworks(library.sources, own), {}
    result = {
        "device": str(jax.devices()[0]),
        "settings": vars(given),
        "notes": list(library.notes),
        "ways": {},
        "differences": {},
    }
    wanted = tuple(given.only or [""])
    for name, (way, betas) in ways(given).items():
        for beta in betas if name.startswith(wanted) else ():
            numbers, seconds = run(way, beta, library, followed, given)
            label = f"{name}, beta {beta:g}"
            kept[label] = numbers
            line = summary(numbers, beta, given.steps) | {"seconds": seconds}
            result["ways"][label] = line | {"each": np.round(numbers, 4).tolist()}
            print(label, {key: round(float(value), 3) for key, value in line.items()}, flush=True)
            base = kept.get(f"h 0, beta {beta:g}")
            if base is not None and not name.startswith("h 0"):
                result["differences"][f"{label} minus h 0"] = differences(numbers, base, beta, given.steps)
            for first in (f"h {way.ahead}", f"learned, h {way.ahead}"):
                same = kept.get(f"{first}, beta {beta:g}")
                if same is not None and name != first and (first[0] == "h" or name.startswith("learned")):
                    result["differences"][f"{first} minus {label}"] = differences(same, numbers, beta, given.steps)
            write(given.out, result)
    if not given.only or "times" in given.only:
        result["times"] = times(library, given)
    write(given.out, result)
    for label, intervals in result["differences"].items():
        print(label, {key: [round(end, 3) for end in pair] for key, pair in intervals.items()})


def replace_fields(given, **fields):
    """The arguments with other values."""
    return argparse.Namespace(**vars(given) | fields)


def write(path, result):
    """Write the results as JSON."""
    with open(path, "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
