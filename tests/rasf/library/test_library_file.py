"""Saved libraries come back as they were; whatever a file says that cannot be is refused, and nothing crashes."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from library_worlds import random_world

import rasf
import rasf.agents
from rasf import CVaR, Entropic, MeanVariance
from rasf import files as storage

OLD = Path(__file__).parent / "data"
NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-1.0)
W = [0.6, -0.4]
AGENTS = {
    "rasfql": {},
    "sfql": {},
    "sfdqn": {"widths": (8,), "batch": 4},
    "sfdqn-residual": {"widths": (8,), "batch": 4},
    "rasfc51": {"widths": (8,), "batch": 4, "atoms": 5},
}
SERVED = {
    "rasfql": (NEUTRAL, AVERSE, CVaR(0.3)),
    "sfql": (NEUTRAL,),
    "sfdqn": (NEUTRAL,),
    "sfdqn-residual": (NEUTRAL, AVERSE),
    "rasfc51": (NEUTRAL, AVERSE, Entropic(-2.0)),
}


def world():
    show = lambda s: {"where": s, "how": np.array([s / 3, 1.0])}  # noqa: E731
    space = spaces.Dict({"where": spaces.Discrete(4), "how": spaces.Box(-1.0, 1.0, (2,), np.float64)})
    return random_world(2, space=space, show=show, first_action=2)


OBS = {"where": np.arange(4), "how": np.array([[s / 3, 1.0] for s in range(4)])}


@pytest.fixture(scope="module")
def libraries():
    return {
        agent: rasf.learn(world(), tasks=[[1, 0], [0.5, 1]], agent=agent, steps_per_task=40, **options)
        for agent, options in AGENTS.items()
    }


def behaviour(library, agent):
    found = []
    for risk in SERVED[agent]:
        scores = library.scores(OBS, W, risk)
        found += [scores.values, scores.mean, scores.std, scores.seen, scores.source]
        found.append(library.act(OBS, W, risk))
        found.append([library.act({"where": s, "how": OBS["how"][s]}, W, risk) for s in range(4)])
    return found


def assert_same(one, other, agent):
    for mine, theirs in zip(behaviour(one, agent), behaviour(other, agent), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_saved_library_comes_back_as_it_was(libraries, agent, tmp_path):
    library = libraries[agent]
    library.save(tmp_path / "a.rasf")
    again = rasf.load(str(tmp_path / "a.rasf"))
    assert_same(library, again, agent)
    for name in ("environment", "policies", "agent", "notes", "provenance", "gamma"):
        assert getattr(again, name) == getattr(library, name)
    assert again.history.keys() == library.history.keys()
    for name, part in library.history.items():
        np.testing.assert_array_equal(again.history[name], part)
    again.save(tmp_path / "b.rasf")
    assert (tmp_path / "a.rasf").read_bytes() == (tmp_path / "b.rasf").read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.rasf", "b.rasf"]


@pytest.mark.parametrize("agent", ["sfdqn-residual", "rasfc51"])
def test_half_precision_takes_half_the_room_and_is_rounded_once(libraries, agent, tmp_path):
    library = libraries[agent]
    library.save(tmp_path / "half.rasf", precision="half")
    half = rasf.load(tmp_path / "half.rasf")
    half.save(tmp_path / "again.rasf", precision="half")
    assert_same(half, rasf.load(tmp_path / "again.rasf"), agent)
    for name, part in library.sources.arrays().items():
        rounded = part if name == "atoms" else part.astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(half.sources.arrays()[name], rounded)
    np.testing.assert_allclose(half.scores(OBS, W, NEUTRAL).mean, library.scores(OBS, W, NEUTRAL).mean, atol=0.02)


def test_a_loaded_library_goes_on_as_the_saved_one(libraries, tmp_path):
    libraries["rasfql"].save(tmp_path / "a.rasf")
    again = rasf.load(tmp_path / "a.rasf")
    reports = [one.evaluate(world(), W, AVERSE, 10) for one in (libraries["rasfql"], again)]
    np.testing.assert_array_equal(reports[0].returns, reports[1].returns)
    grown = [one.grow(world(), [[0, 2]], steps_per_task=20, seed=3) for one in (libraries["rasfql"], again)]
    assert_same(*grown, "rasfql")
    assert len(rasf.merge([again, libraries["rasfql"]]).policies) == 4


def test_settings_of_an_environment_come_back_and_make_it_again(tmp_path):
    phi = lambda *_: [1.0, 2.0]  # noqa: E731
    library = rasf.learn(
        "FrozenLake-v1",
        tasks=[[1, 0]],
        steps_per_task=5,
        phi=phi,
        env_kwargs={"desc": ("SF", "FG"), "is_slippery": False},
    )
    library.save(tmp_path / "a.rasf")  # JSON knows no tuples
    again = rasf.load(tmp_path / "a.rasf")
    assert again.environment == library.environment
    assert again.environment.kwargs["desc"] == ["SF", "FG"]
    assert again.evaluate("FrozenLake-v1", [1.0, 0.0], NEUTRAL, 2, phi=phi, max_steps=5).episodes == 2


def test_what_cannot_be_saved_leaves_the_old_file(libraries, tmp_path):
    path = tmp_path / "a.rasf"
    with pytest.raises(ValueError, match="precision must"):
        libraries["rasfql"].save(path, precision="half")
    assert list(tmp_path.iterdir()) == []
    libraries["sfdqn"].save(path)
    before = path.read_bytes()
    for precision in ("double", None):
        with pytest.raises(ValueError, match="precision must"):
            libraries["sfdqn"].save(path, precision=precision)
    with pytest.raises(ValueError, match="is a directory"):
        libraries["sfdqn"].save(tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# --- files of version 0.1, made by its own code


def test_a_table_of_version_0_1_loads_and_answers_as_it_did(tmp_path):
    library = rasf.load(OLD / "table_0_1.rasf")
    assert library.agents == (rasf.agents.AGENTS["rasfql"],)
    assert [policy.risk for policy in library.policies] == [NEUTRAL, NEUTRAL, MeanVariance(-2.0), MeanVariance(-2.0)]
    assert library.environment.kwargs == {"layout": "S.1T\n.X..\n1..G", "trap_probability": 0.3, "step_limit": 15}
    assert library.environment.bounds == ((0.0, 1.0),) * 3
    w = [1.0, 0.5, -2.0]
    first, second = [0.00657255, 0.0056169, 0.00814726, 0.01125152], [0.00657255, 0.11729871, 0.91998966, 0.01125152]
    np.testing.assert_allclose(library.scores([0, 0, 0, 0], w, AVERSE).values[:2], [first, second], atol=5e-9)
    assert library.act([[0, 0, 0, 0], [1, 0, 0, 0]], w, AVERSE).tolist() == [2, 3]
    assert library.evaluate("rasf/FourRoom-v0", w, AVERSE, 3).lengths.max() <= 15
    written_again(library, OLD / "table_0_1.rasf", tmp_path)


def test_networks_of_version_0_1_load_and_answer_as_they_did(tmp_path):
    library = rasf.load(OLD / "network_0_1.rasf")
    assert library.policies == (((1.0, 0.5, -0.1), Entropic(-0.5)),)
    assert (library.environment.id, library.environment.phi, library.environment.bounds) == (
        "FrozenLake-v1",
        "phi",
        None,
    )
    found = library.scores(3, [1, 0.5, 0], Entropic(-1.0)).values
    np.testing.assert_allclose(found, [[1.10379863, 1.05948246, 1.02973711, 0.99967343]], rtol=1e-5)
    assert library.act([0, 3, 9], [1, 0.5, 0], CVaR(0.2)).tolist() == [0, 0, 0]
    written_again(library, OLD / "network_0_1.rasf", tmp_path)


def written_again(library, path, folder):
    """A file written now says what the old one said."""
    library.save(folder / "again.rasf")
    (header, arrays), (old_header, old_arrays) = map(storage.load_file, (folder / "again.rasf", path))
    assert header == old_header
    assert arrays.keys() == old_arrays.keys()
    for name, part in arrays.items():
        np.testing.assert_array_equal(part, old_arrays[name])


def test_a_risk_that_cannot_be_read_back_is_kept_as_its_text(stored, tmp_path):
    header, arrays = copy.deepcopy(stored["rasfql"])
    header["policies"][0]["risk"] = "Mine(level=3)"
    storage.save_file(tmp_path / "a.rasf", header, arrays)
    library = rasf.load(tmp_path / "a.rasf")
    mine, other = (policy.risk for policy in library.policies)
    assert (str(mine), other) == ("Mine(level=3)", NEUTRAL)
    assert library.act(OBS, W, NEUTRAL).shape == (4,)
    with pytest.raises(ValueError, match="risk must"):
        library.act(OBS, W, mine)
    library.save(tmp_path / "b.rasf")
    assert storage.load_file(tmp_path / "b.rasf")[0] == header


# --- files of strangers


def refused(path, header, arrays):
    """The one sentence by which a file with right checksums is refused."""
    storage.save_file(path, header, arrays)
    with pytest.raises(ValueError, match="not a policy library") as reason:
        rasf.load(path)
    text = str(reason.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text


@pytest.fixture(scope="module")
def stored(libraries, tmp_path_factory):
    found = {}
    for agent, library in libraries.items():
        path = tmp_path_factory.mktemp("stored") / "a.rasf"
        library.save(path)
        found[agent] = storage.load_file(path)
    return found


@pytest.mark.parametrize(("change", "said"), [
    (lambda h, a: (h.clear(), a.clear()), "it has no 'environment'"),
    (lambda h, a: h.pop("sources"), "it has no 'sources'"),
    (lambda h, a: h.update(environment=[1, 2]), "its environment must be a dict"),
    (lambda h, a: h.update(policies="ab"), "its policies must be a list"),
    (lambda h, a: h.update(notes="ab"), "its notes must be a list"),
    (lambda h, a: h.update(notes=[1]), "its notes must be a list of text"),
    (lambda h, a: h.update(agent=None), "its agent must be a str"),
    (lambda h, a: h["environment"].update(n_actions=3), "n_actions must agree with the policies, which have 2, got 3"),
    (lambda h, a: h["environment"].update(n_actions=True), "the n_actions of its environment cannot be True"),
    (lambda h, a: h["environment"].update(n_features=3), "each of its policies must have 3 weights"),
    (lambda h, a: h["environment"].update(first_action=2**70), "the first_action of its environment cannot be"),
    (lambda h, a: h["environment"].update(id="os:Env-v0"), "id must not name a module, got 'os:Env-v0'"),
    (lambda h, a: h["environment"].pop("max_episode_steps"), "it has no 'max_episode_steps'"),
    (lambda h, a: h["environment"].update(kwargs=None), "the kwargs of its environment cannot be None"),
    (lambda h, a: h["environment"].update(bounds=[[0.0, 1.0], [0.0]]), "the bounds of its environment must be pairs"),
    (lambda h, a: h["environment"].update(bounds=[[0.0, "1"]]), "the bounds of its environment must be pairs"),
    (lambda h, a: h.update(agent="rasfql + gpt"), "agent must be"),
    (lambda h, a: h.update(agent="rasfc51" if h["agent"] == "rasfql" else "rasfql"), "agents must be of the policies'"),
    (lambda h, a: h["environment"].update(observations={"kind": "discrete", "n": 9, "start": 0}), "an observation"),
    (lambda h, a: h["environment"].update(observations={"kind": "graph"}), "a space's description must be of a"),
    (lambda h, a: h["policies"].pop(), "an entry for each policy"),
    (lambda h, a: h["policies"][0].update(w=[1.0]), "each of its policies must have 2 weights and a risk"),
    (lambda h, a: h["policies"][0].update(w="12"), "each of its policies must have 2 weights and a risk"),
    (lambda h, a: h["policies"][0].update(risk=4), "each of its policies must have 2 weights and a risk"),
    (lambda h, a: h["sources"].update(law="pickle"), "law must be one of"),
    (lambda h, a: h["sources"].update(gamma=1.5), "gamma must"),
    (lambda h, a: h["sources"].update(actions=-1), "actions must"),
    (lambda h, a: a.pop("history/return"), None),
    (lambda h, a: a.update({"history/return": np.zeros(5)}), "its history must have an entry for each policy"),
    (lambda h, a: a.update({"other": np.zeros(5)}), "its arrays must be in sources/ history/ calibration/ model/, got"),
    (lambda h, a: a.update({"sources/more": np.zeros(5)}), "arrays must "),
])  # fmt: skip
def test_a_header_that_cannot_be_is_refused(stored, change, said, tmp_path):
    for agent in ("rasfql", "rasfc51"):
        header, arrays = copy.deepcopy(stored[agent])
        change(header, arrays)
        if said is not None:
            assert said in refused(tmp_path / "a.rasf", header, arrays)
        else:  # less of the history is still a library
            storage.save_file(tmp_path / "a.rasf", header, arrays)
            assert "return" not in rasf.load(tmp_path / "a.rasf").history


@pytest.mark.parametrize("agent", AGENTS)
def test_every_array_is_needed_finite_and_of_its_shape_and_type(stored, agent, tmp_path):
    header, arrays = stored[agent]
    for name in [name for name in arrays if name.startswith("sources/")]:
        part = arrays[name]
        others = [None, part[:-1], part[..., None], np.concatenate([part, part]), part.astype(np.int8)]
        if part.dtype.kind == "f":
            others += [np.full_like(part, np.nan), np.full_like(part, np.inf)]
        elif part.dtype.kind == "i" and part.size:
            others += [part - 1, np.full_like(part, -1), part + 1000 if "row" not in name else part - 10_000]
        for other in others:
            changed = {key: value for key, value in arrays.items() if key != name}
            refused(tmp_path / "a.rasf", header, changed if other is None else changed | {name: other})


def places(value, path=()):
    """All paths into a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


