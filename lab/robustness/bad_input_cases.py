"""The cases of `bad_inputs.py`: a call for each, and whether it must be refused.

`vary` calls a function with good arguments but for one, which takes a list of bad values. Most must be refused.
`Either` marks a value that may be refused or served, `Serve` one that must work.
"""

from __future__ import annotations

import json
import struct
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import rasf
from rasf.files import load_file, save_file

NAN, INF, HUGE = float("nan"), float("inf"), 10**12
W = [-1.0, 10.0, 0.0, -10.0]  # of rasf/Grid-v0: steps, goal, two traps
GRID = "rasf/Grid-v0"


class Case(NamedTuple):
    """A name, a call, and what must come of it: refuse, serve, or either."""

    name: str
    call: Callable[[], object]
    must: str = "refuse"


class Either(NamedTuple):
    """A value that may be refused or served."""

    value: Any


class Serve(NamedTuple):
    """A value that must be served."""

    value: Any


def vary(function: str, call: Callable[..., object], **bad: list[Any]) -> Iterator[Case]:
    """Cases of a function with one bad argument each; `call` has good values for the others."""
    for argument, values in bad.items():
        for value in values:
            must = {Either: "either", Serve: "serve"}.get(type(value), "refuse")
            value = value.value if isinstance(value, Either | Serve) else value
            yield Case(f"{function}({argument}={_shown(value)})", partial(call, **{argument: value}), must)


def _shown(value: object) -> str:
    if isinstance(value, gym.Env):
        return f"{type(value).__name__}{getattr(value, 'wrong', '')}"
    name = getattr(value, "__name__", None)
    return name if callable(value) and name else " ".join(repr(value).split())[:60]


class Kit(NamedTuple):
    """What the cases use: libraries of tables and networks, a calibrated one, a model, a log, and a folder."""

    folder: Path
    tables: rasf.PolicyLibrary
    networks: rasf.PolicyLibrary
    calibrated: rasf.PolicyLibrary
    mdp: rasf.FiniteMDP
    log: dict[str, np.ndarray]


def make(shared: Path) -> list[Case]:
    """All cases, in a new folder under `shared`, where the libraries are kept."""
    import os
    import tempfile

    kit = _kit(shared, Path(tempfile.mkdtemp(dir=shared)))
    os.chdir(kit.folder)
    found = [case for section in SECTIONS for case in section(kit)]
    names = [case.name for case in found]
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    for case in found:  # the first of each section compiles
        if case.must == "serve" and case.name.startswith("warm"):
            case.call()
    return found


def _kit(shared: Path, folder: Path) -> Kit:
    made = {name: shared / f"{name}.rasf" for name in ("tables", "networks", "calibrated")}
    if not made["calibrated"].exists():
        rasf.learn(GRID, tasks=[W, [-1.0, 5.0, 0.0, 0.0]], agent="rasfql", steps_per_task=500).save(made["tables"])
        small = {"widths": (8,), "steps_per_task": 60, "gamma": 0.9}
        rasf.learn(GRID, tasks=[W], agent="rasfdqn", **small).save(made["networks"])
        library = rasf.load(made["tables"])
        library.calibrate(GRID, 60, tasks=3)
        library.save(made["calibrated"])
    for name, path in made.items():
        (folder / f"{name}.rasf").write_bytes(path.read_bytes())
    rng = np.random.default_rng(0)
    log = {
        "obs": np.tile(np.arange(5.0), 20)[:, None],
        "actions": rng.integers(0, 2, 100),
        "phi": rng.random((100, 2)),
        "next_obs": np.tile(np.arange(1.0, 6.0), 20)[:, None],
        "terminated": np.tile([False] * 4 + [True], 20),
    }
    transitions = [(0, 0, 1, 0.5, [1.0, 0.0]), (0, 0, 2, 0.5, [0.0, 1.0]), (0, 1, 1, 1.0, [0.4, 0.0])]
    transitions += [(1, a, 2, 1.0, [0.0, 0.1]) for a in range(2)] + [(2, a, 2, 1.0, [0.0, 0.0]) for a in range(2)]
    mdp = rasf.FiniteMDP.from_transitions(transitions, 3, 2, terminal=[2], gamma=0.9)
    return Kit(folder, *(rasf.load(path) for path in made.values()), mdp, log)


# --- environments, functions and values that are wrong


