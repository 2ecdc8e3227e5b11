"""How good the greedy policy is during training: from time to time, a few episodes without exploration.

They take place in an environment of their own, so they do not change the training. They cost at most a twentieth of its
steps: ten times a two-hundredth. Random actions are measured first, in episodes of the same length. A policy that earns
no more than they do after half of the steps has learned nothing, and its library says so.

Networks predict the distribution of the return at the start of each episode. Predictions of the second half of training
are compared with the discounted returns that followed, and the library says so if they differ by more than chance.
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
_SHARE = 200  # of the steps, one part at a time
_LEAST, _MOST = 50, 2_000  # steps at a time
_FAIR = 0.5  # share of the training after which something should be learned
_CLEARLY = 1.0  # standard errors
_SURELY = 3.0  # standard errors, of predictions
_FEW = 5  # episodes of a policy: with fewer its spread is not known
_NEAR, _ALIKE = 0.25, 1.25  # standard deviations between means, and a factor between spreads, that do not matter


class Greedy(NamedTuple):
    """A greedy policy: its action for an observation after t steps, and its predictions at the start of an episode.

    predict: mean and standard deviation of the return discounted by gamma; None where that is not known. whole: whether
    an episode that a time limit cuts is what is predicted.
    """

    act: Callable[[Any, int], int]
    predict: Callable[[Any], tuple[float, float]] | None = None
    gamma: float = 1.0
    whole: bool = False


class _Episodes(NamedTuple):
    """n episodes: features (n, d), failures (n,), first observations, and which of them (n,) can be compared with the
    predictions at their start; discounted: features (n, d)."""

    phi: Floats
    failures: Floats
    starts: list[Any]
    whole: Bools
    discounted: Floats


class GreedyCheck:
    """Checks the policies of one training run; `make` opens the environment for it at the first check.

    steps: those of the whole training; short ones are not checked.
    """

    STATE = ("_rng", "_due", "_looked", "_random_phi", "_foreseen")  # for checkpoints

    def __init__(self, make: Callable[[], FeatureEnvironment], steps: int, seed: int) -> None:
        self._make, self._rng = make, np.random.default_rng([seed, 41])
        self._steps, self._due = min(_MOST, steps // _SHARE), 0
        self._random_phi: Floats | None = None
        self._looked: dict[int, list[tuple[float, float, float]]] = {}  # by policy: share, return, what chance allows
        # by policy, of the second half: mean and standard deviation as predicted, and the return that followed
        self._foreseen: dict[int, list[tuple[float, float, float]]] = {}

    def look(self, share: float, policy: int, w: Floats, greedy: Greedy) -> dict[str, float]:
        """What a policy earns for w, if it is time to look: extras of progress."""
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
        """What was predicted at the starts of whole episodes, and the mean discounted return that followed."""
        if greedy.predict is None or not found.whole.any():
            return {}
        told = [greedy.predict(found.starts[i]) for i in np.flatnonzero(found.whole)]
        returns = (found.discounted @ w)[found.whole]
        if share > _FAIR:
            pairs = zip(told, returns.tolist(), strict=True)
            self._foreseen.setdefault(policy, []).extend((mean, std, got) for (mean, std), got in pairs)
        return {"predicted": float(np.mean([mean for mean, _ in told])), "greedy_discounted": float(returns.mean())}

    @cached_property
    def _env(self) -> FeatureEnvironment:
        return self._make()

    @property
    def _random(self) -> Floats:
        """Features (n, d) of episodes of random actions, which are run once."""
        if self._random_phi is None:
            self._random_phi = self._run(Greedy(lambda *_: int(self._rng.integers(self._env.n_actions)))).phi
        return self._random_phi

    def remarks(self) -> list[str]:
        """What to say after training, if its policies have learned nothing, or predict what does not come true."""
        return [one for one in (self._learned_nothing(), self._foresaw_wrongly()) if one is not None]

    def _learned_nothing(self) -> str | None:
        late = [[one for one in seen if one[0] > _FAIR] for seen in self._looked.values()]
        if not any(late) or any(np.mean([got for _, got, _ in seen]) > seen[0][2] for seen in late if seen):
            return None
        return (
            "the greedy policies earned no more than random actions in the second half of training: try more steps, "
            "a larger gamma, more exploration (epsilon), or see whether the features can tell good from bad"
        )

    def _foresaw_wrongly(self) -> str | None:
        every = [np.array(pairs).T for pairs in self._foreseen.values() if len(pairs) >= _FEW]
        if not every:
            return None
        off, ratios = [], []
        for means, stds, returns in every:
            rounding = 1e-4 * max(1.0, np.abs(returns).max())  # so that what does not vary can be compared too
            spread = float(np.hypot(returns.std(ddof=1), rounding))
            off.append((returns - means) / spread)
            ratios.append((np.mean(stds**2) + means.var() + rounding**2) / spread**2)
        n, mean = sum(map(len, off)), float(np.concatenate(off).mean())
        ratio, chance = float(np.mean(ratios) ** 0.5), np.exp(_SURELY / (2 * n) ** 0.5)
        said = []
        if abs(mean) > max(_NEAR, _SURELY / n**0.5):
            said.append(f"{abs(mean):.1f} standard deviations {'above' if mean > 0 else 'below'} what was predicted")
        if not 1 / (_ALIKE * chance) < ratio < _ALIKE * chance:
            said.append(
                f"spread {'less' if ratio > 1 else 'more'} than predicted, by a factor of {max(ratio, 1 / ratio):.1f}"
            )
        if not said:
            return None
        return (
            f"in the second half of training the returns of {n} greedy episodes were {' and '.join(said)}: try more "
            "steps, and `calibrate` before relying on limits or strong aversion"
        )

    def _run(self, greedy: Greedy) -> _Episodes:
        """Episodes, each cut off where the steps for this check end."""
        seeds = (int(self._rng.integers(2**31)) for _ in range(self._steps))
        nothing, starts, whole = np.zeros(self._env.n_features), list[Any](), list[bool]()
        phi, discounted, failures = [nothing], [nothing], [0]

        def act(t: int, obs: dict[int, object]) -> list[int]:
            starts.extend(one for one in obs.values() if t == 0)
            return [greedy.act(one, t) for one in obs.values()]

        for [transition] in islice(episodes(SyncEnvs([self._env]), seeds, act, self._steps), self._steps):
            step = transition.step
            phi[-1], failures[-1] = phi[-1] + step.phi, failures[-1] + step.failure
            discounted[-1] = discounted[-1] + greedy.gamma**transition.t * step.phi
            if transition.over:
                phi, discounted, failures = [*phi, nothing], [*discounted, nothing], [*failures, 0]
                whole.append(step.terminated or (greedy.whole and step.truncated))
        n = max(1, len(phi) - 1)  # an episode that was cut counts only if there is no other
        return _Episodes(
            np.array(phi[:n]), np.array(failures[:n], np.float64), starts, np.array((whole or [False])[:n]),
            np.array(discounted[:n]),
        )  # fmt: skip
