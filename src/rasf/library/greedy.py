"""Checks during training: ten times, the greedy policy is evaluated in a few episodes without exploration.

The episodes run in a separate environment and do not change training. A check takes at most 1/200 of the training
steps. Random actions are evaluated once, for the number of steps of one check. If no policy earns more than random
actions in the second half of training, a note of the library says so.

Networks predict the return distribution at the start of each episode. In the second half of training, predictions are
compared with realised discounted returns. If the difference is larger than chance explains, a note says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from rasf.arrays import Bools, Floats
from rasf.envs.gymnasium.episodes import episodes
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.envs.gymnasium.vector import SyncEnvs

TIMES = 10
_SHARE = 200  # a check takes 1 / _SHARE of the steps of training
_LEAST, _MOST = 50, 2_000  # smallest and largest number of steps of a check
_FAIR = 0.5  # share of training after which the results of checks count for the notes
_CLEARLY = 1.0  # margin by which policies should earn more than random actions, in standard errors
_SURELY = 3.0  # tolerated difference between returns and predictions, in standard errors
_FEW = 5  # predictions are compared only for policies with at least this number of late episodes
_NEAR = 0.25  # tolerated difference between realised and predicted mean, in standard deviations of the return
_ALIKE = 1.25  # tolerated factor between realised and predicted standard deviation of the return


class Greedy(NamedTuple):
    """A greedy policy.

    Attributes:
        act: Returns the action for an observation after t steps of the episode.
        predict: Returns mean and standard deviation of the discounted return from a start state. None if the policy
            has not learned both. Default: None.
        gamma: The discount of predicted returns. Default: 1.
        whole: Whether predicted returns end at the time limit, so that truncated episodes can be compared with
            predictions. Default: False.
    """

    act: Callable[[Any, int], Any]
    predict: Callable[[Any], tuple[float, float]] | None = None
    gamma: float = 1.0
    whole: bool = False


class _Episodes(NamedTuple):
    """Results of n episodes.

    phi: Sums (n, d) of the features.
    failures: Numbers (n,) of failures.
    starts: First observations.
    whole: Whether the return of each episode can be compared with its prediction (n,).
    discounted: Discounted sums (n, d) of the features.
    """

    phi: Floats
    failures: Floats
    starts: list[Any]
    whole: Bools
    discounted: Floats


class GreedyCheck:
    """Checks of the policies of one training run.

    Args:
        make: Opens the environment for the checks. It is called once, before the first check.
        steps: Number of steps of the whole training. A training of fewer than 10,000 steps is not checked.
        seed: Seed of the episodes.
    """

    STATE = ("_rng", "_due", "_looked", "_random_phi", "_foreseen")  # for checkpoints

    def __init__(self, make: Callable[[], FeatureEnvironment], steps: int, seed: int) -> None:
        self._make, self._rng = make, np.random.default_rng([seed, 41])
        self._steps, self._due = min(_MOST, steps // _SHARE), 0
        self._random_phi: Floats | None = None
        # checks of each policy: share of training, greedy return, and the return that the greedy return should exceed
        self._looked: dict[int, list[tuple[float, float, float]]] = {}
        # late episodes of each policy: predicted mean and standard deviation of the return, realised return
        self._foreseen: dict[int, list[tuple[float, float, float]]] = {}

    def look(self, share: float, policy: int, w: Floats, greedy: Greedy) -> dict[str, float]:
        """If a check is due, evaluate a policy, and return the results for `TrainingProgress.extras`.

        Args:
            share: The share of training that is done.
            policy: The number of the policy.
            w: The weights (d,) of the policy's task.
            greedy: The policy.

        Returns:
            Means over the episodes, by name; empty if no check is due.
        """
        if self._steps < _LEAST or share * TIMES < self._due + 1:
            return {}
        self._due = int(share * TIMES)
        found = self._run(greedy)
        phi, failures = found.phi, found.failures
        earned, by_chance = phi @ w, self._random @ w
        bar = by_chance.mean() + _CLEARLY * by_chance.std() / len(by_chance) ** 0.5
        self._looked.setdefault(policy, []).append((share, float(earned.mean()), float(bar)))
        named = {"greedy_failures": float(failures.mean())} if self._env.reports_failures else {}
        returns = {"greedy_return": float(earned.mean()), "random_return": float(by_chance.mean())}
        return returns | {"greedy_episodes": float(len(phi))} | named | self._compare(share, policy, w, greedy, found)

    def _compare(self, share: float, policy: int, w: Floats, greedy: Greedy, found: _Episodes) -> dict[str, float]:
        """Return the mean predicted and realised discounted returns; in the second half of training, record them."""
        if greedy.predict is None or not found.whole.any():
            return {}
        pairs = [greedy.predict(found.starts[i]) for i in np.flatnonzero(found.whole)]
        returns = (found.discounted @ w)[found.whole]
        if share > _FAIR:
            both = zip(pairs, returns.tolist(), strict=True)
            self._foreseen.setdefault(policy, []).extend((mean, std, got) for (mean, std), got in both)
        return {"predicted": float(np.mean([mean for mean, _ in pairs])), "greedy_discounted": float(returns.mean())}

    @cached_property
    def _env(self) -> FeatureEnvironment:
        return self._make()

    @property
    def _random(self) -> Floats:
        """Sums (n, d) of the features in n episodes of random actions. These episodes are run once."""
        if self._random_phi is None:
            self._random_phi = self._run(Greedy(lambda *_: self._env.actions.sample(self._rng))).phi
        return self._random_phi

    def remarks(self) -> list[str]:
        """Return sentences for the notes: on policies that have learned nothing, and on wrong predictions."""
        return [one for one in (self._learned_nothing(), self._foresaw_wrongly()) if one is not None]

    def _learned_nothing(self) -> str | None:
        late = [[one for one in seen if one[0] > _FAIR] for seen in self._looked.values()]
        if not any(late) or any(np.mean([got for _, got, _ in seen]) > seen[0][2] for seen in late if seen):
            return None
        return (
            "the greedy policies earned no more than random actions in the second half of training: try more steps, a "
            "larger gamma, more exploration (epsilon), or check whether the features distinguish good from bad outcomes"
        )

    def _foresaw_wrongly(self) -> str | None:
        every = [np.array(pairs).T for pairs in self._foreseen.values() if len(pairs) >= _FEW]
        if not every:
            return None
        off, ratios = [], []
        for means, stds, returns in every:
            rounding = 1e-4 * max(1.0, np.abs(returns).max())  # keeps the divisors above 0 if all returns are equal
            spread = float(np.hypot(returns.std(ddof=1), rounding))
            off.append((returns - means) / spread)
            ratios.append((np.mean(stds**2) + means.var() + rounding**2) / spread**2)
        n, mean = sum(map(len, off)), float(np.concatenate(off).mean())
        ratio, chance = float(np.mean(ratios) ** 0.5), np.exp(_SURELY / (2 * n) ** 0.5)
        said = []
        if abs(mean) > max(_NEAR, _SURELY / n**0.5):
            said.append(f"the mean was {abs(mean):.1f} standard deviations {'higher' if mean > 0 else 'lower'}")
        if not 1 / (_ALIKE * chance) < ratio < _ALIKE * chance:
            factor = max(ratio, 1 / ratio)
            said.append(f"the spread was {'smaller' if ratio > 1 else 'larger'} by a factor of {factor:.1f}")
        if not said:
            return None
        return (
            f"in the second half of training the returns of {n} greedy episodes differed from predictions "
            f"({', '.join(said)}): try more steps, and `calibrate` before relying on limits or strong aversion"
        )

    def _run(self, greedy: Greedy) -> _Episodes:
        """Run episodes until the steps of a check are used up."""
        seeds = (int(self._rng.integers(2**31)) for _ in range(self._steps))
        nothing, starts, whole = np.zeros(self._env.n_features), list[Any](), list[bool]()
        phi, discounted, failures = [nothing], [nothing], [0]

        def act(t: int, obs: dict[int, object]) -> list[Any]:
            starts.extend(one for one in obs.values() if t == 0)
            return [greedy.act(one, t) for one in obs.values()]

        for [transition] in islice(episodes(SyncEnvs([self._env]), seeds, act, self._steps), self._steps):
            step = transition.step
            phi[-1], failures[-1] = phi[-1] + step.phi, failures[-1] + step.failure
            discounted[-1] = discounted[-1] + greedy.gamma**transition.t * step.phi
            if transition.over:
                phi, discounted, failures = [*phi, nothing], [*discounted, nothing], [*failures, 0]
                whole.append(step.terminated or (greedy.whole and step.truncated))
        n = max(1, len(phi) - 1)  # the last, unfinished episode counts only if no episode was finished
        return _Episodes(
            np.array(phi[:n]), np.array(failures[:n], np.float64), starts, np.array((whole or [False])[:n]),
            np.array(discounted[:n]),
        )  # fmt: skip
