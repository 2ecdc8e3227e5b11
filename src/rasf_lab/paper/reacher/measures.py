"""Measures of the reacher's runs by label, with seeds on axis 0, and the summary of the measures.

A label stands for runs that differ only in the seed (`ReacherRun.label`): "rasfc51 -3" is an agent at a beta, and
"rasfc51 gpi -3" is a variant of this agent. There are 12 tasks: 4 training tasks and 8 test tasks.

Returns are normalised as in the paper, G_n = (G - G_b) / (G_a - G_b). On each task, G_b and G_a are mean returns of a
C51 that is trained on this target alone: G_b at the beginning and G_a at the end of training. If there are no runs of
C51 on single targets, G_b and G_a are those of the shipped result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType

import numpy as np

from rasf.agents import AGENTS
from rasf.arrays import Array, Floats
from rasf.files import Arrays
from rasf.statistics import mean_interval, standard_error
from rasf_lab.common.results import Numbers, shipped
from rasf_lab.paper.reacher.training import BETAS, SIZES, TRAINING, ReacherRun

RISKS = tuple(f"{beta:g}" for beta in BETAS)
_N_TRAIN = len(TRAINING)
_NOT_JOINED = ("tips", "shown_tips", "peak_gb")  # arrays that are not stacked over runs
_FINAL = ("return", "failures", "in_circle", "distance")
_FINALS = tuple(f"{way}_{what}" for way in ("final", "aware") for what in _FINAL)
_KEPT = ("return", "failures", "clipped", "seconds", "map_peaks", "map_negative", *_FINALS)
_JUDGED_VARIANCES = ("rasfc51 -3", "sfdqn-residual -3")  # labels whose variances the rule of R12 reads
_JUDGED_BETAS = (-3.0, -1.5)  # R12 reads the variances of every reading of RaSFC51 (-3), and -1.5 is one
_SHOWN_TIPS = ("rasfc51 -3", "rasfc51 0", "rac51 -3")
# A row for each choice that the paper leaves open: the alternative to our choice in words (a' is the bootstrap action,
# the next action in the learning target), the label of runs with our choice, the label of runs with the alternative.
CHOICES = (
    ("a' by GPI over all policies", "rasfc51 -3", "rasfc51 gpi -3"),
    ("each feature's heads initialised by themselves", "rasfc51 -3", "rasfc51 separate-heads -3"),
    ("the risky training targets come last", "rasfc51 -3", "rasfc51 risky-last -3"),
    ("features of the tip before the step", "rasfc51 -3", "rasfc51 late-tip -3"),
    ("Adam's epsilon is 1e-7, not 1e-8", "rasfc51 -3", "rasfc51 adam-1e-07 -3"),
    ("201 atoms, not 51", "rasfc51 -3", "rasfc51 201-atoms -3"),
    ("201 atoms, not 51", "rac51 -3", "rac51 201-atoms -3"),
    ("ReLU, not tanh", "rasfc51 0", "rasfc51 relu 0"),
    ("ReLU, not tanh", "rasfc51 -3", "rasfc51 relu -3"),
    ("ReLU, not tanh", "rac51 0", "rac51 relu 0"),
    ("ReLU, not tanh", "rac51 -3", "rac51 relu -3"),
    ("ReLU, not tanh", "sfdqn 0", "sfdqn relu 0"),
    ("beta is twice the factor of the variance", "rasfc51 -3", "rasfc51 -1.5"),
    ("beta is twice the factor of the variance", "rac51 -3", "rac51 -1.5"),
    ("a' by GPI over all policies", "sfdqn 0", "sfdqn gpi 0"),
    ("no target networks", "sfdqn 0", "sfdqn no-target 0"),
    ("the residual covariance is learned beside", "sfdqn 0", "sfdqn-residual 0"),
    ("transitions relabelled with all targets", "rac51 0", "rac51-relabelled 0"),
    ("transitions relabelled with all targets", "rac51 -3", "rac51-relabelled -3"),
)


def title(name: str) -> str:
    """Return the title of a label in figures, such as RaSFC51 (3) for "rasfc51 -3", and SFC51 for "rasfc51 0"."""
    agent, beta = name.rsplit(" ", 1)
    agent = agent.split()[0]
    neutral = (spec for spec in AGENTS.values() if spec.neutral and agent in (spec.name, spec.risk_aware_form))
    spec = next(neutral, None)
    return spec.title if spec and beta == "0" else f"{AGENTS[agent].title} ({beta.lstrip('-')})"


@dataclass(frozen=True)
class Measures:
    """Measures of all runs.

    Args:
        arrays: the arrays of the runs by label and name, sorted by seed on axis 0.
        begin, end: G_b and G_a (12,) of the normalisation, for each task.
        steps: the number of training steps before each evaluation (evaluations,).
        map_points: the number of points of a map along each axis, by label. Default: that of `ReacherRun`.
        alone_averse: the normalised final return (seeds, 12) of RaC51 (-3) trained on each target alone. Default: none.
    """

    arrays: dict[str, Arrays]
    begin: Floats
    end: Floats
    steps: Floats
    map_points: Mapping[str, int] = field(default_factory=dict)
    alone_averse: Floats | None = None

    def seeds(self, name: str) -> int:
        """Return the number of seeds of a label."""
        return len(self.arrays[name]["seed"])

    def of_common_seeds(self, *names: str) -> Measures:
        """Return the measures, with the named labels reduced to their common seeds, for paired differences."""
        common = reduce(np.intersect1d, (self.arrays[name]["seed"] for name in names))
        kept = {}
        for name in names:
            there = np.isin(self.arrays[name]["seed"], common)
            kept[name] = {key: values[there] for key, values in self.arrays[name].items()}
        return replace(self, arrays=self.arrays | kept)

    def points(self, name: str) -> int:
        """Return the number of points on a side of a label's maps."""
        return self.map_points.get(name, ReacherRun.map_points)

    def normalised(self, name: str) -> Floats:
        """Return the normalised return (seeds, evaluations, 12)."""
        return (self.arrays[name]["return"] - self.begin) / (self.end - self.begin)

    def test_return(self, name: str) -> Floats:
        """Return the mean normalised return on the test tasks (seeds, evaluations)."""
        return self.normalised(name)[:, :, _N_TRAIN:].mean(axis=2)

    def test_failures(self, name: str) -> Floats:
        """Return the sum over the test tasks of failures per rollout (seeds, evaluations)."""
        return self.arrays[name]["failures"][:, :, _N_TRAIN:].sum(axis=2)

    def final(self, name: str, what: str, way: str = "final") -> Floats:
        """Return a measure (seeds, 12) of the final policies.

        Args:
            name: the label.
            what: "return" (normalised), "failures", "in_circle" or "distance".
            way: "final" for the paper's scores; "aware" for scores that apply the risk to gamma^t times the remaining
                return at step t. Default: "final".
        """
        values = self.arrays[name][f"{way}_{what}"]
        return (values - self.begin) / (self.end - self.begin) if what == "return" else values

    def final_test(self, name: str, what: str) -> Floats:
        """Return a measure of the final policies (seeds,): the sum over test tasks for "failures", else the mean."""
        values = self.final(name, what)[:, _N_TRAIN:]
        return values.sum(axis=1) if what == "failures" else values.mean(axis=1)

    def late_test(self, name: str, what: str) -> Floats:
        """Return the mean of the test "return" or "failures" (seeds,) over the last fifth of training."""
        curve = self.test_return(name) if what == "return" else self.test_failures(name)
        return curve[:, -max(1, curve.shape[1] // 5) :].mean(axis=1)


def derived(arrays: Arrays) -> Arrays:
    """Add small arrays, which rules and figures use in place of a run's large arrays.

    `map_peaks` (12,) is the index of the map's point with the highest score of any policy and action, for each task.
    `last_variance` and `last_truth` (4, P) are the maps of the learned and the true variance of each policy after all
    tasks, with P points. `shown_tips` is every fifth step of `tips`. An array is left out if the large array from which
    it is computed is missing.

    Args:
        arrays: arrays of a run, or of several runs stacked on axis 0.

    Returns:
        The given arrays and the added arrays, by name.
    """
    found = dict(arrays)
    if "map_objective" in arrays:
        found["map_peaks"] = arrays["map_objective"].max(axis=-3).argmax(axis=-1).astype(np.int16)
    for name in ("variance", "truth"):
        if f"map_{name}" in arrays:
            found[f"last_{name}"] = arrays[f"map_{name}"][..., -1, :, :]
    if "tips" in arrays:
        found["shown_tips"] = arrays["tips"][..., ::5, :]
    return found


def kept(found: Mapping[ReacherRun, Arrays]) -> dict[ReacherRun, Arrays]:
    """Return, for each run, the arrays that the summary reads. An archive has these, and a set of maps for each label.

    Args:
        found: the arrays of finished runs, as trained or from an archive.

    Returns:
        The runs of `found`, with fewer arrays.
    """
    reduced, with_tips = {}, set()
    for run, arrays in found.items():
        judged = run.label in _JUDGED_VARIANCES or (run.agent == "rasfc51" and run.beta in _JUDGED_BETAS)
        names = {*_KEPT, *(("last_variance", "last_truth") if judged else ())}
        every = derived(arrays)
        if run.label in _SHOWN_TIPS and run.label not in with_tips and "shown_tips" in every:
            with_tips.add(run.label)
            names.add("shown_tips")
        reduced[run] = {key: part for key, part in every.items() if key in names or key.startswith("risk_")}
    return reduced


def measures(found: Mapping[ReacherRun, Arrays]) -> Measures:
    """Return the measures of finished runs from their arrays."""
    found = {run: derived(arrays) for run, arrays in found.items()}
    alone: dict[int, list[Arrays]] = defaultdict(list)
    averse: dict[int, dict[int, float]] = defaultdict(dict)
    by_label: dict[str, list[ReacherRun]] = defaultdict(list)
    for run, arrays in found.items():
        if run.target is None:
            by_label[run.label].append(run)
        elif run.activation != ReacherRun.activation:
            continue  # these runs normalise the returns of another reading (`readings.py`)
        elif run.beta:
            averse[run.seed][run.target] = float(arrays["final_return"][0])
        else:
            alone[run.target].append(arrays)
    if alone:
        begin = np.array([np.mean([one["return"][0, 0] for one in alone[target]]) for target in sorted(alone)], float)
        end = np.array([np.mean([one["final_return"][0] for one in alone[target]]) for target in sorted(alone)], float)
    else:
        begin, end = (np.array(shipped()["reacher"].numbers["normaliser"][name]) for name in ("begin", "end"))
    joined = {}
    for name, runs in by_label.items():
        runs.sort(key=lambda run: run.seed)
        # only the arrays that all runs of the label have, because runs of older versions have fewer arrays
        names = [key for key in found[runs[0]] if key not in _NOT_JOINED and all(key in found[run] for run in runs)]
        joined[name] = {key: np.stack([found[run][key] for run in runs]).astype(float) for key in names}
        joined[name]["seed"] = np.array([run.seed for run in runs])
    one = next(run for run in found if run.target is None)
    evaluations = joined[one.label]["return"].shape[1]
    steps = one.evaluate_every * np.arange(evaluations, dtype=float)
    map_points = {name: runs[0].map_points for name, runs in by_label.items()}
    returns = np.array([[by_target[target] for target in sorted(by_target)] for by_target in averse.values()])
    alone_averse = (returns - begin) / (end - begin) if averse else None
    return Measures(joined, begin, end, steps, map_points, alone_averse)


def summary(measured: Measures, found: Mapping[ReacherRun, Arrays]) -> Numbers:
    """Return the numbers of the result. Figures are drawn from these numbers.

    Args:
        measured: the measures of the runs.
        found: the arrays of the runs.
    """
    one = next(run for run in found if run.target is None)
    settings = {name: getattr(one, name) for name in SIZES if name != "width"} | {"widths": [one.width, one.width]}
    tips: dict[str, Array] = {}
    for run, arrays in found.items():
        if run.label in _SHOWN_TIPS and "shown_tips" in (every := derived(arrays)):
            tips.setdefault(run.label, _short(every["shown_tips"]))  # only the tips of one seed
    return {
        "settings": settings,
        "steps": measured.steps,
        "normaliser": {"begin": measured.begin, "end": measured.end},
        "agents": {name: _curves_and_finals(measured, name) for name in measured.arrays},
        "tips": tips,
        "choices": choices(measured),
        "alone_averse": None if measured.alone_averse is None else _short(measured.alone_averse.mean(axis=0)),
        "map_points": {name: measured.points(name) for name in shown_maps(measured)},
    }


def choices(measured: Measures) -> list[Numbers]:
    """Return how the alternative in each of CHOICES changes the final results, with intervals paired by seed."""
    rows: list[Numbers] = []
    for words, ours, other in CHOICES:
        if ours not in measured.arrays or other not in measured.arrays:
            continue
        m = measured.of_common_seeds(ours, other)
        row: Numbers = {"choice": words, "of": ours, "to": other, "seeds": m.seeds(other)}
        values = {
            "train_return": [m.final(name, "return")[:, :_N_TRAIN].mean(axis=1) for name in (ours, other)],
            "test_return": [m.final_test(name, "return") for name in (ours, other)],
            "test_failures": [m.final_test(name, "failures") for name in (ours, other)],
        }
        for what, (before, after) in values.items():
            row[what] = {"before": before.mean(), "after": after.mean(), "change": mean_interval(after - before)}
        rows.append(row)
    return rows


def shown_maps(measured: Measures) -> list[str]:
    """Return the labels whose maps are drawn. For each agent and beta, the label with finer maps is preferred."""
    shown = []
    for agent, beta in (("rasfc51", "0"), ("rasfc51", "-3"), ("sfdqn-residual", "-3")):
        fine, plain = f"{agent} fine-maps {beta}", f"{agent} {beta}"
        shown += [name for name in (fine, plain) if name in measured.arrays][:1]
    return shown


def map_arrays(measured: Measures, earlier: Mapping[str, Array] = MappingProxyType({})) -> Arrays:
    """Return the maps to draw, as means over seeds, by "LABEL/NAME". Maps have only the points that the tip reaches.

    Args:
        measured: measures of all runs. Runs from an archive have no maps.
        earlier: the archive's maps by "LABEL/NAME", for labels whose runs have no maps. Default: none.
    """
    objectives, variances = ("objective", "objective_as_printed"), ("variance", "truth", "variance_pairs")
    found = {}
    for name in shown_maps(measured):
        arrays = measured.arrays[name]
        agent, *_, beta = name.split()
        drawn = (objectives if agent == "rasfc51" else ()) + (variances if beta != "0" else ())
        for key in drawn:
            if f"map_{key}" in arrays:
                found[f"{name}/{key}"] = arrays[f"map_{key}"].mean(axis=0).astype(np.float16)
            elif f"{name}/{key}" in earlier:
                found[f"{name}/{key}"] = earlier[f"{name}/{key}"]
    return found


def _curves_and_finals(measured: Measures, name: str) -> Numbers:
    """Return a label's curves over training and its final measures, as means and standard errors over seeds."""
    curves = {
        "train_return": measured.normalised(name)[:, :, :_N_TRAIN],
        "test_return": measured.test_return(name),
        "test_failures": measured.test_failures(name),
    }
    finals = {f"{way}_{what}": measured.final(name, what, way) for way in ("final", "aware") for what in _FINAL}
    clipped = measured.arrays[name]["clipped"].mean(axis=1).mean(axis=0)  # (2,) mass below and above the support
    return {
        key: {"mean": _short(values.mean(axis=0)), "se": _short(standard_error(values))}
        for key, values in {**curves, **finals}.items()
    } | {"seeds": measured.seeds(name), "clipped": clipped}


def _short(values: Array) -> Array:
    """Round to 4 decimals, as figures do not show more."""
    return np.round(np.asarray(values, float), 4)
