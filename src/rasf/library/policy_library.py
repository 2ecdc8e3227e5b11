"""`PolicyLibrary`: trained policies that act for any reward weights w at any risk that they can score.

    act        argmax_a max_k risk[w . Z_k(obs, a)]        GPI over all source policies
    scores     the values risk[w . Z_k(obs, a)] of all k and a, and the selected source policy

Z_k is the discounted feature return of policy k. `FrozenPolicies` holds its distribution. `rule` turns keyword
arguments into an acting rule (`rasf.library.acting`). Only `calibrate` changes a library; `grow` and `merge` return new
libraries. In shapes, d is the number of features, B of observations in a batch, n of entries of an encoded observation,
and P of entries of a continuous action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import AgentSpec, Family
from rasf.arrays import Floats, Ints
from rasf.deep.clock import TIME_INPUTS, Clock
from rasf.envs.gymnasium.description import INTERFACE, EnvironmentDescription
from rasf.envs.gymnasium.encoder import Encoder
from rasf.files import Arrays, Header
from rasf.library.ahead import PARTICLES
from rasf.library.frozen_policies import Explanation, FrozenPolicies
from rasf.limits import Limit, Limits, read_limits, repriced
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import is_neutral, risk_to_text

if TYPE_CHECKING:
    import gymnasium

    from rasf.envs.gymnasium.single import Environment, FailureRule, Phi
    from rasf.library.acting.actor import Actor
    from rasf.library.acting.rule import ActingRule
    from rasf.library.ahead.counted import CountedModel
    from rasf.library.ahead.learned import LearnedModel
    from rasf.library.calibration.calibration import Calibration
    from rasf.library.evaluation import Comparison, Report
    from rasf.library.logs.estimate import Estimate
    from rasf.library.trials import AnyEnvironment
    from rasf.mdp import FiniteMDP
    from rasf.world import World

    Model: TypeAlias = World | FiniteMDP | tuple[FiniteMDP, Any] | gymnasium.Env | Literal["learned"]

NEUTRAL = MeanVariance(0.0)
Encode: TypeAlias = Callable[[object], np.ndarray]
GivenLimits: TypeAlias = Mapping[str | int, float | Limit]
GivenPrices: TypeAlias = Mapping[str | int, float]
_LONGEST = 10_000  # default of `max_steps`


class SourcePolicy(NamedTuple):
    """The task and the risk that a policy was trained for."""

    w: tuple[float, ...]
    risk: Risk


class PolicyLibrary:
    """Policies that act for any task; made by `rasf.learn`, `rasf.learn_from` and `rasf.load`.

    Attributes:
        sources: The frozen policies.
        environment: The description of the training environment.
        policies: The task and the risk of each policy.
        agents: The agents that trained the policies.
        history: Statistics of training by name, such as the return. Each array has one entry (or row) for each policy.
        notes: Sentences on the choices that training made automatically.
        provenance: Time, versions, seed and settings of training.
        calibration: The result of `calibrate`, or None.
        model: The model that was learned with `model=True`, or None.
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
        model: LearnedModel | CountedModel | None = None,
    ) -> None:
        self.sources, self.environment, self.policies, self.agents = sources, environment, policies, agents
        self.history, self.notes, self.provenance = history, notes, provenance
        self.calibration, self.model = calibration, model
        encoder = Encoder(environment.observations)
        self.is_batch = encoder.is_batch
        is_table = sources.family is Family.TABLES
        self._encode: Encode = encoder.key if is_table else encoder.vector
        self._encode_batch: Encode = encoder.batch_keys if is_table else encoder.batch_vectors
        self._actions = environment.actions
        sizes = {
            "the number of policies": (len(policies), sources.policies),
            "n_actions": (environment.n_actions, 0 if sources.action_size else sources.n_actions),
            "the size of an action": (environment.actions.size, sources.action_size),
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
        if model is not None:
            from rasf.library.ahead.models import check_own

            check_own(sources, model)

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
        """The discount that the policies were trained with."""
        return self.sources.gamma

    def describe(self) -> Header:
        """Return the header of the library's file, as JSON: everything except the arrays."""
        optional: Header = {} if self.calibration is None else {"calibration": self.calibration.describe()}
        if self.model is not None:
            from rasf.library.ahead.stored import described

            optional["model"] = described(self.model)
        return optional | {
            "environment": self.environment.to_json(),
            "sources": self.sources.describe(),
            "policies": [{"w": list(policy.w), "risk": risk_to_text(policy.risk)} for policy in self.policies],
            "agent": self.agent,
            "notes": list(self.notes),
            "provenance": self.provenance,
        }

    def encode(self, obs: object, t: int | Ints = 0) -> np.ndarray:
        """Encode an observation: as the key of a row of tables, or as the inputs of networks.

        Args:
            obs: an observation, or a batch of observations.
            t: steps of the episode so far, one number or (B,). Default: 0.

        Returns:
            Numbers (n,), or (B, n) for a batch.
        """
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
    ) -> Any:
        """Return the action for one observation, or actions (B, ..) for a batch, as the environment takes them.

        Args:
            obs: an observation, or a batch. At observations that no policy has seen, a tabular library takes the first
                action.
            w: weights (d,) of the task.
            risk: the risk to act for. Default: neutral.
            limits: {feature's name or index: largest expected discounted sum from this observation on}. If the limits
                cannot be kept, the action exceeds them as little as possible. For limits over a whole episode see
                `actor`. Default: none.
            t: steps of the episode so far, one number or (B,). Only policies with the horizon "episode" use this
                number. Default: 0.

        Returns:
            The action or actions.
        """
        if limits is not None:
            explained, _, _ = self._explain(obs, w, risk, limits, t)
            return explained.action if self.is_batch(obs) else self._one(explained.action[0])
        weights = self._weights(w)
        seen = self.encode(obs, t)
        if seen.ndim > 1:
            return self._actions.own_batch(self.sources.act(seen, weights, risk))
        return self._one(self._actions.own(self.sources.act_one(seen, weights, risk)))

    def own_actions(self, actions: np.ndarray, batch: bool) -> Any:
        """Convert actions of the policies to actions that the environment takes.

        Args:
            actions: actions (B,) or (B, P) of the policies.
            batch: whether to return all actions, or only the first action.
        """
        own = self._actions.own_batch(actions)
        return own if batch else self._one(np.asarray(own[0]))

    def _one(self, action: Any) -> Any:
        """Return a single action: an int if actions are numbered, else an array."""
        return action if self._actions.size else int(action)

    def scores(
        self,
        obs: object,
        w: npt.ArrayLike,
        risk: Risk = NEUTRAL,
        limits: GivenLimits | None = None,
        t: int | Ints = 0,
    ) -> Explanation:
        """Return the scores of every policy and action, and the selected source policy.

        Args:
            obs, w, risk, limits, t: as for `act`.

        Returns:
            For every policy and action: the risk measure, the mean and the standard deviation of the return. With
            limits, also the price of each limit and the expected sum of each limited feature after the chosen action.
            For one observation that was seen in training, a calibrated library adds bounds for an episode that begins
            at this observation.
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
        """Return the scores for a batch, the acting rule, and the encoded batch; one observation is a batch of one."""
        encoded = np.atleast_2d(self.encode(obs, t))
        rule = self.rule(w, risk, limits=limits)
        found, memory = self.sources.scores(encoded, rule.w, risk), rule.begin(encoded)
        source, action = np.divmod(rule.choose(encoded, memory, found.values), self.sources.n_actions)
        of_limits = (rule.prices(memory), rule.expected(memory), tuple(rule.not_kept(memory)))
        proposed, proposals = self.sources.proposals(encoded), None
        if proposed is None:
            taken = self._actions.own_batch(action)
        else:
            own = self._actions.own_batch(proposed.reshape(-1, proposed.shape[-1]))
            proposals = own.reshape(*proposed.shape[:2], *own.shape[1:])
            taken = proposals[np.arange(len(encoded)), action]
        return Explanation(*found, taken, source, *of_limits, None, action, proposals), rule, encoded

    def risks(self) -> list[Risk]:
        """Return the neutral risk and the risks of training, without those that the library cannot act for."""
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
        model: Model | None = None,
        ahead: int = 0,
        particles: int = PARTICLES,
        milliseconds: float | None = None,
    ) -> ActingRule:
        """Return the acting rule for a task.

        Args:
            w: weights (d,) of the task.
            risk: the risk to act for.
            static, discount_aware, limits, prices, acting: as for `evaluate`.
            names: names of the features, if the library's environment has none. Default: none.
            model, ahead, particles, milliseconds: as for `actor`.

        Returns:
            The rule. A calibrated library tightens limits by its measured errors, so that about 95 % of them are kept.

        Raises:
            ValueError: an argument is invalid, two arguments exclude each other, or the policies cannot score the risk.
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
        sources = self._looking_ahead(model, ahead, particles, milliseconds)
        found = next(iter(ways.values()), PerStateRisk)(sources, weights, risk, task)
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} are {'two' if len(ways) == 2 else 'three'} ways to act; choose one")
        return found if read is None else WithinLimits.of(found, read, self.policies)

    def _looking_ahead(self, *given: Any) -> FrozenPolicies:
        """Return the policies, which simulate `ahead` steps if this number is above 0; arguments as for `actor`."""
        from rasf.library.ahead.models import Library, looking_ahead

        own = tuple((policy.w, policy.risk) for policy in self.policies)
        return looking_ahead(Library(self.sources, own, self.environment, self.encode, self.model), *given)

    def _limits(self, given: GivenLimits, risk: Risk, names: Sequence[str] | None) -> Limits:
        """Return the limits on predicted sums. A calibrated library tightens limits to allow for prediction errors."""
        read = read_limits(given, self.n_features, names)
        if self.calibration is not None:
            return self.calibration.tightened(read, risk, self.gamma)
        if any(limit.per_episode for limit in read.given) and self.gamma < 1:
            raise ValueError("a limit per_episode needs a calibrated library, because predicted sums are discounted")
        return read

    def _weights(self, w: npt.ArrayLike) -> Floats:
        """Return the weights (d,); raise ValueError if weights are so large that scores would overflow."""
        found = checks.weights("w", w, self.n_features)
        if np.abs(found).max() > checks.HEAVIEST:
            most = checks.HEAVIEST
            raise ValueError(
                f"w must be within {-most:g} and {most:g}, so that scores do not overflow, got {w!r:.80}; "
                "scale all weights by one factor, which changes no action at neutral risk"
            )
        return found

    def actor(
        self,
        w: npt.ArrayLike,
        risk: Risk = NEUTRAL,
        *,
        limits: GivenLimits | None = None,
        static: bool = False,
        acting: type[ActingRule] | None = None,
        model: Model | None = None,
        ahead: int = 0,
        particles: int = PARTICLES,
        milliseconds: float | None = None,
    ) -> Actor:
        """Return an actor (`rasf.Actor`), which keeps the state of episodes, such as the accrued return.

        With a model, the actor can look ahead. To score an action, it simulates the action and `ahead` - 1 further
        actions of each source policy, and adds the learned return distribution in the last state.

        Args:
            w: weights (d,) of the task.
            risk: the risk to act for. Default: neutral.
            limits: {feature's name or index: largest expected discounted sum of the episode}. Default: none.
            static: act for the static risk of the whole return. If False, act for the per-state risk, as `act` and
                `evaluate` do. Default: False.
            acting: another acting rule, as for `evaluate`. Default: none.
            model: what the steps are simulated in: a `rasf.World` (for networks), a `rasf.FiniteMDP`, a pair of a
                `FiniteMDP` and the observations of its states, or the Gymnasium environment in which the actor acts,
                which is copied at each decision. Default: the library's own model, from training with `model=True`;
                this is also "learned".
            ahead: number of simulated steps. With 0, the actor acts exactly as without a model. Default: 0.
            particles: number of simulated paths for each policy and action. A `FiniteMDP` is exact and needs none.
                Default: 8.
            milliseconds: largest time for one decision. The first decision measures times, and lowers `particles`, and
                then `ahead`, until a decision is within this time. Default: none.

        Returns:
            The actor. If the model is a `rasf.World`, or if several episodes run in copies of an environment, its
            method `act` needs the argument `state`.
        """
        from rasf.library.acting.actor import Actor

        looking: Header = {"model": model, "ahead": ahead, "particles": particles, "milliseconds": milliseconds}
        return Actor(self, self.rule(w, risk, static=static, limits=limits, acting=acting, **looking))

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
        model: Model | None = None,
        ahead: int = 0,
        particles: int = PARTICLES,
        milliseconds: float | None = None,
    ) -> Report:
        """Act for some episodes, and report returns, variance, CVaR, failures and sums of features, with intervals.

        Args:
            env: an id, an environment, a function that makes an environment, or a `gymnasium.vector.VectorEnv`, whose
                environments run in parallel. A vector environment of another class than Gymnasium's `SyncVectorEnv` and
                `AsyncVectorEnv` gets one seed for each batch of parallel episodes: the seed of the first of them.
            w: weights (d,) of the task, with which returns are computed.
            risk: the risk to act for. Default: neutral.
            episodes: number of episodes, at least 2. Default: 100.
            seed: seed from which the seeds of all episodes are derived. Default: 0.
            phi: the features, as for `rasf.learn`. Default: the environment's reward.
            discount_aware: at step t, score the risk of gamma^t times the remaining return, as in the paper's
                guarantee. Default: False.
            static: act for the static risk of the whole return. Default: False.
            limits: as for `actor`; the report has the price of each limit. Default: none.
            prices: {feature's name or index: additional cost of a unit}. Actions are chosen for w minus the prices, and
                returns are computed with w. If a cost is stored as a negative feature, its price is negative. Default:
                none.
            acting: another acting rule, in place of `static` and `discount_aware`: a subclass of
                `rasf.library.acting.rule.ActingRule`. Default: none.
            failure: failure(step) returns whether a step is a failure. Default: the environment's info["failure"].
            max_steps: steps after which an episode is truncated. Default: 10,000.
            env_kwargs: keyword arguments of an environment that is given by its id. Default: the arguments of training,
                if the library was trained on this id.
            model: the model to look ahead in, as for `actor`; "learned" is the library's own model. Default: the
                environment itself.
            ahead, particles, milliseconds: as for `actor`.

        Returns:
            The report.

        Raises:
            ValueError: an argument is invalid, or the library cannot act by these arguments in this environment.
        """
        from rasf.library.trials import Trials

        trials = Trials(env, episodes, seed, max_steps, phi, env_kwargs, failure)
        ways: Header = {
            "static": static,
            "discount_aware": discount_aware,
            "limits": limits,
            "prices": prices,
            "acting": acting,
        }
        ways |= {"model": model, "ahead": ahead, "particles": particles, "milliseconds": milliseconds}
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
        model: Model | None = None,
        ahead: int = 0,
        particles: int = PARTICLES,
        milliseconds: float | None = None,
    ) -> Comparison:
        """Evaluate several risks, and with `prices` also controls, all from the same start states.

        A control acts neutrally for weights in which a harmful feature costs more. A risk measure is useful if it has
        fewer failures than a control with the same return.

        Args:
            env: as for `evaluate`.
            w: weights (d,) of the task, with which returns are computed.
            risks: a list of risks, or a dict of risks by name.
            episodes: number of episodes for each risk and each price. Default: 100.
            seed, phi, discount_aware, static, limits, acting, failure, max_steps, env_kwargs: as for `evaluate`.
            prices: {feature's name or index: price or list of prices}. Every price adds a control, with a name such as
                "price collision 4", that acts neutrally, without limits, for w minus the price of that feature.
                Default: none.
            callback: called after every step with the name of the current risk or control, and its number of finished
                episodes. An exception that the callback raises ends the evaluation. Default: none.
            model, ahead, particles, milliseconds: as for `evaluate`; for the risks and the controls.

        Returns:
            A report for every risk and every control.

        Raises:
            ValueError: an argument is invalid, or the library cannot act by these arguments in this environment.
        """
        from rasf.library.evaluation import Comparison
        from rasf.library.trials import Trials, named_risks, priced_rows

        ways: Header = {"static": static, "discount_aware": discount_aware, "limits": limits, "acting": acting}
        looking: Header = {"model": model, "ahead": ahead, "particles": particles, "milliseconds": milliseconds}
        rows = {name: (risk, ways) for name, risk in named_risks(risks).items()} | priced_rows(self, prices)
        rows = {name: (risk, ways | looking) for name, (risk, ways) in rows.items()}
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
        """Compare predictions with realised values, return the result, and store it in `calibration`.

        Afterwards `scores` and `evaluate` give bounds on expected outcomes (`bounds`). Each bound is meant to hold for
        95 % of further tasks that are drawn like those of the calibration. Limits are tightened by the measured errors,
        so that about 95 % of limits are kept.

        Args:
            env, phi, max_steps, env_kwargs: as for `evaluate`.
            episodes: total number of episodes. Every task at every risk is a query. Half as many additional queries
                have a limit. Default: 4,000.
            tasks: weights (n, d), or a number of tasks to draw. Tasks are drawn from the environment's own
                distribution. Without such a distribution, they are random mixtures of the tasks of the policies.
                Default: 10 to 60 tasks, with 20 episodes for each query if possible.
            risks: the risks. Default: the neutral risk, and the risks that the policies were trained for.
            seed: seed of the tasks and the episodes. Default: 0.
            callback: called with the number of finished episodes. An exception that the callback raises ends the
                calibration. Default: none.

        Returns:
            The calibration. Its text names wrong predictions and possible remedies.

        Raises:
            ValueError: an argument is invalid, or `episodes` is too small for the number of tasks and risks.
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
        """Estimate from a log, without an environment, the return of acting with this library.

        Args:
            data: a log, as for `rasf.learn_from`.
            w: weights (d,) of the task.
            risk: the risk to act for. Default: neutral.
            resamples: number of bootstrap samples of the episodes, for intervals. Default: 100.
            seed: seed of these samples. Default: 0.
            env, phi: as for `rasf.learn_from`.

        Returns:
            The estimate, with intervals.
        """
        from rasf.library.logs.learn import evaluate_from

        return evaluate_from(self, data, w, risk, resamples=resamples, seed=seed, env=env, phi=phi)

    def grow(self, env: Environment, tasks: npt.ArrayLike | int, **options: Any) -> PolicyLibrary:
        """Train policies for further tasks, and return a library with the old and the new policies.

        During training the behaviour policy acts by GPI over the old and the new policies. The old policies do not
        change.

        Args:
            env: the environment of the library.
            tasks: weights (n, d), or a number of tasks to draw.
            **options: further arguments of `rasf.learn`. Settings that must be the same for all policies of a library,
                such as gamma and the sizes of networks, have the values of this library.

        Returns:
            A library with the old and the new policies.

        Raises:
            ValueError: an argument is invalid, or the environment or a setting differs from the library's.
        """
        from rasf.library.learn import learn

        if "base_library" in options:
            raise ValueError("base_library cannot be given to grow, because the library itself is the base")
        fixed = self.sources.shared_settings()
        for name, value in fixed.items():
            given = options.get(name, value)
            if (tuple(given) if isinstance(given, list) else given) != value:
                raise ValueError(f"{name} must be {value}, as in the library that grows, got {given}")
        like_mine = {"agent": self.agents[0].name} | options | fixed
        more = learn(env, tasks=tasks, base_library=self, **like_mine)
        different = self.environment.difference(more.environment)
        if different is not None:
            mine, given = getattr(self.environment, different), getattr(more.environment, different)
            own = f"env must be the environment that the library was trained in, with {different} {mine!r:.60}"
            raise ValueError(f"{own}, got {given!r:.60}")
        return merge([self, more])

    def save(self, path: str | PathLike[str], *, precision: str = "single") -> None:
        """Write the library to a file. If writing fails, no partial file is left.

        Args:
            path: the file.
            precision: precision of the weights of networks, "single" or "half". Default: "single".
        """
        from rasf.library.file import save

        save(self, path, precision)

    def require_phi(self, given: str | None) -> None:
        """Raise a ValueError if the library was trained with a function phi and no phi is given.

        Args:
            given: the name of the given phi, or None.
        """
        if given is None and self.environment.phi is not None:
            raise ValueError(f"phi must be given, because the library was trained with phi {self.environment.phi}")

    def check_environment(self, found: EnvironmentDescription) -> None:
        """Raise a ValueError for an environment that differs from the training environment.

        Args:
            found: the description of the environment.
        """
        self.require_phi(found.phi)
        different = self.environment.difference(found, INTERFACE)
        if different is not None:
            wanted, got = getattr(self.environment, different), getattr(found, different)
            raise ValueError(f"env must have the {different} that the library was trained with, {wanted}, got {got}")


def merge(libraries: Sequence[PolicyLibrary]) -> PolicyLibrary:
    """Merge libraries of the same environment and the same kind, tables or networks.

    Args:
        libraries: the libraries.

    Returns:
        A library with the policies of all libraries. It is not calibrated. Its own model is that of the last library
        that has one.

    Raises:
        ValueError: the libraries differ in their environment, names of features or kind.
    """
    if not isinstance(libraries, list | tuple) or not all(isinstance(each, PolicyLibrary) for each in libraries):
        raise ValueError(f"libraries must be a list of policy libraries, got {libraries!r:.80}")
    if not libraries:
        raise ValueError("libraries must have at least one library, got none")
    first = libraries[0]
    for other in libraries[1:]:
        different = first.environment.difference(other.environment)
        if different is not None:
            raise ValueError(f"libraries must be of one environment, but their {different} differ")
        if type(other.sources) is not type(first.sources):
            raise ValueError("libraries must all be tabular or all be networks")
    named = {library.environment.feature_names for library in libraries} - {None}
    if len(named) > 1:
        raise ValueError("libraries must have the same names of features, but their feature_names differ")
    common = [name for name in first.history if all(name in library.history for library in libraries)]
    return PolicyLibrary(
        first.sources.merge([library.sources for library in libraries]),
        replace(first.environment, feature_names=next(iter(named), None)),
        tuple(policy for library in libraries for policy in library.policies),
        tuple({agent.name: agent for library in libraries for agent in library.agents}.values()),
        {name: np.concatenate([library.history[name] for library in libraries]) for name in common},
        tuple(dict.fromkeys(note for library in libraries for note in library.notes)),
        {"merged": [part for library in libraries for part in library.provenance.get("merged", [library.provenance])]},
        model=next((library.model for library in reversed(libraries) if library.model is not None), None),
    )
