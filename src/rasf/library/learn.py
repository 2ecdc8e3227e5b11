"""`learn`: train a library of policies on any Gymnasium or MO-Gymnasium environment with discrete actions.

One policy for every task and every risk. Tasks follow one another, and policies learned before help to explore, by GPI.
What is decided on the way (which agent, which weights, which support) is kept in the library's `notes`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from rasf import checks
from rasf.agents import AGENTS, AgentSpec, Family, LawKind, check_risks, library_agent
from rasf.arrays import Floats, Ints
from rasf.envs.gymnasium.declarations import checked_signs
from rasf.envs.gymnasium.description import INTERFACE, EnvironmentDescription
from rasf.files import Header
from rasf.library.checkpoint import SECONDS, Checkpoint, digest
from rasf.library.file import versions
from rasf.library.policy_library import NEUTRAL, PolicyLibrary, SourcePolicy, merge
from rasf.library.progress import Callback, Reporter, Trained
from rasf.library.progress_bar import shown_on_bar
from rasf.risk import Risk
from rasf.risk.names import is_neutral, risk_to_text

if TYPE_CHECKING:
    import gymnasium
    from _typeshed import DataclassInstance

    from rasf.envs.gymnasium.single import Environment, FailureRule, FeatureEnvironment, Phi
    from rasf.envs.gymnasium.vector import FeatureVector
    from rasf.envs.reacher.world import Reacher
    from rasf.library.greedy import GreedyCheck
    from rasf.library.networks.reacher import ReacherAdapter

    Learnable: TypeAlias = Environment | gymnasium.vector.VectorEnv | Reacher
    Opened: TypeAlias = FeatureEnvironment | FeatureVector | ReacherAdapter

_OF_NETWORKS, _OF_REACHER = "rasfdqn", "rasfc51"  # what "auto" means
_MARGIN = 0.5  # of the range of the features seen, on either side
_FEW = 100_000  # observations that surely fit a table
_LONG = 48  # numbers of an observation, the key of a state in a table: a flattened view of 7 x 7 cells has more
_RECURRING = 20_000  # steps of the random walk that looks for recurring observations
_NEW = 0.2  # the largest share of new observations in the second half of that walk for a table
_MOST_TASKS = 2**15 - 1  # tables number policies in 16 bits
_WALK = 2_000  # steps of the random walk that looks for bounds
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
    imagined: npt.ArrayLike | int = 0,
    env_kwargs: Header | None = None,
    failure: FailureRule | None = None,
    base_library: PolicyLibrary | None = None,
    callback: Callback | None = None,
    checkpoint: str | PathLike[str] | Checkpoint | None = None,
    checkpoint_seconds: float = SECONDS,
    progress: bool | None = None,
    **settings: Any,
) -> PolicyLibrary:
    """Train a library of policies on an environment with discrete actions.

    There is one policy for each task and risk. All of them learn from every step. `rasf/FourRoom-v0` (tables) and
    `rasf/Reacher-v0` (networks, on the device that jax has) have compiled loops, which are used unless an argument
    needs single steps.

    Args:
        env: The id of an environment, a `gymnasium.Env`, or a function that makes one; for networks also a
            `gymnasium.vector.VectorEnv` or a `rasf.envs.reacher.Reacher`. Its reward must be the vector of features,
            unless `phi` is given.
        tasks: Reward weights (n, d), or a number of tasks to draw. They are drawn from the environment's own
            distribution (`random_tasks`), or uniformly with the given signs.
        agent: "auto" (default) chooses by the observations and says why in `notes`. Tables: "sfql", "rasfql",
            "rasf-model". Networks: "sfc51", "rasfc51", "sfdqn", "sfdqn-residual", "rasfdqn".
        risk: The risk that policies are trained for, or several. With several, each of them acts for its share of
            `steps_per_task`. Default: neutral.
        steps_per_task: Steps of the environment for each task. Default: 20,000 for tables, 200,000 for the paper's
            networks, 100,000 for "rasfdqn".
        gamma: Discount. Default: 0.95 for tables, 0.9 for the paper's networks, 0.99 for "rasfdqn".
        seed: Seed of everything random; the same seed gives the same bits. Default: 0.
        phi: `phi(obs, action, next_obs, info)` gives the features (d,) in place of the reward. It may also have
            parameters named `reward`, `terminated` and `truncated`. Attributes `bounds`, `signs` and `feature_names` of
            the function are used where they exist. Default: None.
        signs: Signs (d,) of the weights, for tasks that are drawn: 1 (more is better), -1 (a cost) or 0 (either).
            Default: the attribute `signs` of the environment, a wrapper or `phi`; 1 for MO-Gymnasium's environments.
        num_envs: Environments that networks learn from in parallel. Default: 1.
        learn_w: Tables learn the weights from the rewards, as in the paper, and are not given them. Default: False.
        support: Bounds (d, 2) of the discounted feature returns, for histograms. Default: from the bounds of a step.
        once: Indices of features that occur at most once an episode, such as a crash. For histograms their return is
            bounded by their value in one step; "rasfdqn" treats them as `events`. Default: none.
        imagined: Additional weights (m, d), or how many to draw, for which networks learn policies off-policy, from the
            same steps, at every risk. Default: 0.
        env_kwargs: Keyword arguments of the environment, if `env` is an id. Default: none.
        failure: `failure(step)` says whether a `rasf.Step` was a failure. Default: what the environment reports in
            `info["failure"]`.
        base_library: A library whose policies take part in exploration by GPI and do not change. Default: None.
        callback: Is called with a `rasf.TrainingProgress` now and then. If it returns True, training stops, and the
            library has what was learned so far. Default: None.
        checkpoint: A file to which the state of training is written now and then. If the process is killed, the same
            call with the same file continues from there, to the same bits. The file is removed at the end. Default:
            None.
        checkpoint_seconds: Time between two checkpoints. Default: 120.
        progress: Show a bar with the steps a second, the time left and the greedy returns. Default: None, which shows
            it on a terminal and in a notebook.
        **settings: Settings of the agent. An unknown name is refused with the list of known ones.

    Settings of tables ("sfql", "rasfql"), with defaults:
        epsilon 0.12, alpha 0.5, alpha_sigma 0.1, alpha_w 0.5, covariance True (False for "sfql"); see
        `rasf.TableSettings`.
    Settings of "rasf-model", with defaults:
        epsilon 0.03, margin 0.1, optimism 0.3, prior 20.0; see `rasf.ModelSettings`.
    Settings of networks, with the defaults of the paper's agents and of "rasfdqn" where they differ:
        widths (256, 256) / (64, 64), learning_rate 1e-3 / 2e-3, batch 32 / 64, epsilon 0.1 / 0.05, exploration 0 / 0.2
        (share of training in which epsilon falls from 1), target_period 1000 / 250 updates, updates 1.0 for each step,
        n_step 1 / 5, warmup 0 / 500 random steps that scale inputs and features, surprise 0 / 0.5 (share of a batch by
        prioritised replay), replay 0 (steps kept; 0 keeps all), average 0 / 1000 (act by averaged weights), decay False
        / True (of the learning rate), side_by_side False / True (tasks interleaved), shared False / True (layers before
        the heads), settle 0 (share of training, at its end, with frozen policies), objects 0 (numbers of an object, if
        an observation is a list of objects), lasting False (exploration by repeated actions), frequency 0 (a first
        layer of sines), atoms 51 (of histograms), events () (rare non-negative features, "rasfdqn"); see
        `rasf.deep.agent.AgentSettings`.

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
        world: Any  # which kind follows from the agent
        kwargs = checks.keywords("env_kwargs", env_kwargs)
        world, spec, notes = _open(env, phi, kwargs, agent, risks, num_envs, seed, closing)
        if failure is not None:
            _count_failures(world, failure)
        check_risks(spec, risks)
        described, base = world.describe(), None
        if base_library is not None:
            _check_base(base_library, described, spec, risks)
            base = base_library.sources
        bounds = None
        if spec.law is LawKind.HISTOGRAM and support is None and (base is None or base.law_kind is not spec.law):
            bounds = _bounds(world, seed, notes)  # from which the support is derived
        # a library that grows must not draw its old tasks again
        drawing = [seed, 77] if base is None else [seed, 77, base.policies]
        known = world.signs if signs is None else checked_signs(signs, world.n_features)
        weights = drawn_tasks(tasks, world.n_features, world.random_tasks, drawing, notes, known)
        further = _imagined(imagined, world, spec, [*drawing, 1], notes, known)
        steps = spec.steps_per_task if steps_per_task is None else checks.whole("steps_per_task", steps_per_task)
        chosen = settings | ({} if gamma is None else {"gamma": checks.number("gamma", gamma)})
        if support is not None and spec.law is not LawKind.HISTOGRAM:
            raise ValueError(f"support is for histograms; {spec} has none")
        single = _once(once, world.n_features, spec)
        if spec.law is LawKind.MEAN_LOG_VARIANCE:
            chosen.setdefault("events", tuple(single) or world.events)
        if learn_w and spec.family is Family.NETWORKS:
            raise ValueError(f"learn_w is for tables; {spec} is told the weights")

        def train_all() -> Iterator[Trained]:
            """For every risk, all of them from one stream."""
            if spec.family is Family.TABLES:
                from rasf.library.tables.model import train_model
                from rasf.library.tables.train import TableTraining, train_tables

                tables = with_settings(replace(default_settings(spec), learn_w=learn_w), chosen)
                saver.label["settings"] = repr(tables)
                training = TableTraining(world, weights, risks, steps, seed, reports, notes, saver, base, greedy)
                yield from train_model(training, tables) if spec.plans else train_tables(training, tables)
                return
            from rasf.library.networks.train import train_networks

            kinds = {type(one) for one in risks if not is_neutral(one)} or {type(NEUTRAL)}
            if len(kinds) > 1:
                raise ValueError("risk must be of one kind for networks, which learn all risks together, got several")
            network = with_settings(replace(default_settings(spec), risk=kinds.pop()), chosen)
            more: Header = {
                "given": chosen,
                "bounds": bounds,
                "support": support,
                "once": single,
                "imagined": further,
                "base_library": base,
                "greedy": greedy,
            }
            saver.label["settings"] = repr(network)
            yield from train_networks(world, weights, network, risks, steps, seed, reports, notes, saver, **more)

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
        }
        greedy = _greedy_check(env, phi, kwargs, failure, steps * len(weights), seed, closing)
        libraries: list[PolicyLibrary] = []
        counts = (steps, len(further))
        shown = closing.enter_context(
            shown_on_bar(callback, progress, steps * len(weights), len(risks) * (len(weights) + len(further)))
        )
        reports = [Reporter(shown, weights, risks, place, *counts) for place in range(len(risks))]
        for one, trained in zip(risks, train_all(), strict=False):
            remark = None if greedy is None else greedy.remark()
            if remark is not None and remark not in notes:
                notes.append(remark)
            policies = tuple(SourcePolicy(tuple(w), one) for w in trained.weights.tolist())
            provenance = {
                "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "versions": versions(),
                "seed": seed,
                "steps_per_task": steps,
                "settings": {name: repr(value) for name, value in chosen.items()},
                "seconds": round(saver.seconds_before + time.perf_counter() - begin, 1),
                "complete": not any(report.stopped for report in reports),
            }
            kept = (trained.sources, described, policies, (spec,), trained.history, tuple(notes), provenance)
            libraries.append(PolicyLibrary(*kept))
        if world.reports_failures:  # perhaps only when one happened: the policies that never met one have none
            for library in libraries:
                np.nan_to_num(library.history["failures"], copy=False)
        saver.finish()
    for note in notes:
        _log.info(note)
    return merge(libraries) if len(libraries) > 1 else libraries[0]