STRANGE = [
    None, True, False, 0, -1, 1, 2, 3, 5, 0.5, -2.5, 1e300, 2**31, 2**53 + 1, 2**63, 2**70, -(2**70), "", "x", "table",
    "point", "discrete", [], [1], [[]], [None], {}, {"kind": "box"}, [1.0, 2.0], "1", "é\u2028",
]  # fmt: skip


def mutated(header, rng):
    """The header with one place changed, taken out, doubled, or given another place's value; and the place."""
    header = copy.deepcopy(header)
    every = [path for path in places(header) if path]
    path = every[rng.integers(len(every))]
    *way, key = path
    holder = header
    for step in way:
        holder = holder[step]
    kind = rng.integers(5)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.append(holder[key])
    elif kind == 2:
        other = header
        for step in every[rng.integers(len(every))]:
            other = other[step]
        holder[key] = copy.deepcopy(other)
    elif kind == 3 and type(holder[key]) is int:
        holder[key] += int(rng.integers(-3, 4))
    else:
        holder[key] = copy.deepcopy(STRANGE[rng.integers(len(STRANGE))])
    return header, path


def try_to_load(path):
    """The library, or None where it is refused in one sentence."""
    try:
        return rasf.load(path)
    except ValueError as error:
        said = str(error)
    assert "\n" not in said
    assert said.startswith(str(path))
    return None