class Odd(gym.Env):
    """An environment of two states whose `wrong` part is not as Gymnasium or rasf have it."""

    def __init__(self, wrong: str = "", **parts: Any) -> None:
        self.wrong, self.parts, self.steps = wrong, parts, 0
        if wrong != "spaces":
            self.observation_space = parts.get("observation_space", gym.spaces.Discrete(2))
            self.action_space = parts.get("action_space", gym.spaces.Discrete(2))
        self.reward_space = parts.get("reward_space", gym.spaces.Box(0, 1, (2,)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.parts.get("reset", (self.parts.get("first", 0), {}))

    def step(self, action: Any) -> Any:
        self.steps += 1
        answer = {"obs": 1, "reward": np.array([1.0, 0.0]), "terminated": True, "truncated": False, "info": {}}
        answer |= {name: value for name, value in self.parts.items() if name in answer}
        if self.wrong == "changing reward":
            answer["reward"] = np.ones(1 + self.steps % 2)
        return self.parts.get("step", tuple(answer.values()))


ODD = [
    Odd("spaces"),
    Odd(" action Box", action_space=gym.spaces.Box(-1, 1, (2,))),
    Odd(" action MultiDiscrete", action_space=gym.spaces.MultiDiscrete([2, 2])),
    Odd(" action None", action_space=None),
    Odd(" 10^9 actions", action_space=gym.spaces.Discrete(10**9)),
    Odd(" 10^6 actions", action_space=gym.spaces.Discrete(10**6)),
    Odd(" observation None", observation_space=None),
    Odd(" observation Text", observation_space=gym.spaces.Text(5)),
    Odd(" observation Dict with Text", observation_space=gym.spaces.Dict({"a": gym.spaces.Text(5)})),
    Odd(" observation outside", obs=7),
    Odd(" observation None given", obs=None),
    Odd(" first observation outside", first=-3),
    Odd(" reward number", reward=1.0),
    Odd(" reward None", reward=None),
    Odd(" reward text", reward="x"),
    Odd(" reward nan", reward=np.array([NAN, 0.0])),
    Odd(" reward inf", reward=np.array([INF, 0.0])),
    Odd(" reward 1e300", reward=np.array([1e300, 0.0]), reward_space=None),
    Odd(" reward of three", reward=np.ones(3)),
    Odd(" reward 2-d", reward=np.ones((2, 1))),
    Odd("changing reward"),
    Odd(" terminated array", terminated=np.array([True, False])),
    Odd(" terminated nan", terminated=NAN),
    Odd(" terminated None", terminated=None),
    Odd(" terminated text", terminated="no"),
    Odd(" truncated text", truncated="no"),
    Odd(" failure text", info={"failure": "no"}),
    Odd(" failure array", info={"failure": np.array([1, 0])}),
    Odd(" failure nan", info={"failure": NAN}),
    Odd(" info None", info=None),
    Odd(" step of four", step=(1, np.ones(2), True, {})),
    Odd(" step None", step=None),
    Odd(" reset plain", reset=0),
    Odd(" reset None", reset=None),
]


def takes_nothing() -> None:
    """A function of the user's that takes no argument."""


def takes_one(x: Any) -> Any:
    """A function of the user's that takes one argument too few for an environment's maker."""
    return x


def returning(value: Any, name: str) -> Callable[..., Any]:
    """A function of the user's that takes anything and returns one thing."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return value

    function.__name__ = f"returns_{name}"
    return function


NOTHING, ARRAY = returning(None, "None"), returning(np.zeros(2), "array")
TEXT, NOT_A_NUMBER = returning("no", "text"), returning(NAN, "nan")
WHOLE: list[Any] = [0, -1, 1.5, NAN, INF, "3", True, [3], 10**30]
ANY_WEIGHTS: list[Any] = [
    None, 3, "x", [], [1.0], [1.0] * 5, [NAN] * 4, [INF, 0, 0, 0], ["a"] * 4, [[1.0] * 4, [1.0] * 3], {"a": 1},
    np.zeros((0, 4)), Either([1e308] * 4),
]  # fmt: skip
RISKS: list[Any] = [None, "neutral", 3, [], rasf.MeanVariance]
SEEDS: list[Any] = [-1, 1.5, NAN, "x", [1], 2**64, True]
LIMITS: list[Any] = [
    3, "x", [1.0], {"no such": 1.0}, {9: 1.0}, {-9: 1.0}, {1.5: 1.0}, {0: NAN}, {0: "x"}, {0: None}, {0: INF},
    Either({}), Either({True: 1.0}),
]  # fmt: skip
ENVIRONMENTS: list[Any] = [
    None, 3, "", b"rasf/Grid-v0", "no-such-v0", "no_such_module:X-v0", "rasf/Grid-v99", [], takes_one, NOTHING, TEXT,
    "CartPole-v1", "rasf/Machines-v0", "a" * 10_000, "\0", ":",
]  # fmt: skip


# --- learning


def _learn(**change: Any) -> rasf.PolicyLibrary:
    return rasf.learn(**{"env": GRID, "tasks": [W], "agent": "rasfql", "steps_per_task": 20} | change)


def learning(kit: Kit) -> Iterator[Case]:
    """`rasf.learn`, of tables and of networks, and `grow`."""
    yield Case("warm learn()", _learn, "serve")
    yield from vary(
        "learn", _learn,
        env=[*ENVIRONMENTS, *map(Serve, [lambda: gym.make(GRID)])],
        tasks=[*ANY_WEIGHTS[2:], None, 0, -1, 1.5, True, 10**9, NAN, Serve(3)],
        agent=[None, "", "x", 3, ["rasfql"], "RASFQL"],
        risk=[*RISKS, [None], [rasf.MeanVariance(0.0), 3], rasf.CVaR(0.1), rasf.Entropic(-1.0)],
        steps_per_task=WHOLE,
        gamma=[-0.1, 1.1, NAN, INF, "x", "0.9", True, [0.9]],
        seed=SEEDS,
        phi=[
            3, "x", takes_nothing, NOTHING, TEXT, NOT_A_NUMBER, returning([], "empty"), returning([NAN] * 4, "nans"),
            returning([["a"]], "texts"), returning(np.zeros((2, 2)), "matrix"), returning([INF] * 4, "infs"),
        ],
        num_envs=[*WHOLE, HUGE],
        learn_w=["no"],
        support=[3, "x", [[0, 1]] * 4, [[NAN, 1]] * 4],
        once=[3, "x", [99], [-9], [1.5], [None], None, [0]],
        extra_tasks=[-1, "x", None, 1.5, [[1.0]], [[NAN] * 4], 3, HUGE],
        env_kwargs=[3, "x", [1], [("slip", 0.1)], {"no": 1}, {3: 4}, {"slip": "x"}, {"slip": NAN}, {"layout": 3}],
        failure=[3, "x", takes_nothing, TEXT, ARRAY, NOT_A_NUMBER, Either(NOTHING)],
        base_library=[3, "x", [], kit.networks],
        callback=[3, "x", takes_nothing, ARRAY, TEXT, NOT_A_NUMBER, Serve(NOTHING)],
        epsilon=[2.0, -1.0, NAN, "x", None, [0.1]],
        alpha=[-1.0, NAN, "x", None, INF],
        no_such_setting=[1],
        widths=[(8,)],
    )  # fmt: skip
    for env in ODD:
        must = "either" if env.wrong in (" reward 1e300", " terminated None", " observation outside") else "refuse"
        yield Case(f"learn({_shown(env)})", partial(_learn, env=env, tasks=[[1.0, 1.0]]), must)
    for env in ODD[:5]:
        yield Case(f"learn({_shown(env)}, auto)", partial(_learn, env=env, tasks=[[1.0, 1.0]], agent="auto"))
    yield from vary(
        "learn-networks", partial(_learn, agent="sfdqn", steps_per_task=5),
        widths=[(), (0,), (-8,), (8.5,), "x", 3, None, (10**9,), (8, "x"), (True,)],
        learning_rate=[-1.0, Either(0.0), NAN, INF, "x", None],
        batch_size=[0, -1, 1.5, "x", None, NAN],
        num_envs=[0, 10**9],
        extra_tasks=[-1, "x", [[1.0]], HUGE],
        agent=["sfdqn-no"],
        support=[[[0, 1]] * 4],
        learn_w=[True],
        base_library=[kit.tables],
    )  # fmt: skip
    yield from vary(
        "learn-histograms", partial(_learn, agent="sfc51", steps_per_task=5),
        support=[3, "x", [[0, 1]], [[1, 0]] * 4, [[NAN, 1]] * 4, [[0, INF]] * 4, [[0, 0]] * 4],
        once=["x", [99], [1.5], [-1]],
        atoms=[0, 1, -3, 1.5, "x", None, 10**9],
        risk=[rasf.MeanVariance],
    )  # fmt: skip
    grow = partial(kit.tables.grow, GRID, [W], steps_per_task=20)
    yield from vary(
        "grow", grow,
        gamma=[0.5, NAN, "x"],
        agent=["sfdqn", "x", None],
        risk=RISKS,
        steps_per_task=[0, 1.5, "x"],
        no_such_setting=[1],
        env_kwargs=[{"slip": 0.5}],
        base_library=[kit.networks],
    )  # fmt: skip
    for env in (None, 3, "no-such-v0", "rasf/Machines-v0", "rasf/FourRoom-v0"):
        yield Case(f"grow(env={_shown(env)})", partial(kit.tables.grow, env, [W], steps_per_task=20))
    for tasks in (None, [], "x", [[1.0]], 0, NAN, [[NAN] * 4]):
        yield Case(f"grow(tasks={_shown(tasks)})", partial(kit.tables.grow, GRID, tasks, steps_per_task=20))


# --- acting


OBSERVATIONS: list[Any] = [None, "x", NAN, -1, 10**9, 1.5, {}, [[1, 2]], ["a"]]


def acting(kit: Kit) -> Iterator[Case]:
    """`act`, `scores`, `actor`, `evaluate`, `compare`, `calibrate` of a library of tables and one of networks."""
    for name, library in (("tables", kit.tables), ("networks", kit.networks), ("calibrated", kit.calibrated)):
        for method in ("act", "scores"):
            call = partial(getattr(library, method), obs=0, w=W)

            def asked(call: Callable[..., Any] = call, **change: Any) -> Any:
                return call(**change)

            yield Case(f"warm {name}.{method}()", call, "serve")
            yield Case(f"warm {name}.{method}(limits)", partial(call, limits={0: 5.0}), "serve")
            if name != "calibrated":
                yield from vary(f"{name}.{method}", asked, obs=OBSERVATIONS, w=ANY_WEIGHTS, risk=RISKS)
            if name != "networks":
                yield from vary(f"{name}.{method}", asked, limits=LIMITS)
        if name != "calibrated":
            yield from _an_actor(name, library)
    yield from vary("actor", partial(kit.tables.actor, w=W), w=ANY_WEIGHTS, risk=RISKS, limits=LIMITS, static=["no"])
    yield from _episodes("tables", kit.tables)
    yield from _episodes("networks", kit.networks, few=True)
    call = partial(kit.tables.calibrate, GRID, 60)
    yield from vary(
        "calibrate", call,
        tasks=[0, 1, -1, 1.5, "x", [], [[1.0]], [[NAN] * 4], True, HUGE],
        risks=[[], rasf.MeanVariance(0.0), [None], "x", 3, [rasf.CVaR]],
        seed=SEEDS,
        max_steps=[0, -1, 1.5, "x", None],
        callback=[3, "x", takes_nothing],
        env_kwargs=[3, {"no": 1}],
        phi=[3, "x"],
    )  # fmt: skip
    for episodes in (0, 1, -5, 1.5, NAN, "x", None, True):
        yield Case(f"calibrate(episodes={_shown(episodes)})", partial(kit.tables.calibrate, GRID, episodes))


def _an_actor(name: str, library: rasf.PolicyLibrary) -> Iterator[Case]:
    def act_first(method: str, *given: Any) -> Any:
        actor = library.actor(W)
        actor.act(0)
        return getattr(actor, method)(*given)

    def without_acting(method: str, *given: Any) -> Any:
        return getattr(library.actor(W), method)(*given)

    for obs in OBSERVATIONS:
        yield Case(f"{name}.actor.act({_shown(obs)})", partial(without_acting, "act", obs))
    for gained in (None, "x", NAN, [1.0] * 2, [NAN] * 4, [INF] * 4, ["a"] * 4, [1.0] * 5, {}, [[1.0] * 4] * 2):
        yield Case(f"{name}.actor.observe({_shown(gained)})", partial(act_first, "observe", gained))
    yield Case(f"{name}.actor.observe before act", partial(without_acting, "observe", [0.0] * 4))
    for over in ("x", 3, [True, False, True], NAN):
        yield Case(f"{name}.actor.reset({_shown(over)})", partial(act_first, "reset", over))


def _episodes(name: str, library: rasf.PolicyLibrary, few: bool = False) -> Iterator[Case]:
    evaluate = partial(library.evaluate, env=GRID, w=W, episodes=3, max_steps=20)
    yield Case(f"warm {name}.evaluate()", evaluate, "serve")
    if few:
        yield from vary(f"{name}.evaluate", evaluate, env=[None, "no-such-v0"], episodes=[0, "x"], w=[None, [NAN] * 4])
        return
    yield from vary(
        f"{name}.evaluate", evaluate,
        env=ENVIRONMENTS,
        w=ANY_WEIGHTS,
        risk=RISKS,
        episodes=[1, *WHOLE],
        seed=SEEDS,
        phi=[3, "x", takes_nothing, NOTHING],
        discount_aware=["no"],
        static=["no"],
        limits=LIMITS,
        failure=[3, "x", takes_nothing, TEXT, ARRAY, NOT_A_NUMBER],
        max_steps=[0, -1, 1.5, NAN, "x", None],
        env_kwargs=[3, "x", [1], {"no": 1}, {3: 4}, {"slip": "x"}],
    )  # fmt: skip
    compare = partial(library.compare, env=GRID, w=W, risks=[rasf.MeanVariance(0.0)], episodes=3, max_steps=20)
    yield from vary(
        f"{name}.compare", compare,
        risks=[
            None, 3, [], {}, "x", [None], {"a": None}, {3: rasf.MeanVariance(0.0)}, rasf.MeanVariance(0.0),
            [rasf.MeanVariance(0.0)] * 2, [rasf.MeanVariance],
        ],
        callback=[3, "x", takes_nothing],
        w=[[W, W]],
    )  # fmt: skip
    compared = compare()
    yield from vary("Comparison.difference", partial(compared.difference, "neutral"), measure=["x", None, 3])
    yield Case("Comparison.difference(no such risk)", partial(compared.difference, "x"))


# --- files


def files(kit: Kit) -> Iterator[Case]:
    """`save`, `load`, `merge`, and files that were damaged or forged."""
    (kit.folder / "a_file").write_text("text")
    (kit.folder / "a_folder").mkdir()
    targets = [None, 3, "", "a_folder", Serve("new/folder/a.rasf"), "a_file/a.rasf", "\0", "a" * 5000]
    yield from vary("save", kit.tables.save, path=targets)
    yield from vary("save", partial(kit.tables.save, "b.rasf"), precision=["x", None, 3, "half", ""])
    whole = (kit.folder / "tables.rasf").read_bytes()
    length = struct.unpack("<Q", whole[:8])[0] if len(whole) > 8 else 0
    damaged = {
        "empty": b"",
        "text": b"hello",
        "zeros": bytes(100),
        "cut short": whole[:-10],
        "cut in the header": whole[: min(40, length)],
        "longer": whole + b"x",
        "a bit": whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:],
        "a bit of the header": whole[:50] + bytes([whole[50] ^ 1]) + whole[51:],
        "a length of 2^60": struct.pack("<Q", 2**60) + whole[8:],
        "deep JSON": struct.pack("<Q", 200_000) + b"[" * 100_000 + b"]" * 100_000,
    }
    for name, content in damaged.items():
        path = kit.folder / f"damaged {name}.rasf"
        path.write_bytes(content)
        yield Case(f"load({name})", partial(rasf.load, path))
    for path in (None, 3, "", "no-such.rasf", "a_folder", "a_file", "/dev/null", "\0", []):
        yield Case(f"load({_shown(path)})", partial(rasf.load, path))
    for libraries in (None, 3, [], [3], [kit.tables, kit.networks], kit.tables, [kit.tables, None]):
        yield Case(f"merge({_shown(libraries)})", partial(rasf.merge, libraries))
    yield from _forged(kit)


def _forged(kit: Kit) -> Iterator[Case]:
    header, arrays = load_file(kit.folder / "tables.rasf")
    environment, sources = header["environment"], header["sources"]

    def load(name: str, changed: Any, parts: Any = arrays) -> rasf.PolicyLibrary:
        path = kit.folder / f"forged {name}.rasf"
        save_file(path, changed, parts)
        return rasf.load(path)

    def changed_environment(**change: Any) -> dict[str, Any]:
        return header | {"environment": environment | change}

    headers = {
        "nothing": {},
        "no environment": {name: part for name, part in header.items() if name != "environment"},
        "environment null": header | {"environment": None},
        "environment a list": header | {"environment": []},
        "policies none": header | {"policies": []},
        "policies of text": header | {"policies": ["x"]},
        "a risk that is none": header | {"policies": [{"w": W, "risk": "evil:1"}] * 2},
        "weights of text": header | {"policies": [{"w": ["a"] * 4, "risk": "neutral"}] * 2},
        "agent unknown": header | {"agent": "evil"},
        "notes numbers": header | {"notes": [3]},
        "sources null": header | {"sources": None},
        "law unknown": header | {"sources": sources | {"law": "evil"}},
        "law of networks": header | {"sources": sources | {"law": "histogram"}},
        "gamma text": header | {"sources": sources | {"gamma": "x"}},
        "gamma 7": header | {"sources": sources | {"gamma": 7.0}},
        "calibration empty": header | {"calibration": {}},
        "id module": changed_environment(id="evil_mod:X-v0"),
        "id number": changed_environment(id=3),
        "kwargs list": changed_environment(kwargs=[]),
        "actions 0": changed_environment(n_actions=0),
        "actions 10^15": changed_environment(n_actions=10**15),
        "actions text": changed_environment(n_actions="4"),
        "features 10^9": changed_environment(n_features=10**9),
        "bounds text": changed_environment(bounds="x"),
        "bounds of three": changed_environment(bounds=[[0, 1, 2]] * 4),
        "space unknown": changed_environment(observations={"kind": "evil"}),
        "space empty": changed_environment(observations={}),
        "space of 10^12": changed_environment(
            observations={"kind": "box", "shape": [10**12], "dtype": "float64", "low": 0, "high": 1}
        ),
        "names numbers": changed_environment(feature_names=[1, 2, 3, 4]),
        "names twice": changed_environment(feature_names=["a"] * 4),
    }
    for name, one in headers.items():
        must = "either" if name == "a risk that is none" else "refuse"  # which is kept by its name
        yield Case(f"load(forged: {name})", partial(load, name, one), must)
    for name in arrays:
        yield Case(
            f"load(forged without {name})",
            partial(load, "without", header, {key: part for key, part in arrays.items() if key != name}),
            "either" if name.startswith("history/") else "refuse",
        )
        yield Case(
            f"load(forged, {name} shorter)",
            partial(load, "shorter", header, arrays | {name: arrays[name][..., :-1].copy()}),
            "refuse" if arrays[name].ndim else "either",
        )
    yield Case("load(forged, more arrays)", partial(load, "more", header, arrays | {"evil": np.zeros(3)}))

    def evaluate(name: str, env_id: str, kwargs: dict[str, Any]) -> Any:
        library = load(name, changed_environment(id=env_id, kwargs=kwargs, max_episode_steps=None))
        return library.evaluate(env_id, W, episodes=2, max_steps=10)

    for name, env_id, kwargs in (
        ("a module", "rasf/Highway-v0", {"config": {"other_vehicles_type": "evil_mod.X"}}),
        ("a module of MO", "mo-highway-v0", {"config": {"other_vehicles_type": "evil_mod.X"}}),
        ("many vehicles", "rasf/Highway-v0", {"config": {"vehicles_count": 30_000_000}}),
        ("a path", "minecart-v0", {"config": "/etc/passwd"}),
        ("many machines", "rasf/Machines-v0", {"count": 12}),
        ("a wrapper", GRID, {"additional_wrappers": []}),
        ("a large map", GRID, {"layout": "S" * 10**6}),
        ("a bad map", GRID, {"layout": "SSS"}),
        ("a bad slip", GRID, {"slip": "x"}),
        ("another environment", "rasf/Machines-v0", {}),
        ("an unknown id", "no-such-v0", {}),
    ):
        yield Case(f"evaluate(forged: {name})", partial(evaluate, name, env_id, kwargs))


# --- logs


def logs(kit: Kit) -> Iterator[Case]:
    """`learn_from`, `Log`, `evaluate_from` and `Recorder`."""
    learn_from = partial(rasf.learn_from, kit.log, tasks=[[1.0, 1.0]], resamples=5)
    yield Case("warm learn_from()", learn_from, "serve")
    yield from vary(
        "learn_from", learn_from,
        tasks=[None, [], 0, -1, 1.5, "x", [[1.0]], [[NAN, 0.0]], True],
        risk=[*RISKS, rasf.CVaR(0.1)],
        gamma=[-1, 2, NAN, "x", True],
        seed=SEEDS,
        least_tries=[0, -1, 1.5, "x", None, NAN],
        resamples=[Either(0), -1, 1.5, "x", None],
        env=[3, "no-such-v0", GRID],
        phi=[3, "x"],
        no_such_setting=[1],
    )  # fmt: skip
    for data in (None, 3, "", "no-such.npz", "a_folder", "a_file", {}, [], "minari:no/such-v0", kit.tables):
        yield Case(f"learn_from(data={_shown(data)})", partial(rasf.learn_from, data, tasks=[[1.0, 1.0]]))
    wrong: dict[str, list[Any]] = {
        "obs": [None, "x", np.full((100, 1), NAN), np.zeros((99, 1)), np.zeros((0, 1)), [["a"]] * 100,
                np.zeros((100, 1, 1, 1)), [object()] * 100, np.zeros((100, 0))],
        "actions": [None, "x", [0.6] * 100, [NAN] * 100, [INF] * 100, [1e18] * 100, [10**15] * 100, ["a"] * 100,
                    [0] * 99, [[0, 1]] * 100, [None] * 100, [10**7] * 100],
        "phi": [None, "x", np.full((100, 2), NAN), np.full((100, 2), INF), [["a", "b"]] * 100, np.zeros((99, 2)),
                np.zeros((100, 0)), np.zeros((100, 2, 2)), Either(np.full((100, 2), 1e300))],
        "next_obs": ["x", np.full((100, 1), NAN), np.zeros((99, 1)), np.zeros((100, 2))],
        "terminated": [None, "x", [0.5] * 100, [NAN] * 100, ["no"] * 100, [True] * 99, [7] * 100, [None] * 100],
        "truncated": ["x", [0.5] * 100, [True] * 99],
        "episode": ["x", [0.5] * 100, [NAN] * 100, [1] * 99, [0, 1] * 50, [-1.5] * 100],
        "failure": ["x", ["no"] * 100, [0.5] * 100, [True] * 99, [NAN] * 100],
        "unknown": [[1] * 100],
    }  # fmt: skip
    for name, values in wrong.items():
        for number, value in enumerate(values):
            must = "either" if isinstance(value, Either) else "refuse"
            value = value.value if isinstance(value, Either) else value
            log = kit.log | {name: value}
            call = partial(rasf.learn_from, log, tasks=[[1.0, 1.0]], resamples=5)
            yield Case(f"learn_from({name} {number}: {_shown(value)[:30]})", call, must)
    for name in ("obs", "actions", "phi", "terminated"):
        log = {key: part for key, part in kit.log.items() if key != name}
        yield Case(f"learn_from(without {name})", partial(rasf.learn_from, log, tasks=[[1.0, 1.0]]))
    yield from _log_files(kit)
    log = rasf.Log.read(kit.log)
    for path in (None, 3, "", "a.txt", "a_folder", "a_file/a.npz", "\0"):
        yield Case(f"Log.save({_shown(path)})", partial(log.save, path))
    for data in (None, 3, kit.log, "a_file"):
        yield Case(f"evaluate_from({_shown(data)[:40]})", partial(kit.tables.evaluate_from, data, W))
    yield from _recorder(kit)


def _log_files(kit: Kit) -> Iterator[Case]:
    def learn_from(path: Path) -> Any:
        return rasf.learn_from(path, tasks=[[1.0, 1.0]], resamples=5)

    for name, content in (
        ("empty.npz", b""),
        ("text.npz", b"hello"),
        ("empty.parquet", b""),
        ("text.parquet", b"PAR1"),
    ):
        (kit.folder / name).write_bytes(content)
        yield Case(f"learn_from({name})", partial(learn_from, kit.folder / name))
    described = {"id": "evil:X", "kwargs": {}, "observations": {}, "n_actions": 2}
    forged = {
        "no environment": "[]",
        "half an environment": json.dumps(described),
        "deep": "[" * 100_000 + "]" * 100_000,
        "not JSON": "{",
        "a number": "3",
    }
    for name, text in forged.items():
        path = kit.folder / f"{name}.npz"
        np.savez(path, **kit.log, environment=np.array(text))
        yield Case(f"learn_from(npz with {name})", partial(learn_from, path))
    objects = kit.folder / "objects.npz"
    np.savez(objects, **kit.log | {"phi": np.array([{}] * 100, object)})
    yield Case("learn_from(npz with objects)", partial(learn_from, objects))
    declared = kit.folder / "declared.npz"
    _declaring_npz(declared, (10**12, 2))
    yield Case("learn_from(npz that declares 10^12 rows)", partial(learn_from, declared))
    folder = kit.folder / "odd log"
    folder.mkdir()
    save_file(folder / "part-000000.rasf", {"kind": "log", "environment": {}}, {"action": np.zeros(3)})
    yield Case("learn_from(folder with half a header)", partial(learn_from, folder))


def _declaring_npz(path: Path, shape: tuple[int, ...]) -> None:
    """An .npz whose array declares a shape that its bytes do not have."""
    import io
    import zipfile

    with zipfile.ZipFile(path, "w") as file:
        for name in ("obs", "actions", "phi", "terminated"):
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
            file.writestr(f"{name}.npy", header.getvalue() + bytes(64))


def _recorder(kit: Kit) -> Iterator[Case]:
    def record(action: Any = 0, env: Any = None, reset: bool = True, **options: Any) -> None:
        made = gym.make(GRID, disable_env_checker=True) if env is None else env
        recorder = rasf.Recorder(made, options.pop("folder", kit.folder / f"rec{id(made)}"), **options)
        try:
            if reset:
                recorder.reset(seed=0)
            recorder.step(action)
        finally:
            recorder.close()

    yield Case("warm Recorder()", record, "serve")
    yield from vary(
        "Recorder", record,
        env=[3, GRID, gym.make("CartPole-v1")],
        folder=[None, 3, Either(""), "a_file", "\0"],
        steps_per_part=[0, -1, 1.5, "x", None],
        seconds_per_part=[-1, NAN, "x", None],
        phi=[3, "x", takes_nothing, NOTHING],
        action=[0.6, "x", None, 99, -1, NAN, [0, 1], 10**30],
        reset=[False],
    )  # fmt: skip
    for env in ODD:
        if "actions" not in env.wrong and env.wrong not in ("changing reward", " reward 1e300"):
            must = "either" if env.wrong == " terminated None" else "refuse"
            yield Case(f"Recorder({_shown(env)})", partial(record, env=env), must)
    yield from vary("FeatureReward", partial(rasf.FeatureReward, gym.make("CartPole-v1"), returning([1.0], "one")),
                    bounds=[3, "x", [[1, 0]], [[NAN, 1]], [[0, 1, 2]]])  # fmt: skip
    for env, phi in ((None, NOTHING), (gym.make("CartPole-v1"), 3), (3, NOTHING), (GRID, NOTHING)):
        yield Case(f"FeatureReward({_shown(env)}, {_shown(phi)})", partial(rasf.FeatureReward, env, phi))


# --- exact planning


def planning(kit: Kit) -> Iterator[Case]:
    """`FiniteMDP`, `plan`, `plan_static`, `static_gpi`, `certificate`, `simulate`, limits."""
    P, phi = np.full((2, 1, 2), 0.5), np.zeros((2, 1, 2, 2))
    yield from vary(
        "FiniteMDP", partial(rasf.FiniteMDP, P=P, phi=phi),
        P=[None, 3, "x", [], np.ones((2, 1, 2)), -P, P * NAN, np.ones((2, 1)), np.full((2, 1, 3), 1 / 3), [["a"]],
           np.zeros((2, 1, 2)), np.full((2, 0, 2), 0.5), P * INF],
        phi=[None, 3, "x", np.zeros((2, 1)), phi * NAN, phi + INF, [["a"]], np.zeros((2, 1, 2, 0))],
        terminal=[3, [5], [-1], ["x"], [0.5], [NAN], "x", None, [[0]]],
        gamma=[None, "x", NAN, INF, 2.0, -0.1, Either(True), [0.9]],
    )  # fmt: skip
    rows = [(0, 0, 0, 1.0, [1.0])]
    yield from vary(
        "from_transitions", partial(rasf.FiniteMDP.from_transitions, rows, 1, 1),
        gamma=[None, "x", NAN], terminal=[[9], "x"],
    )  # fmt: skip
    for bad in (None, 3, [], [3], ["x"], [(0, 0, 0, 1.0)], [(9, 0, 0, 1.0, [1.0])], [(0, 0, 0, 0.5, [1.0])],
                [(0, 0, 0, NAN, [1.0])], [(0, 0, 0, 1.0, [NAN])], [(0, 0, 0, 1.0, "x")], [("a", 0, 0, 1.0, [1.0])],
                [(0.5, 0, 0, 1.0, [1.0])], [(0, 0, 0, 1.0, [1.0]), (0, 0, 0, 0.0, [1.0, 2.0])],
                [(-1, 0, 0, 1.0, [1.0])]):  # fmt: skip
        yield Case(f"from_transitions({_shown(bad)})", partial(rasf.FiniteMDP.from_transitions, bad, 1, 1))
    for size in (0, -1, 1.5, "x", None, HUGE):
        yield Case(f"from_transitions(n_states={size})", partial(rasf.FiniteMDP.from_transitions, rows, size, 1))
        yield Case(f"from_transitions(n_actions={size})", partial(rasf.FiniteMDP.from_transitions, rows, 1, size))
    two: list[Any] = [
        None, 3, "x", [], [1.0], [NAN, 0.0], [INF, 0.0], ["a", "b"], [[1.0], [1.0, 2.0]], Either([1e300, 0.0]),
        Either([1e308, 1e308]),
    ]  # fmt: skip
    horizons: list[Any] = [0, -1, 1.5, NAN, "x", True, Either(HUGE), Either(10**30), [3]]
    starts: list[Any] = [-1, 99, 1.5, None, "x", NAN, [0]]
    tolerances: list[Any] = [0, -1.0, NAN, INF, "x", None]
    other_risks = [risk for risk in RISKS if risk is not None]
    mdp, w = kit.mdp, [1.0, -1.0]
    no_mdp = [None, "x", P]
    plan = partial(rasf.plan, mdp=mdp, w=w, risk=rasf.Entropic(-1.0))
    yield Case("warm plan()", plan, "serve")
    yield from vary("plan", plan, mdp=no_mdp, w=two, risk=[None, *other_risks, rasf.CVaR(0.1)], horizon=horizons,
                    tolerance=tolerances)  # fmt: skip
    static = partial(rasf.plan_static, mdp=mdp, w=w, risk=rasf.CVaR(0.1), start=0, horizon=3)
    yield Case("warm plan_static()", static, "serve")
    levels = [0, -1, 1.5, "x", NAN, 10**9, HUGE]
    yield from vary("plan_static", static, mdp=no_mdp, w=two, risk=[None, *other_risks], start=starts,
                    horizon=horizons, levels=levels)  # fmt: skip
    found = static()
    for step, state, accrued in ((-1, 0, 0.0), (99, 0, 0.0), (0, -1, 0.0), (0, 99, 0.0), (0, 1.5, 0.0), (0, "x", 0.0),
                                 (0, 0, NAN), (0, 0, "x"), (0, 0, None), (None, 0, 0.0), (1.5, 0, 0.0),
                                 (0, 0, [0.0, 1.0])):  # fmt: skip
        yield Case(f"StaticPlan.action({step}, {state}, {accrued})", partial(found.action, step, state, accrued))
    policies: list[Any] = [
        None, 3, [], "x", [[9, 9, 9]], [[0]], [[0.5] * 3], [["a"] * 3], [[-1, 0, 0]], [None], [[NAN] * 3],
    ]  # fmt: skip
    gpi = partial(rasf.static_gpi, mdp=mdp, policies=[[0, 0, 0]], w=w, risk=rasf.CVaR(0.1), start=0, horizon=3)
    yield Case("warm static_gpi()", gpi, "serve")
    yield from vary("static_gpi", gpi, mdp=no_mdp, policies=policies, w=two, risk=[None, *other_risks], start=starts,
                    horizon=horizons, levels=levels, search=["no"])  # fmt: skip
    certificate = partial(rasf.certificate, mdp=mdp, sources=[[0, 0, 0]], w=w, risk=rasf.Entropic(-1.0))
    yield Case("warm certificate()", certificate, "serve")
    yield from vary(
        "certificate", certificate,
        mdp=no_mdp, sources=policies, w=two, risk=[None, *other_risks, rasf.CVaR(0.1), rasf.MeanVariance(0.0)],
        horizon=horizons, tolerance=tolerances, epsilon=[-1.0, NAN, "x", [1.0]],
        scores=["x", 3, [[NAN]], np.zeros((1, 3, 9)), np.full((1, 3, 2), NAN)],
    )  # fmt: skip
    evaluate = partial(rasf.evaluate_policy, mdp=mdp, policy=[0, 0, 0], w=w)
    single = [None, 3, [], "x", [9, 9, 9], [0], [0.5] * 3, ["a"] * 3, [-1, 0, 0], [NAN] * 3]
    yield from vary("evaluate_policy", evaluate, mdp=no_mdp, policy=single, w=two, risk=[None, *other_risks],
                    horizon=horizons, tolerance=tolerances)  # fmt: skip
    moments = partial(rasf.successor_moments, mdp=mdp, policy=[0, 0, 0])
    yield from vary("successor_moments", moments, mdp=no_mdp, policy=single, horizon=horizons)
    simulate = partial(rasf.simulate, mdp=mdp, policy=[0, 0, 0], start=0, steps=5, episodes=5, seed=0)
    yield Case("warm simulate()", simulate, "serve")
    yield from vary("simulate", simulate, mdp=no_mdp, policy=single, start=starts, seed=["x", -1, 1.5],
                    steps=[0, -1, 1.5, "x", None, HUGE], episodes=[Either(0), -1, 1.5, "x", None, HUGE])  # fmt: skip
    limits = [None, *LIMITS[:-2]]
    for name, function, more in (
        ("plan_limited", rasf.plan_limited, {}), ("limited_gpi", rasf.limited_gpi, {"policies": [[0, 0, 0]]})
    ):  # fmt: skip
        call = partial(function, mdp=mdp, w=w, limits={0: 0.5}, start=0, **more)
        yield Case(f"warm {name}()", call, "serve")
        yield from vary(name, call, mdp=no_mdp, w=two, limits=limits, start=starts, horizon=horizons)
    yield from vary("limited_gpi", call, policies=policies)


# --- risks, transfer, weights, limits


def mathematics(kit: Kit) -> Iterator[Case]:
    """Risk measures, GPE and GPI, `Limit`, and weights from rewards."""
    for kind in (rasf.MeanVariance, rasf.Entropic, rasf.NestedEntropic, rasf.Elliptical):
        yield from vary(kind.__name__, kind, beta=["x", NAN, INF, None, {}, Either(True)])
    yield from vary("CVaR", rasf.CVaR, alpha=[0, -0.1, 1.5, NAN, "x", None, [0.1, 0.2]])
    yield from vary("Elliptical", partial(rasf.Elliptical, -1.0), law=["x", None, 3, ["normal"]])
    for risk in (rasf.CVaR(0.1), rasf.Entropic(-1.0), rasf.MeanVariance(-1.0)):
        name = type(risk).__name__
        yield from vary(f"{name}.samples", partial(risk.samples, x=np.array([1.0, 2.0])),
                        x=[np.zeros(0), Either(np.array([NAN, 1.0])), Either(3.0)],
                        weights=[np.ones(1), Either(np.array([-1.0, 2.0])), Either(np.array([NAN, 1.0]))])  # fmt: skip
    scores: list[Any] = [
        None, 3.0, "x", [], [1.0], [["a"]], np.full((2, 3, 2), NAN), np.zeros((2, 0)), np.zeros((0, 2)),
        [[1.0], [1.0, 2.0]], [[NAN, 1.0]],
    ]  # fmt: skip
    yield from vary("gpi", rasf.gpi, scores=scores)
    psi, Sigma = np.zeros((2, 3, 2, 2)), np.zeros((2, 3, 2, 2, 2))
    for name, function in (("gpe", rasf.gpe), ("gpi_policy", rasf.gpi_policy)):
        yield from vary(
            name, partial(function, psi=psi, Sigma=Sigma, w=np.ones(2), risk=rasf.MeanVariance(-1.0)),
            psi=[None, "x", 3.0, np.zeros((2, 3)), Either(psi * NAN)],
            Sigma=[None, "x", 3.0, np.zeros((2, 3)), Either(Sigma * NAN), Either(-np.ones((2, 3, 2, 2, 2)))],
            w=[None, "x", 3.0, [1.0], Either([NAN, 1.0]), ["a", "b"]],
            risk=[*RISKS, Either(rasf.CVaR(0.1))],
        )  # fmt: skip
    stepping = partial(rasf.gpi_policy, psi=psi, Sigma=Sigma, w=np.ones(2), risk=rasf.MeanVariance(-1.0))
    aware = partial(stepping, discount_aware=True)
    yield from vary("gpi_policy-aware", aware, gamma=[None, 2.0, -1.0, NAN, "x"], steps=[-1, 1.5, "x", NAN, HUGE])
    yield Case("Limit()", rasf.Limit)
    yield from vary("Limit", rasf.Limit, at_most=[NAN, INF, "x", [], None], at_least=[NAN, -INF, "x"])
    yield Case("Limit(both)", partial(rasf.Limit, at_most=1.0, at_least=0.0))
    yield from vary("Limit", partial(rasf.Limit, 1.0), per_episode=["no"])
    phis, rewards = np.eye(3), np.ones(3)
    yield from vary(
        "infer_weights", partial(rasf.infer_weights, phis=phis, rewards=rewards),
        phis=[None, "x", 3.0, [], np.zeros((2, 3)), phis * NAN, [["a"]], np.zeros((3, 0)), np.full((3, 3), INF),
              Either(phis * 1e300)],
        rewards=[None, "x", 3.0, [], np.ones(4), rewards * NAN, ["a"] * 3, np.ones((3, 2)), rewards * INF],
    )  # fmt: skip
    for d in (0, -1, 1.5, "x", None, HUGE, True):
        yield Case(f"WeightLearner({d})", partial(rasf.WeightLearner, d))
    for phis_, rewards_ in ((None, None), ([[1.0]], [1.0]), ([[NAN, 0.0]], [1.0]), ([[1.0, 0.0]], [NAN]), ("x", "y"),
                            ([[1.0, 0.0]], [1.0, 2.0])):  # fmt: skip
        call = partial(rasf.WeightLearner(2).update, phis_, rewards_)
        yield Case(f"WeightLearner.update({phis_}, {rewards_})", call)
    yield Case("WeightLearner.estimate before update", rasf.WeightLearner(2).estimate, "either")
    estimate = rasf.infer_weights(phis, rewards)
    yield from vary("WeightEstimate.error_of", estimate.error_of, phi=[None, "x", [1.0], [NAN] * 3, []])


# --- the command line


def command_line(kit: Kit) -> Iterator[Case]:
    """Flags, configuration files and sweeps."""
    from typer.main import get_command

    from rasf.cli.main import app

    command = get_command(app)

    def run(*arguments: str) -> object:
        code = command.main(list(arguments), prog_name="rasf", standalone_mode=False)
        if code not in (0, None):
            raise SystemExit(code)
        return code

    def case(text: str, must: str = "refuse") -> Case:
        return Case(f"rasf {text}", partial(run, *text.split(" ")), must)

    train = f"train {GRID} --w -1,10,0,-10 --steps-per-task 20 --agent rasfql --overwrite --out out.rasf"
    yield case(train, "serve")
    for flags in (
        "--gamma 2", "--gamma x", "--gamma nan", "--seed -1", "--seed x", "--agent x", "--risk x", "--risk cvar:2",
        "--risk cvar:x", "--risk mean-variance:nan", "--w x", "--w 1", "--w nan,0,0,0", "--w 1,2,3,4,5", "--tasks 3",
        "--steps-per-task 0", "--steps-per-task 1.5", "--steps-per-task x", "--num-envs 0", "--num-envs 8", "--set x",
        "--set x=1", "--set epsilon=x", "--set epsilon=9", "--set epsilon=nan", "--set tasks=3", "--env-arg x",
        "--env-arg no=1", "--env-arg slip=x", "--env-arg slip=nan", "--env-arg slip=1 --env-arg slip=2", "--support x",
        "--support 0,1", "--once x", "--once 9", "--extra-tasks -1", "--extra-tasks 3", "--phi x", "--phi no_such:f",
        "--phi json:dumps", "--phi json:no", "--failure x", "--failure json:no", "--grow no-such.rasf",
        "--grow a_file", "--grow networks.rasf", "--log a_folder", "--log out.rasf", "--out a_folder",
        "--out a_file/a.rasf", "--tensorboard a_file", "--from no-such", "--from a_folder", "--config no-such.toml",
        "--config a_file", "--no-such-flag", "--tasks-file a_file", "--tasks-file no-such.csv",
    ):  # fmt: skip
        yield case(f"{train} {flags}")
    for text in (
        "", "no-such-command", "train", f"train {GRID}", f"train {GRID} --w 1,1,1,1", "train --out a.rasf",
        "train no-such-v0 --tasks 1 --out a.rasf", "train no_such:X-v0 --tasks 1 --out a.rasf",
        "train : --tasks 1 --out a.rasf", "train CartPole-v1 --tasks 1 --out a.rasf", "evaluate",
        "evaluate no-such.rasf", "evaluate a_file", "evaluate a_folder", "calibrate", "calibrate no-such.rasf",
        "calibrate a_file", "explore no-such.rasf", "explore a_file", "explore --env a:B-v0", "explore --port 0",
        "explore --port x", "explore --host no.such.host.invalid", "explore --seed -1", "suite no-such",
        "suite --preset x", "suite --rival x", "reproduce", "reproduce x", "reproduce grid --preset x",
        "reproduce grid --seed -1", "bench --only no-such", "sweep", "sweep no-such.toml", "sweep a_file",
        "sweep status", "sweep status no-such", "sweep status a_folder", "claims x", "demo x",
    ):  # fmt: skip
        yield case(text)
    evaluate = "evaluate tables.rasf --w -1,10,0,-10 --episodes 3 --max-steps 10"
    yield case(evaluate, "serve")
    yield case("evaluate tables.rasf", "serve")
    for flags in (
        "--w x", "--w 1", "--w nan,1,1,1", "--episodes 1", "--episodes x", "--episodes 1.5", "--seed -1", "--risk x",
        "--risk cvar:0", "--max-steps 0", "--limit x", "--limit no=1", "--limit 9=1", "--limit 0=x", "--limit 0=nan",
        "--limit 0=1 --floor 0=1", "--limit 0=1/episode", "--json a_folder", "--json a_file/a.json", "--plot a.txt",
        "--plot a_file/a.png", "--env no-such-v0", "--env rasf/Machines-v0", "--env-arg no=1", "--env-arg slip=x",
        "--phi x", "--phi json:dumps", "--failure x", "--static --discount-aware", "--config a_file",
    ):  # fmt: skip
        yield case(f"{evaluate} {flags}")
    calibrate = "calibrate tables.rasf --out cal.rasf --episodes 60 --tasks 3"
    for flags in (
        "--episodes 0", "--episodes x", "--tasks 0", "--tasks x", "--w 1", "--w nan,1,1,1", "--risk x", "--seed -1",
        "--max-steps 0", "--out a_folder", "--out a_file/a.rasf", "--plot a.txt", "--env no-such-v0", "--phi x",
        "--env-arg no=1",
    ):  # fmt: skip
        yield case(f"{calibrate} {flags}")
    good = f'env = "{GRID}"\nw = [[-1, 10, 0, -10]]\nsteps-per-task = 20\nagent = "rasfql"\nout = "c.rasf"\n'
    good += "overwrite = true\n"
    for number, (change, must) in enumerate((
        ("", "serve"), ("risk = []", "either"),
        *((wrong, "refuse") for wrong in (
            "x = 1", "gamma = 'x'", "gamma = nan", "seed = 1.5", "seed = true", "risk = 3", "[set]\nepsilon = 'x'",
            "[set]\nno = 1", "set = 3", "env-arg = 3", "tasks = 3", "tasks-file = 3", "phi = 3", "= 3", "log = []",
            "num-envs = 1.0", "support = [[1]]", "once = 'x'", "agent = 3", "grow = 3", "gamma = 1979-05-27", "env = 3",
        )),
    )):  # fmt: skip
        path = kit.folder / f"train{number}.toml"
        path.write_text(good.replace('env = "', "#") + change if change == "env = 3" else good + change)
        yield Case(f"rasf train --config ({_shown(change)})", partial(run, "train", "--config", str(path)), must)
    yield from _sweeps(kit, run)


def _sweeps(kit: Kit, run: Callable[..., object]) -> Iterator[Case]:
    good = {
        "sweep": '"rooms"', "kind": '"learn"', "seeds": "1",
        "parameters": f'{{env = "{GRID}", tasks = [[-1, 10, 0, -10]], steps_per_task = 20, agent = "rasfql"}}',
    }  # fmt: skip
    parameters = good["parameters"][1:-1]
    changes: list[tuple[str, dict[str, str], str]] = [("good", {}, "serve")]
    for name, value in (
        ("sweep", "3"), ("sweep", '""'), ("sweep", '"../x"'), ("kind", '"x"'), ("kind", '"no_such:x"'), ("kind", "3"),
        ("seeds", "0"), ("seeds", "-1"), ("seeds", "[]"), ("seeds", "1.5"), ("seeds", '"x"'), ("seeds", "[1, 1]"),
        ("seeds", str(HUGE)), ("parameters", "3"), ("parameters", "{}"), ("grid", "3"), ("grid", "{risk = []}"),
        ("grid", "{no = [1]}"), ("grid", "{gamma = [0.5, 'x']}"), ("limits", "3"), ("limits", "{seconds = -1}"),
        ("limits", "{no = 1}"), ("limits", "{memory_gb = 1e9}"), ("limits", "{seconds = 'x'}"), ("evaluate", "3"),
        ("evaluate", "{no = 1}"), ("evaluate", "{episodes = 0}"), ("evaluate", "{tasks = [[1]]}"),
        ("evaluate", "{risk = 'x'}"), ("unknown", "1"), ("list", "3"), ("list", "[{no = 1}]"),
        *(("parameters", f"{{{parameters}, {more}}}") for more in (
            "gamma = 2", "gamma = 'x'", "no = 1", "epsilon = 'x'", "num_envs = 0", "risk = 'x'", "support = 3",
            "env_kwargs = 3", "env_kwargs = {no = 1}", "learn_w = 3", "phi = 'x'", "seed = 3", "callback = 3",
        )),
        ("parameters", f'{{env = "{GRID}", tasks = [[1]]}}'), ("parameters", '{env = "no-such-v0", tasks = 1}'),
        ("parameters", '{env = 3, tasks = 1}'), ("parameters", f'{{env = "{GRID}", tasks = "no.csv"}}'),
        ("parameters", f'{{env = "{GRID}", tasks = 0}}'), ("parameters", f'{{env = "{GRID}"}}'),
    ):  # fmt: skip
        changes.append((f"{name} = {value}", {name: value}, "refuse"))
    for number, (name, change, must) in enumerate(changes):
        text = "\n".join(f"{key} = {value}" for key, value in (good | change).items())
        tomllib.loads(text)
        path = kit.folder / f"sweep{number}.toml"
        path.write_text(text)
        yield Case(f"rasf sweep ({name})", partial(run, "sweep", str(path), "--dry-run"), must)


SECTIONS = (mathematics, planning, learning, acting, files, logs, command_line)
