"""`PolicyLibrary`: policies trained once, to act for any reward weights w at any risk that they can score.

    act        argmax_a max_k risk[w . Z_k(obs, a)]        GPI over all source policies
    scores     the same numbers before the maximum, and the selected source policy

Z_k is the discounted feature return of policy k, whose distribution its `FrozenPolicies` hold. `rule` is the one place
where keyword arguments become a way to act (`rasf.library.acting`). Only `calibrate` changes a library; `grow` and
`merge` give new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import AgentSpec, Family
from rasf.arrays import Floats, Ints
from rasf.deep.clock import TIME_INPUTS, Clock
from rasf.envs.gymnasium.description import INTERFACE, EnvironmentDescription
from rasf.envs.gymnasium.encoder import Encoder
from rasf.files import Arrays, Header
from rasf.library.frozen_policies import Explanation, FrozenPolicies
from rasf.limits import Limit, Limits, read_limits, repriced
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import is_neutral, risk_to_text

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import Environment, FailureRule, Phi
    from rasf.library.acting.actor import Actor
    from rasf.library.acting.rule import ActingRule
    from rasf.library.calibration.calibration import Calibration
    from rasf.library.evaluation import Comparison, Report
    from rasf.library.logs.estimate import Estimate
    from rasf.library.trials import AnyEnvironment

NEUTRAL = MeanVariance(0.0)
Encode: TypeAlias = Callable[[object], np.ndarray]
GivenLimits: TypeAlias = Mapping[str | int, float | Limit]
GivenPrices: TypeAlias = Mapping[str | int, float]
_LONGEST = 10_000  # steps of an episode, where nothing else ends it


class SourcePolicy(NamedTuple):
    """The task and the risk that a policy was trained for."""

    w: tuple[float, ...]
    risk: Risk


class PolicyLibrary:
    """Policies and how to act by them; `rasf.learn` and `rasf.load` make one.

    history: measures of the training, one entry per policy, by name. notes: decisions of the training, in sentences.
    calibration: the result of `calibrate`, or None.
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
        self._encode: Encode = encoder.key if is_table else encoder.vector
        self._encode_batch: Encode = encoder.batch_keys if is_table else encoder.batch_vectors
        self._first_action = environment.first_action
        sizes = {
            "the number of policies": (len(policies), sources.policies),
            "n_actions": (environment.n_actions, sources.n_actions),
            "n_features": (environment.n_features, sources.n_features),
            "the size of an observation": (
                encoder.size if is_table else encoder.vector_size + (TIME_INPUTS if sources.limit else 0),
                sources.n_inputs,
            ),
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

    def encode(self, obs: object, t: int | Ints = 0) -> np.ndarray:
        """What the policies see of an observation, or of a batch, after t steps of the episode."""
        seen = self._encode_batch(obs) if self.is_batch(obs) else self._encode(obs)
        if not self.sources.limit:
            return seen
        return Clock(self.sources.limit, self.gamma).beside(seen, np.asarray(t))

    def act(
        self,
        obs: object,
        w: npt.ArrayLike,
        risk: Risk = NEUTRAL,
        limits: GivenLimits | None = None,
        t: int | Ints = 0,
    ) -> int | Ints:
        """Return the action for one observation, or actions (B,) for a batch, as the environment numbers them.

        Args:
            obs: an observation, or a batch of them. Where no policy knows it, a tabular library takes the first action.
            w: weights (d,) of the task.
            risk: the risk to act for; neutral by default.
            limits: {feature's name or index: largest expected sum from here on}; where they cannot be kept, the action
                is the nearest to that. For limits over a whole episode see `actor`.
            t: steps of the episode so far, one or (B,). Policies with the horizon "episode" depend on it; others do
                not. Default: 0.

        Returns:
            The action or actions.
        """
        if limits is not None:
            explained, _, _ = self._explain(obs, w, risk, limits, t)
            return explained.action if self.is_batch(obs) else int(explained.action[0])
        weights = self._weights(w)
        seen = self.encode(obs, t)
        return (self.sources.act if seen.ndim > 1 else self.sources.act_one)(seen, weights, risk) + self._first_action

    def scores(
        self,
        obs: object,
        w: npt.ArrayLike,
        risk: Risk = NEUTRAL,
        limits: GivenLimits | None = None,
        t: int | Ints = 0,
    ) -> Explanation:
        """Return value, mean and standard deviation of every policy and action, and the selected source policy.

        The arguments are those of `act`. With limits, there are also their prices from here on, and the sums that the
        choice expects. For one observation that was seen in training, a calibrated library gives bounds too, as if an
        episode began there.
        """
        explained, rule, encoded = self._explain(obs, w, risk, limits, t)
        if self.is_batch(obs):
            return explained
        if self.calibration is not None and explained.seen.all():
            explained = replace(explained, bounds=self.calibration.bounds_of(rule, encoded))
        return explained.first()

    def _explain(
        self, obs: object, w: npt.ArrayLike, risk: Risk, limits: GivenLimits | None, t: int | Ints
    ) -> tuple[Explanation, ActingRule, np.ndarray]:
        """Of one observation or a batch, as a batch; by which rule, and the observations as the policies see them."""
        encoded = np.atleast_2d(self.encode(obs, t))
        rule = self.rule(w, risk, limits=limits)
        found, memory = self.sources.scores(encoded, rule.w, risk), rule.begin(encoded)
        source, action = np.divmod(rule.choose(encoded, memory, found.values), self.sources.n_actions)
        told = (rule.prices(memory), rule.expected(memory), tuple(rule.not_kept(memory)))
        return Explanation(*found, action + self._first_action, source, *told), rule, encoded

    def risks(self) -> list[Risk]:
        """Neutral, and the risks that the policies were trained for, as far as the library can act for them."""
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
        acting: type[ActingRule] | None = None,
        names: Sequence[str] | None = None,
    ) -> ActingRule:
        """Return how to act for a task.

        Args:
            w: weights (d,) of the task.
            risk: the risk to act for.
            static, discount_aware, limits, prices, acting: as for `evaluate`.
            names: of the features, where the library's environment has none.

        Returns:
            The rule; of a calibrated library, it keeps limits with the certainty of the calibration.

        Raises:
            ValueError: if the library cannot act so; the sentence says why.
        """
        from rasf.library.acting.gpi import DiscountAware, PerStateRisk
        from rasf.library.acting.limited import WithinLimits
        from rasf.library.acting.rule import ActingRule
        from rasf.library.acting.static import StaticRisk

        task, names = self._weights(w), self.environment.feature_names or names
        weights = task if prices is None else self._weights(repriced(task, prices, names))
        read = None if limits is None else self._limits(limits, risk, names)
        for name, way in (("static", static), ("discount_aware", discount_aware)):
            if not isinstance(way, bool | np.bool_):
                raise ValueError(f"{name} must be True or False, got {way!r:.80}")
        if acting is not None and not (isinstance(acting, type) and issubclass(acting, ActingRule)):
            raise ValueError(f"acting must be a subclass of rasf.library.acting.rule.ActingRule, got {acting!r:.80}")
        given = {
            "static": StaticRisk if static and not is_neutral(risk) else None,
            "discount_aware": DiscountAware if discount_aware else None,
            "acting": acting,
        }
        ways = {name: kind for name, kind in given.items() if kind is not None}
        found = next(iter(ways.values()), PerStateRisk)(self.sources, weights, risk, task)
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} are {'two' if len(ways) == 2 else 'three'} ways to act; choose one")
        return found if read is None else WithinLimits.of(found, read, self.policies)

    def _limits(self, given: GivenLimits, risk: Risk, names: Sequence[str] | None) -> Limits:
        """The limits on predictions that keep the limits that are given."""
        read = read_limits(given, self.n_features, names)
        if self.calibration is not None:
            return self.calibration.tightened(read, risk, self.gamma)
        if any(limit.per_episode for limit in read.given) and self.gamma < 1:
            raise ValueError("a limit per_episode needs a library that was calibrated: laws are discounted")
        return read

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
        self,
        w: npt.ArrayLike,
        risk: Risk = NEUTRAL,
        *,
        limits: GivenLimits | None = None,
        static: bool | None = None,
        acting: type[ActingRule] | None = None,
    ) -> Actor:
        """Return an actor for episodes, which acts by what was fixed at their first observations; see `rasf.Actor`.

        Args:
            w: weights (d,) of the task.
            risk: the risk to act for; neutral by default.
            limits: {feature's name or index: largest expected sum of the episode, discounted}.
            static: act for the risk of the whole return, given the accrued return, which is the default; else the risk
                is scored per state, as `act` does.
            acting: another way to act, as for `evaluate`.

        Returns:
            The actor.
        """
        from rasf.library.acting.actor import Actor

        is_static = acting is None if static is None else static
        return Actor(self, self.rule(w, risk, static=is_static, limits=limits, acting=acting))

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
        acting: type[ActingRule] | None = None,
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
            acting: another way to act, in place of `static` and `discount_aware`: a subclass of
                `rasf.library.acting.rule.ActingRule`.
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
        from rasf.library.trials import Trials

        trials = Trials(env, episodes, seed, max_steps, phi, env_kwargs, failure)
        ways = {
            "static": static,
            "discount_aware": discount_aware,
            "limits": limits,
            "prices": prices,
            "acting": acting,
        }
        return trials.reports(self, w, {"": (risk, ways)}, None)[""]

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
        acting: type[ActingRule] | None = None,
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
        from rasf.library.trials import Trials, named_risks, priced_rows

        ways = {"static": static, "discount_aware": discount_aware, "limits": limits, "acting": acting}
        rows = {name: (risk, ways) for name, risk in named_risks(risks).items()} | priced_rows(self, prices)
        trials = Trials(env, episodes, seed, max_steps, phi, env_kwargs, failure)
        return Comparison(trials.reports(self, w, rows, callback))

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
        """Measure how far predictions and outcomes are apart, and keep it: the one call that changes a library.

        Afterwards `scores` and `evaluate` give bounds that hold in 95 % of the cases (`bounds`), and limits are kept
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
        from rasf.library.calibration.measure import calibrate
        from rasf.library.trials import Trials

        trials = Trials(env, episodes, seed, max_steps, phi, env_kwargs)
        self.calibration = calibrate(self, trials, tasks, self.risks() if risks is None else risks, callback)
        return self.calibration

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
        """Return what acting by this library would earn, estimated from a log alone; data as for `learn_from`."""
        from rasf.library.logs.learn import evaluate_from

        return evaluate_from(self, data, w, risk, resamples=resamples, seed=seed, env=env, phi=phi)

    def grow(self, env: Environment, tasks: npt.ArrayLike | int, **options: Any) -> PolicyLibrary:
        """Return a library with further tasks, learned as by `rasf.learn` with the old policies as sources.

        Settings that must be the same in one library, such as gamma and the sizes of networks, are taken over.
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

    def require_phi(self, given: str | None) -> None:
        """Refuse an environment without the features that the library was trained with."""
        if given is None and self.environment.phi is not None:
            raise ValueError(f"phi must be given, as in training, where it was {self.environment.phi}")

    def check_environment(self, found: EnvironmentDescription) -> None:
        """Refuse an environment that is not like the one trained in."""
        self.require_phi(found.phi)
        different = self.environment.difference(found, INTERFACE)
        if different is not None:
            wanted, got = getattr(self.environment, different), getattr(found, different)
            raise ValueError(f"env must have the {different} that the library was trained with, {wanted}, got {got}")


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