@pytest.mark.parametrize("agent", ["rasfql", "sfdqn-residual", "rasfc51"])
def test_a_mutated_header_is_refused_or_changes_nothing_that_acts(stored, libraries, agent, tmp_path):
    rng, outcomes = np.random.default_rng(8), []
    header, arrays = stored[agent]
    for _ in range(250 if agent == "rasfql" else 120):
        other, path = mutated(header, rng)
        try:
            storage.save_file(tmp_path / "a.rasf", other, arrays)
        except ValueError:
            continue  # no file can hold this
        library = try_to_load(tmp_path / "a.rasf")
        outcomes.append(library is None)
        if library is None:
            continue
        repr(library)
        library.save(tmp_path / "again.rasf")
        assert rasf.load(tmp_path / "again.rasf").environment == library.environment
        if path[:2] == ("environment", "observations"):  # another space, which the policies' sizes fit too
            try:
                behaviour(library, agent)
            except ValueError:
                continue
        elif path == ("environment", "first_action"):
            shift = library.environment.first_action - header["environment"]["first_action"]
            mine = libraries[agent].act(OBS, W, NEUTRAL)
            np.testing.assert_array_equal(library.act(OBS, W, NEUTRAL), mine + shift)
        else:
            assert_same(library, libraries[agent], agent)
    assert 0.2 < np.mean(outcomes) < 0.95
    assert len(outcomes) > 80


