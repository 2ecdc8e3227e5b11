"""The generic scene of a library: contents of the library, scores at the first observation, evaluation on demand.

An environment is made only from an id that is already registered or that MO-Gymnasium registers, and only with settings
that a file may choose (`EnvironmentDescription.make_kwargs`). The argument `env` can name another environment, which
is already registered. If the environment belongs to a case of the suite (`rasf_lab.suite`), the case defines failures
and the range of the dial, and names the features that have no names in the library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rasf.agents import Family
from rasf.arrays import Floats
from rasf.envs.gymnasium.actions import BoxActions
from rasf.library.evaluation import Comparison
from rasf.library.policy_library import PolicyLibrary
from rasf.limits import Limit
from rasf.risk import MeanVariance, Risk
from rasf.risk.names import risk_from_text
from rasf_explorer.jobs import sentence_of
from rasf_explorer.scenes.families import around_trained, served, trained_for
from rasf_explorer.scenes.limits import limits_of
from rasf_explorer.scenes.scene import PLAIN, Proposals, Scene, SceneScores, Stop, Stopped, Ways, Weight

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import FeatureEnvironment
    from rasf_lab.suite.cases import Case


class LibraryScene(Scene):
    """The generic scene of a library."""

    layers: ClassVar[dict[str, str]] = {"scores": "Scores"}
    offers_static = True

    def __init__(self, library: PolicyLibrary, env: str | None = None) -> None:
        self.library = library
        self._env = library.environment.id if env is None else env
        self._case = case_of(library)
        self._cannot: str | None = None  # the reason, if `warm` failed to make the environment
        self.title = str(library.environment.id or "A library without an environment's id")
        count = "1 policy" if len(library.policies) == 1 else f"{len(library.policies)} policies"
        self._world = "" if self._case is None else f"{self._case.about[0].upper()}{self._case.about[1:]}. "
        self.about = (
            f"{self._world}{count} of {library.agent}, scored for the weights and the risk set here. The scores are "
            "for the first observation of an episode; an evaluation runs whole episodes."
            f"{'' if self._case is None else f' Failures are {self._case.failures}.'}"
        )
        self.weights = _weights(library, self._case)
        farthest = None if self._case is None else _farthest(self._case)
        self.families = served(library.sources, around_trained(library.policies, farthest))
        self.policies = tuple(
            f"w {', '.join(f'{number:.3g}' for number in policy.w)}; {trained_for(policy.risk)}"
            for policy in library.policies
        )
        calibrated = library.calibration
        if calibrated is not None and len(calibrated.costs):
            # the limit is for the first calibrated cost; its slider ends at about 1.5 times the largest realised cost
            self._cost, self._sign = int(calibrated.costs[0]), float(calibrated.signs[0])
            largest = float(abs(calibrated.realised[:, -len(calibrated.costs)]).max())
            high = float(f"{max(1.5 * largest, 1e-3):.1g}")
            self.limit = Weight(f"{calibrated.names[0]} at most, in 95 % of tasks", 0.0, high, high / 100, high)

    def limits(self, ways: Ways) -> dict[str | int, float | Limit] | None:
        """Return the limits for acting, or None without a limit."""
        return None if self.limit is None else limits_of(self.library, self._cost, ways, self._sign)

    def facts(self) -> list[tuple[str, str]]:
        """Return facts about the library, as pairs of a name and a text."""
        library, held = self.library, self.library.sources.describe()
        is_table, environment = library.sources.family is Family.TABLES, library.environment
        settings = ", ".join(f"{name} {_plain(value)}" for name, value in environment.kwargs.items())
        what = {
            "agent": library.agent,
            "environment": self.title,
            "settings": settings or "defaults",
            "features": "the environment's vector reward" if environment.phi is None else "computed by a function",
            "distributions": "mean and covariance, in tables" if is_table else f"{library.sources.law_kind} networks",
            "states visited" if is_table else "hidden layers": (
                f"{held['states']:,}" if is_table else " x ".join(map(str, held["widths"]))
            ),
            "discount": f"{library.gamma:g}",
            "bounds": "not calibrated" if library.calibration is None else repr(library.calibration)[1:-1],
        }
        made = library.provenance.get("merged", [library.provenance])
        return [
            *what.items(),
            *((name, _plain(value)) for name, value in made[0].items() if not isinstance(value, Mapping)),
            *(("note", note) for note in library.notes),
        ]

    def warm(self, stop: Stop) -> None:
        """Try to make the environment, because a package that the environment needs may not be installed."""
        super().warm(stop)
        if self.can_run() is None:
            try:
                self._opened().close()
            except Exception as error:  # an environment may raise any exception
                self._cannot = f"The library cannot act here: {sentence_of(error)}."

    def can_run(self) -> str | None:
        """Return None if the library can act in its environment, otherwise a sentence with the reason."""
        from rasf.envs.registration import is_registered

        env_id, phi = self._env, self.library.environment.phi
        if not isinstance(env_id, str) or not env_id:
            return "The library was trained in an environment without an id; start with --env MODULE:ID to name one."
        if ":" in env_id:
            return f"The id {env_id!r} names a module to import, which a file is not allowed to do."
        if phi is not None:
            return f"The features came from a function, {phi}, which a file cannot hold."
        if not is_registered(env_id):
            unknown = f"No environment with the id {env_id!r} is known here"
            return f"{unknown}; start with --env MODULE:ID to import its module."
        try:
            self._env_kwargs()
        except ValueError as error:
            return f"The environment cannot be made: {error}."
        return self._cannot

    def first_scores(self, w: Floats, risk: Risk, seed: int, ways: Ways = PLAIN) -> SceneScores:
        """Return the scores of every policy and action at the first observation of the environment."""
        environment = self._opened()
        try:
            return self.scores_at(environment.reset(seed), w, risk, ways)
        finally:
            environment.close()

    def scores_at(self, obs: object, w: Floats, risk: Risk, ways: Ways = PLAIN, t: int = 0) -> SceneScores:
        """Return the scores of every policy and action at `obs` after t steps. A limit is for the steps after t."""
        found = self.library.scores(obs, w, risk, self.limits(ways), t)
        chosen = int(found.candidate), int(found.source), bool(found.seen)
        return SceneScores(
            found.values, found.mean, found.std, *chosen, self.library.gamma, self._proposals(found.proposals)
        )

    def _proposals(self, actions: np.ndarray | None) -> Proposals | None:
        """Return the scored actions (A, ..) with the bounds of their entries, or None if actions are numbered."""
        space = self.library.environment.actions
        if actions is None or not isinstance(space, BoxActions):
            return None
        flat = np.asarray(actions, np.float64).reshape(len(actions), -1)
        return Proposals(flat, np.array(space.low), np.array(space.high))

    def evaluate(
        self,
        w: Floats,
        risks: Mapping[str, Risk],
        episodes: int,
        seed: int,
        report: Callable[[float], None],
        stop: Stop = lambda: False,
        ways: Ways = PLAIN,
    ) -> Comparison:
        """Evaluate the library in its environment by `PolicyLibrary.compare`.

        Args:
            w: Weights (d,).
            risks: Risks by name.
            episodes: Episodes for each risk.
            seed: Seed of the episodes.
            report: Called with the share of episodes done.
            stop: Called repeatedly; if the result is True, `Stopped` is raised. Default: a function that returns False.
            ways: A limit, and whether the risk is static. Both apply only to the first risk. Default: neither.

        Returns:
            A report for each risk.
        """
        order = list(risks)

        def callback(name: str, done: int) -> None:
            if stop():
                raise Stopped
            report((order.index(name) + done / episodes) / len(order))

        def compare(names: list[str], **asked: Any) -> Comparison:
            some, case = {name: risks[name] for name in names}, self._case
            asked |= {"seed": seed, "callback": callback}
            asked |= {} if case is None else {"failure": case.failure, "max_steps": case.max_steps}
            return self.library.compare(self._checked_env(), w, some, episodes, **asked)

        if ways == PLAIN:
            return compare(order)
        first = compare(order[:1], limits=self.limits(ways), static=ways.static)
        rest = compare(order[1:]).reports if order[1:] else {}
        return Comparison(first.reports | rest)

    def _opened(self) -> FeatureEnvironment:
        from rasf.envs.gymnasium.single import open_environment

        return open_environment(self._checked_env(), **self._env_kwargs())

    def _env_kwargs(self) -> dict[str, Any]:
        environment = self.library.environment
        return environment.make_kwargs() if self._env == environment.id else {}

    def _checked_env(self) -> str:
        reason = self.can_run()
        if reason is not None:
            raise ValueError(reason)
        return str(self._env)


def case_of(library: PolicyLibrary) -> Case | None:
    """Return the case of the suite that has the environment and the number of features of a library, or None."""
    from rasf_lab.suite.cases import case_names, find_case

    mine = library.environment
    is_mine = (case for case in map(find_case, case_names()) if case.env == mine.id and mine.phi is None)
    return next((case for case in is_mine if len(case.features) == library.n_features), None)


def _farthest(case: Case) -> float | None:
    """Return the largest aversion -beta among the mean-variance risks of a case, or None without such risks."""
    from rasf_lab.suite.cases import is_dial

    risks = [risk_from_text(text) for text in case.actings if is_dial(text)]
    return max((-risk.beta for risk in risks if isinstance(risk, MeanVariance) and risk.beta < 0), default=None)


def _weights(library: PolicyLibrary, case: Case | None) -> tuple[Weight, ...]:
    """Return sliders whose ranges include the trained weights and [-1, 1]. The default is the first trained task."""
    tasks = np.array([policy.w for policy in library.policies])
    low, high = np.minimum(tasks.min(axis=0), -1.0), np.maximum(tasks.max(axis=0), 1.0)
    steps = 10.0 ** np.floor(np.log10((high - low) / 50))  # so that each slider has 50 to 500 steps
    ends = zip(low.tolist(), high.tolist(), steps.tolist(), tasks[0].tolist(), strict=True)
    numbered = tuple(f"feature {i + 1}" for i in range(library.n_features))
    names = library.environment.feature_names or (numbered if case is None else case.features)
    return tuple(Weight(name, *numbers) for name, numbers in zip(names, ends, strict=True))


def _plain(value: object) -> str:
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return " ".join(text.split())