def checked_risks(given: Risk | Sequence[Risk]) -> list[Risk]:
    """One or several, checked; every way to say neutral becomes the same, which all agents can train for."""
    if not isinstance(given, Risk | list | tuple) or given in ([], ()):
        raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), or a list of them, got {given!r}")
    risks = [given] if isinstance(given, Risk) else list(given)
    return [NEUTRAL if is_neutral(one) else one for one in risks]


# --- the environment, the agent that suits it, and its tasks


def _open(
    env: Learnable,
    phi: Phi | None,
    kwargs: Header,
    agent: str,
    risks: Sequence[Risk],
    num_envs: int,
    seed: int,
    closing: ExitStack,
) -> tuple[Opened, AgentSpec, list[str]]:
    """One environment for tables, several for networks; the agent, which "auto" chooses, and a note why.

    What is made here will be closed.
    """
    if hasattr(env, "feature_bounds"):  # a world without Gymnasium, which need not be installed
        from rasf.envs.reacher.world import Reacher
        from rasf.library.networks.reacher import ReacherAdapter

        if not isinstance(env, Reacher):
            raise ValueError(f"env must be a rasf.envs.reacher.Reacher where it is a world, got {type(env).__name__}")
        spec = _of_networks(_OF_REACHER if agent == "auto" else agent, "a compiled world")
        if phi is not None or kwargs or num_envs > 1:
            raise ValueError("phi, env_kwargs and num_envs are for Gymnasium's environments, got a compiled world")
        return ReacherAdapter(env), spec, []
    import gymnasium

    from rasf.envs.gymnasium.single import open_environment
    from rasf.envs.gymnasium.vector import open_vector, sync_envs

    if isinstance(env, gymnasium.vector.VectorEnv):
        spec = _of_networks(networks_for(risks).name if agent == "auto" else agent, "a vector environment")
        vector = open_vector(env, None if num_envs == 1 else num_envs, phi, **kwargs)
        return vector, spec, _notes_on_images(vector)
    first = open_environment(env, phi, **kwargs)
    if not isinstance(env, gymnasium.Env):
        closing.callback(first.close)
    if agent == "auto":
        spec, reason = choose_agent(first, seed, risks)
        notes = [f"agent {spec} was chosen because {reason}"]
    else:
        spec, notes = library_agent(agent), []
    if spec.family is Family.NETWORKS:
        vector = sync_envs(first, num_envs, env, phi, kwargs)
        for more in vector.environments[1:]:
            closing.callback(more.close)
        return vector, spec, notes + _notes_on_images(vector)
    if num_envs > 1:
        raise ValueError(f"num_envs must be 1 for {spec}, which learns from one environment, got {num_envs}")
    return first, spec, notes


