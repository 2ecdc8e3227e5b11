"""Acting through an episode: what is fixed at its first observation, and how a step is taken then.

*A static risk* is of the whole return, and has what was earned in mind:

    threshold    b, of the law that is best at the first observation
    stock        y = what was earned so far, discounted, less b
    action       argmax_a max_i E u(y + gamma^t G_i(s, a))        u and b belong to the risk, see `rasf.risk.certainty`

which is GPI in the problem that remembers the stock (docs/theory.md). Histograms of networks give the law of G_i; of
tables and of networks of moments the normal law with their mean and variance is taken.

*Limits* are budgets (`rasf.limits`): the best score of all (i, a) whose expected costs are within what is left, where
following the policy that drives is always within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf.agents import acting_risk
from rasf.arrays import Bools, Floats, Ints
from rasf.library.frozen_policies import FrozenPolicies
from rasf.limits import Limits, best_within, prices_within
from rasf.risk import Entropic, MeanVariance, Risk
from rasf.risk.certainty import CertaintyEquivalent, static_risk
from rasf.transfer import gpi

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary


_NEUTRAL = MeanVariance(0.0)


@dataclass
class Held:
    """What B episodes carry along; written to as they go on.

    threshold (B,) of the static risk. Of m limits: the driving policy (B,), -1 before the first choice, and what its
    choice left of the budget (B, m), or before it the budget; and, from the first choice, prices (B, m), the costs
    (B, m) that were expected then, and whether (B,) these kept all limits.
    """

    threshold: Floats
    driver: Ints
    spare: Floats
    prices: Floats
    costs: Floats
    kept: Bools

    @classmethod
    def nothing(cls, episodes: int, limits: int = 0) -> Held:
        """Before the first observation."""
        spare, prices, costs = np.zeros((3, episodes, limits))
        return cls(np.zeros(episodes), np.full(episodes, -1), spare, prices, costs, np.ones(episodes, np.bool_))

    def of(self, rows: Ints | Bools) -> Held:
        """Some of the episodes, copied."""
        return Held(*(getattr(self, each.name)[rows] for each in fields(self)))

    def put(self, rows: Ints | Bools, others: Held) -> None:
        """Overwrite some of the episodes."""
        for each in fields(self):
            getattr(self, each.name)[rows] = getattr(others, each.name)


class ActingRule:
    """How policies act for one task: scored at every step, or for a static risk, and within limits.

    Args:
        sources: the policies.
        w: weights (d,) by which actions are chosen.
        risk: the risk to act for.
        static: hold the risk of the whole return fixed from the first observation.
        discount_aware: at step t, score the risk of a return that counts gamma^t times.
        limits: bounds on expected sums of features.
        own: weights and risk of every policy, by which it acts itself; limits need them.
        task: weights (d,) by which outcomes are counted, where they are not those that choose; `w` by default.
    """

    def __init__(
        self,
        sources: FrozenPolicies,
        w: Floats,
        risk: Risk,
        *,
        static: bool = False,
        discount_aware: bool = False,
        limits: Limits | None = None,
        own: Sequence[tuple[Sequence[float], Risk]] = (),
        task: Floats | None = None,
    ) -> None:
        self.sources, self.w, self.risk, self.limits = sources, w, risk, limits
        self.task = w if task is None else task
        self._own = [(weights, acting_risk(each)) for weights, each in own]
        self.discount_aware, self.certain = discount_aware, static_risk(risk) if static else None
        if static and discount_aware:
            raise ValueError("static and discount_aware are two ways to act; choose one")
        if self.certain is None:
            sources.check(risk)
        if limits is not None:
            self._check_own()

    def _check_own(self) -> None:
        """Budgets ask what the policies themselves would do."""
        if self.sources.gamma == 0:
            raise ValueError("limits need a library whose gamma is above 0")
        for i, (_, risk) in enumerate(self._own):
            try:
                self.sources.check(risk)
            except ValueError:
                raise ValueError(f"limits need policies whose own risk can be scored, {i} has {risk!r}") from None

    def begin(self, obs: npt.NDArray[np.generic]) -> Held:
        """What is held from first observations (B, n) on."""
        held = Held.nothing(len(obs), 0 if self.limits is None else len(self.limits.names))
        if self.limits is not None:
            held.spare[:] = self.limits.at_most
        if self.certain is None:
            return held
        values, b = _Laws(self.sources, obs, self.w).certain(self.certain)
        if self.limits is None:
            best = values.max(axis=(0, 2), keepdims=True) <= values
            held.threshold[:] = np.where(best, b, -np.inf).max(axis=(0, 2))
        else:
            found = best_within(_by_episode(values), _by_episode(self.costs(obs)), held.spare)
            held.threshold[:] = _by_episode(b)[np.arange(len(obs)), found.chosen]
        return held

    def act(self, obs: npt.NDArray[np.generic], held: Held, accrued: Floats, discount: Floats) -> Ints:
        """Actions (B,) when so much was earned, and what is to come counts so many times, (B,) each."""
        if self.certain is None and self.limits is None:
            if not self.discount_aware:
                return self.sources.act(obs, self.w, self.risk)
            if (discount == discount[:1]).all():
                return self.sources.act(obs, self.w, self.risk.at_discount(float(discount[0])))
        return self.select(obs, held, accrued, discount) % self.sources.n_actions

    def select(self, obs: npt.NDArray[np.generic], held: Held, accrued: Floats, discount: Floats) -> Ints:
        """Return what the rule chooses, and which policy it follows in that.

        Args:
            obs: observations (B, n).
            held: what the episodes carry along; limits bring it up to date.
            accrued: discounted returns so far (B,).
            discount: gamma^t (B,).

        Returns:
            Choices (B,) as policy A + action.
        """
        values, rows = self._values(obs, accrued - held.threshold, discount), np.arange(len(obs))
        if self.limits is not None:
            return self.choose(obs, held, values)
        if self.certain is None:
            choice = gpi(values)
            return np.asarray(choice.source * self.sources.n_actions + choice.policy)
        # where nothing that can happen still matters to the risk, as above CVaR's threshold, the mean decides
        laws = _Laws(self.sources, obs, self.w)
        action = np.where(_alike(values.max(axis=0), axis=1), laws.mean(), -np.inf).argmax(axis=1)
        at = values[:, rows, action]
        source = np.where(_alike(at, axis=0), laws.means()[:, rows, action], -np.inf).argmax(axis=0)
        return source * self.sources.n_actions + action

    def first_choice(self, obs: npt.NDArray[np.generic]) -> Ints:
        """What is chosen (B,) at first observations (B, n), as policy A + action."""
        return self.select(obs, self.begin(obs), np.zeros(len(obs)), np.ones(len(obs)))

    def expected(self, obs: npt.NDArray[np.generic], chosen: Ints) -> tuple[Floats, Floats]:
        """Return mean and spread (B,) of the task's discounted return from observations on, as the policies know them.

        Args:
            obs: observations (B, n).
            chosen: choices (B,) there, as `select` gives them; the prediction is that the policy goes on by itself.

        Returns:
            Means, and standard deviations, which are nan where policies have learned means only.
        """
        neutral, rows = self.sources.scores(obs, self.task, _NEUTRAL), np.arange(len(obs))
        source, action = np.divmod(chosen, self.sources.n_actions)
        return neutral.mean[source, rows, action], neutral.std[source, rows, action]

    def choose(self, obs: npt.NDArray[np.generic], held: Held, values: Floats) -> Ints:
        """Of values (K, B, A), the best (B,) within the limits, as policy A + action; `held` is brought up to date."""
        rows, seen, all_costs = np.arange(len(obs)), self.sources.seen(obs), self.costs(obs)
        budget, of_all = self._budget(obs, held, all_costs), _by_episode(values)
        found = best_within(of_all, _by_episode(all_costs), budget)
        chosen = found.chosen
        if self.certain is not None:
            # as without limits: what the risk does not tell apart, the mean decides
            alike = of_all >= _nearly(of_all[rows, chosen, None])
            means = np.where(alike, _by_episode(_Laws(self.sources, obs, self.w).means()), -np.inf)
            chosen = best_within(means, _by_episode(all_costs), budget).chosen
        costs = _by_episode(all_costs)[rows, chosen]
        first = seen & (held.driver < 0)
        if first.any():
            held.prices[first] = prices_within(of_all[first], _by_episode(all_costs)[first], budget[first])
            held.costs[first], held.kept[first] = costs[first], found.kept[first]
        # where nobody knows anything, whoever drives goes on, and nothing is spent
        held.spare[:] = np.where(seen[:, None], np.maximum(budget - costs, 0.0), held.spare)
        held.driver[seen] = chosen[seen] // self.sources.n_actions
        return chosen

    def costs(self, obs: npt.NDArray[np.generic]) -> Floats:
        """The expected sums (K, B, A, m) of the limited features, in the sign in which they are costs."""
        assert self.limits is not None
        each = np.eye(self.sources.n_features)[self.limits.features] * self.limits.signs[:, None]
        return np.stack([self.sources.scores(obs, one, _NEUTRAL).mean for one in each], axis=-1)

    def _budget(self, obs: npt.NDArray[np.generic], held: Held, costs: Floats) -> Floats:
        """What may be expected (B, m) from here on: at first the limits, then what the driver needs, and the spare."""
        budget = held.spare.copy()
        for i in set(held.driver[held.driver >= 0].tolist()):
            rows, (w, risk) = np.flatnonzero(held.driver == i), self._own[i]
            own = self.sources.scores(obs[rows], np.asarray(w, np.float64), risk).values[i].argmax(axis=1)
            budget[rows] = costs[i, rows, own] + held.spare[rows] / self.sources.gamma
        return budget

    def _values(self, obs: npt.NDArray[np.generic], stock: Floats, discount: Floats) -> Floats:
        """What actions are ordered by, (K, B, A)."""
        if self.certain is not None:
            return _Laws(self.sources, obs, self.w).utilities(self.certain, stock, discount)
        if not self.discount_aware:
            return self.sources.scores(obs, self.w, self.risk).values
        each = [
            self.sources.scores(obs[[i]], self.w, self.risk.at_discount(float(z))).values
            for i, z in enumerate(discount)
        ]
        return np.concatenate(each, axis=1)


def _alike(values: Floats, axis: int) -> Bools:
    """Where values are the largest along an axis, but for rounding."""
    return values >= _nearly(values.max(axis=axis, keepdims=True))


def _nearly(best: Floats) -> Floats:
    return best - 1e-9 * np.maximum(np.abs(best), 1e-300)


def _by_episode(of_actions: Floats) -> Floats:
    """(K, B, A, ..) as (B, K A, ..)."""
    K, B, A = of_actions.shape[:3]
    return np.moveaxis(of_actions, 1, 0).reshape(B, K * A, *of_actions.shape[3:])


class _Laws:
    """The laws of what is to come, of K policies at B observations for A actions."""

    def __init__(self, sources: FrozenPolicies, obs: npt.NDArray[np.generic], w: Floats) -> None:
        self._laws = sources.laws(obs, w)
        if self._laws is None:
            neutral = sources.scores(obs, w, MeanVariance(0.0))
            self._known = np.isfinite(neutral.values)  # a table may know a state of some policies only
            if np.isnan(neutral.std[self._known]).any():
                raise ValueError("a static risk needs the spread of returns, which these policies have not learned")
            self._mean, self._std = neutral.mean, np.where(self._known, neutral.std, 0.0)

    def mean(self) -> Floats:
        """The best mean (B, A) of all policies."""
        return np.asarray(self.means().max(axis=0))

    def means(self) -> Floats:
        """Means (K, B, A)."""
        if self._laws is None:
            return np.where(self._known, self._mean, -np.inf)
        probs, values = self._laws
        return np.asarray((probs * values).sum(axis=-1))

    def certain(self, risk: CertaintyEquivalent) -> tuple[Floats, Floats]:
        """Certainty equivalents (K, B, A), and their thresholds."""
        if self._laws is not None:
            value, b = risk.with_threshold(*self._laws)
            return np.asarray(value), np.asarray(b)
        b = np.asarray(risk.normal_threshold(self._mean, self._std))
        value = b if isinstance(risk, Entropic) else b + np.asarray(risk.normal(self._mean - b, self._std))
        return np.where(self._known, value, -np.inf), b

    def utilities(self, risk: CertaintyEquivalent, stock: Floats, z: Floats) -> Floats:
        """What orders actions as E u(stock + z G) does, (K, B, A)."""
        z, stock = z[:, None], stock[:, None]
        if isinstance(risk, Entropic):
            stock = np.zeros_like(stock)  # a factor of all actions alike, which might overflow
        if self._laws is None:
            return np.where(self._known, risk.normal(stock + z * self._mean, z * self._std), -np.inf)
        probs, values = self._laws
        if isinstance(risk, Entropic):
            return np.asarray(risk.histogram(probs, z[..., None] * values))
        return np.asarray((probs * risk.utility(stock[..., None] + z[..., None] * values)).sum(axis=-1))


class Actor:
    """Acts for one task, for one episode or for several at once, by what was fixed at the first observation.

    `act` for an observation, or a batch of as many as there are episodes; `observe` what a step brought: its features
    (d,) or its reward, or (B, d) or (B,); `reset` when an episode is over. Of every episode: accrued, discount,
    threshold (of a static risk), and `prices` of the limits, by name.
    """

    def __init__(self, library: PolicyLibrary, rule: ActingRule) -> None:
        self._library, self._rule = library, rule
        self._begin(0)

    def _begin(self, episodes: int) -> None:
        names = () if self._rule.limits is None else self._rule.limits.names
        self.accrued, self.discount = np.zeros(episodes), np.ones(episodes)
        self._held, self._fresh = Held.nothing(episodes, len(names)), np.ones(episodes, np.bool_)

    @property
    def threshold(self) -> Floats:
        """b of a static risk, (B,)."""
        return self._held.threshold

    @property
    def prices(self) -> dict[str, Floats]:
        """What a unit of each limited feature costs, (B,) each."""
        names = () if self._rule.limits is None else self._rule.limits.names
        return {name: self._held.prices[:, i] for i, name in enumerate(names)}

    def remarks(self) -> list[str]:
        """A sentence for every episode whose limits cannot be kept; it goes by the nearest that can."""
        if self._rule.limits is None:
            return []
        return [self._rule.limits.not_kept(costs) for costs in self._held.costs[~self._held.kept]]

    def reset(self, over: npt.ArrayLike | None = None) -> None:
        """Begin anew: all episodes, or those that are over (B,)."""
        if over is None:
            self._begin(0)
            return
        self._fresh = self._fresh | self._mask(over)

    def act(self, obs: object) -> int | Ints:
        """The action for one observation, or actions (B,), as the environment numbers them."""
        library = self._library
        batch = library.is_batch(obs)
        encoded = library.encode_batch(obs) if batch else library.encode(obs)[None]
        if not len(self._fresh):
            self._begin(len(encoded))
        if len(encoded) != len(self._fresh):
            raise ValueError(
                f"obs must be of {len(self._fresh)} episodes, as before, got {len(encoded)}; or reset first"
            )
        if self._fresh.any():
            self._held.put(self._fresh, self._rule.begin(encoded[self._fresh]))
            self.accrued[self._fresh], self.discount[self._fresh] = 0.0, 1.0
            self._fresh[:] = False
        actions = self._rule.act(encoded, self._held, self.accrued, self.discount)
        numbered = actions + library.environment.first_action
        return numbered if batch else int(numbered[0])

    def observe(self, gained: npt.ArrayLike) -> None:
        """Take in the features of a step, or its reward."""
        try:
            given = np.asarray(gained, np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"what a step brought must be numbers, got {gained!r:.80}") from None
        if not len(self._fresh) or self._fresh.any():
            raise ValueError("observe must follow act, once for each")
        n, d = len(self.accrued), len(self._rule.w)
        if not np.isfinite(given).all():
            raise ValueError(f"what a step brought must be finite, got {gained!r}")
        if given.size == n * d and given.shape in ((d,), (n, d)):
            rewards = given.reshape(n, d) @ self._rule.w
        elif given.size == n and given.shape in ((), (n,)):
            rewards = given.reshape(n)
        else:
            wanted = f"features ({n}, {d}) or rewards ({n},)" if n > 1 else f"features ({d},) or a reward"
            raise ValueError(f"what a step brought must be {wanted}, got shape {given.shape}")
        self.accrued = self.accrued + self.discount * rewards
        self.discount = self.discount * self._library.gamma

    def _mask(self, over: npt.ArrayLike) -> Bools:
        mask = np.asarray(over, np.bool_)
        if mask.shape != self._fresh.shape:
            raise ValueError(f"over must have shape {self._fresh.shape}, one for each episode, got {mask.shape}")
        return mask
