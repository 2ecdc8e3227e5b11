"""Any library: what it holds, what its policies say where an episode begins, and what acting leads to, on demand.

An environment is made only from an id that is registered already, or that MO-Gymnasium registers. The id stands in the
file, and one of the form "module:id" would make Gymnasium import a module of the file's choosing: that is refused. The
user may name another, `env`, whose module has been imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rasf.arrays import Floats
from rasf.explorer.scenes.families import around_trained, neutral_only, served, trained_for
from rasf.explorer.scenes.scene import Family, Scores, Stop, Stopped, Weight, draw_task
from rasf.library.evaluation import Comparison
from rasf.library.policy_library import PolicyLibrary
from rasf.risk import Risk
from rasf.risk.names import risk_to_text


class LibraryScene:
    """The generic view of a library."""

    key = "library"

    def __init__(self, library: PolicyLibrary, env: str | None = None) -> None:
        self.library = library
        self._env = library.environment["id"] if env is None else env
        self.title = str(library.environment["id"] or "A library without an environment's id")
        self.about = (
            f"{_counted(len(library.policies), 'policy', 'policies')} of {library.agent}, judged anew for the weights "
            "and the risk set here. Scores are those at the first observation; evaluation acts in the environment."
        )
        self.weights = _weights(library)
        self.families: tuple[Family, ...] = served(library.sources, around_trained(library.policies)) or (
            neutral_only(),
        )
        self.policies = tuple(
            f"w {', '.join(f'{number:.3g}' for number in policy.w)}; {trained_for(policy.risk)}"
            for policy in library.policies
        )

    def random_task(self, rng: np.random.Generator) -> Floats:
        """Any weights within the sliders."""
        return draw_task(self.weights, range(len(self.weights)), rng)

    def facts(self) -> list[tuple[str, str]]:
        """What there is to know of the library, in words."""
        library, held = self.library, self.library.sources.describe()
        what = {
            "agent": library.agent,
            "environment": self.title,
            "settings": _pairs(library.environment["kwargs"]) or "as they are by default",
            "features": "the environment's vector reward"
            if library.environment["phi"] is None
            else "given by a function",
            "laws": {"table": "mean and covariance, in tables"}.get(held["law"], f"{held['law']} networks"),
            "states met" if held["law"] == "table" else "hidden layers": (
                f"{held['states']:,}" if held["law"] == "table" else " x ".join(map(str, held["widths"]))
            ),
            "discount": f"{library.gamma:g}",
        }
        made = library.provenance.get("merged", [library.provenance])
        return [
            *what.items(),
            *((name, _plain(value)) for name, value in made[0].items() if not isinstance(value, Mapping)),
            *(("note", note) for note in library.notes),
        ]

    def can_run(self) -> str | None:
        """None, or one sentence that says why no environment can be made."""
        from rasf.envs.registration import is_registered

        env_id, environment = self._env, self.library.environment
        if not isinstance(env_id, str) or not env_id:
            return "The library was trained in an environment without an id; start with --env MODULE:ID to name one."
        if ":" in env_id:
            return f"The id {env_id!r} names a module to import, which a file is not allowed to do."
        if environment["phi"] is not None:
            return f"The features came from a function, {environment['phi']}, that a file cannot hold."
        if not is_registered(env_id):
            return (
                f"No environment with the id {env_id!r} is known here; start with --env MODULE:ID to import its module."
            )
        try:
            self._env_kwargs()
        except ValueError as error:
            return f"The environment cannot be made: {error}."
        return None

    def first_scores(self, w: Floats, risk: Risk, seed: int) -> Scores:
        """Every policy and action at the first observation of the environment."""
        from rasf.envs.gymnasium.single import open_environment

        self._require_environment()
        environment = open_environment(self._env, **self._env_kwargs())
        try:
            found = self.library.scores(environment.reset(seed), w, risk)
        finally:
            environment.close()
        action = int(found.action) - int(self.library.environment["first_action"])
        return Scores(
            found.values, found.mean, found.spread, action, int(found.driver), bool(found.seen), self.library.gamma
        )

    def evaluate(
        self,
        w: Floats,
        risks: Sequence[Risk] | Mapping[str, Risk],
        episodes: int,
        seed: int,
        report: Callable[[float], None],
        stop: Stop = lambda: False,
    ) -> Comparison:
        """`PolicyLibrary.compare` on the library's own environment; `report` is told the share of episodes done."""
        self._require_environment()
        named = dict(risks) if isinstance(risks, Mapping) else {risk_to_text(risk): risk for risk in risks}
        order = list(named)

        def callback(name: str, done: int) -> None:
            if stop():
                raise Stopped
            report((order.index(name) + done / episodes) / len(order))

        return self.library.compare(self._env, w, named, episodes, seed=seed, callback=callback)

    def _env_kwargs(self) -> dict[str, Any]:
        return self.library.environment_kwargs() if self._env == self.library.environment["id"] else {}

    def _require_environment(self) -> None:
        reason = self.can_run()
        if reason is not None:
            raise ValueError(reason)


def _weights(library: PolicyLibrary) -> tuple[Weight, ...]:
    """Sliders over what was trained for, at least [-1, 1]; the first task is where they begin."""
    tasks = np.array([policy.w for policy in library.policies])
    low, high = np.minimum(tasks.min(axis=0), -1.0), np.maximum(tasks.max(axis=0), 1.0)
    return tuple(
        Weight(f"feature {i + 1}", float(low[i]), float(high[i]), _step(float(high[i] - low[i])), float(tasks[0, i]))
        for i in range(tasks.shape[1])
    )


def _step(width: float) -> float:
    """A round step, some hundred of which make the width."""
    return float(10.0 ** np.floor(np.log10(width / 50)))


def _counted(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _pairs(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in settings.items())


def _plain(value: Any) -> str:
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return " ".join(text.split())
