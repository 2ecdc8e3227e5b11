"""`PolicyLibrary`: policies trained once, to act for any reward weights w at any risk their laws can serve.

    act        argmax_a max_k risk[w . Z_k(obs, a)]        GPI over all source policies
    scores     the same numbers before the maximum, and which policy drives the choice

Z_k is the law of policy k's discounted feature return, as its `FrozenPolicies` hold it. Use does not change a library;
`grow` and `merge` give new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import AgentSpec, Family
from rasf.arrays import Floats, Ints
from rasf.envs.gymnasium.description import INTERFACE, EnvironmentDescription
from rasf.envs.gymnasium.encoder import Encoder
from rasf.files import Arrays, Header
from rasf.library.frozen_policies import Explanation, FrozenPolicies
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import is_neutral, risk_to_text
from rasf.transfer import gpi

if TYPE_CHECKING:
    import gymnasium

    from rasf.envs.gymnasium.single import Environment, FailureRule, FeatureEnvironment, Phi
    from rasf.envs.gymnasium.vector import FeatureVector
    from rasf.library.actor import ActingRule, Actor
    from rasf.library.calibration import Calibration
    from rasf.library.evaluation import Comparison, Report
    from rasf.library.logs.estimate import Estimate
    from rasf.limits import Limit

NEUTRAL = MeanVariance(0.0)
Encode: TypeAlias = Callable[[object], np.ndarray]
GivenLimits: TypeAlias = "Mapping[str | int, float | Limit]"
GivenPrices: TypeAlias = Mapping[str | int, float]
AnyEnvironment: TypeAlias = "Environment | gymnasium.vector.VectorEnv"
_AT_ONCE = 16  # environments that evaluation steps together
_LONGEST = 10_000  # steps of an episode, where nothing else ends it
_MOST_EPISODES = 10_000_000


class SourcePolicy(NamedTuple):
    """What a policy was trained for."""

    w: tuple[float, ...]
    risk: Risk


class PolicyLibrary:
    """Made by `rasf.learn` or `rasf.load`.

    history: what training saw, one entry per policy, by name. notes: what was decided on the way, in sentences.
    calibration: what `calibrate` measured, or None.
    """

    def __init__(
        self,
        sources: FrozenPolicies,
        environment: EnvironmentDescription,
        policies: tuple[SourcePolicy, ...],
        agents: tuple[AgentSpec, ...],
        history: Arrays,
        notes: tuple[str, ...],
        provenance: Header,
        calibration: Calibration | None = None,
    ) -> None:
        self.sources, self.environment, self.policies, self.agents = sources, environment, policies, agents
        self.history, self.notes, self.provenance = history, notes, provenance
        self.calibration = calibration
        encoder = Encoder(environment.observations)
        self.is_batch = encoder.is_batch
        is_table = sources.family is Family.TABLES
        self.encode: Encode = encoder.key if is_table else encoder.vector  # what the policies see of an observation
        self.encode_batch: Encode = encoder.batch_keys if is_table else encoder.batch_vectors
        self._first_action = environment.first_action
        sizes = {
            "the number of policies": (len(policies), sources.policies),
            "n_actions": (environment.n_actions, sources.n_actions),
            "n_features": (environment.n_features, sources.n_features),
            "the size of an observation": (encoder.size if is_table else encoder.vector_size, sources.n_inputs),
        }
        if any(agent.family is not sources.family for agent in agents):
            raise ValueError(f"agents must be of the policies' family, {sources.family}, got {self.agent}")
        for name, (declared, held) in sizes.items():
            if declared != held:
                raise ValueError(f"{name} must agree with the policies, which have {held}, got {declared}")

    def __repr__(self) -> str:
        return f"<PolicyLibrary: {len(self.policies)} policies of {self.agent} on {self.environment.title}>"

    @property
    def agent(self) -> str:
        """The names of the agents that trained the policies."""
        return " + ".join(agent.name for agent in self.agents)

    @property
    def n_features(self) -> int:
        return self.sources.n_features

    @property
    def gamma(self) -> float:
        """The discount the policies were trained with."""
        return self.sources.gamma

    def describe(self) -> Header:
        """All but the numbers learned, as JSON; the header of the library's file."""
        return {
            "environment": self.environment.to_json(),
            "sources": self.sources.describe(),
            "policies": [{"w": list(policy.w), "risk": risk_to_text(policy.risk)} for policy in self.policies],
            "agent": self.agent,
            "notes": list(self.notes),
            "provenance": self.provenance,
        } | ({} if self.calibration is None else {"calibration": self.calibration.describe()})

    def act(self, obs: object, w: npt.ArrayLike, risk: Risk = NEUTRAL, limits: GivenLimits | None = None) -> int | Ints:
        """The action for one observation, or actions (B,) for a batch, as the environment numbers them.

        At an observation that no policy knows (`scores` tells), a tabular library takes the first action. limits:
        {feature's name or index: largest expected sum from here on}; where they cannot be kept, the nearest that can
        be. For limits that hold over a whole episode see `actor`.
        """
        if limits is not None:
            explained, _, _ = self._explain(obs, w, risk, limits)
            return explained.action if self.is_batch(obs) else int(explained.action[0])
        weights = self._weights(w)
        if self.is_batch(obs):
            return self.sources.act(self.encode_batch(obs), weights, risk) + self._first_action
        return self.sources.act_one(self.encode(obs), weights, risk) + self._first_action

    def scores(
        self, obs: object, w: npt.ArrayLike, risk: Risk = NEUTRAL, limits: GivenLimits | None = None
    ) -> Explanation:
        """Value, mean and standard deviation of every policy and action, and which policy drives the choice.

        With limits, also their prices from here on, and what the choice expects. Of one observation that was seen in
        training, a library that was calibrated has a promise too, as if an episode began there.
        """
        explained, rule, encoded = self._explain(obs, w, risk, limits)
        if self.is_batch(obs):
            return explained
        if self.calibration is not None and explained.seen.all():
            explained = replace(explained, promise=self.calibration.promise(rule, encoded))
        return explained.first()

    def _explain(
        self, obs: object, w: npt.ArrayLike, risk: Risk, limits: GivenLimits | None
    ) -> tuple[Explanation, ActingRule, np.ndarray]:
        """Of one observation or a batch, as a batch; by which rule, and what the policies see."""
        batch = self.is_batch(obs)
        encoded = self.encode_batch(obs) if batch else self.encode(obs)[None]
        rule = self.rule(w, risk, limits=limits)
        found = self.sources.scores(encoded, rule.w, risk)
        if rule.limits is None:
            choice = gpi(found.values)
            return Explanation(*found, choice.policy + self._first_action, choice.source), rule, encoded
        held = rule.begin(encoded)
        driver, action = np.divmod(rule.choose(encoded, held, found.values), self.sources.n_actions)
        numbered, names = action + self._first_action, rule.limits.names
        prices = dict(zip(names, held.prices.T, strict=True))
        expected = dict(zip(names, (held.costs * rule.limits.signs).T, strict=True))
        remarks = tuple(map(rule.limits.not_kept, held.costs))
        return Explanation(*found, numbered, driver, prices, expected, remarks), rule, encoded

    def risks(self) -> list[Risk]:
        """Neutral, and what the policies were trained for, as far as the library can act so."""
        found = []
        for risk in dict.fromkeys([NEUTRAL, *(policy.risk for policy in self.policies)]):
            with suppress(ValueError):
                self.sources.check(risk)
                found.append(risk)
        return found

    def rule(
        self,
        w: npt.ArrayLike,
        risk: Risk,
        *,
        static: bool = False,
        discount_aware: bool = False,
        limits: GivenLimits | None = None,
        prices: GivenPrices | None = None,
        names: Sequence[str] | None = None,
        calibrated: bool = True,
    ) -> ActingRule:
        """Return how to act for a task.

        Args:
            w: weights (d,) of the task.
            risk: the risk to act for.
            static, discount_aware, limits, prices: as for `evaluate`.
            names: of the features, where the library's environment has none.
            calibrated: keep limits with the certainty that the calibration gives, where there is one.

        Returns:
            The rule.

        Raises:
            ValueError: if the library cannot act so; the sentence says why.
        """
        from rasf.library.actor import ActingRule

        task, read = self._weights(w), None
        weights = task
        if prices is not None:
            from rasf.limits import repriced

            weights = self._weights(repriced(task, prices, self.environment.feature_names or names))
        if limits is not None:
            from rasf.limits import read_limits

            read = read_limits(limits, self.n_features, self.environment.feature_names or names)
            if calibrated and self.calibration is not None:
                read = self.calibration.tightened(read, risk, self.gamma)
            elif any(limit.per_episode for limit in read.given) and self.gamma < 1:
                raise ValueError("a limit per_episode needs a library that was calibrated: laws are discounted")
        for name, way in (("static", static), ("discount_aware", discount_aware)):
            if not isinstance(way, bool | np.bool_):
                raise ValueError(f"{name} must be True or False, got {way!r:.80}")
        ways = {"static": bool(static) and not is_neutral(risk), "discount_aware": bool(discount_aware)}
        return ActingRule(self.sources, weights, risk, limits=read, own=self.policies, task=task, **ways)

    def _weights(self, w: npt.ArrayLike) -> Floats:
        """Weights (d,) that can be scored without overflow."""
        found = checks.weights("w", w, self.n_features)
        if np.abs(found).max() > checks.HEAVIEST:
            most = checks.HEAVIEST
            raise ValueError(
                f"w must be within {-most:g} and {most:g}, so that scores do not overflow, got {w!r:.80}; "
                "only ratios of weights matter to a neutral choice, so they can be scaled"
            )
        return found

    def actor(
        self, w: npt.ArrayLike, risk: Risk = NEUTRAL, *, limits: GivenLimits | None = None, static: bool = True
    ) -> Actor:
        """Who acts through an episode by what was fixed at its first observation; see `rasf.Actor`.

        static: for the risk of the whole return, with what was earned in mind; else the risk is scored afresh at every
        step, as `act` does. limits: {feature's name or index: largest expected sum of the episode, discounted}.
        """
        from rasf.library.actor import Actor

        return Actor(self, self.rule(w, risk, static=static, limits=limits))

    def evaluate(
        self,
        env: AnyEnvironment,
        w: npt.ArrayLike,
        risk: Risk = NEUTRAL,
        episodes: int = 100,
        *,
        seed: int = 0,
        phi: Phi | None = None,
        discount_aware: bool = False,
        static: bool = False,
        limits: GivenLimits | None = None,
        prices: GivenPrices | None = None,
        failure: FailureRule | None = None,
        max_steps: int = _LONGEST,
        env_kwargs: Header | None = None,
    ) -> Report:
        """Act for some episodes, and report returns, variance, CVaR, failures and sums of features, with intervals.

        Args:
            env: an id, an environment, a function that makes one, or a `gymnasium.vector.VectorEnv`, whose environments
                run in parallel. One of another class than Gymnasium's `SyncVectorEnv` and `AsyncVectorEnv` takes one
                seed for all of its environments: there, each batch of episodes starts from the seed of its first.
            w: weights (d,) of the task, by which returns are counted.
            risk: the risk to act for; neutral by default.
            episodes: how many, at least 2; 100 by default.
            seed: from it each episode has a seed of its own; 0 by default.
            phi: the features, as for `learn`.
            discount_aware: score step t with the risk of a return that counts gamma^t times.
            static: hold the risk fixed from the beginning of an episode, as `actor` does.
            limits: as for `actor`; the report has their prices.
            prices: {feature's name or index: what a unit of it costs in addition}: actions are chosen for w less the
                prices, and returns are counted by w. A feature that is below 0 where it harms has a negative price.
            failure: failure(step) says on which steps there was a failure, where the environment does not name them in
                info["failure"].
            max_steps: longer episodes are truncated, and the report says how many.
            env_kwargs: arguments of an environment named by its id; by default those that the library was trained
                with, where it is the same.

        Returns:
            The report.

        Raises:
            ValueError: if an argument is not as described, or the library cannot act so in this environment.
        """
        ways: Header = {"static": static, "discount_aware": discount_aware, "limits": limits, "prices": prices}
        trying: Header = {"phi": phi, "failure": failure, "max_steps": max_steps, "env_kwargs": env_kwargs}
        return self._reports(env, w, {"": (risk, ways)}, episodes, seed, callback=None, **trying)[""]

    def compare(
        self,
        env: AnyEnvironment,
        w: npt.ArrayLike,
        risks: Sequence[Risk] | Mapping[str, Risk],
        episodes: int = 100,
        *,
        seed: int = 0,
        phi: Phi | None = None,
        discount_aware: bool = False,
        static: bool = False,
        limits: GivenLimits | None = None,
        prices: Mapping[str | int, float | Sequence[float]] | None = None,
        failure: FailureRule | None = None,
        max_steps: int = _LONGEST,
        env_kwargs: Header | None = None,
        callback: Callable[[str, int], None] | None = None,
    ) -> Comparison:
        """Evaluate several risks from the same start states, and beside them the control of re-priced weights.

        The control answers whether risk does more than a price: acting neutrally for weights in which what harms costs
        more, with returns counted by w. A risk is worth its name if it has fewer failures at the same return.

        Args:
            env: as for `evaluate`, like all that is not named here.
            w: weights (d,) of the task.
            risks: a list of risks, or a dict of them by name.
            episodes: for each of them.
            prices: {feature's name or index: price or list of prices}; every price adds a row, such as
                "price collision 4", that acts neutrally, without limits, for w less the price of that feature.
            callback: callback(row's name, episodes over), after every step; it may raise to stop.

        Returns:
            A report for every risk and every price.

        Raises:
            ValueError: if an argument is not as described, or the library cannot act so in this environment.
        """
        from rasf.library.evaluation import Comparison

        if isinstance(risks, Risk | str) or not isinstance(risks, Mapping | Sequence) or not risks:
            raise ValueError(f"risks must be a list of risks, or a dict of them by name, got {risks!r:.80}")
        named = dict(risks) if isinstance(risks, Mapping) else {risk_to_text(risk): risk for risk in risks}
        if len(named) < len(risks):
            raise ValueError(f"risks must differ in their names, {', '.join(named)}; a dict can name them")
        if not all(isinstance(name, str) for name in named):
            raise ValueError(f"risks must be named by words, got {', '.join(map(repr, named))}")
        ways: Header = {"static": static, "discount_aware": discount_aware, "limits": limits}
        rows = {name: (risk, ways) for name, risk in named.items()} | self._priced(prices)
        trying: Header = {"phi": phi, "failure": failure, "max_steps": max_steps, "env_kwargs": env_kwargs}
        return Comparison(self._reports(env, w, rows, episodes, seed, callback=callback, **trying))

    def _priced(self, prices: Mapping[str | int, float | Sequence[float]] | None) -> dict[str, tuple[Risk, Header]]:
        """A row of `compare` for every price: its risk, and how else it acts."""
        if prices is None:
            return {}
        if not isinstance(prices, Mapping) or not prices:
            raise ValueError(f"prices must be a dict such as {{'collision': [4, 10]}}, by feature, got {prices!r:.80}")
        from rasf.limits import feature_index

        names, found = self.environment.feature_names, dict[str, tuple[Risk, Header]]()
        for key, given in prices.items():
            each = given if isinstance(given, list | tuple | np.ndarray) else [given]
            values = [checks.number(f"a price of {key}", price) for price in each]
            if not values or len({*values}) < len(values):
                raise ValueError(f"prices of {key} must be one or more different numbers, got {given!r:.80}")
            label = names[feature_index("prices", key, self.n_features, names)] if names else key
            rows: dict[str, tuple[Risk, Header]] = {
                f"price {label} {value:g}": (NEUTRAL, {"prices": {key: value}}) for value in values
            }
            if len(rows) < len(values) or rows.keys() & found.keys():
                raise ValueError(f"prices must name a feature once, and prices that differ, got {prices!r:.80}")
            found |= rows
        return found

    def _reports(
        self,
        env: AnyEnvironment,
        w: npt.ArrayLike,
        rows: Mapping[str, tuple[Risk, Header]],
        episodes: int,
        seed: int,
        *,
        phi: Phi | None,
        failure: FailureRule | None,
        max_steps: int,
        env_kwargs: Header | None,
        callback: Callable[[str, int], None] | None,
    ) -> dict[str, Report]:
        """Act by the risk and the ways of every row, all from the same start states."""
        from rasf.envs.gymnasium.single import seeds_from
        from rasf.library.evaluation import run_episodes

        episodes, max_steps = _episodes(episodes), checks.whole("max_steps", max_steps)
        _check_callback(callback)
        seeds = seeds_from(checks.whole("seed", seed, 0), episodes)
        by_name = any(ways.get("limits") or ways.get("prices") for _, ways in rows.values())
        if not by_name or self.environment.feature_names is not None:
            for risk, ways in rows.values():  # before an environment is opened
                self.rule(w, risk, **ways)
        reports = {}
        with self._opened(env, phi, env_kwargs, failure, episodes) as environments:
            names = environments.feature_names
            rules = {name: self.rule(w, risk, names=names, **ways) for name, (risk, ways) in rows.items()}
            for name, rule in rules.items():
                told = None if callback is None else partial(callback, name)
                found = run_episodes(self, environments, rule, seeds, max_steps, told)
                if self.calibration is not None and found.beginnings is not None:
                    found = replace(found, promise=self.calibration.promise(rule, found.beginnings))
                reports[name] = found
        return reports

    def calibrate(
        self,
        env: AnyEnvironment,
        episodes: int = 4_000,
        *,
        tasks: npt.ArrayLike | int | None = None,
        risks: Sequence[Risk] | None = None,
        seed: int = 0,
        phi: Phi | None = None,
        max_steps: int = _LONGEST,
        env_kwargs: Header | None = None,
        callback: Callable[[int], None] | None = None,
    ) -> Calibration:
        """Measure how far predictions and outcomes lie apart, and keep it: the one call that changes a library.

        Afterwards `scores` and `evaluate` have a promise, bounds that hold in 95 % of the cases, and limits are kept
        with that certainty.

        Args:
            env: as for `evaluate`, like `phi`, `max_steps` and `env_kwargs`.
            episodes: in all, for every task at every risk, and half of them within a limit too; 4,000 by default.
            tasks: weights (n, d), or how many to draw from the environment's own distribution, or else between those
                that the policies were trained for; by default as many as leave 20 episodes to each, 10 to 60.
            risks: by default neutral, and those that the policies were trained for.
            seed: of the tasks and the episodes; 0 by default.
            callback: callback(episodes over), which may raise to stop.

        Returns:
            The calibration; printed, it says where predictions are off, and what to try.

        Raises:
            ValueError: if an argument is not as described, or episodes are too few for so many tasks and risks.
        """
        from rasf.envs.gymnasium.single import seeds_from
        from rasf.library.calibration import calibrate, calibration_tasks
        from rasf.library.evaluation import run_episodes

        episodes, max_steps = _episodes(episodes), checks.whole("max_steps", max_steps)
        seed, over = checks.whole("seed", seed, 0), [0]
        _check_callback(callback)
        if risks is None:
            risks = self.risks()
        if not isinstance(risks, list | tuple) or not risks or not all(isinstance(risk, Risk) for risk in risks):
            raise ValueError(f"risks must be a list of risks, got {risks!r:.80}")
        if len({risk_to_text(risk) for risk in risks}) < len(risks):
            raise ValueError(f"risks must differ, got {risks!r:.80}")
        for risk in risks:
            self.sources.check(risk)
        with self._opened(env, phi, env_kwargs, None, episodes) as environments:
            weights = calibration_tasks(self, environments.random_tasks, tasks, episodes, len(risks), seed)

            def roll(rule: ActingRule, n: int, seed: int) -> Report:
                report = run_episodes(self, environments, rule, seeds_from(seed, n), max_steps)
                over[0] += n
                if callback is not None:
                    callback(over[0])
                return report

            self.calibration = calibrate(self, roll, weights, risks, episodes, seed)
        return self.calibration

    @contextmanager
    def _opened(
        self, env: AnyEnvironment, phi: Phi | None, env_kwargs: Header | None, failure: FailureRule | None, most: int
    ) -> Iterator[FeatureVector]:
        """Environments to act in, at most `most` in parallel; they are closed at the end, except the caller's own."""
        import gymnasium

        from rasf.envs.gymnasium.single import open_environment
        from rasf.envs.gymnasium.vector import SyncEnvs, VectorEnvAdapter, open_vector

        kwargs = checks.keywords("env_kwargs", env_kwargs)
        if isinstance(env, gymnasium.vector.VectorEnv):
            vector = open_vector(env, None, phi, **kwargs)
            assert isinstance(vector, VectorEnvAdapter)
            self.check_environment(vector.describe())
            if failure is not None:
                vector.judge_each(failure)
            yield vector
            return
        if isinstance(env, str) and phi is None:
            self._require_phi(None)
        if env_kwargs is None and isinstance(env, str) and env == self.environment.id:
            kwargs = self.environment.make_kwargs()
        with ExitStack() as closing:
            environments: list[FeatureEnvironment] = []
            for _ in range(min(_AT_ONCE, most)):
                opened = open_environment(env, phi, **kwargs)
                environments.append(opened)
                if opened.env is not env:
                    closing.callback(opened.close)
                self.check_environment(opened.describe())
                if failure is not None:
                    opened.count_failures(failure)
                if opened.env is env:  # the caller's own cannot be copied
                    break
            yield SyncEnvs(environments)

    def evaluate_from(
        self,
        data: Any,
        w: npt.ArrayLike,
        risk: Risk = NEUTRAL,
        *,
        resamples: int = 100,
        seed: int = 0,
        env: Environment | None = None,
        phi: Phi | None = None,
    ) -> Estimate:
        """What acting by this library would earn, from a log alone, and how sure that is; data as for `learn_from`."""
        from rasf.library.logs.learn import evaluate_from

        return evaluate_from(self, data, w, risk, resamples=resamples, seed=seed, env=env, phi=phi)

    def grow(self, env: Environment, tasks: npt.ArrayLike | int, **options: Any) -> PolicyLibrary:
        """A library with further tasks, learned as `rasf.learn` does; while they are learned, the old policies help.

        What must be the same in one library, as gamma and the sizes of networks, is taken over.
        """
        from rasf.library.learn import learn

        if "base_library" in options:
            raise ValueError("base_library cannot be given to grow: it is the library that grows")
        fixed = self.sources.shared_settings()
        for name, value in fixed.items():
            given = options.get(name, value)
            if (tuple(given) if isinstance(given, list) else given) != value:
                raise ValueError(f"{name} must be that of the library that grows, {value}, got {given}")
        like_mine = {"agent": self.agents[0].name} | options | fixed
        more = learn(env, tasks=tasks, base_library=self, **like_mine)
        different = self.environment.difference(more.environment)
        if different is not None:
            mine, given = getattr(self.environment, different), getattr(more.environment, different)
            own = f"env must be the one that the library was trained in for it to grow, with {different} {mine!r:.60}"
            raise ValueError(f"{own}, got {given!r:.60}")
        return merge([self, more])

    def save(self, path: str | PathLike[str], *, precision: str = "single") -> None:
        """Write the library, whole or not at all; networks may be kept in precision "half"."""
        from rasf.library.file import save

        save(self, path, precision)

    def _require_phi(self, given: str | None) -> None:
        if given is None and self.environment.phi is not None:
            raise ValueError(f"phi must be given, as in training, where it was {self.environment.phi}")

    def check_environment(self, found: EnvironmentDescription) -> None:
        """Refuse an environment that is not like the one trained in."""
        self._require_phi(found.phi)
        different = self.environment.difference(found, INTERFACE)
        if different is not None:
            wanted, got = getattr(self.environment, different), getattr(found, different)
            raise ValueError(f"env must have the {different} that the library was trained with, {wanted}, got {got}")


