"""`PolicyLibrary`: policies trained once, to act for any reward weights w at any risk their laws can serve.

    act        argmax_a max_k risk[w . Z_k(obs, a)]        GPI over all source policies
    scores     the same numbers before the maximum, and which policy drives the choice

Z_k is the law of policy k's discounted feature return, as its `FrozenPolicies` hold it. Use does not change a library; `grow`
and `merge` give new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.envs.gymnasium.encoder import Encoder
from rasf.library.frozen_policies import Explanation as Explanation
from rasf.library.frozen_policies import FrozenPolicies, Scores
from rasf.risk import Risk
from rasf.risk.names import risk_to_text

if TYPE_CHECKING:
    from rasf.library.evaluation import Comparison, FailureRule, Report

_AT_ONCE = 16  # environments that evaluation steps together
_LONGEST = 10_000  # steps of an episode, where nothing else ends it


class SourcePolicy(NamedTuple):
    """What a policy was trained for: its weights, and its risk as text."""

    w: tuple[float, ...]
    risk: str


class PolicyLibrary:
    """Made by `rasf.learn` or `rasf.load`.

    history: what training saw, one entry a policy, by name. notes: what was decided on the way, in sentences.
    """

    def __init__(
        self,
        sources: FrozenPolicies,
        environment: dict[str, Any],
        policies: tuple[SourcePolicy, ...],
        agent: str,
        history: dict[str, npt.NDArray[Any]],
        notes: tuple[str, ...],
        provenance: dict[str, Any],
    ) -> None:
        self.sources, self.environment, self.policies, self.agent = sources, environment, policies, agent
        self.history, self.notes, self.provenance = history, notes, provenance
        self._encoder = encoder = Encoder.from_description(environment["observations"])
        is_table = sources.describe()["law"] == "table"
        self._code: Callable[[Any], npt.NDArray[Any]] = encoder.key if is_table else encoder.vector
        self._code_batch: Callable[[Any], npt.NDArray[Any]] = encoder.batch_keys if is_table else encoder.batch_vectors
        if is_table and encoder.describe()["kind"] == "discrete":
            from rasf.library.tables.checks import KnownChoices  # with compiled code, which networks do without

            known = KnownChoices(encoder)
            self._code, self._code_batch = known.key, known.batch_keys
        self._first_action = int(environment["first_action"])
        sizes = {
            "the number of policies": (len(policies), sources.policies),
            "n_actions": (environment["n_actions"], sources.n_actions),
            "n_features": (environment["n_features"], sources.n_features),
            "the size of an observation": (encoder.size if is_table else encoder.vector_size, sources.n_inputs),
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

        At an observation that no policy knows (`scores` tells), a tabular library takes the first action.
        """
        weights = self._weights(w)
        if self._encoder.is_batch(obs):
            return self.sources.act(self._code_batch(obs), weights, risk) + self._first_action
        return self.sources.act_one(self._code(obs), weights, risk) + self._first_action

    def scores(self, obs: Any, w: npt.ArrayLike, risk: Risk) -> Explanation:
        """Value, mean and spread of every source policy and action, and which policy drives the choice."""
        batch = self._encoder.is_batch(obs)
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
        which steps there was a failure, where the environment does not name them in info["failure"]. Episodes of more
        than `max_steps` are cut, and the report says how many.
        """
        compared = self.compare(
            env, w, [risk], episodes, seed=seed, phi=phi, discount_aware=discount_aware, failure=failure,
            max_steps=max_steps,
        )  # fmt: skip
        return next(iter(compared.reports.values()))

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
        callback: Callable[[str, int], None] | None = None,
    ) -> Comparison:
        """Evaluate several risks on the same beginnings; `callback(risk's name, episodes over)` may raise to stop it."""
        from rasf.library.evaluation import Comparison, episode_seeds, run_episodes

        for name, number, least in (("episodes", episodes, 2), ("max_steps", max_steps, 1), ("seed", seed, 0)):
            if not isinstance(number, int | np.integer) or number < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {number!r}")
        if isinstance(risks, Risk) or not risks:
            raise ValueError(f"risks must be a list of risks, or a dict of them by name, got {risks!r}")
        named = dict(risks) if isinstance(risks, Mapping) else {risk_to_text(risk): risk for risk in risks}
        if len(named) < len(risks):
            raise ValueError(f"risks must differ in their names, {', '.join(named)}; a dict can name them")
        weights = self._weights(w)
        for risk in named.values():
            self.sources.check(risk)
        environments: list[Any] = []
        try:
            self._open(env, phi, min(_AT_ONCE, int(episodes)), environments)
            reports = {
                name: run_episodes(
                    self.sources,
                    self._code,
                    environments,
                    weights,
                    risk,
                    episode_seeds(int(seed), int(episodes)),
                    max_steps=max_steps,
                    discount_aware=discount_aware,
                    failure=failure,
                    callback=None if callback is None else partial(callback, name),
                )
                for name, risk in named.items()
            }
        finally:
            for environment in environments:
                if environment.env is not env:
                    environment.close()
        if any(report.failures is not None for report in reports.values()):
            # some environments name a failure only when it happens: who never met one has none
            for name, report in reports.items():
                if report.failures is None:
                    reports[name] = replace(report, failures=np.zeros(report.episodes))
        return Comparison(reports)

    def grow(self, env: Any, tasks: npt.ArrayLike | int, **options: Any) -> PolicyLibrary:
        """A library with further tasks, learned as `rasf.learn` does; while they are learned, the old policies help.

        What must be the same in one library, as gamma and the sizes of networks, is taken over.
        """
        from rasf.library.learn import learn

        mine = self.sources.describe()
        fixed: dict[str, Any] = {"gamma": self.gamma}
        if mine["law"] != "table":
            fixed["widths"] = tuple(mine["widths"])
        if mine["law"] == "histogram":
            fixed["atoms"] = mine["atoms"]
        if mine.get("sigma") == "diagonal":
            fixed["covariance"] = "diagonal"
        for name, value in fixed.items():
            given = options.get(name, value)
            if (tuple(given) if isinstance(given, list) else given) != value:
                raise ValueError(f"{name} must be that of the library that grows, {value}, got {given}")
        like_mine = {"agent": self.agent.split(" + ")[0]} | options | fixed
        more = learn(env, tasks=tasks, elders=self, **like_mine)
        for name, value in self.environment.items():
            if (given := more.environment[name]) != value:
                own = f"env must be the one that the library was trained in for it to grow, with {name} {value!r:.60}"
                raise ValueError(f"{own}, got {given!r:.60}")
        return merge([self, more])

    def save(self, path: str | PathLike[str], *, precision: str = "single") -> None:
        """Write the library, whole or not at all; networks may be kept in precision "half"."""
        from rasf.library.file import save

        save(self, path, precision)

    def _weights(self, w: npt.ArrayLike) -> Floats:
        try:
            weights = np.asarray(w, np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"w must be {self.sources.n_features} finite numbers, got {w!r}") from None
        if weights.shape != (self.sources.n_features,) or not np.isfinite(weights).all():
            raise ValueError(f"w must be {self.sources.n_features} finite numbers, got {weights.tolist()}")
        return weights

    def _open(self, env: Any, phi: Any, n: int, environments: list[Any]) -> None:
        """Add the environment given, or n that an id or a function makes, if they are like the one trained in."""
        from gymnasium import Env

        from rasf.envs.gymnasium.single import open_environment

        if phi is None and self.environment["phi"] is not None:
            raise ValueError(f"phi must be given, as in training, where it was {self.environment['phi']}")
        makes = callable(env) and not isinstance(env, Env)
        kwargs = self.environment_kwargs() if isinstance(env, str) and env == self.environment["id"] else {}
        for _ in range(n if makes or isinstance(env, str) else 1):
            environments.append(open_environment(env() if makes else env, phi, **kwargs))
            found = environments[-1].describe()
            for name in ("observations", "n_actions", "n_features"):
                if found[name] != self.environment[name]:
                    raise ValueError(
                        f"env must have the {name} that the library was trained with, {self.environment[name]}, "
                        f"got {found[name]}"
                    )

    def environment_kwargs(self) -> dict[str, Any]:
        """The settings that make the library's own environment again."""
        kept, limit = self.environment["kwargs"], self.environment["max_episode_steps"]
        lost = [name for name, value in kept.items() if isinstance(value, str) and value.startswith("<")]
        if lost:
            raise ValueError(
                f"env must be an environment or a function that makes one: the library could not keep {', '.join(lost)}"
            )
        return kept if limit is None else kept | {"max_episode_steps": limit}


