"""`Actor`: chooses actions by an acting rule in an episode loop that the caller writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats, Ints
from rasf.library.acting.rule import ActingRule, Memory
from rasf.library.ahead.policies import LookingAhead

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary


class Actor:
    """Chooses actions for one task, in one episode or in B parallel episodes; made by `PolicyLibrary.actor`.

    A static risk has a threshold (see `rasf.library.acting.static`), and every limit has a price. Both are fixed at the
    first observation of an episode. In every step call `act`, then `observe` with the features or the reward of the
    step. At the end of an episode call `reset`.
    """

    def __init__(self, library: PolicyLibrary, rule: ActingRule) -> None:
        self._library, self._rule = library, rule
        self.reset()

    @property
    def accrued(self) -> Floats:
        """The accrued return (B,)."""
        return self._memory.accrued

    @property
    def discount(self) -> Floats:
        """The discount gamma^t after t steps, (B,)."""
        return self._memory.discount

    @property
    def threshold(self) -> Floats:
        """The threshold (B,) of a static risk, see `rasf.library.acting.static`; 0 for other rules."""
        return self._memory.own.get("threshold", np.zeros(len(self.accrued)))

    @property
    def ahead(self) -> int:
        """The number of simulated steps, which a time budget may lower at the first decision; 0 without a model."""
        sources = self._rule.sources
        return sources.ahead if isinstance(sources, LookingAhead) else 0

    @property
    def particles(self) -> int:
        """The number of simulated paths for each policy and action; 0 without a model, or if the model is exact."""
        sources = self._rule.sources
        return sources.particles if isinstance(sources, LookingAhead) else 0

    @property
    def prices(self) -> dict[str, Floats]:
        """The price (B,) of each limit, by the name of the feature."""
        return self._rule.prices(self._memory) if len(self._fresh) else {}

    def remarks(self) -> list[str]:
        """Return a sentence for each episode whose limits cannot all be kept; the excess is as small as possible."""
        return list(filter(None, self._rule.not_kept(self._memory))) if len(self._fresh) else []

    def reset(self, over: npt.ArrayLike | None = None) -> None:
        """Start new episodes.

        Args:
            over: Whether each episode is over, (B,). Default: all episodes are over.
        """
        if over is None:
            self._memory, self._fresh = Memory.fresh(0), np.ones(0, np.bool_)
            self._steps: Ints = np.zeros(0, np.int64)  # (B,) steps of each episode so far
            return
        mask = np.asarray(over, np.bool_)
        if mask.shape != self._fresh.shape:
            raise ValueError(f"over must have shape {self._fresh.shape}, one flag for each episode, got {mask.shape}")
        self._fresh = self._fresh | mask

    def act(self, obs: object, state: object = None) -> Any:
        """Return the action for one observation, or actions (B, ..) for a batch, as the environment takes them.

        Args:
            obs: An observation, or a batch with one observation for each episode.
            state: For an actor that looks ahead, the state of the model in which `obs` was observed: a state of the
                world (for a batch, arrays with a leading axis B), or the environment that is copied (for a batch, a
                list). Default: none for a finite MDP; the model itself if the model is an environment.

        Raises:
            ValueError: The number of observations has changed without a reset, or the state is missing or invalid.
        """
        library = self._library
        batch = library.is_batch(obs)
        encoded = np.atleast_2d(library.encode(obs))
        rows = self._rows(state, len(encoded) if batch else None)
        encoded = self._beside(encoded, rows)
        if not len(self._fresh):
            self._memory, self._fresh = self._rule.begin(encoded), np.zeros(len(encoded), np.bool_)
            self._steps = np.zeros(len(encoded), np.int64)
        if len(encoded) != len(self._fresh):
            raise ValueError(
                f"obs must have one observation for each of {len(self._fresh)} episodes, got {len(encoded)}; to change "
                "the number of episodes, call reset"
            )
        if self._fresh.any():
            self._memory.put(self._fresh, self._rule.begin(encoded[self._fresh]))
            self._steps[self._fresh] = 0
            self._fresh[:] = False
        encoded = np.atleast_2d(library.encode(obs, self._steps if batch else int(self._steps[0])))
        return library.own_actions(self._rule.act(self._beside(encoded, rows), self._memory), batch)

    def _rows(self, state: object, batch: int | None) -> Floats | None:
        """Return the numbers (B, m) of the model's states, or None if the rule does not look ahead."""
        sources = self._rule.sources
        if isinstance(sources, LookingAhead):
            from rasf.library.ahead.models import state_rows

            ages = np.where(self._fresh, 0, self._steps).tolist() if len(self._steps) else [0] * (batch or 1)
            return state_rows(sources, state, batch, ages)
        if state is not None:
            raise ValueError("state must be left out unless the actor has a model and looks ahead")
        return None

    def _beside(self, encoded: np.ndarray, rows: Floats | None) -> np.ndarray:
        sources = self._rule.sources
        return sources.beside(encoded, rows) if isinstance(sources, LookingAhead) else encoded

    def observe(self, gained: npt.ArrayLike) -> None:
        """Add the reward of a step to the accrued return.

        Args:
            gained: Features (d,) or the reward of the step; (B, d) or (B,) for B episodes.

        Raises:
            ValueError: The shape is wrong, a number is not finite, or `act` was not called before.
        """
        try:
            given = np.asarray(gained, np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"gained must be numbers, got {gained!r:.80}") from None
        if not len(self._fresh) or self._fresh.any():
            raise ValueError("observe must be called once after each act")
        n, d = len(self.accrued), len(self._rule.w)
        if not np.isfinite(given).all():
            raise ValueError(f"gained must be finite, got {gained!r}")
        if given.size == n * d and given.shape in ((d,), (n, d)):
            rewards = given.reshape(n, d) @ self._rule.w
        elif given.size == n and given.shape in ((), (n,)):
            rewards = given.reshape(n)
        else:
            wanted = f"features ({n}, {d}) or rewards ({n},)" if n > 1 else f"features ({d},) or a reward"
            raise ValueError(f"gained must be {wanted}, got shape {given.shape}")
        self._memory.advance(rewards, self._library.gamma)
        self._steps += 1
