"""The arguments of training, evaluation and calibration, each declared once.

`rasf.learn` and `rasf.learn_from`, `rasf train` with its configuration files, and sweeps take these arguments. A row of
`TRAINING` says what an argument means, how its value is read from text or TOML, and where it can be given. The options
of the command line, the checks of sweep files and the errors of `rasf train --from` are made from these rows. In the
docstring of `learn`, the text on an argument begins with the `help` of its row and ends with the `default`, as a test
checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from functools import partial
from pathlib import Path
from typing import Any

from rasf.agents import AGENTS
from rasf.checks import number, whole
from rasf.files import Header
from rasf.library.ahead import PARTICLES
from rasf.library.arguments import readers


class Where(Flag):
    """Where an argument can be given."""

    LEARN = auto()  # `rasf.learn`
    LOG = auto()  # `rasf.learn_from`, and `rasf train --from`
    FLAG = auto()  # a flag of a command, or a configuration file
    SWEEP = auto()  # a sweep file


LEARN, LOG, FLAG, SWEEP = Where
_KINDS: Mapping[object, type] = {
    whole: int, readers.seed: int, number: float, readers.flag: bool, readers.path: Path, readers.weights_in_file: Path,
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """An argument of training, evaluation or calibration.

    Attributes:
        name: The name in Python and in sweeps. Several flags may give the same argument.
        help: The meaning, in one sentence.
        read: Reads a value from text or TOML; None if the argument can be given only in Python.
        where: Where the argument can be given. Default: a flag.
        default: The default in words.
        flag: The flag on the command line. Default: the name with dashes.
        metavar: How a value is written, such as "1,0,.1", for the help. Default: none.
        many: Whether the flag may be repeated. Default: False.
        positional: Whether the argument is a positional argument of the command. Default: False.
    """

    name: str
    help: str
    read: Callable[[str, Any], object] | None
    where: Where = FLAG
    default: str = ""
    flag: str = ""
    metavar: str | None = None
    many: bool = False
    positional: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "flag", self.flag or self.name.replace("_", "-"))

    @property
    def kind(self) -> type:
        """The type of one value of the flag."""
        return _KINDS.get(self.read.func if isinstance(self.read, partial) else self.read, str)


def given_at(arguments: tuple[Argument, ...], where: Where) -> dict[str, Argument]:
    """Return the arguments that can be given at `where`, as a dict by name; for `FLAG`, by flag."""
    return {row.flag if where is FLAG else row.name: row for row in arguments if where in row.where}


def read_values(rows: Mapping[str, Argument], given: Mapping[str, object], prefix: str = "") -> Header:
    """Return values from TOML or flags, each read by the row of its name. If a row has no reader, keep its value.

    Raises:
        ValueError: A row cannot read its value; the message begins with `prefix` and the name.
    """
    readable = {name: row.read for name, row in rows.items() if row.read is not None}
    return {
        name: readable[name](f"{prefix}{name}", value) if name in readable else value for name, value in given.items()
    }


_AGENTS = ", ".join(agent.name for agent in AGENTS.values() if agent.makes_library)
_ANYWHERE, _ENV_ONLY = LEARN | LOG | FLAG | SWEEP, LEARN | FLAG | SWEEP
_MODULE = "MODULE:NAME"
_ENV_ARG = Argument("env_kwargs", "A keyword argument of the environment.", readers.assignments, flag="env-arg",
                    metavar="name=value", many=True)  # fmt: skip
TRAINING = (
    Argument("env", "The id of an environment.", readers.text, _ANYWHERE, metavar="ENV_ID", positional=True),
    Argument("tasks", "Reward weights (n, d), or a number of tasks to draw.", readers.tasks, LEARN | LOG | SWEEP),
    Argument("tasks", "A number of tasks to draw.", whole),
    Argument("tasks", "A file of reward weights, a row per task: .csv, .json or .npy.", readers.weights_in_file,
             flag="tasks-file"),
    Argument("tasks", "Reward weights of one task.", readers.weights, flag="w", metavar="1,0,.1", many=True),
    Argument("agent", f"One of auto, {_AGENTS}.", readers.text, _ENV_ONLY, "auto"),
    Argument("risk", "One or several risks that policies are trained for.", readers.risks, _ANYWHERE, "neutral",
             metavar="mean-variance:-4", many=True),
    Argument("steps_per_task", "Steps of the environment for each task.", whole, _ENV_ONLY,
             "20,000 for tables, 200,000 for the paper's networks, 100,000 for rasfdqn and rasftd3"),
    Argument("gamma", "Discount.", number, _ANYWHERE,
             "0.95 for tables, 0.9 for the paper's networks, 0.99 for rasfdqn and rasftd3"),
    Argument("seed", "Seed of all random numbers; the same seed gives bit-identical results.", readers.seed,
             LEARN | LOG | FLAG, "0"),
    Argument("phi", "`phi(obs, action, next_obs, info)` returns the features (d,), which replace the reward.",
             readers.function, LEARN | LOG | FLAG, "none", metavar=_MODULE),
    Argument("signs", "Signs (d,) of the weights of drawn tasks: 1 (more is better), -1 (a cost) or 0 "
             "(either).", readers.signs, _ANYWHERE, "the signs that the environment declares", metavar="1,-1,0"),
    Argument("num_envs", "Number of environments that networks learn from in parallel.", whole, _ENV_ONLY, "1"),
    Argument("learn_w", "Whether tables learn the weights from the rewards, as in the paper.", readers.flag,
             LEARN | SWEEP, "False"),
    Argument("support", "Bounds (d, 2) of the discounted feature returns, for histograms.", readers.weights, _ENV_ONLY,
             "derived from the bounds of the features", metavar="LOW,HIGH", many=True),
    Argument("once", "Indices of features that occur at most once per episode, such as a crash.", readers.indices,
             _ENV_ONLY, "none", metavar="2,3"),
    Argument("extra_tasks", "Additional weights (m, d), or a number of weightings to draw; networks learn their "
             "policies off-policy.", partial(whole, least=0), _ENV_ONLY, "0"),
    Argument("model", "Whether to learn a model to look ahead in, which is saved with the library.", readers.flag,
             _ANYWHERE, "False"),
    Argument("env_kwargs", "Keyword arguments of the environment.", readers.table, LEARN | SWEEP, "none"),
    _ENV_ARG,
    Argument("failure", "`failure(step)` returns whether a `rasf.Step` is a failure.", readers.function, LEARN | FLAG,
             "the environment's info[\"failure\"]", metavar=_MODULE),
    Argument("base_library", "A library whose policies take part in exploration by GPI and do not change.", None, LEARN,
             "none"),
    Argument("base_library", "A library to add policies to; its policies take part in exploration by GPI.",
             readers.path, flag="grow"),
    Argument("callback", "A function that is called periodically with a `rasf.TrainingProgress`.", None, LEARN, "none"),
    Argument("checkpoint", "A file to which the state of training is written periodically.", None, LEARN, "none"),
    Argument("checkpoint_seconds", "Seconds between two checkpoints; a killed run resumes from the last checkpoint.",
             partial(number, low=0.0), LEARN | FLAG, "120"),
    Argument("progress", "Whether to show a bar with steps per second, the time left and the greedy returns.", None,
             LEARN, "on a terminal and in a notebook"),
    Argument("settings", "Settings of the agent.", None, LEARN | LOG),
    Argument("settings", "A setting of the agent, such as epsilon=.2 or widths=32,32.", readers.assignments, flag="set",
             metavar="name=value", many=True),
    Argument("data", "A log to learn from instead of an environment: a Recorder's folder, an .npz or .parquet file, or "
             "minari:ID.", readers.text, LOG | FLAG, flag="from", metavar="LOG"),
    Argument("least_tries", "Actions with fewer tries than this in a state are avoided there.", whole, LOG, "5"),
    Argument("resamples", "Number of bootstrap samples of the episodes, for intervals.", partial(whole, least=0), LOG,
             "100"),
    Argument("max_bytes", "Largest memory in bytes that a log may take.", whole, LOG, "1 GiB"),
    Argument("out", "Where to save the library, such as gathering.rasf.", readers.path, FLAG | LOG),
    Argument("overwrite", "Replace the library at --out, if there is one.", readers.flag, FLAG | LOG),
    Argument("log", "A file for the log of training, in JSON lines.", readers.path, FLAG, "beside --out"),
    Argument("tensorboard", "A folder for TensorBoard scalars.", readers.path),
)  # fmt: skip

_FILE = Argument("file", "A library made by `rasf train`.", readers.path, metavar="FILE", positional=True)
_ENV = Argument("env", "The id of an environment to act in.", readers.text, FLAG, "the environment of training")
_RISK = Argument("risk", "One or several risks to act for.", readers.risks, FLAG | SWEEP,
                 "neutral and the training risks", metavar="cvar:0.1", many=True)  # fmt: skip
_PHI = Argument("phi", "The function that computes the features, for a library trained with phi.", readers.function,
                metavar=_MODULE)  # fmt: skip
_MAX_STEPS = Argument("max_steps", "Steps after which an episode is truncated.", whole, FLAG | SWEEP)
EVALUATION = (
    _FILE, _ENV, _ENV_ARG,
    Argument("tasks", "Reward weights (n, d).", readers.weights_or_file, SWEEP, "the tasks trained on"),
    Argument("w", "Reward weights of one task.", readers.weights, metavar="1,0,.1", many=True),
    _RISK,
    Argument("episodes", "Episodes for each task and risk.", partial(whole, least=2), FLAG | SWEEP, "100"),
    _PHI,
    Argument("failure", "`failure(step)` returns whether a step is a failure.", readers.function, FLAG,
             "the environment's info[\"failure\"]", metavar=_MODULE),
    _MAX_STEPS,
    Argument("seed", "Seed of the start states.", readers.seed, FLAG | SWEEP, "0"),
    Argument("discount_aware", "At step t, score the risk of gamma^t times the remaining return, as in the paper's "
             "guarantee, and show discounted returns.",
             readers.flag, FLAG | SWEEP),
    Argument("static", "Act for the static risk of the whole return, and show discounted returns.", readers.flag),
    Argument("ahead", "Steps that are simulated in the environment, or in copies of it, before an action is scored.",
             partial(whole, least=0), FLAG, "0"),
    Argument("particles", "Simulated paths for each policy and action.", whole, FLAG, str(PARTICLES)),
    Argument("milliseconds", "Largest time for one decision; lowers --particles, and then --ahead.",
             partial(number, low=0.0)),
    Argument("limit", "The largest expected discounted sum of a feature, given by name or index; with /episode, the "
             "largest undiscounted sum, which needs a calibrated library.", readers.limits, metavar="failure=.05",
             many=True),
    Argument("floor", "The smallest expected sum of a feature, written like --limit; limits a cost whose feature is "
             "0 or negative.", readers.limits, metavar="2=-.05", many=True),
    Argument("price", "As a control, also act neutrally with this additional cost for each unit of a feature (below 0 "
             "for a cost whose feature is negative); returns are still computed with --w.", readers.prices,
             metavar="collision=4,10", many=True),
    Argument("json", "A file for the numbers as JSON; - for standard output.", readers.path, metavar="FILE|-"),
    Argument("plot", "A file for a figure of the returns.", readers.path, metavar="FILE.png"),
)  # fmt: skip
CALIBRATION = (
    _FILE,
    Argument("out", "A file to write the library to.", readers.path, FLAG, "FILE itself", metavar="FILE"),
    _ENV, _ENV_ARG,
    Argument("episodes", "Total number of episodes.", partial(whole, least=2), FLAG, "4000"),
    Argument("tasks", "A number of tasks to draw.", partial(whole, least=2), FLAG,
             "10 to 60, more for more episodes"),
    Argument("tasks", "Reward weights of one task, in place of drawn tasks.", readers.weights, flag="w",
             metavar="1,0,.1", many=True),
    _RISK, _PHI, _MAX_STEPS,
    Argument("seed", "Seed of the tasks and the start states.", readers.seed, FLAG, "0"),
    Argument("plot", "A file for a figure of predicted and realised values.", readers.path, metavar="FILE.png"),
)  # fmt: skip
