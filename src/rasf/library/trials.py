"""Episodes in which a library acts: opening environments, running an acting rule, and making a report.

The seed of each episode does not depend on the rule, so all rules have the same start states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.arrays import Floats
from rasf.checks import is_whole
from rasf.envs.gymnasium.episodes import episodes
from rasf.envs.gymnasium.single import Environment, FailureRule, FeatureEnvironment, Phi, open_environment, seeds_from
from rasf.envs.gymnasium.vector import FeatureVector, SyncEnvs, VectorEnvAdapter, open_vector
from rasf.files import Header
from rasf.library.acting.rule import NEUTRAL, ActingRule, Memory
from rasf.library.ahead.models import own_model, states_of
from rasf.library.ahead.policies import LookingAhead
from rasf.library.evaluation import Report
from rasf.limits import feature_index
from rasf.risk import Risk
from rasf.risk.names import risk_to_text

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary

AnyEnvironment: TypeAlias = Environment | gymnasium.vector.VectorEnv
Row: TypeAlias = tuple[Risk, Header]  # a risk, and the other arguments of `PolicyLibrary.rule`
_AT_ONCE = 16  # largest number of environments that are stepped in parallel
_MOST_EPISODES = 10_000_000


@dataclass(frozen=True)
class Trials:
    """Arguments of `PolicyLibrary.evaluate`: the environment, and the number, seed and length of episodes."""

    env: AnyEnvironment
    episodes: int
    seed: int
    max_steps: int
    phi: Phi | None = None
    env_kwargs: Header | None = None
    failure: FailureRule | None = None

    def __post_init__(self) -> None:
        for name, least in (("episodes", 2), ("max_steps", 1), ("seed", 0)):
            object.__setattr__(self, name, checks.whole(name, getattr(self, name), least))
        if self.episodes > _MOST_EPISODES:
            raise ValueError(f"episodes must be at most {_MOST_EPISODES:,}, got {self.episodes!r}")

    @contextmanager
    def opened(self, library: PolicyLibrary) -> Iterator[FeatureVector]:
        """Yield environments that run in parallel. On exit, close the environments that this method opened."""
        env, kwargs = self.env, checks.keywords("env_kwargs", self.env_kwargs)
        if isinstance(env, gymnasium.vector.VectorEnv):
            vector = open_vector(env, None, self.phi, **kwargs)
            assert isinstance(vector, VectorEnvAdapter)
            library.check_environment(vector.describe())
            if self.failure is not None:
                vector.judge_each(self.failure)
            yield vector
            return
        if isinstance(env, str) and self.phi is None:
            library.require_phi(None)
        if self.env_kwargs is None and isinstance(env, str) and env == library.environment.id:
            kwargs = library.environment.make_kwargs()
        with ExitStack() as closing:
            environments: list[FeatureEnvironment] = []
            for _ in range(min(_AT_ONCE, self.episodes)):
                opened = open_environment(env, self.phi, **kwargs)
                environments.append(opened)
                if opened.env is not env:
                    closing.callback(opened.close)
                library.check_environment(opened.describe())
                if self.failure is not None:
                    opened.count_failures(self.failure)
                if opened.env is env:  # the caller's environment cannot be copied, so only this one runs
                    break
            yield SyncEnvs(environments)

    def reports(
        self,
        library: PolicyLibrary,
        w: npt.ArrayLike,
        rows: Mapping[str, Row],
        callback: Callable[[str, int], None] | None,
    ) -> dict[str, Report]:
        """Run all rows from the same start states, and return their reports by name. A row is one way to act.

        Args:
            library: The library that acts.
            w: Weights (d,) of the task.
            rows: By name, a risk and further arguments of `PolicyLibrary.rule`.
            callback: None, or a function that is called after every step with the name of the current row and its
                number of finished episodes.
        """
        check_callback(callback)
        seeds = seeds_from(self.seed, self.episodes)
        by_name = any(ways.get("limits") or ways.get("prices") for _, ways in rows.values())
        if not by_name or library.environment.feature_names is not None:
            for risk, ways in rows.values():  # invalid arguments are refused before an environment is opened
                library.rule(w, risk, **ways | _without_model(ways))
        found = {}
        with self.opened(library) as environments:
            names = environments.feature_names
            rules = {
                name: library.rule(w, risk, names=names, **ways | _own_model(library, environments, ways))
                for name, (risk, ways) in rows.items()
            }
            for name, rule in rules.items():
                for_row = None if callback is None else partial(callback, name)
                report = run_rule(library, environments, rule, seeds, self.max_steps, for_row)
                if library.calibration is not None:
                    report = replace(report, bounds=library.calibration.bounds_of(rule, report.starts))
                found[name] = report
        return found


def run_rule(
    library: PolicyLibrary,
    environments: FeatureVector,
    rule: ActingRule,
    seeds: Sequence[int],
    max_steps: int,
    callback: Callable[[int], None] | None = None,
) -> Report:
    """Run an episode for each seed, and return a report.

    Args:
        library: the library, which encodes observations.
        environments: the environments, which run in parallel.
        rule: the acting rule.
        seeds: the seed of each episode.
        max_steps: steps after which an episode is truncated.
        callback: called after every step with the number of finished episodes; may raise an exception to stop.
            Default: none.

    Returns:
        The report.
    """
    run, n, gamma, over = _Run(library, rule, environments), len(seeds), rule.sources.gamma, 0
    phi, discounted = np.zeros((2, n, library.n_features))
    (failures, rest), lengths, truncated = np.zeros((2, n)), np.zeros(n, np.int64), np.ones(n, np.bool_)
    for transitions in episodes(environments, seeds, run.act, max_steps):
        for i, t, step, _ in transitions:
            phi[i] += step.phi
            discounted[i] += gamma**t * step.phi
            failures[i] += step.failure
            lengths[i], truncated[i] = t + 1, not step.terminated
        run.observe(np.stack([step.phi for _, _, step, _ in transitions]) @ rule.w)
        for i, t, step, is_last in transitions:
            if is_last and truncated[i]:
                rest[i] = gamma ** (t + 1) * run.remaining(i, step.obs, t + 1)
        over += sum(transition.over for transition in transitions)
        if callback is not None:
            callback(over)
    return Report(
        rule=rule,
        memory=Memory.joined(run.memories),
        phi=phi,
        discounted_phi=discounted,
        failures=failures if environments.reports_failures else None,
        lengths=lengths,
        truncated=truncated,
        rest=rest,
        unseen=run.unseen / int(lengths.sum()),
        starts=np.concatenate(run.starts),
        names=tuple(library.environment.feature_names or environments.feature_names or ()),
        sizes=_sizes_of_events(environments.declared_bounds),
    )


class _Run:
    """Acts by a rule, and stores the first observations and the rule's memory for each batch of parallel episodes."""

    def __init__(self, library: PolicyLibrary, rule: ActingRule, environments: FeatureVector) -> None:
        self._library, self._rule, self._first, self._environments = library, rule, 0, environments
        self.starts: list[npt.NDArray[Any]] = []
        self.memories: list[Memory] = []
        self.unseen = 0

    def act(self, t: int, obs: dict[int, Any]) -> list[Any]:
        encoded = np.stack([self._library.encode(one, t) for one in obs.values()])
        if t == 0:
            self._first = min(obs)
        self._rows = np.array(list(obs)) - self._first
        encoded = self._beside(encoded, t)
        if t == 0:
            self.starts.append(encoded)
            self.memories.append(self._rule.begin(encoded))
        memory = self.memories[-1].of(self._rows)
        actions = self._rule.act(encoded, memory)
        self.memories[-1].put(self._rows, memory)
        self.unseen += int((~self._rule.sources.seen(encoded)).sum())
        found: list[Any] = actions.tolist()
        return found

    def _beside(self, encoded: npt.NDArray[Any], t: int | None) -> npt.NDArray[Any]:
        """Append the states of the model after t steps if the rule looks ahead; None if they are unknown."""
        sources = self._rule.sources
        if not isinstance(sources, LookingAhead):
            return encoded
        if t is None:
            return sources.beside(encoded, None)
        listed = getattr(self._environments, "environments", None)
        some = None if listed is None else [listed[row] for row in self._rows]
        return sources.beside(encoded, states_of(sources, some, len(encoded), t))

    def observe(self, rewards: Floats) -> None:
        """Add the rewards of the last step, one for each running episode."""
        self.memories[-1].advance(rewards, self._rule.sources.gamma, self._rows)

    def remaining(self, episode: int, obs: Any, t: int) -> float:
        """Return the predicted mean of the remaining return after t steps; 0 at the time limit or at unseen `obs`."""
        if t >= self._rule.sources.limit > 0:
            return 0.0
        encoded = self._beside(self._library.encode(obs, t)[None], None)
        memory = self.memories[-1].of(np.array([episode - self._first]))
        if not self._rule.sources.seen(encoded)[0]:
            return 0.0
        return float(self._rule.predict(encoded, memory).mean[0])


