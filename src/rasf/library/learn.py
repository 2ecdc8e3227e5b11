"""`learn`: train a library of policies on any Gymnasium or MO-Gymnasium environment.

There is one policy for each task and risk. Tasks are trained in sequence or interleaved, and earlier policies take
part in exploration by GPI. Automatic choices (agent, weights, support) are recorded in the library's `notes`.
`library/arguments/` declares the arguments, opens the environment, chooses the agent and draws the tasks.
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
    model: bool = False,
    env_kwargs: Header | None = None,
    failure: FailureRule | None = None,
    base_library: PolicyLibrary | None = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    checkpoint_seconds: float = SECONDS,
    progress: bool | None = None,
    **settings: object,
) -> PolicyLibrary:
    """Train a library of policies on an environment, with discrete or continuous actions.

    There is one policy for each task and risk, and all policies learn from every step. The training loop is compiled
    for `rasf/FourRoom-v0` (tables) and for worlds written in jax (networks), unless an argument, such as `phi` or
    `base_library`, requires stepping the environment from Python.

    Args:
        env: The id of an environment. A `gymnasium.Env` or a function that returns one is accepted too. Networks also
            accept a `gymnasium.vector.VectorEnv`, or a world written in jax such as a `rasf.envs.reacher.Reacher`. The
            reward must be the vector of features (d,), unless `phi` is given.
        tasks: Reward weights (n, d), or a number of tasks to draw. Tasks are drawn from the environment's own
            distribution (`random_tasks`). Without such a distribution, weights are uniform in [0, 1] with the given
            `signs`.
        agent: One of auto, sfql, rasfql, rasf-model, sfc51, rasfc51, sfdqn, sfdqn-residual, rasfdqn, rasftd3.
            sfql, rasfql and rasf-model learn tables, the other agents networks. rasftd3 is the agent for continuous
            actions (a Box). With auto, the choice depends on actions and observations, and `notes` give the reason.
            Default: auto.
        risk: One or several risks that policies are trained for. With several risks, the policies of each risk choose
            the actions in an equal share of `steps_per_task`. Default: neutral.
        steps_per_task: Steps of the environment for each task. Default: 20,000 for tables, 200,000 for the paper's
            networks, 100,000 for rasfdqn and rasftd3.
        gamma: Discount. Default: 0.95 for tables, 0.9 for the paper's networks, 0.99 for rasfdqn and rasftd3.
        seed: Seed of all random numbers; the same seed gives bit-identical results. Default: 0.
        phi: `phi(obs, action, next_obs, info)` returns the features (d,), which replace the reward. The function may
            also have parameters named `reward`, `terminated` and `truncated`, and attributes `bounds`, `signs` and
            `feature_names`. Default: none.
        signs: Signs (d,) of the weights of drawn tasks: 1 (more is better), -1 (a cost) or 0 (either). The attribute
            `signs` of the environment, a wrapper or `phi` declares signs; all signs of MO-Gymnasium's environments are
            1 unless declared. Default: the signs that the environment declares.
        num_envs: Number of environments that networks learn from in parallel. Default: 1.
        learn_w: Whether tables learn the weights from the rewards, as in the paper. Default: False.
        support: Bounds (d, 2) of the discounted feature returns, for histograms. Default: derived from the bounds of
            the features.
        once: Indices of features that occur at most once per episode, such as a crash. With histograms, the return of
            such a feature is bounded by its value in one step. rasfdqn treats these features as `events`. Default:
            none.
        extra_tasks: Additional weights (m, d), or a number of weightings to draw; networks learn their policies
            off-policy. There is one such policy for each weighting and risk. It never acts in training. Default: 0.
        model: Whether to learn a model to look ahead in, which is saved with the library. Networks learn an ensemble of
            five members from the replay, after training; for rasf-model, it is the counts. See
            `PolicyLibrary.actor`. Default: False.
        env_kwargs: Keyword arguments of the environment. They require `env` to be an id. Default: none.
        failure: `failure(step)` returns whether a `rasf.Step` is a failure. Default: the environment's info["failure"].
        base_library: A library whose policies take part in exploration by GPI and do not change. Default: none.
        callback: A function that is called periodically with a `rasf.TrainingProgress`. If it returns True, training
            stops, and the library learned so far is returned. Default: none.
        checkpoint: A file to which the state of training is written periodically. If the process is killed, the same
            call with the same file resumes training, with bit-identical results. The file is removed at the end.
            Default: none.
        checkpoint_seconds: Seconds between two checkpoints; a killed run resumes from the last checkpoint. Default:
            120.
        progress: Whether to show a bar with steps per second, the time left and the greedy returns. Default: on a
            terminal and in a notebook.
        **settings: Settings of the agent. The possible names are listed below.

    Settings of tables, "sfql" and "rasfql" (see also rasf.TableSettings):
        epsilon: Probability of a random action. Default: 0.12.
        alpha: Learning rate of psi. Default: 0.5.
        alpha_sigma: Learning rate of Sigma. Default: 0.1.
        alpha_w: Learning rate of the weights, with `learn_w`. Default: 0.5.
        covariance: Whether to learn Sigma also for neutral policies. Default: True, False for "sfql".

    Settings of "rasf-model" (see also rasf.ModelSettings):
        epsilon: Probability of exploring. Default: 0.03.
        margin: Largest loss of value by exploring an action other than the best, in units of the largest known reward.
            Default: 0.1.
        optimism: Assumed value of an untried action, in units of the largest known reward. Default: 0.3.
        prior: Largest number of virtual tries that are added to the tries of an action in a state. Virtual tries end
            the episode with a negative reward as often as tries in similar states. Default: 20.

    Settings of networks (see also rasf.NetworkSettings). If two defaults are given, the second is for "rasfdqn":
        widths: Units of the hidden layers. Default: (256, 256) / (64, 64).
        shared: Whether all policies share the hidden layers. Default: False / True.
        objects: How many numbers describe an object, if an observation is a list of objects; else 0. Default: 0.
        frequency: Standard deviation of the initial frequencies of a first layer of sines; 0 for a first layer of tanh.
            Default: 0.
        horizon: "continuing": learned returns continue after a time limit. "episode": learned returns end at the time
            limit, and networks see the time left. Default: "continuing" / "episode".
        episode_length: The time limit in steps; 0 for the limit that the environment declares. Default: 0.
        learning_rate: Learning rate of Adam. Default: 1e-3 / 2e-3.
        decay: Whether the learning rate decreases linearly. Default: False / True.
        batch: Transitions in an update. Default: 32 / 64.
        updates: Updates for each step of the environment. Default: 1.
        target_period: Updates between two copies of the weights to the target networks. Default: 1000 / 250.
        n_step: Steps over which features are summed before bootstrapping. Default: 1 / 5.
        average: Number of updates over which the weights of the acting networks are averaged; 0 for no averaging.
            Default: 0 / 1000.
        warmup: Random steps before the first update, which determine the scale of inputs and features.
            Default: 0 / 500.
        replay: Steps that the replay buffer keeps; 0 keeps all. Default: 0.
        prioritised: Share of a batch drawn by prioritised replay. Default: 0 / 0.5.
        epsilon: Probability of a random action. Default: 0.1 / 0.05.
        exploration: Share of training in which epsilon decreases linearly from 1 to `epsilon`. Default: 0 / 0.2.
        epsilon_z: Whether to explore by repeated actions (epsilon-z-greedy). Default: False.
        interleaved: Whether tasks are interleaved instead of trained in sequence. Default: False / True.
        freeze: Share of training, at its end, in which policies are frozen. Default: 0 / 0.2.
        atoms: Atoms of each histogram, for "sfc51" and "rasfc51". Default: 51.
        events: Indices of rare features that are never negative, for "rasfdqn". Default: the features in `once`, or
            else the events that the environment declares.
        averse_episodes: Share of training episodes in which the behaviour policy is averse to a random degree, for
            "rasfdqn". Default: 0.5.

    Settings of "rasftd3" (see also rasf.ActorSettings), in addition to those of "rasfdqn":
        widths: As above. Default: (256, 256).
        batch: As above. Default: 256.
        updates: As above. Default: 0.25.
        learning_rate: Learning rate of the critics. Default: 1e-3.
        actor_learning_rate: Learning rate of the actors. Default: 3e-4.
        target_period: As above. Default: 200.
        average: As above. Default: 2500.
        exploration: As above. Default: 0.05.
        warmup: As above. Default: 1000.
        n_step: Always 1.
        noise: Standard deviation of the Gaussian noise on actions in training, where actions range from -1 to 1.
            Default: 0.2.
        policies_per_update: Largest number of policies that learn in an update. More policies take turns. Default: 8.

    Returns:
        A `PolicyLibrary`. Its `history` has the return and the failures of each policy in training, and its `notes`
        list the automatic choices.

    Raises:
        ValueError: An argument is invalid (arguments are checked before training), or the environment violates its
            own declarations.
    """
    begin = time.perf_counter()
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of a TrainingProgress, got {type(callback).__name__}")
    if not isinstance(progress, bool | None):
        raise ValueError(f"progress must be True, False or None, got {progress!r:.60}")
    if not isinstance(model, bool):
        raise ValueError(f"model must be True or False, got {model!r:.60}")
    if not isinstance(learn_w, bool):
        raise ValueError(f"learn_w must be True or False, got {learn_w!r:.60}")
    saver = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint, checkpoint_seconds)
    risks = checked_risks(risk)
    seed, num_envs = checks.whole("seed", seed, 0), checks.whole("num_envs", num_envs)
    if agent != "auto":
        check_risks(library_agent(agent), risks)  # before the environment is opened
    with ExitStack() as closing:
        given = GivenEnvironment(env, phi, checks.keywords("env_kwargs", env_kwargs), failure, num_envs, closing)
        world, spec, notes = given.open(agent, risks, seed)
        if failure is not None:
            count_failures(world, failure)
        check_risks(spec, risks)
        if model and spec.family is Family.TABLES and not spec.plans:
            raise ValueError(f"model must be False for {spec}, because only rasf-model and networks learn a model")
        described = world.describe()
        base = None if base_library is None else _base(base_library, described, spec, risks)
        bounds = None
        if spec.law is LawKind.HISTOGRAM and support is None and (base is None or base.law_kind is not spec.law):
            bounds = feature_bounds(world, seed, notes)  # the support is derived from these bounds
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
        } | ({"model": True} if model else {})
        total = steps * len(weights)
        greedy = given.greedy_check(total, seed)
        policies = len(risks) * (len(weights) + len(further))
        shown = closing.enter_context(shown_on_bar(callback, progress, total, policies))
        reports = [Reporter(shown, weights, risks, place, steps, len(further)) for place in range(len(risks))]
        training = Training(world, weights, further, risks, steps, seed, reports, notes, saver, base, greedy, model)
        more: Header = {}
        if spec.family is Family.NETWORKS:
            more = {"bounds": bounds, "support": support, "once": single}
        trained = train(training, **more)
        notes += [] if greedy is None else greedy.remarks()
        # some environments report failures only from the first failure on: for earlier policies, nan then means 0
        if world.reports_failures:
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
    """Return the policies of the base library; raise ValueError if they cannot take part in GPI for this training."""
    if not isinstance(base_library, PolicyLibrary):
        raise ValueError(f"base_library must be a policy library, got {type(base_library).__name__}")
    different = base_library.environment.difference(described, INTERFACE)
    if different is not None:
        raise ValueError(f"a library can grow only in the environment it was trained in, but {different} differ")
    held = base_library.sources.family
    if held is not spec.family:
        raise ValueError(f"a library of {held} cannot grow by the agent {spec}, which learns {spec.family}")
    for risk in risks:
        base_library.sources.check(risk)
    return base_library.sources
