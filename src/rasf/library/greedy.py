"""How good the greedy policy is while it is learned: a few episodes without exploration, now and then, beside training.

They take place in an environment of their own, so training goes on as if nobody had looked. They cost at most a
twentieth of its steps: ten times a two-hundredth. Random actions are measured first, in episodes of the same length;
a policy that earns no more than they do after half of the steps has learned nothing, and its library says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from rasf.arrays import Floats
from rasf.envs.gymnasium.single import FeatureEnvironment

TIMES = 10
_SHARE = 200  # of the steps, one part at a time
_LEAST, _MOST = 50, 2_000  # steps at a time
_FAIR = 0.5  # share of the training after which something should be learned
_CLEARLY = 1.0  # standard errors


class GreedyCheck:
    """Looks at the policies of one training with so many steps in all; `make` opens the environment to look in.

    That happens when it is time to look for the first time: short trainings are not looked at.
    """

    STATE = ("_rng", "_due", "_looked", "_random_phi")  # for checkpoints

    def __init__(self, make: Callable[[], FeatureEnvironment], steps: int, seed: int) -> None:
        self._make, self._rng = make, np.random.default_rng([seed, 41])
        self._steps, self._due = min(_MOST, steps // _SHARE), 0
        self._random_phi: Floats | None = None
        self._looked: dict[int, list[tuple[float, float, float]]] = {}  # by policy: share, return, what chance allows

    def look(self, share: float, policy: int, w: Floats, act: Callable[[Any], int]) -> dict[str, float]:
        """What a policy earns for w, if it is time to look: extras of progress."""
        if self._steps < _LEAST or share * TIMES < self._due + 1:
            return {}
        self._due = int(share * TIMES)
        phi, failures = self._run(act)
        earned, by_chance = phi @ w, self._random @ w
        bar = by_chance.mean() + _CLEARLY * by_chance.std() / len(by_chance) ** 0.5
        self._looked.setdefault(policy, []).append((share, float(earned.mean()), float(bar)))
        named = {"greedy_failures": float(failures.mean())} if self._env.reports_failures else {}
        returns = {"greedy_return": float(earned.mean()), "random_return": float(by_chance.mean())}
        return returns | {"greedy_episodes": float(len(phi))} | named

    @cached_property
    def _env(self) -> FeatureEnvironment:
        return self._make()

    @property
    def _random(self) -> Floats:
        """Features (n, d) of episodes of random actions, which are run once."""
        if self._random_phi is None:
            self._random_phi = self._run(lambda _: int(self._rng.integers(self._env.n_actions)))[0]
        return self._random_phi

    def remark(self) -> str | None:
        """What to say of a training after which no policy earns more than random actions."""
        late = [[one for one in seen if one[0] > _FAIR] for seen in self._looked.values()]
        if not any(late) or any(np.mean([got for _, got, _ in seen]) > seen[0][2] for seen in late if seen):
            return None
        return (
            "the greedy policies earned no more than random actions in the second half of training: try more steps, "
            "a larger gamma, more exploration (epsilon), or see whether the features can tell good from bad"
        )

    def _run(self, act: Callable[[Any], int]) -> tuple[Floats, Floats]:
        """Features (n, d) and failures (n,) of episodes, each cut off where the steps for looking end."""
        env, left = self._env, self._steps
        phi: list[Floats] = []
        failures: list[int] = []
        while left > 0:
            obs, total, failed, over = env.reset(int(self._rng.integers(2**31))), np.zeros(env.n_features), 0, False
            while left > 0 and not over:
                step = env.step(act(obs))
                obs, total, failed, left = step.obs, total + step.phi, failed + step.failure, left - 1
                over = step.terminated or step.truncated
            if over or not phi:  # one that was cut short counts only by itself
                phi.append(total)
                failures.append(failed)
        return np.array(phi), np.array(failures, np.float64)
