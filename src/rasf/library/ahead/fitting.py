"""Training of a `LearnedModel` on recorded steps: likelihood, bootstrap samples, early stopping.

A tenth of the steps is held out. Each member draws its own sample, with replacement, from the other steps. In rounds
of updates by Adam, all members learn in one compiled program. For each member, the dynamics and the classifier of
events are those after the round with the highest likelihood of the held-out steps. Training stops early if no member
improves.

Shapes are those of `rasf.library.ahead.learned`, with N steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

from rasf.arrays import Array, Bools
from rasf.deep.networks import Heads, Network, Sizes, init_network
from rasf.library.ahead.learned import Form, LearnedModel, Parameters, Scale

MEMBERS = 5
WIDTHS, NARROW = (128, 128), (32,)  # hidden layers of the dynamics and of f; of g
_SMOOTH, _SHARP = 0.5, 1.0  # standard deviations of the initial frequencies of the dynamics, and of f
_BATCH, _RATE, _DECAY = 256, 5e-3, 1e-2
_OF_EVENTS = 0.4  # the learning rate of the classifiers, as a share: they overfit rare events if they learn as fast
_EPOCHS, _FEWEST, _MOST = 40, 1_000, 20_000  # number of updates: this number of epochs, within these bounds
_ROUNDS, _PATIENCE = 20, 5  # rounds; rounds without an improvement after which training stops
_HELD_OUT, _MOST_HELD_OUT, _MOST_SCALED = 0.1, 20_000, 100_000  # share; steps held out; steps that give the scales


class Transitions(NamedTuple):
    """Recorded steps.

    Attributes:
        obs: Encoded observations (N, n), without time inputs.
        action: Actions (N,), or (N, p) if actions are vectors.
        phi: Features (N, d).
        next_obs: Next observations (N, n).
        terminated: Whether the step ended its episode (N,), apart from time limits.
    """

    obs: npt.NDArray[np.float32]
    action: npt.NDArray[Any]
    phi: npt.NDArray[np.float32]
    next_obs: npt.NDArray[np.float32]
    terminated: Bools


class _Data(NamedTuple):
    """Standardised numbers of steps: x (.., n), action inputs (.., p), x', targets (.., t) and outcomes (.., 1 + e)."""

    x: Array
    action: Array
    after: Array
    targets: Array
    outcomes: Array


class _Fit(NamedTuple):
    """The state of training: `best` are the networks with the lowest held-out losses `least` (2, M)."""

    parameters: Parameters
    optimiser: Any
    best: Parameters
    least: Array