def _episodes(given: int) -> int:
    """A number of episodes of which all that is kept fits into memory."""
    if checks.whole("episodes", given, 2) > _MOST_EPISODES:
        raise ValueError(f"episodes must be at most {_MOST_EPISODES:,}, got {given!r}")
    return int(given)


def _check_callback(callback: object) -> None:
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function, got {type(callback).__name__}")


def merge(libraries: Sequence[PolicyLibrary]) -> PolicyLibrary:
    """One library with the policies of all; they must be of the same environment and kind. It is not calibrated."""
    if not isinstance(libraries, list | tuple) or not all(isinstance(each, PolicyLibrary) for each in libraries):
        raise ValueError(f"libraries must be a list of policy libraries, got {libraries!r:.80}")
    if not libraries:
        raise ValueError("libraries must hold one at least")
    first = libraries[0]
    for other in libraries[1:]:
        different = first.environment.difference(other.environment)
        if different is not None:
            raise ValueError(f"libraries to merge must be of one environment, but their {different} differ")
        if type(other.sources) is not type(first.sources):
            raise ValueError("libraries to merge must both be tabular or both be networks")
    named = {library.environment.feature_names for library in libraries} - {None}
    if len(named) > 1:
        raise ValueError("libraries to merge must call their features the same, but their feature_names differ")
    common = [name for name in first.history if all(name in library.history for library in libraries)]
    return PolicyLibrary(
        first.sources.merge([library.sources for library in libraries]),
        replace(first.environment, feature_names=next(iter(named), None)),
        tuple(policy for library in libraries for policy in library.policies),
        tuple({agent.name: agent for library in libraries for agent in library.agents}.values()),
        {name: np.concatenate([library.history[name] for library in libraries]) for name in common},
        tuple(dict.fromkeys(note for library in libraries for note in library.notes)),
        {"merged": [part for library in libraries for part in library.provenance.get("merged", [library.provenance])]},
    )