def merge(libraries: Sequence[PolicyLibrary]) -> PolicyLibrary:
    """One library with the policies of all; they must be of the same environment and kind."""
    if not isinstance(libraries, list | tuple) or not all(isinstance(each, PolicyLibrary) for each in libraries):
        raise ValueError(f"libraries must be a list of policy libraries, got {libraries!r:.80}")
    if not libraries:
        raise ValueError("libraries must hold one at least")
    first = libraries[0]
    for other in libraries[1:]:
        for name, value in first.environment.items():
            if other.environment[name] != value:
                raise ValueError(f"libraries to merge must be of one environment, but their {name} differ")
        if type(other.sources) is not type(first.sources):
            raise ValueError("libraries to merge must both be tabular or both be networks")
    agents = dict.fromkeys(agent for library in libraries for agent in library.agent.split(" + "))
    common = [name for name in first.history if all(name in library.history for library in libraries)]
    return PolicyLibrary(
        first.sources.merge([library.sources for library in libraries]),
        first.environment,
        tuple(policy for library in libraries for policy in library.policies),
        " + ".join(agents),
        {name: np.concatenate([library.history[name] for library in libraries]) for name in common},
        tuple(dict.fromkeys(note for library in libraries for note in library.notes)),
        {"merged": [part for library in libraries for part in library.provenance.get("merged", [library.provenance])]},
    )