def fit(steps: Transitions, n_actions: int, events: tuple[int, ...], seed: int = 0) -> tuple[LearnedModel, str]:
    """Learn a model of five members.

    Args:
        steps: The steps, at least one.
        n_actions: Number of actions; 0 if actions are vectors.
        events: Indices of the features that are events. They are 0 unless the event occurs.
        seed: Seed of the networks and of all samples. The same seed gives the same bits. Default: 0.

    Returns:
        The model, and a sentence on its errors for held-out steps.
    """
    size = 0 if n_actions else steps.action.shape[1]
    form = Form(steps.obs.shape[1], n_actions, size, steps.phi.shape[1], tuple(events), MEMBERS)
    count, rng = len(steps.phi), np.random.default_rng([seed, 37])
    order, some = rng.permutation(count), max(1, min(round(_HELD_OUT * count), _MOST_HELD_OUT))
    held, learned = order[:some], order[some:] if count > 1 else order
    to_start, to_learn = jax.random.split(jax.random.key(seed))
    begun = _start(form, steps, learned, to_start)
    data = _standardised(form, begun, steps)
    drawn = jnp.asarray(learned[rng.integers(len(learned), size=(form.members, len(learned)))])
    total = int(np.clip(_EPOCHS * len(learned) // _BATCH, _FEWEST, _MOST)) // _ROUNDS * _ROUNDS
    run, of_held = _programs(form, total), _taken(data, jnp.asarray(held))
    infinite = jnp.full((2, form.members), jnp.inf, jnp.float32)
    now, waited = _Fit(begun, _optimiser(total).init(_networks(begun)), begun, infinite), 0
    for turn in range(_ROUNDS):
        before, now = now.least, run(now, data, drawn, of_held, jax.random.fold_in(to_learn, turn))
        waited = 0 if bool((now.least < before).any()) else waited + 1
        if waited == _PATIENCE:
            break
    found = jax.tree.map(np.asarray, now.best)
    return LearnedModel(form, found), _sentence(form, found, of_held)


def _start(form: Form, steps: Transitions, learned: npt.NDArray[np.int64], key: Array) -> Parameters:
    """Return random networks, and the scales of the steps with indices `learned`."""
    others, events, some = list(form.others), list(form.events), learned[:_MOST_SCALED]
    change = np.concatenate([(steps.next_obs - steps.obs)[some], steps.phi[some][:, others]], axis=1)
    both = np.concatenate([steps.obs[some], steps.next_obs[some]])
    of_events = steps.phi[learned][:, events].astype(np.float64)
    occurs = of_events != 0
    many = np.maximum(occurs.sum(axis=0), 1)
    sizes = np.stack([of_events.sum(axis=0) / many, (of_events**2).sum(axis=0) / many])
    rates = np.concatenate([[steps.terminated[learned].mean()], occurs.mean(axis=0)])
    dynamics, after, before = _random_networks(form, WIDTHS, NARROW, key)
    usual = np.clip(rates, 1 / (2 * len(learned) + 2), 0.5)
    bias = after.heads.bias.at[..., : len(rates)].set(np.log(usual / (1 - usual)))
    after = after._replace(heads=after.heads._replace(bias=bias))
    before = before._replace(heads=jax.tree.map(jnp.zeros_like, before.heads))
    low = np.minimum(steps.obs.min(axis=0), steps.next_obs.min(axis=0))
    high = np.maximum(steps.obs.max(axis=0), steps.next_obs.max(axis=0))
    least, most = steps.phi.min(axis=0), steps.phi.max(axis=0)
    found = Parameters(
        dynamics, after, before, _scale(both), _scale(change), low, high, least, most, sizes,
    )  # fmt: skip
    single: Parameters = jax.tree.map(lambda one: jnp.asarray(one, jnp.float32), found)
    return single


@partial(jax.jit, static_argnums=(0, 1, 2))
def _random_networks(
    form: Form, widths: tuple[int, ...], narrow: tuple[int, ...], key: Array
) -> tuple[Network, Network, Network]:
    """Return random networks of the dynamics, f and g."""
    M, n, outcomes, keys = form.members, form.observation_size, Heads(1, 1 + len(form.events)), jax.random.split(key, 3)
    return (
        init_network(keys[0], Sizes(M, form.inputs, widths, 1, frequency=_SMOOTH), Heads(1, 2 * form.targets)),
        init_network(keys[1], Sizes(M, n, widths, 1, frequency=_SHARP), outcomes),
        init_network(keys[2], Sizes(M, form.inputs, narrow, 1), outcomes),
    )


def parameters_like(form: Form, widths: Sequence[int], narrow: Sequence[int]) -> Parameters:
    """Return the shapes and types of the parameters of a model, as a file must have them.

    Args:
        form: Sizes of the model.
        widths: Hidden layers of the dynamics and of f.
        narrow: Hidden layers of g.
    """
    sized = partial(_random_networks, form, tuple(widths), tuple(narrow))
    dynamics, after, before = jax.eval_shape(sized, jax.random.key(0))
    n, t, d = ((jax.ShapeDtypeStruct((size,), jnp.float32)) for size in
               (form.observation_size, form.targets, form.n_features))  # fmt: skip
    sizes = jax.ShapeDtypeStruct((2, len(form.events)), jnp.float32)
    return Parameters(dynamics, after, before, Scale(n, n), Scale(t, t), n, n, d, d, sizes)


def _scale(x: npt.NDArray[np.float32]) -> Scale:
    mean, std = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    return Scale(mean, np.where(std > 1e-6 * (1 + np.abs(mean)), std, 0.0))


def _standardised(form: Form, parameters: Parameters, steps: Transitions) -> _Data:
    inputs, targets = parameters.inputs, parameters.targets
    change = np.concatenate([steps.next_obs - steps.obs, steps.phi[:, list(form.others)]], axis=1)
    ends = [np.asarray(steps.terminated)[:, None], steps.phi[:, list(form.events)] != 0]
    standard = targets.standard(jnp.asarray(change, jnp.float32)) * (targets.std > 0)
    outcomes = jnp.asarray(np.concatenate(ends, axis=1), jnp.float32)
    x, after = (inputs.standard(jnp.asarray(part, jnp.float32)) for part in (steps.obs, steps.next_obs))
    return _Data(x, form.encoded(jnp.asarray(steps.action)), after, standard, outcomes)


def _taken(data: _Data, chosen: Array) -> _Data:
    return _Data(*(part[chosen] for part in data))


def _networks(parameters: Parameters) -> tuple[Network, Network, Network]:
    return parameters.dynamics, parameters.after, parameters.before


def _losses(form: Form, parameters: Parameters, data: _Data, weighted: bool = False) -> Array:
    """Return the mean negative log-likelihoods (2, M) of the targets and of the outcomes, up to constants.

    If `weighted`, every target's term is multiplied by its predicted standard deviation, as a constant (beta-NLL,
    Seitzer et al., 2022). Without this factor, Gaussians explain hard regions by a large variance and hardly learn
    their mean.
    """
    mean, log_variance = form.dynamics(parameters, data.x, data.action)
    each = (data.targets - mean) ** 2 * jnp.exp(-log_variance) + log_variance
    factor = jax.lax.stop_gradient(jnp.exp(0.5 * log_variance)) if weighted else 1.0
    of_targets = 0.5 * jnp.sum(factor * each, axis=-1)
    logits = form.logits(parameters, data.x, data.action, data.after)
    of_outcomes = jnp.sum(jax.nn.softplus(logits) - data.outcomes * logits, axis=-1)
    return jnp.stack([jnp.mean(of_targets, axis=-1), jnp.mean(of_outcomes, axis=-1)])


def _optimiser(total: int) -> optax.GradientTransformation:
    return optax.chain(optax.clip(10.0), optax.adamw(optax.cosine_decay_schedule(_RATE, total), weight_decay=_DECAY))


@lru_cache(maxsize=8)
def _programs(form: Form, total: int) -> Any:
    """Return the compiled function of one round."""
    optimiser, length = _optimiser(total), total // _ROUNDS

    def update(carry: tuple[Any, Any], key: Array, fixed: Parameters, data: _Data, drawn: Array) -> Any:
        networks, state = carry
        at = jax.random.randint(key, (form.members, _BATCH), 0, drawn.shape[1])
        batch = _taken(data, jnp.take_along_axis(drawn, at, axis=1))

        def loss(networks: Any) -> Array:
            now = fixed._replace(dynamics=networks[0], after=networks[1], before=networks[2])
            return jnp.sum(_losses(form, now, batch, weighted=True))

        steps, state = optimiser.update(jax.grad(loss)(networks), state, networks)
        slower = jax.tree.map(lambda step: _OF_EVENTS * step, steps[1:])
        return (optax.apply_updates(networks, (steps[0], *slower)), state), None

    def run(now: _Fit, data: _Data, drawn: Array, held: _Data, key: Array) -> _Fit:
        """Do a round of updates, and keep what is better than before for the held-out steps."""
        one = partial(update, fixed=now.parameters, data=data, drawn=drawn)
        (networks, state), _ = jax.lax.scan(
            one, (_networks(now.parameters), now.optimiser), jax.random.split(key, length)
        )
        new = now.parameters._replace(dynamics=networks[0], after=networks[1], before=networks[2])
        losses = _losses(form, new, held)
        better = losses < now.least

        def best(name: str, part: int) -> Network:
            def choose(one: Array, other: Array) -> Array:
                return jnp.where(better[part].reshape(-1, *(1,) * (one.ndim - 1)), one, other)

            return jax.tree.map(choose, getattr(new, name), getattr(now.best, name))

        kept = now.best._replace(dynamics=best("dynamics", 0), after=best("after", 1), before=best("before", 1))
        return _Fit(new, state, kept, jnp.where(better, losses, now.least))

    return jax.jit(run)


def _sentence(form: Form, found: Parameters, held: _Data) -> str:
    """Return a sentence on the errors for held-out steps."""
    mean, _ = jax.jit(form.dynamics)(found, held.x, held.action)
    wrong, real = np.asarray((held.targets - mean.mean(axis=0)) ** 2), np.asarray(found.targets.std) > 0
    varies, shares = np.asarray(held.targets).var(axis=0), []
    for name, columns in (("changes of observations", slice(None, form.observation_size)),
                          ("features", slice(form.observation_size, None))):  # fmt: skip
        some = np.flatnonzero(real[columns] & (varies[columns] > 0))
        if len(some):
            left = (wrong[:, columns].mean(axis=0)[some] / varies[columns][some]).mean()
            shares.append(f"{1 - left:.1%} of the variance of {name}")
    said = f"the learned model explains {' and '.join(shares) or 'no variance'} in {len(wrong):,} held-out steps"
    if not form.events:
        return said
    logits = jax.jit(form.logits)(found, held.x, held.action, held.after)[..., 1:]
    likely = float(jnp.quantile(jax.nn.sigmoid(logits), form.quantile, axis=0).sum())
    return f"{said}, where it expects {likely:.1f} events, and {float(held.outcomes[:, 1:].sum()):.0f} occurred"