@pytest.mark.parametrize("agent", ["rasfql", "sfdqn-residual"])
def test_mutated_arrays_are_refused_or_answer_without_a_crash(stored, agent, tmp_path):
    rng, outcomes = np.random.default_rng(9), []
    header, arrays = stored[agent]
    names = sorted(arrays)
    for _ in range(200):
        name = names[rng.integers(len(names))]
        changed = arrays[name].copy()
        if changed.size == 0:
            continue
        raw = changed.reshape(-1).view(np.uint8)
        if rng.random() < 0.3:  # -1 where it is a whole number, nan where it is not
            changed.reshape(-1)[rng.integers(changed.size)] = np.frombuffer(b"\xff" * 8, changed.dtype)[0]
        else:
            raw[rng.integers(len(raw), size=rng.integers(1, 4))] ^= np.uint8(1 << rng.integers(8))
        storage.save_file(tmp_path / "a.rasf", header, arrays | {name: changed})
        library = try_to_load(tmp_path / "a.rasf")
        outcomes.append(library is None)
        if library is not None:
            with np.errstate(all="ignore"):
                behaviour(library, agent)
    assert 0 < np.mean(outcomes) < 1


def test_what_is_no_file_of_ours_is_refused(libraries, tmp_path):
    libraries["rasfql"].save(tmp_path / "a.rasf")
    whole = (tmp_path / "a.rasf").read_bytes()
    path = tmp_path / "b.rasf"
    future = whole.replace(b'"version":"1"', b'"version":"9"', 1)
    for content, said in (
        (b"", "is empty"),
        (b"hello", "is not a rasf library"),
        (json.dumps({"a": 1}).encode(), "is not a rasf library"),
        (whole[:-5], "is truncated"),
        (whole[:100], "is truncated"),
        (whole + b"more", "damaged"),
        (whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:], "does not match its checksum"),
        (future, "was written by a newer rasf"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=said) as reason:
            rasf.load(path)
        assert "\n" not in str(reason.value)
    with pytest.raises(ValueError, match="is not a file"):
        rasf.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        rasf.load(tmp_path / "nothing.rasf")
