"""`learn_from` makes a library from a log, without an environment."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import AGENTS, acting_risk, check_risks
from rasf.arrays import Floats, Ints
from rasf.envs.gymnasium.declarations import checked_signs
from rasf.files import Arrays
from rasf.library.ahead.counted import counted_model
from rasf.library.arguments.tasks import checked_risks, drawn_tasks
from rasf.library.logs.estimate import Estimate, LoggedModel
from rasf.library.logs.formats import opened
from rasf.library.logs.log import MAX_BYTES, Log
from rasf.library.policy_library import NEUTRAL, PolicyLibrary
from rasf.library.progress import Trained
from rasf.library.tables.model import evaluated
from rasf.library.training import library_of, provenance_of, with_settings
from rasf.risk import Risk
from rasf.tabular.settings import ModelSettings

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import Environment, Phi

_AGENT = AGENTS["rasf-model"]
_PARTS = ("value", "mean", "std")


def learn_from(
    data: object,
    *,
    tasks: npt.ArrayLike | int,
    risk: Risk | Sequence[Risk] = NEUTRAL,
    gamma: float | None = None,
    seed: int = 0,
    env: Environment | None = None,
    phi: Phi | None = None,
    signs: npt.ArrayLike | None = None,
    least_tries: int = 5,
    resamples: int = 100,
    max_bytes: int = MAX_BYTES,
    model: bool = False,
    **settings: object,
) -> PolicyLibrary:
    """Learn a library of tabular policies from recorded transitions, without an environment.

    Args:
        data: A `Recorder`'s folder, a .npz or .parquet file, "minari:ID" or a Minari dataset, a dict of arrays, or a
            `rasf.Log`.
        tasks: Weights (n, d), or a number of tasks to draw, as for `rasf.learn`. Tasks are drawn from the environment's
            own distribution if `env` is given and has a distribution, otherwise uniformly with `signs`.
        risk: One or several risks; there is a policy for each task and risk. Default: neutral.
        gamma: Discount. Default: 0.95.
        seed: Seed of all random numbers. Default: 0.
        env: The id of the environment that the log must come from, or an environment. It also defines how observations
            in plain arrays are read. Default: none.
        phi: `phi(obs, action, next_obs, info)` gives the features (d,), for a log without features. Default: none.
        signs: Signs (d,) of the weights of drawn tasks: 1 (more is better), -1 (a cost) or 0 (either). Default: the
            signs that `env` or `phi` declares.
        least_tries: Actions with fewer tries than this in a state are excluded there. If no action has enough tries,
            the actions with the most tries are kept. Default: 5.
        resamples: Number of bootstrap draws of the episodes, for the intervals of the predictions; 0 for no intervals.
            Default: 100.
        max_bytes: Largest memory in bytes for the numbers of a file, and for the tables made from a log. Both sizes are
            checked before the memory is used. Default: 1 GiB.
        model: Whether to save the counts of the log with the library, as a model to look ahead in. Default: False.
        **settings: Settings of `rasf-model`; see `rasf.ModelSettings`.

    Returns:
        The library. In `history`, `value` (of the risk measure), `mean` and `std` are predictions of every policy's
        discounted return from the start states of the log's episodes, computed from the model of the log. The ends of
        95 % intervals have names such as `value_low` and `value_high`. `thin` is the share of the time spent in states
        where the chosen action was tried fewer than ten times. `notes` has the coverage of the log.

    Raises:
        ValueError: An argument or the log is invalid, or needs more than `max_bytes`.
        FileNotFoundError: The file does not exist.
    """
    begin, risks = time.perf_counter(), checked_risks(risk)
    check_risks(_AGENT, risks)
    checks.whole("least_tries", least_tries)
    if not isinstance(model, bool):
        raise ValueError(f"model must be True or False, got {model!r:.60}")
    checks.whole("resamples", resamples, 0)
    chosen = settings | ({} if gamma is None else {"gamma": checks.number("gamma", gamma)})
    chosen_settings, seed = with_settings(ModelSettings(), chosen), checks.whole("seed", seed, 0)
    log = Log.read(data, env=env, phi=phi, max_bytes=max_bytes)
    logged = LoggedModel(log, chosen_settings, resamples, seed, max_bytes)
    coverage = logged.states.coverage(log)
    notes = [str(coverage)]
    with nullcontext() if env is None else opened(env, phi) as world:
        of_its_own = None if world is None else world.random_tasks
        known = None if world is None else world.signs
        if signs is not None:
            known = checked_signs(signs, log.environment.n_features)
        weights = drawn_tasks(tasks, log.environment.n_features, of_its_own, [seed, 77], notes, known)
    trained = []
    for one in risks:
        estimates: list[Estimate] = []

        def estimate(w: Floats, actions: Ints, one: Risk = one, estimates: list[Estimate] = estimates) -> None:
            estimates.append(logged.estimate(actions, w, acting_risk(one)))

        sources = evaluated(logged.learner, logged.states.keys, weights, one, least_tries, estimate)
        trained.append(Trained(sources, weights, _history(log, weights, estimates)))
    if model:
        counts = counted_model(logged.learner, logged.states.keys, weights, least_tries)
        trained = [one._replace(model=counts) for one in trained]
    origin = os.fspath(data) if isinstance(data, str | os.PathLike) else type(data).__name__
    settings, seconds = chosen | {"least_tries": least_tries}, time.perf_counter() - begin
    provenance = provenance_of(seed, settings, seconds, log=origin, coverage=vars(coverage))
    return library_of(trained, risks, _AGENT, log.environment, notes, provenance)


def _history(log: Log, weights: Floats, estimates: Sequence[Estimate]) -> Arrays:
    """Return the log's total reward and failures for each task, and the estimates for each policy."""
    failures = np.nan if log.failure is None else float(log.failure.sum())
    found: Arrays = {"return": log.phi.sum(axis=0) @ weights.T, "failures": np.full(len(weights), failures)}
    for name in _PARTS:
        parts = np.array([getattr(one, name) for one in estimates])
        found |= {f"{name}{end}": parts[:, i] for i, end in enumerate(("", "_low", "_high"))}
    return found | {"thin": np.array([one.thin for one in estimates])}


def evaluate_from(
    library: PolicyLibrary,
    data: object,
    w: npt.ArrayLike,
    risk: Risk,
    *,
    resamples: int,
    seed: int,
    env: Environment | None,
    phi: Phi | None,
) -> Estimate:
    """Return the result of `PolicyLibrary.evaluate_from`."""
    weights = checks.weights("w", w, library.n_features)
    library.sources.check(risk)
    log = Log.read(data, env=env, phi=phi)
    library.check_environment(log.environment)
    settings = with_settings(ModelSettings(), {"gamma": library.gamma})
    model = LoggedModel(log, settings, checks.whole("resamples", resamples, 0), checks.whole("seed", seed, 0))
    model.learner.begin_task(weights)
    model.learner.weigh_prior()
    keys = model.states.keys
    actions = np.append(library.sources.act(keys, weights, risk), 0)
    of_sources = library.sources.scores(log.obs[log.first], weights, risk).values.max(axis=2)  # (sources, episodes)
    best = float(of_sources.mean(axis=1).max())
    return model.estimate(actions, weights, risk, best)