def _notes_on_images(world: FeatureVector) -> list[str]:
    return [
        f"the image of shape {shape} in an observation is flattened to {np.prod(shape)} numbers for fully connected "
        "networks; convolutional networks are not provided"
        for shape in world.encoder.images
    ]


def _count_failures(world: Opened, rule: FailureRule) -> None:
    """Have a rule count failures; it needs single environments, whose observations it sees."""
    if hasattr(world, "environments"):
        for one in world.environments:
            one.count_failures(rule)
    elif hasattr(world, "count_failures"):
        world.count_failures(rule)
    else:
        raise ValueError("failure is for single environments, got one that counts them itself")


def _imagined(
    given: npt.ArrayLike | int,
    world: Opened,
    spec: AgentSpec,
    seed: Sequence[int],
    notes: list[str],
    signs: Ints | None,
) -> Floats:
    """Weightings (m, d) to learn for beside the tasks, given or drawn as these are."""
    if checks.is_whole(given) and given == 0:
        return np.zeros((0, world.n_features))
    if spec.family is not Family.NETWORKS:
        raise ValueError(f"imagined is for networks; {spec} learns tables")
    found = drawn_tasks(given, world.n_features, world.random_tasks, seed, notes, signs, "imagined")
    notes.append(f"{len(found)} further weightings were learned from the same steps, and never practised")
    return found


