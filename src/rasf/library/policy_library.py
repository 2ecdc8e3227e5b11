"""`PolicyLibrary`: policies trained once, to act for any reward weights w at any risk their laws can serve.

    act        argmax_a max_k risk[w . Z_k(obs, a)]        GPI over all source policies
    scores     the same numbers before the maximum, and which policy drives the choice

Z_k is the law of policy k's discounted feature return, as its `Sources` hold it. Use does not change a library; `grow`
and `merge` give new ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.envs.observations import Coder
from rasf.library.sources import Scores, Sources
from rasf.mdp import Floats, Ints
from rasf.risk import Risk
from rasf.risk.names import risk_to_text

if TYPE_CHECKING:
    from rasf.library.evaluation import Comparison, FailureRule, Report

_AT_ONCE = 16  # environments that evaluation steps together
_LONGEST = 100_000  # steps of an episode, where nothing else ends it


class SourcePolicy(NamedTuple):
    """What a policy was trained for: its weights, and its risk as text."""

    w: tuple[float, ...]
    risk: str


@dataclass(frozen=True)
class Explanation:
    """Why a library acts as it does; `np.asarray` of it are the values.

    values, mean, spread: (K, A), or (K, B, A) for a batch; action, driver and seen: one, or (B,). The driver is the
    policy whose value is the largest at the action chosen.
    """

    values: Floats
    mean: Floats
    spread: Floats
    seen: npt.NDArray[np.bool_]
    action: Ints
    driver: Ints

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)


class PolicyLibrary:
    """Made by `rasf.learn` or `rasf.load`.

    history: what training saw, one entry a policy, by name. notes: what was decided on the way, in sentences.
    """

    def __init__(
        self,
        sources: Sources,
        environment: dict[str, Any],
        policies: tuple[SourcePolicy, ...],
        agent: str,
        history: dict[str, npt.NDArray[Any]],
        notes: tuple[str, ...],
        provenance: dict[str, Any],
    ) -> None:
        self.sources, self.environment, self.policies, self.agent = sources, environment, policies, agent
        self.history, self.notes, self.provenance = history, notes, provenance
        self._coder = coder = Coder.from_description(environment["observations"])
        is_table = sources.describe()["law"] == "table"
        self._code = coder.numbers if is_table else coder.flat
        self._code_batch = coder.batch_numbers if is_table else coder.batch_flat
        self._first_action = int(environment["first_action"])
        sizes = {
            "the number of policies": (len(policies), sources.policies),
            "n_actions": (environment["n_actions"], sources.n_actions),
            "n_features": (environment["n_features"], sources.n_features),
            "the size of an observation": (coder.size if is_table else coder.flat_size, sources.n_inputs),
        }
        for name, (declared, held) in sizes.items():
            if declared != held:
                raise ValueError(f"{name} must agree with the policies, which have {held}, got {declared}")

    def __repr__(self) -> str:
        of = self.environment["id"] or "an environment without id"
        return f"<PolicyLibrary: {len(self.policies)} policies of {self.agent} on {of}>"

    @property
    def n_features(self) -> int:
        """d."""
        return self.sources.n_features

    @property
    def gamma(self) -> float:
        """The discount the policies were trained with."""
        return self.sources.gamma

    def act(self, obs: Any, w: npt.ArrayLike, risk: Risk) -> Any:
        """The action for one observation, or actions (B,) for a batch, as the environment numbers them.

        At an observation that no policy knows, a tabular library takes the first action; networks always have an
        answer. `scores` tells.
        """
        weights = self._weights(w)
        if self._coder.is_batch(obs):
            return self.sources.act(self._code_batch(obs), weights, risk) + self._first_action
        return self.sources.act_one(self._code(obs), weights, risk) + self._first_action

    def scores(self, obs: Any, w: npt.ArrayLike, risk: Risk) -> Explanation:
        """Value, mean and spread of every source policy and action, and which policy drives the choice."""
        batch = self._coder.is_batch(obs)
        codes = self._code_batch(obs) if batch else self._code(obs)[None]
        found: Scores = self.sources.scores(codes, self._weights(w), risk)
        action = found.values.max(axis=0).argmax(axis=-1)
        driver = np.take_along_axis(found.values, action[None, :, None], axis=-1)[..., 0].argmax(axis=0)
        action = action + self._first_action
        if batch:
            return Explanation(found.values, found.mean, found.spread, found.seen, action, driver)
        one = (found.values[:, 0], found.mean[:, 0], found.spread[:, 0], found.seen[0], action[0], driver[0])
        return Explanation(*one)

    def evaluate(
        self,
        env: Any,
        w: npt.ArrayLike,
        risk: Risk,
        episodes: int = 100,
        *,
        seed: int = 0,
        phi: Any = None,
        discount_aware: bool = False,
        failure: FailureRule | None = None,
        max_steps: int = _LONGEST,
    ) -> Report:
        """Act for some episodes: returns, discounted and not, variance, CVaR, failures, with intervals.

        `env` is an id, an environment, or a function that makes one; `phi` as for `learn`. `failure(step)` says on
        which steps there was a failure, where the environment does not name them in info["failure"].
        """
        return next(iter(
            self.compare(
                env, w, [risk], episodes, seed=seed, phi=phi, discount_aware=discount_aware, failure=failure,
                max_steps=max_steps,
            ).reports.values()
        ))  # fmt: skip

    def compare(
        self,
        env: Any,
        w: npt.ArrayLike,
        risks: Sequence[Risk] | Mapping[str, Risk],
        episodes: int = 100,
        *,
        seed: int = 0,
        phi: Any = None,
        discount_aware: bool = False,
        failure: FailureRule | None = None,
        max_steps: int = _LONGEST,
    ) -> Comparison:
        """Evaluate several risks on the same beginnings; printed, it is a table."""
        from rasf.library.evaluation import Comparison, episode_seeds, run_episodes

        if episodes < 2 or max_steps < 1:
            raise ValueError(f"episodes must be at least 2 and max_steps 1, got {episodes} and {max_steps}")
        named = dict(risks) if isinstance(risks, Mapping) else {risk_to_text(risk): risk for risk in risks}
        weights = self._weights(w)
        for risk in named.values():
            self.sources.check(risk)
        environments = self._open(env, phi, min(_AT_ONCE, episodes))
        try:
            reports = {
                name: run_episodes(
                    self.sources,
                    self._code,
                    environments,
                    weights,
                    risk,
                    episode_seeds(seed, episodes),
                    max_steps=max_steps,
                    discount_aware=discount_aware,
                    failure=failure,
                )
                for name, risk in named.items()
            }
        finally:
            for environment in environments:
                if environment.env is not env:
                    environment.close()
        return Comparison(reports)

    def grow(self, env: Any, tasks: npt.ArrayLike | int, **options: Any) -> PolicyLibrary:
        """A library with further tasks, learned as `rasf.learn` does; while they are learned, the old policies help."""
        from rasf.library.learning import learn

        like_mine: dict[str, Any] = {"agent": self.agent, "gamma": self.gamma} | options
        return merge([self, learn(env, tasks=tasks, elders=self, **like_mine)])

    def save(self, path: str | PathLike[str], *, precision: str = "single") -> None:
        """Write the library, whole or not at all; networks may be kept in precision "half"."""
        from rasf.library.library_file import save

        save(self, path, precision)

    def _weights(self, w: npt.ArrayLike) -> Floats:
        weights = np.asarray(w, np.float64)
        if weights.shape != (self.sources.n_features,) or not np.isfinite(weights).all():
            raise ValueError(f"w must be {self.sources.n_features} finite numbers, got {np.asarray(w).tolist()}")
        return weights

    def _open(self, env: Any, phi: Any, n: int) -> list[Any]:
        from rasf.envs.adapters import open_environment

        if isinstance(env, str):
            kwargs = self.environment["kwargs"] if env == self.environment["id"] else {}
            opened = [open_environment(env, phi, **kwargs) for _ in range(n)]
        elif hasattr(env, "step"):
            opened = [open_environment(env, phi)]
        elif callable(env):
            opened = [open_environment(env(), phi) for _ in range(n)]
        else:
            opened = [open_environment(env, phi)]
        found = opened[0].describe()
        for name in ("observations", "n_actions", "n_features"):
            if found[name] != self.environment[name]:
                raise ValueError(
                    f"env must have the {name} that the library was trained with, {self.environment[name]}, "
                    f"got {found[name]}"
                )
        return opened


def merge(libraries: Sequence[PolicyLibrary]) -> PolicyLibrary:
    """One library with the policies of all; they must be of the same environment and kind."""
    if not libraries:
        raise ValueError("libraries must hold one at least")
    first = libraries[0]
    for other in libraries[1:]:
        for name, value in first.environment.items():
            if other.environment[name] != value:
                raise ValueError(f"libraries to merge must be of one environment, but their {name} differ")
        if type(other.sources) is not type(first.sources):
            raise ValueError("libraries to merge must both be tabular or both be networks")
    agents = list(dict.fromkeys(library.agent for library in libraries))
    common = [name for name in first.history if all(name in library.history for library in libraries)]
    return PolicyLibrary(
        first.sources.merge([library.sources for library in libraries]),
        first.environment,
        tuple(policy for library in libraries for policy in library.policies),
        " + ".join(agents),
        {name: np.concatenate([library.history[name] for library in libraries]) for name in common},
        tuple(dict.fromkeys(note for library in libraries for note in library.notes)),
        {"merged": [library.provenance for library in libraries]},
    )