def _without_model(ways: Header) -> Header:
    """Return the arguments to check a rule whose model is the environment, which is not open yet."""
    ahead = ways.get("ahead", 0)
    return {"ahead": 0} if ways.get("model") is None and is_whole(ahead) and ahead > 0 else {}


def _own_model(library: PolicyLibrary, environments: FeatureVector, ways: Header) -> Header:
    """Return the argument `model` for a rule that looks ahead in the environments themselves."""
    if not _without_model(ways):
        return {}
    return {"model": own_model(library.sources, environments)}


def named_risks(risks: Sequence[Risk] | Mapping[str, Risk]) -> dict[str, Risk]:
    """Return risks by name: a dict as it is given, or a dict that names each risk of a list by its text."""
    if isinstance(risks, Risk | str) or not isinstance(risks, Mapping | Sequence) or not risks:
        raise ValueError(f"risks must be a list of risks, or a dict of risks by name, got {risks!r:.80}")
    named = dict(risks) if isinstance(risks, Mapping) else {risk_to_text(risk): risk for risk in risks}
    if len(named) < len(risks):
        raise ValueError(f"risks must have different names, got {', '.join(named)}; to give other names, use a dict")
    if not all(isinstance(name, str) for name in named):
        raise ValueError(f"risks must have names that are text, got {', '.join(map(repr, named))}")
    return named


