"""How good the greedy policy is during training: from time to time, a few episodes without exploration.

They take place in an environment of their own, so they do not change the training. They cost at most a twentieth of its
steps: ten times a two-hundredth. Random actions are measured first, in episodes of the same length. A policy that earns
no more than they do after half of the steps has learned nothing, and its library says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from rasf.arrays import Floats
from rasf.envs.gymnasium.episodes import episodes
from rasf.envs.gymnasium.single import FeatureEnvironment
from rasf.envs.gymnasium.vector import SyncEnvs

TIMES = 10
_SHARE = 200  # of the steps, one part at a time
_LEAST, _MOST = 50, 2_000  # steps at a time
_FAIR = 0.5  # share of the training after which something should be learned
_CLEARLY = 1.0  # standard errors


class GreedyCheck:
    """Checks the policies of one training run; `make` opens the environment for it at the first check.

    steps: those of the whole training; short ones are not checked.
    """

    STATE = ("_rng", "_due", "_looked", "_random_phi")  # for checkpoints

    def __init__(self, make: Callable[[], FeatureEnvironment], steps: int, seed: int) -> None:
        self._make, self._rng = make, np.random.default_rng([seed, 41])
        self._steps, self._due = min(_MOST, steps // _SHARE), 0
        self._random_phi: Floats | None = None
        self._looked: dict[int, list[tuple[float, float, float]]] = {}  # by policy: share, return, what chance allows

    def look(self, share: float, policy: int, w: Floats, act: Callable[[Any, int], int]) -> dict[str, float]:
        """What a policy earns for w by `act(obs, t)`, if it is time to look: extras of progress."""
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
            self._random_phi = self._run(lambda *_: int(self._rng.integers(self._env.n_actions)))[0]
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

    def _run(self, act: Callable[[Any, int], int]) -> tuple[Floats, Floats]:
        """Features (n, d) and failures (n,) of episodes, each cut off where the steps for this check end."""
        seeds = (int(self._rng.integers(2**31)) for _ in range(self._steps))
        phi, failures = [np.zeros(self._env.n_features)], [0]
        run = episodes(SyncEnvs([self._env]), seeds, lambda t, obs: (act(one, t) for one in obs.values()), self._steps)
        for [transition] in islice(run, self._steps):
            phi[-1], failures[-1] = phi[-1] + transition.step.phi, failures[-1] + transition.step.failure
            if transition.over:
                phi.append(np.zeros(self._env.n_features))
                failures.append(0)
        whole = max(1, len(phi) - 1)  # an episode that was cut counts only if there is no other
        return np.array(phi[:whole]), np.array(failures[:whole], np.float64)
