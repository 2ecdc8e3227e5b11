"""`LookingAhead`: frozen policies that simulate h steps in a model before they score an action.

    score_i(s, a) = risk[ sum of gamma^t w . phi_t over t < h  +  gamma^h w . Z_i(s_h) ]

The first simulated action is a; later actions are those of source policy i. Z_i(s_h) is the learned feature return of
policy i, for its own action in the last state. The class has the interface of `FrozenPolicies`, so that every acting
rule can look ahead. Only the observations differ: a row contains the encoded observation, and then the numbers of the
model's state. At rows whose state is unknown (nan), the scores are those of the policies without looking ahead.

A model is one of three classes:

    WorldModel     a `rasf.World`: particles, compiled                                     (module `world`)
    FiniteModel    a `FiniteMDP`: exact mean and variance                                  (module `finite`)
    CopiedModel    copies of a Gymnasium environment: particles, one step after the other  (module `copies`)

In shapes, K is the number of policies, B of observations, A of actions, N of particles, n of inputs and m of numbers of
a state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from rasf.agents import Family, LawKind
from rasf.arrays import Bools, Floats, Ints
from rasf.files import Arrays, Header
from rasf.library.ahead.finite import FiniteModel
from rasf.library.ahead.followed import Followed
from rasf.library.ahead.returns import PARTS, Paths, equal_parts, mixture, path_moments
from rasf.library.frozen_policies import FrozenPolicies, Scores
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import is_neutral
from rasf.transfer import gpi_actions

if TYPE_CHECKING:
    from rasf.library.ahead.copies import CopiedModel
    from rasf.library.ahead.world import WorldModel

    Model: TypeAlias = WorldModel | FiniteModel | CopiedModel

_KEPT = 8  # simulations of this number of batches are cached, so that limits and predictions need no further ones
_MOST_ROWS = 2**16  # largest number of simulated paths in one call
_TIMES = 3  # a budget in milliseconds is compared with the shortest of this number of measured times


@dataclass
class _Settings:
    """The number of steps h and of particles N, and whether they fit the time budget already."""

    ahead: int
    particles: int
    settled: bool


class LookingAhead:
    """Policies that look ahead; see the module's header.

    Args:
        base: The policies.
        followed: The same policies, as the simulation follows them.
        model: The model.
        ahead: Number h of simulated steps, at least 1.
        particles: Number N of simulated paths for each policy and first action. A `FiniteModel` needs none.
        milliseconds: Largest time for one decision. At the first decision, N is then set to the largest power of two up
            to `particles` for which the measured time is within the budget. If one particle takes too long, h is
            halved. Default: no budget.
    """

    def __init__(
        self, base: FrozenPolicies, followed: Followed, model: Model, ahead: int, particles: int,
        milliseconds: float | None = None,
    ) -> None:  # fmt: skip
        self.base, self.model, self._followed, self._milliseconds = base, model, followed, milliseconds
        self._now = _Settings(ahead, particles, milliseconds is None or isinstance(model, FiniteModel))
        self._turn, self._kept = 0, dict[bytes, _Outlook]()
        self.family: Family = base.family
        self.law_kind: LawKind = base.law_kind
        self.policies, self.n_actions, self.action_size = base.policies, base.n_actions, base.action_size
        self.n_features, self.gamma, self.limit = base.n_features, base.gamma, base.limit
        self.n_inputs = base.n_inputs + model.numbers

    @property
    def ahead(self) -> int:
        """Number h of simulated steps, after the first decision within the time budget."""
        return self._now.ahead

    @property
    def particles(self) -> int:
        """Number N of simulated paths for each policy and action, after the first decision within the time budget.

        0 for a `FiniteModel`, which is exact.
        """
        return self._now.particles if self.model.sampled else 0

    def __str__(self) -> str:
        steps = f"actions are chosen by looking {self.ahead} step{'s' * (self.ahead > 1)} ahead"
        paths = f"with {self.particles} simulated path{'s' * (self.particles > 1)} for each policy and action"
        return f"{steps}, {paths}" if self.particles else steps

    def beside(self, encoded: npt.NDArray[Any], states: Floats | None) -> npt.NDArray[Any]:
        """Return rows (B, n + m): encoded observations (B, n) and the numbers of states (B, m).

        Args:
            encoded: Encoded observations (B, n).
            states: Numbers of states (B, m). None if the states are unknown.
        """
        if states is None:
            states = np.full((len(encoded), self.model.numbers), np.nan)
        return np.concatenate([encoded.astype(np.float64), states], axis=1)

    def plain(self, obs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the encoded observations (B, n) of rows (B, n + m)."""
        found = obs[:, : self.base.n_inputs]
        return found if self.family is Family.TABLES else found.astype(np.float32)

    def check(self, risk: Risk) -> None:
        """Raise a ValueError for a risk that these policies cannot score with this model."""
        self.base.check(risk)
        form = self._form_of(risk)
        if form is not None and form not in risk.supports:
            raise ValueError(f"risk must be one that can score {form} to look ahead in this model, got {risk!r}")

    def _form_of(self, risk: Risk) -> str | None:
        """Return the form in which a risk scores returns, "moments" or "samples"; None for the mean."""
        if is_neutral(risk):
            return None
        by_moments = self.law_kind is not LawKind.HISTOGRAM or isinstance(risk, MeanVariance) or not self.model.sampled
        return "moments" if by_moments else "samples"

    def scores(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Scores:
        """Return the scores of every policy (GPE); arguments as for `FrozenPolicies`."""
        self.check(risk)
        usable = self._usable(obs)
        if not usable.any():
            return self.base.scores(self.plain(obs), w, risk)
        self._settle(obs[usable], lambda outlook: self._scores(outlook, w, risk))
        parts = [self._scores(self._outlook(some), w, risk) for some in self._chunks(obs[usable])]
        found = [np.concatenate(some, axis=1) for some in zip(*parts, strict=True)]
        if not usable.all():
            blind = self.base.scores(self.plain(obs[~usable]), w, risk)
            found = [_joined(usable, *some) for some in zip(found, blind[:3], strict=True)]
        return Scores(found[0], found[1], found[2], self.seen(obs))

    def _scores(self, outlook: _Outlook, w: Floats, risk: Risk) -> tuple[Floats, Floats, Floats]:
        """Return scores, means and standard deviations (K, B, A)."""
        (mean, variance, known), form = outlook.moments(w), self._form_of(risk)
        if form is None:
            values = mean.copy()
        elif form == "moments":
            values = np.array(risk.moments(mean, np.maximum(variance, 0.0)))
        else:
            values = np.array(risk.samples(outlook.samples(w)))
        values[~known] = -np.inf
        return values, np.where(known, mean, 0.0), np.sqrt(np.where(known, np.maximum(variance, 0.0), np.nan))

    def laws(self, obs: npt.NDArray[Any], w: Floats) -> tuple[Floats, Floats] | None:
        """Return probabilities and returns, (K, B, A, L) each, if the policies have histograms; else None.

        Args:
            obs: Rows (B, n + m).
            w: The weights (d,) of the task.
        """
        if self.law_kind is not LawKind.HISTOGRAM or not self.model.sampled:
            return None
        usable = self._usable(obs)
        if not usable.any():
            return self.base.laws(self.plain(obs), w)
        self._settle(obs[usable], lambda outlook: outlook.samples(w))
        found = np.concatenate([self._outlook(some).samples(w) for some in self._chunks(obs[usable])], axis=1)
        if not usable.all():
            laws = self.base.laws(self.plain(obs[~usable]), w)
            assert laws is not None
            found = _joined(usable, found, np.tile(equal_parts(*laws), found.shape[-1] // PARTS))
        return np.full(found.shape, 1 / found.shape[-1]), found

    def seen(self, obs: npt.NDArray[Any]) -> Bools:
        """Return whether any policy has data for each observation (B,)."""
        return self.base.seen(self.plain(obs))

    def act(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> np.ndarray:
        """Return actions (B,) or (B, P) by GPI; arguments as for `FrozenPolicies`."""
        return self.actions(obs, np.asarray(gpi_actions(self.scores(obs, w, risk).values)))

    def act_one(self, obs: npt.NDArray[Any], w: Floats, risk: Risk) -> Any:
        """Return the action for one row (n + m,)."""
        return self.act(obs[None], w, risk)[0]

    def actions(self, obs: npt.NDArray[Any], chosen: Ints) -> np.ndarray:
        """Return the actions of the candidates `chosen` (B,); arguments as for `FrozenPolicies`."""
        return self.base.actions(self.plain(obs), chosen)

    def proposals(self, obs: npt.NDArray[Any]) -> np.ndarray | None:
        """Return the candidates (B, A, P) if actions are vectors, else None."""
        return self.base.proposals(self.plain(obs))

    def arrays(self, precision: str = "single") -> Arrays:
        return self.base.arrays(precision)

    def describe(self) -> Header:
        return self.base.describe()

    def shared_settings(self) -> dict[str, Any]:
        return self.base.shared_settings()

    def merge(self, parts: Sequence[Any]) -> Any:
        """Raise an error, because a model belongs to one library."""
        raise ValueError("policies that look ahead cannot be merged; merge the libraries first")

    def _usable(self, obs: npt.NDArray[Any]) -> Bools:
        """Return where the model's state is known (B,)."""
        rows = obs[:, self.base.n_inputs :]
        if isinstance(self.model, FiniteModel):
            return self.model.states(self.plain(obs), rows) >= 0
        return self.model.usable(rows)

    def _chunks(self, obs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        most = max(1, _MOST_ROWS // (self.policies * self.n_actions * self._now.particles))
        return [obs[at : at + most] for at in range(0, len(obs), most)]

    def _outlook(self, obs: npt.NDArray[Any]) -> _Outlook:
        """Return the simulation from rows (B, n + m), cached."""
        key = obs.tobytes()
        if key not in self._kept:
            for oldest in list(self._kept)[: 1 - _KEPT]:
                self._kept.pop(oldest, None)
            self._kept[key] = self._simulated(obs)
        return self._kept[key]

    def _simulated(self, obs: npt.NDArray[Any]) -> _Outlook:
        self._turn += 1
        return _Outlook(self, self.plain(obs), obs[:, self.base.n_inputs :], self._turn, self._now.ahead,
                        self._now.particles)  # fmt: skip

    def first_actions(self, plain: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the candidates (B, A), or (B, A, P) if actions are vectors, at encoded observations (B, n)."""
        proposed = self.base.proposals(plain)
        if proposed is not None:
            return proposed
        return np.broadcast_to(np.arange(self.n_actions), (len(plain), self.n_actions))

    def _settle(self, obs: npt.NDArray[Any], work: Callable[[_Outlook], object]) -> None:
        """Choose the numbers of particles and steps by the measured times of `work`, once; see `milliseconds`."""
        if self._now.settled:
            return
        assert self._milliseconds is not None
        most, now = self._now.particles, self._now
        some, turn = obs[:1], self._turn
        while True:
            now.particles, fits = 1, 0
            while now.particles <= most and self._seconds(some, work) * 1e3 <= self._milliseconds:
                fits, now.particles = now.particles, 2 * now.particles
            if fits or now.ahead == 1:
                break
            now.ahead //= 2
        now.particles, now.settled, self._turn = max(1, fits), True, turn

    def _seconds(self, obs: npt.NDArray[Any], work: Callable[[_Outlook], object]) -> float:
        """Return the time of one decision, after one that compiles."""
        found = []
        for _ in range(1 + _TIMES):
            begin = time.perf_counter()
            work(self._simulated(obs))
            found.append(time.perf_counter() - begin)
        return min(found[1:])


def _joined(first: Bools, some: Floats, others: Floats) -> Floats:
    """Return one array (K, B, ..) with `some` at the rows where `first` (B,) is True, and `others` elsewhere."""
    found = np.empty((len(some), len(first), *some.shape[2:]))
    found[:, first], found[:, ~first] = some, others
    return found


class _Outlook:
    """A simulation from B states, for any weights."""

    def __init__(
        self, policies: LookingAhead, plain: npt.NDArray[Any], rows: Floats, turn: int, ahead: int, particles: int
    ) -> None:
        self._policies, self._plain, self._rows = policies, plain, rows
        self._turn, self._ahead, self._particles = turn, ahead, particles

    def _paths(self, sampled: bool) -> Paths:
        model, first = self._policies.model, self._policies.first_actions(self._plain)
        assert not isinstance(model, FiniteModel)
        found = model.paths(self._plain, self._rows, first, self._ahead, self._particles, self._turn, sampled)
        spread = None if found.spread is None else np.asarray(found.spread, np.float64)
        features, discount = (np.asarray(part, np.float64) for part in (found.features, found.discount))
        return found._replace(features=features, spread=spread, discount=discount)

    @cached_property
    def _of_moments(self) -> Paths:
        return self._paths(sampled=False)

    @cached_property
    def _of_samples(self) -> Paths:
        return self._of_moments if self._of_moments.spread is None else self._paths(sampled=True)

    def moments(self, w: Floats) -> tuple[Floats, Floats, Bools]:
        """Return mean and variance (K, B, A) of the return for weights w (d,), and where both are known."""
        policies = self._policies
        model = policies.model
        if isinstance(model, FiniteModel):
            return model.moments(model.states(self._plain, self._rows), self._rows, w, self._ahead)
        paths = self._of_moments
        tails = policies._followed.tails(paths.obs, paths.actions, w)
        mean, variance, known = (np.asarray(part).reshape(paths.discount.shape) for part in tails)
        found = path_moments(paths, w, mean, variance)
        return *found, (known | (paths.discount == 0)).all(axis=-1)

    def samples(self, w: Floats) -> Floats:
        """Return equally likely returns (K, B, A, L) for weights w (d,)."""
        paths = self._of_samples
        tails = self._policies._followed.histograms(paths.obs, paths.actions, w)
        return cast(Floats, mixture(paths, w, tails.reshape(*paths.discount.shape, -1)))