def _once(given: Sequence[int], d: int, spec: AgentSpec) -> list[int]:
    """Features that come at most once an episode, by their indices."""
    listed = isinstance(given, list | tuple | np.ndarray) and all(checks.is_whole(i) and 0 <= i < d for i in given)
    if not listed or len({*given}) < len(given):
        raise ValueError(f"once must hold indices of the {d} features, from 0 and each once, got {given!r:.60}")
    if len(given) and spec.law not in (LawKind.HISTOGRAM, LawKind.MEAN_LOG_VARIANCE):
        raise ValueError(f"once is for histograms and for events; {spec} has neither")
    return [int(i) for i in given]


def _greedy_check(
    env: Learnable,
    phi: Phi | None,
    kwargs: Header,
    failure: FailureRule | None,
    steps: int,
    seed: int,
    closing: ExitStack,
) -> GreedyCheck | None:
    """Who looks at the policies while they are learned; nobody where a second environment cannot be made."""
    if hasattr(env, "feature_bounds"):  # a world that needs no Gymnasium
        if find_spec("gymnasium") is None:
            return None
        from rasf.library.networks.reacher import reacher_description

        world: Any = env
        env, kwargs = "rasf/Reacher-v0", reacher_description(world).kwargs
    import gymnasium

    from rasf.envs.gymnasium.single import open_environment
    from rasf.library.greedy import GreedyCheck

    if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        return None

    def another() -> FeatureEnvironment:
        found = open_environment(env, phi, **kwargs)
        closing.callback(found.close)
        if failure is not None:
            found.count_failures(failure)
        return found

    return GreedyCheck(another, steps, seed)


