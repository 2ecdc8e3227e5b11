"""`Actor`: acts through episodes by a rule, in a loop that the caller steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.library.acting.rule import ActingRule, Memory

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary


class Actor:
    """Acts for one task, for one episode or for several at once, by what was fixed at the first observation.

    `act` takes an observation, or a batch of as many as there are episodes. `observe` takes what a step gave: its
    features (d,) or its reward, or (B, d) or (B,). `reset` follows the end of an episode. Of every episode: accrued,
    discount, threshold (of a static risk), and `prices` of the limits, by name.
    """

    def __init__(self, library: PolicyLibrary, rule: ActingRule) -> None:
        self._library, self._rule = library, rule
        self.reset()

    @property
    def accrued(self) -> Floats:
        """The discounted return so far, (B,)."""
        return self._memory.accrued

    @property
    def discount(self) -> Floats:
        """gamma^t, (B,)."""
        return self._memory.discount

    @property
    def threshold(self) -> Floats:
        """b of a static risk, (B,); 0 for other rules."""
        return self._memory.own.get("threshold", np.zeros(len(self.accrued)))

    @property
    def prices(self) -> dict[str, Floats]:
        """What a unit of each limited feature costs, (B,) each."""
        return self._rule.prices(self._memory) if len(self._fresh) else {}

    def remarks(self) -> list[str]:
        """A sentence for every episode whose limits cannot be kept; it goes by the nearest that can."""
        return list(filter(None, self._rule.not_kept(self._memory))) if len(self._fresh) else []

    def reset(self, over: npt.ArrayLike | None = None) -> None:
        """Begin anew: all episodes, or those that are over (B,)."""
        if over is None:
            self._memory, self._fresh = Memory.fresh(0), np.ones(0, np.bool_)
            self._steps: Ints = np.zeros(0, np.int64)  # of the episodes so far
            return
        mask = np.asarray(over, np.bool_)
        if mask.shape != self._fresh.shape:
            raise ValueError(f"over must have shape {self._fresh.shape}, one for each episode, got {mask.shape}")
        self._fresh = self._fresh | mask

    def act(self, obs: object) -> int | Ints:
        """The action for one observation, or actions (B,), as the environment numbers them."""
        library = self._library
        batch = library.is_batch(obs)
        encoded = np.atleast_2d(library.encode(obs))
        if not len(self._fresh):
            self._memory, self._fresh = self._rule.begin(encoded), np.zeros(len(encoded), np.bool_)
            self._steps = np.zeros(len(encoded), np.int64)
        if len(encoded) != len(self._fresh):
            raise ValueError(
                f"obs must be of {len(self._fresh)} episodes, as before, got {len(encoded)}; or reset first"
            )
        if self._fresh.any():
            self._memory.put(self._fresh, self._rule.begin(encoded[self._fresh]))
            self._steps[self._fresh] = 0
            self._fresh[:] = False
        encoded = np.atleast_2d(library.encode(obs, self._steps if batch else int(self._steps[0])))
        numbered = self._rule.act(encoded, self._memory) + library.environment.first_action
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
        self._memory.advance(rewards, self._library.gamma)
        self._steps += 1