def priced_rows(library: PolicyLibrary, prices: Mapping[str | int, float | Sequence[float]] | None) -> dict[str, Row]:
    """Return the controls of `compare`, as rows: one that acts neutrally for each price of each feature."""
    if prices is None:
        return {}
    if not isinstance(prices, Mapping) or not prices:
        raise ValueError(f"prices must be a dict by feature, such as {{'collision': [4, 10]}}, got {prices!r:.80}")
    names, found = library.environment.feature_names, dict[str, Row]()
    for key, given in prices.items():
        each = given if isinstance(given, list | tuple | np.ndarray) else [given]
        values = [checks.number(f"a price of {key}", price) for price in each]
        if not values or len({*values}) < len(values):
            raise ValueError(f"prices of {key} must be one or more different numbers, got {given!r:.80}")
        label = names[feature_index("prices", key, library.n_features, names)] if names else key
        rows: dict[str, Row] = {f"price {label} {value:g}": (NEUTRAL, {"prices": {key: value}}) for value in values}
        if len(rows) < len(values) or rows.keys() & found.keys():
            raise ValueError(f"prices must name each feature once, with different prices, got {prices!r:.80}")
        found |= rows
    return found


def check_callback(callback: object) -> None:
    """Raise a ValueError unless `callback` is None or can be called."""
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function, got {type(callback).__name__}")


def _sizes_of_events(bounds: Floats) -> Floats:
    """Return the amount (d,) that one event adds to each feature, from the features' bounds (d, 2) in a step.

    If one bound of a feature is 0, the amount is the other bound. Otherwise the amount is unknown: nan.
    """
    low, high = bounds.T
    size = np.where(low == 0, high, np.where(high == 0, low, np.nan))
    return np.where(np.isfinite(size), size, np.nan)