def _of_networks(agent: str, given: str) -> AgentSpec:
    spec = library_agent(agent)
    if spec.family is Family.TABLES:
        raise ValueError(f"env must be a single environment for {spec}, got {given}")
    return spec


def networks_for(risks: Sequence[Risk]) -> AgentSpec:
    """Our networks, or where they cannot be trained for these risks, the paper's."""
    ours = AGENTS[_OF_NETWORKS]
    return ours if all(isinstance(risk, ours.risks) for risk in risks) else AGENTS[_OF_REACHER]


def choose_agent(env: FeatureEnvironment, seed: int, risks: Sequence[Risk] = ()) -> tuple[AgentSpec, str]:
    """Choose tables where observations are few or surely recur, else networks.

    Tables need short observations of whole numbers that are no images, at most 100,000 possible ones or few new ones
    late in a long random walk.

    Args:
        env: the environment; it may be reset and walked in.
        seed: of the walk.
        risks: that the policies are trained for, which the networks must serve.

    Returns:
        The agent, and the reason in words.
    """
    encoder, table, networks = env.encoder, AGENTS["rasfql"], networks_for(risks)
    if env.describe().id == "rasf/Reacher-v0":
        return AGENTS[_OF_REACHER], "it is the agent of the paper's reacher"
    if not encoder.integers:
        return networks, "its observations are not whole numbers of a bounded range, which recur exactly"
    if encoder.n_possible is not None and encoder.n_possible <= _FEW:
        return table, f"it has at most {encoder.n_possible} observations"
    if encoder.images:
        return (
            networks,
            f"its observations are images, of shape {encoder.images[0]}, which tables cannot generalise from",
        )
    if encoder.size > _LONG:
        return networks, f"its observations have {encoder.size} numbers each, too many for a table's keys"
    rng, seen, half = np.random.default_rng(seed), set(), 0
    obs = env.reset(seed)
    for t in range(1, _RECURRING + 1):
        seen.add(encoder.key(obs).tobytes())
        if t == _WALK and len(seen) > t // 2:
            return networks, f"observations hardly recur: {len(seen)} different observations in {t} random steps"
        if t == _RECURRING // 2:
            half = len(seen)
        step = env.step(int(rng.integers(env.n_actions)))
        obs = env.reset() if step.terminated or step.truncated else step.obs
    new = (len(seen) - half) / (_RECURRING - _RECURRING // 2)
    found = f"{len(seen)} different observations in {_RECURRING} random steps, {new:.0%} new in the second half"
    if new <= _NEW:
        return table, f"observations recur: {found}"
    return networks, f"observations hardly recur: {found}"


def _check_base(
    base_library: PolicyLibrary, described: EnvironmentDescription, spec: AgentSpec, risks: list[Risk]
) -> None:
    """Its policies must be able to advise: see the same observations, take the same actions, serve the risks."""
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


def _bounds(world: Opened, seed: int, notes: list[str]) -> Floats | None:
    """Bounds (d, 2) of the features, declared or estimated; None for a vector environment that declares none."""
    if world.bounds is not None:
        return world.bounds
    from rasf.envs.gymnasium.single import estimate_bounds
    from rasf.envs.gymnasium.vector import SyncEnvs

    if not isinstance(world, SyncEnvs):
        return None
    bounds = estimate_bounds(world.environments[0], _WALK, seed, _MARGIN)
    notes.append(
        f"bounds of the features come from {_WALK} random steps, widened by {_MARGIN:g} of their range: "
        f"{np.round(bounds, 4).tolist()}"
    )
    return bounds


def drawn_tasks(
    tasks: npt.ArrayLike | int,
    d: int,
    of_its_own: Callable[[int, np.random.Generator], Floats | None] | None,
    seed: Sequence[int],
    notes: list[str],
    signs: Ints | None = None,
    name: str = "tasks",
) -> Floats:
    """Return weights, given or drawn.

    Args:
        tasks: weights (n, d), or their number n.
        d: the number of features.
        of_its_own: the environment's own distribution of tasks; it returns None where there is none.
        seed: of the drawing.
        notes: gains a sentence on what was drawn.
        signs: (d,) of the weights that make sense, 1, -1, or 0 for either; None where they are not known.
        name: of the argument, for messages.

    Returns:
        Weights (n, d); drawn ones come from the environment's distribution, or are uniform with these signs.

    Raises:
        ValueError: if the weights are not (n, d) finite numbers, or a number of them is to be drawn and neither a
            distribution nor signs are known: positive weights would reward costs.
    """
    if not isinstance(tasks, int | np.integer):
        return checks.task_weights(name, tasks, d)
    if checks.whole(name, tasks) > _MOST_TASKS:
        raise ValueError(f"{name} must be at most {_MOST_TASKS}, a policy for each, got {tasks}")
    count, rng = int(tasks), np.random.default_rng(seed)
    own = None if of_its_own is None else of_its_own(count, rng)
    if own is not None:
        return checks.task_weights("the environment's random_tasks", own, d)
    if signs is None:
        raise ValueError(
            f"{name}={count} cannot be drawn, because nothing says which of the {d} features are costs: give weights "
            f"(n, {d}), or signs, one of 1 (more is better), -1 (a cost) and 0 (either) for each feature, as an "
            "argument or as an attribute of the environment, a wrapper or phi"
        )
    drawn = rng.uniform(-1.0, 1.0, (count, d))
    notes.append(
        f"the environment has no distribution of tasks: {count} weightings were drawn from [0, 1] with the signs "
        f"{signs.tolist()} (1: more is better, -1: a cost, 0: either)"
    )
    return np.where(signs == 0, drawn, np.abs(drawn) * signs)


# --- settings


_Settings = TypeVar("_Settings", bound="DataclassInstance")


def default_settings(spec: AgentSpec) -> Any:
    """The settings of an agent as it is."""
    if spec.plans:
        from rasf.tabular.settings import ModelSettings

        return ModelSettings(**spec.constants)
    if spec.family is Family.TABLES:
        from rasf.tabular.settings import TableSettings

        return TableSettings(**spec.constants)
    from rasf.deep.agent import preset

    return preset(spec.name)


def setting_names(base: DataclassInstance) -> list[str]:
    """The settings of an agent that a caller may choose."""
    return sorted({one.name for one in fields(base)} - {"risk", "law", "conditioned", "relabel", "bounds"})


def with_settings(base: _Settings, given: Mapping[str, object]) -> _Settings:
    """Settings with changes by name; unknown names are refused."""
    known = setting_names(base)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"settings must be among {', '.join(known)}, got {', '.join(unknown)}")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        changed = replace(base, **plain)
        hash(changed)  # an agent is a key of what jax has made for it
    except TypeError as error:
        raise ValueError(f"settings must be numbers, or sizes such as widths=(64, 64): {error}") from None
    return changed
