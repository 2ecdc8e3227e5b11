"""`learn`: train a library of policies on any Gymnasium or MO-Gymnasium environment with discrete actions.

There is one policy for each task and risk. Tasks follow one another or are interleaved, and policies learned before
help to explore, by GPI. Decisions on the way (which agent, which weights, which support) are kept in the library's
`notes`.
`library/arguments/` declares the arguments and makes the environment, the agent, tasks and settings of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import AgentSpec, Family, LawKind, check_risks, library_agent
from rasf.envs.gymnasium.declarations import checked_signs
from rasf.envs.gymnasium.description import INTERFACE, EnvironmentDescription
from rasf.files import Header
from rasf.library.arguments.environment import GivenEnvironment, count_failures, feature_bounds
from rasf.library.arguments.tasks import additional_tasks, checked_once, checked_risks, drawn_tasks
from rasf.library.checkpoint import SECONDS, Checkpoint, digest
from rasf.library.file import versions
from rasf.library.frozen_policies import FrozenPolicies
from rasf.library.policy_library import NEUTRAL, PolicyLibrary
from rasf.library.progress import Callback, Reporter
from rasf.library.progress_bar import shown_on_bar
from rasf.library.training import Training, library_of, provenance_of, trainer_of
from rasf.risk import Risk
from rasf.risk.names import risk_to_text

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import FailureRule, Phi
    from rasf.library.arguments.environment import Learnable

_log = logging.getLogger("rasf")


def learn(
    env: Learnable,
    *,
    tasks: npt.ArrayLike | int,
    agent: str = "auto",
    risk: Risk | Sequence[Risk] = NEUTRAL,
    steps_per_task: int | None = None,
    gamma: float | None = None,
    seed: int = 0,
    phi: Phi | None = None,
    signs: npt.ArrayLike | None = None,
    num_envs: int = 1,
    learn_w: bool = False,
    support: npt.ArrayLike | None = None,
    once: Sequence[int] = (),
    extra_tasks: npt.ArrayLike | int = 0,
    env_kwargs: Header | None = None,
    failure: FailureRule | None = None,
    base_library: PolicyLibrary | None = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    checkpoint_seconds: float = SECONDS,
    progress: bool | None = None,
    **settings: object,
) -> PolicyLibrary:
    """Train a library of policies on an environment with discrete actions.

    There is one policy for each task and risk. All of them learn from every step. `rasf/FourRoom-v0` (tables) and
    worlds that jax compiles (networks, on the device that jax has) have compiled loops, which are used unless an
    argument needs single steps.

    Args:
        env: The id of an environment. Or a `gymnasium.Env`, or a function that makes one; for networks also a
            `gymnasium.vector.VectorEnv`, or a world that jax compiles, such as a `rasf.envs.reacher.Reacher`. Its
            reward must be the vector of features, unless `phi` is given.
        tasks: Reward weights (n, d), or a number of tasks to draw. They are drawn from the environment's own
            distribution (`random_tasks`), or uniformly with the given signs.
        agent: One of auto, sfql, rasfql, rasf-model, sfc51, rasfc51, sfdqn, sfdqn-residual, rasfdqn. The first three
            after auto learn tables, the others networks. auto chooses by the observations and says why in `notes`.
            Default: auto.
        risk: The risk that policies are trained for, or several. With several, each of them acts for its share of
            `steps_per_task`. Default: neutral.
        steps_per_task: Steps of the environment for each task. Default: 20,000 for tables, 200,000 for the paper's
            networks, 100,000 for rasfdqn.
        gamma: Discount. Default: 0.95 for tables, 0.9 for the paper's networks, 0.99 for rasfdqn.
        seed: Seed of everything random; the same seed gives the same bits. Default: 0.
        phi: `phi(obs, action, next_obs, info)` gives the features (d,) in place of the reward. It may also have
            parameters named `reward`, `terminated` and `truncated`. Attributes `bounds`, `signs` and `feature_names` of
            the function are used where they exist. Default: none.
        signs: Signs (d,) of the weights, for tasks that are drawn: 1 (more is better), -1 (a cost) or 0 (either). The
            attribute `signs` of the environment, a wrapper or `phi` declares them; they are 1 for MO-Gymnasium's
            environments. Default: those that the environment declares.
        num_envs: Environments that networks learn from in parallel. Default: 1.
        learn_w: Tables learn the weights from the rewards, as in the paper, and are not given them. Default: False.
        support: Bounds (d, 2) of the discounted feature returns, for histograms. Default: from the bounds of a step.
        once: Indices of features that occur at most once an episode, such as a crash. For histograms their return is
            bounded by their value in one step; rasfdqn treats them as `events`. Default: none.
        extra_tasks: Additional weights (m, d), or how many to draw, for which networks learn policies off-policy. They
            learn from the same steps, at every risk. Default: 0.
        env_kwargs: Keyword arguments of the environment. They are for an id. Default: none.
        failure: `failure(step)` says whether a `rasf.Step` was a failure. An environment reports failures in
            `info["failure"]`. Default: what the environment reports.
        base_library: A library whose policies take part in exploration by GPI and do not change. Default: none.
        callback: A function that is called with a `rasf.TrainingProgress` now and then. If it returns True, training
            stops, and the library has what was learned so far. Default: none.
        checkpoint: A file to which the state of training is written now and then. If the process is killed, the same
            call with the same file continues from there, to the same bits. The file is removed at the end. Default:
            none.
        checkpoint_seconds: Seconds between two checkpoints, from which a killed training resumes. Default: 120.
        progress: Show a bar with the steps a second, the time left and the greedy returns. True and False decide for
            any output. Default: on a terminal and in a notebook.
        **settings: Settings of the agent. An unknown name is refused with the list of known ones.

    Settings of tables ("sfql", "rasfql"), with defaults:
        epsilon 0.12, alpha 0.5, alpha_sigma 0.1, alpha_w 0.5, covariance True (False for "sfql"); see
        `rasf.TableSettings`.
    Settings of "rasf-model", with defaults:
        epsilon 0.03, margin 0.1, optimism 0.3, prior 20.0; see `rasf.ModelSettings`.
    Settings of networks, with the defaults of the paper's agents and of "rasfdqn" where they differ:
        widths (256, 256) / (64, 64), learning_rate 1e-3 / 2e-3, batch 32 / 64, epsilon 0.1 / 0.05, exploration 0 / 0.2
        (share of training in which epsilon falls from 1), target_period 1000 / 250 updates, updates 1.0 for each step,
        n_step 1 / 5, warmup 0 / 500 random steps that scale inputs and features, prioritised 0 / 0.5 (share of a batch
        by prioritised replay), replay 0 (steps kept; 0 keeps all), average 0 / 1000 (averaged weights act), decay False
        / True (of the learning rate), interleaved False / True (tasks interleaved), shared False / True (layers before
        the heads), freeze 0 (share of training, at its end, with frozen policies), objects 0 (numbers of an object, if
        an observation is a list of objects), epsilon_z False (exploration by repeated actions), frequency 0 (a first
        layer of sines), atoms 51 (of histograms), events () (rare non-negative features, "rasfdqn"), horizon
        "continuing" / "episode" (returns go on beyond a time limit, or end there, and networks see the time left),
        episode_length 0 (the time limit in steps, if the environment does not declare it), averse_episodes 0.5 (share
        of training episodes that act risk-averse, "rasfdqn"); see `rasf.NetworkSettings`.

    Returns:
        A `PolicyLibrary`. `history` has the return and failures of each policy in training, `notes` what was decided.

    Raises:
        ValueError: An argument is wrong; nothing was trained. Or the environment broke its own declarations.
    """
    begin = time.perf_counter()
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of a TrainingProgress, got {type(callback).__name__}")
    if not isinstance(progress, bool | None):
        raise ValueError(f"progress must be True, False or None, got {progress!r:.60}")
    if not isinstance(learn_w, bool):
        raise ValueError(f"learn_w must be True or False, got {learn_w!r:.60}")
    saver = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint, checkpoint_seconds)
    risks = checked_risks(risk)
    seed, num_envs = checks.whole("seed", seed, 0), checks.whole("num_envs", num_envs)
    if agent != "auto":
        check_risks(library_agent(agent), risks)  # before an environment is opened
    with ExitStack() as closing:
        given = GivenEnvironment(env, phi, checks.keywords("env_kwargs", env_kwargs), failure, num_envs, closing)
        world, spec, notes = given.open(agent, risks, seed)
        if failure is not None:
            count_failures(world, failure)
        check_risks(spec, risks)
        described = world.describe()
        base = None if base_library is None else _base(base_library, described, spec, risks)
        bounds = None
        if spec.law is LawKind.HISTOGRAM and support is None and (base is None or base.law_kind is not spec.law):
            bounds = feature_bounds(world, seed, notes)  # from which the support is derived
        # a library that grows must not draw its old tasks again
        drawing = [seed, 77] if base is None else [seed, 77, base.policies]
        known = world.signs if signs is None else checked_signs(signs, world.n_features)
        weights = drawn_tasks(tasks, world.n_features, world.random_tasks, drawing, notes, known)
        further = additional_tasks(extra_tasks, world, spec, [*drawing, 1], notes, known)
        steps = spec.steps_per_task if steps_per_task is None else checks.whole("steps_per_task", steps_per_task)
        chosen = settings | ({} if gamma is None else {"gamma": checks.number("gamma", gamma)})
        if support is not None and spec.law is not LawKind.HISTOGRAM:
            raise ValueError(f"support is for histograms; {spec} has none")
        single = checked_once(once, world.n_features, spec)
        if spec.law is LawKind.MEAN_LOW_RANK:
            chosen.setdefault("events", tuple(single) or world.events)
        resolved, train = trainer_of(spec, chosen, learn_w)
        saver.label = {
            "rasf": versions()["rasf"],
            "agent": spec.name,
            "tasks": digest(weights, further),
            "risk": [risk_to_text(one) for one in risks],
            "steps_per_task": steps,
            "seed": seed,
            "num_envs": num_envs,
            "environment": described.to_json(),
            "support": digest(np.zeros(0) if support is None else np.asarray(support), np.array(single)),
            "base_library": None if base is None else digest(*base.arrays().values()),
            "settings": repr(resolved),
        }
        total = steps * len(weights)
        greedy = given.greedy_check(total, seed)
        policies = len(risks) * (len(weights) + len(further))
        shown = closing.enter_context(shown_on_bar(callback, progress, total, policies))
        reports = [Reporter(shown, weights, risks, place, steps, len(further)) for place in range(len(risks))]
        training = Training(world, weights, further, risks, steps, seed, reports, notes, saver, base, greedy)
        more: Header = {}
        if spec.family is Family.NETWORKS:
            more = {"bounds": bounds, "support": support, "once": single}
        trained = train(training, **more)
        notes += [] if greedy is None else greedy.remarks()
        if world.reports_failures:  # perhaps only after some policies, whose failures are nan
            for one in trained:
                np.nan_to_num(one.history["failures"], copy=False)
        seconds = saver.seconds_before + time.perf_counter() - begin
        complete = not any(report.stopped for report in reports)
        provenance = provenance_of(seed, chosen, seconds, complete, steps_per_task=steps)
        library = library_of(trained, risks, spec, described, notes, provenance)
        saver.finish()
    for note in notes:
        _log.info(note)
    return library


def _base(
    base_library: PolicyLibrary, described: EnvironmentDescription, spec: AgentSpec, risks: list[Risk]
) -> FrozenPolicies:
    """The policies of a library that can advise: with the same observations and actions, and for these risks."""
    if not isinstance(base_library, PolicyLibrary):
        raise ValueError(f"base_library must be a policy library, got {type(base_library).__name__}")
    different = base_library.environment.difference(described, INTERFACE)
    if different is not None:
        raise ValueError(f"a library can grow only in the environment it was trained in, but {different} differ")
    held = base_library.sources.family
    if held is not spec.family:
        raise ValueError(f"a library of {held} cannot grow by {spec}, which learns {spec.family}")
    for risk in risks:
        base_library.sources.check(risk)
    return base_library.sources
