"""Logs in several formats: the folder of a `Recorder`, arrays, .npz, .parquet, Minari.

Arrays have these names, and a row for each of N transitions, in the order of time:

    obs           (N, n) or (N,) observations as numbers, or in the structure of the observation space of `env`
    actions       (N,) actions, in the environment's numbering
    phi           (N, d) features; if missing, the function `phi` computes the features
    next_obs      next observations, written like obs; if missing, the obs of the next row are used, and the last step
                  of an episode is left out unless the episode terminated
    terminated    (N,) whether the step terminated the episode
    truncated     (N,) whether the step truncated the episode; may be missing
    episode       (N,) a whole number that identifies the episode; if missing, an episode lasts until it is terminated
                  or truncated
    failure       (N,) whether the step was a failure; may be missing

A .parquet file has a column for each number: obs_0, obs_1, .., next_obs_0, .., phi_0, .. Files written by `save` and
the folder of a recorder describe their environment. The size that a file declares is checked against `max_bytes`
before the file is read (`declared`).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.checks import whole
from rasf.envs.gymnasium import answers
from rasf.envs.gymnasium.actions import Actions, BoxActions, DiscreteActions, actions_of
from rasf.envs.gymnasium.answers import Info, Phi
from rasf.envs.gymnasium.description import INTERFACE, EnvironmentDescription, spec_fields
from rasf.envs.gymnasium.encoder import Encoder
from rasf.envs.gymnasium.recorder import parts_of, read_part
from rasf.envs.gymnasium.single import Environment, FeatureEnvironment, open_environment
from rasf.files import HEAD_LIMIT, Arrays, as_path, write_atomically
from rasf.library.logs import declared
from rasf.library.logs.declared import Refusal, check_size, readable
from rasf.library.logs.log import MAX_BYTES, Log, as_array, as_flags, as_floats, plain_description, whole_numbers

# the arguments of the function that `phi_caller` returns
_Step: TypeAlias = tuple[object, object, object, Info, object, bool, bool]
_NAMES = {"obs", "actions", "phi", "next_obs", "terminated", "truncated", "episode", "failure"}
_WIDE = ("obs", "next_obs", "phi")  # arrays whose rows have several numbers, each a column of a .parquet file
_ENVIRONMENT = "environment"
_MINARI = "minari:"
_LARGEST_ACTION = 2**31
_LARGEST_EPISODE = 2**53  # larger whole numbers are not exact as floating-point numbers


def read(data: object, *, env: Environment | None = None, phi: Phi | None = None, max_bytes: int = MAX_BYTES) -> Log:
    """Read and check a log: the implementation of `Log.read`."""
    if phi is not None:
        answers.phi_asks(phi)  # raises ValueError if phi cannot be called
    whole("max_bytes", max_bytes)
    wanted = None
    if env is not None:
        with opened(env, phi) as found:
            wanted = found.describe()
    if isinstance(data, Log):
        log = data
    elif hasattr(data, "iterate_episodes"):
        log = _from_minari(data, wanted, phi, max_bytes)
    elif isinstance(data, Mapping):
        log = from_arrays(data, wanted, phi)
    elif isinstance(data, str) and data.startswith(_MINARI):
        log = _from_minari(_minari_dataset(data.removeprefix(_MINARI)), wanted, phi, max_bytes)
    elif isinstance(data, str | PathLike):
        log = _from_path(as_path(data), wanted, phi, max_bytes)
    else:
        raise ValueError(f"data must be a log, a path, a dict of arrays or a Minari dataset, got {type(data).__name__}")
    if wanted is None:
        return log
    different = log.environment.difference(wanted, INTERFACE)
    if different is not None:
        held, there = getattr(log.environment, different), getattr(wanted, different)
        reason = f"its {different} are {held!r:.60}, not {there!r:.60}"
        raise ValueError(f"the log is of another environment than {wanted.title}: {reason}")
    return replace(log, environment=wanted)


@contextmanager
def opened(env: Environment, phi: Phi | None) -> Iterator[FeatureEnvironment]:
    """Open the environment that a log comes from. On exit, close it, unless the caller passed an open environment.

    Args:
        env: An id, a function that makes an environment, or an environment.
        phi: The function that computes features; None if the reward is the vector of features.

    Yields:
        The environment.
    """
    found = open_environment(env, phi)
    try:
        yield found
    finally:
        if found.env is not env:
            found.close()


def _numbered(actions: Actions) -> DiscreteActions:
    """Return the actions of a log; raise ValueError if they are vectors."""
    if isinstance(actions, BoxActions):
        raise ValueError(
            "actions of a log must be numbered (Discrete) to learn from it, because logs are learned by tables; "
            f"they are vectors of {actions.size} numbers"
        )
    return actions


# --- arrays


def from_arrays(
    arrays: Mapping[str, npt.ArrayLike], known: EnvironmentDescription | None = None, phi: Phi | None = None
) -> Log:
    """Make a log from arrays.

    Args:
        arrays: The arrays, named as in the module's header.
        known: Description of the environment that the arrays come from. Default: derived from the arrays.
        phi: Function that computes the features. Default: the features are the array `phi`.

    Returns:
        The log.

    Raises:
        ValueError: An array is missing, unknown or invalid.
    """
    missing = {"obs", "actions", "terminated"} - arrays.keys()
    if phi is None:
        missing |= {"phi"} - arrays.keys()
    if missing:
        raise ValueError(f"a log must have {', '.join(sorted(missing))}; {_known(arrays)}")
    _check_names(arrays)
    actions = whole_numbers("actions", arrays["actions"], None, _LARGEST_ACTION)
    n = len(actions)
    if n == 0:
        raise ValueError("a log must have at least one transition, got none")
    flags = {name: as_flags(name, arrays[name], n) for name in ("terminated", "truncated", "failure") if name in arrays}
    terminated, truncated = flags["terminated"], flags.get("truncated", np.zeros(n, np.bool_))
    episode = _episodes(arrays.get("episode"), terminated | truncated)
    obs, next_obs, kept = _successors(arrays, terminated, episode)
    if not kept.any():
        raise ValueError("a log must have at least one transition with a known next_obs, got none")
    taken, episode, terminated = actions[kept], episode[kept], terminated[kept]
    if phi is None:
        features = _given_features(arrays["phi"], n)[kept]
    elif "reward" in answers.phi_asks(phi):
        raise ValueError("phi must not have a parameter reward for a log of arrays, which has no rewards")
    else:
        ends = enumerate(zip(terminated.tolist(), truncated[kept].tolist(), strict=True))
        steps: Iterable[_Step] = ((_at(obs, i), taken[i], _at(next_obs, i), {}, None, *over) for i, over in ends)
        features = _made_features(phi, steps)
    if known is None:
        keys, next_keys = (_numbers(name, part) for name, part in (("obs", obs), ("next_obs", next_obs)))
        least = int(taken.min(initial=0))
        found = (keys.shape[1], int(taken.max(initial=0)) - least + 1, features.shape[1], least)
        known = plain_description(*found)
    else:
        encoder = Encoder(known.observations)
        keys, next_keys = encoder.batch_keys(obs), encoder.batch_keys(next_obs)
    failure = flags["failure"][kept] if "failure" in flags else None
    return Log(known, keys, taken - known.first_action, features, next_keys, terminated, episode, failure)


def _check_names(names: Iterable[object]) -> None:
    unknown = {*names} - _NAMES - {_ENVIRONMENT}
    if unknown:
        raise ValueError(f"a log has no array {_listed(unknown)}; {_known(names)}")


def _known(names: Iterable[object]) -> str:
    return f"possible names are {', '.join(sorted(_NAMES))}, got {_listed(names) or 'none'}"


def _listed(names: Iterable[object]) -> str:
    each = sorted(map(str, names))
    return ", ".join(name[:40] for name in each[:20]) + (", .." if len(each) > 20 else "")


def _numbers(name: str, given: npt.ArrayLike) -> Floats:
    """Convert observations to an array (N, n) of numbers."""
    array = as_array(name, given)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise ValueError(f"{name} must be numbers (N, n), got {array.dtype} of shape {array.shape}")
    return as_floats(array.reshape(len(array), -1)) + 0.0


def _episodes(given: npt.ArrayLike | None, ends: Bools) -> Ints:
    """Return the number of each transition's episode (N,), given or counted from the ends of episodes."""
    if given is None:
        return np.concatenate([[0], np.cumsum(ends[:-1])]).astype(np.int64)[: len(ends)]
    episode = whole_numbers("episode", given, len(ends), _LARGEST_EPISODE)
    if (ends[:-1] & (episode[1:] == episode[:-1])).any():
        row = int(np.flatnonzero(ends[:-1] & (episode[1:] == episode[:-1]))[0])
        raise ValueError(f"an episode must have no steps after its end; row {row} ends episode {episode[row]}")
    return episode


def _successors(
    arrays: Mapping[str, npt.ArrayLike], terminated: Bools, episode: Ints
) -> tuple[npt.ArrayLike, npt.ArrayLike, Bools]:
    """Return obs and next_obs of the transitions whose next_obs is known, and the mask (N,) of these transitions."""
    kept = np.ones(len(terminated), np.bool_)
    for name in ("obs", "next_obs"):
        _check_rows(name, arrays.get(name, arrays["obs"]), len(kept))
    obs = arrays["obs"]
    if "next_obs" in arrays:
        return obs, arrays["next_obs"], kept
    if isinstance(obs, Mapping | tuple):
        raise ValueError("next_obs must be given if obs is not a single array")
    rows = np.asarray(obs)
    last = np.append(episode[1:] != episode[:-1], True)
    kept = ~last | terminated
    following = np.concatenate([rows[1:], rows[-1:]])
    return rows[kept], following[kept], kept


def _check_rows(name: str, part: object, n: int) -> None:
    """Raise ValueError if observations do not have one row for each of n transitions."""
    if isinstance(part, Mapping | tuple):
        for inner in part.values() if isinstance(part, Mapping) else part:
            _check_rows(name, inner, n)
        return
    shape = as_array(name, part).shape
    if shape[:1] != (n,):
        raise ValueError(f"{name} must have a row for each of {n} actions, got shape {shape}")


def _given_features(given: npt.ArrayLike, n: int) -> Floats:
    found = as_array("phi", given)
    if found.ndim == 1:
        raise ValueError("phi must be features (N, d), got one number for each step; give the function phi instead")
    if found.dtype.kind not in "biuf" or found.ndim != 2 or len(found) != n:
        raise ValueError(f"phi must be numbers ({n}, d), got {found.dtype} of shape {found.shape}")
    return as_floats(found)


def _made_features(phi: Phi, steps: Iterable[_Step]) -> Floats:
    """Return the features (n, d) that phi computes for n steps."""
    call = answers.phi_caller(phi)
    rows = [answers.numbers_of(call(*step)) for step in steps]
    wrong = next((row.shape for row in rows if row.ndim != 1 or not row.size or row.shape != rows[0].shape), None)
    if wrong is not None:
        raise ValueError(f"phi must return features of the same shape (d,) for every step, got shape {wrong}")
    return np.array(rows)


def _at(part: Any, index: int) -> Any:
    """Return one row of arrays that may be nested in dicts and tuples."""
    if isinstance(part, Mapping):
        return {name: _at(inner, index) for name, inner in part.items()}
    if isinstance(part, tuple):
        return tuple(_at(inner, index) for inner in part)
    return part[index]


# --- files


def _from_path(path: Path, known: EnvironmentDescription | None, phi: Phi | None, max_bytes: int) -> Log:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        return _from_folder(path, max_bytes)
    readers = {".npz": _npz, ".parquet": _parquet}
    if path.suffix not in readers or not path.is_file():
        raise ValueError(f"a log must be a recorder's folder, .npz or .parquet, got {path}")
    arrays = readers[path.suffix](path, max_bytes)
    try:
        own = _environment(arrays.pop(_ENVIRONMENT)) if _ENVIRONMENT in arrays else None
        if own is not None:  # `save` wrote the file: observations are encoded, and actions are counted from 0
            return _with_keys(arrays, own)
        return from_arrays(arrays, known, phi)
    except _WRONG as error:
        raise ValueError(f"{path} is not a log: {error}") from None


# the errors that a forged description may cause
_WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError)


def _environment(held: np.ndarray) -> EnvironmentDescription:
    """Return the description of an environment, which a file holds as JSON text."""
    text = str(held) if held.shape == () and held.dtype.kind == "U" and held.nbytes <= 4 * HEAD_LIMIT else ""
    try:
        return EnvironmentDescription.from_json(json.loads(text))
    except RecursionError:
        raise ValueError("its environment is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"its environment must be JSON of at most {HEAD_LIMIT:,} characters: {error}") from None


def _with_keys(arrays: Arrays, known: EnvironmentDescription) -> Log:
    """Return a log, given arrays with encoded observations (`Encoder`) and with actions counted from 0."""
    keys = plain_description(Encoder(known.observations).size, known.n_actions, known.n_features)
    return replace(from_arrays(arrays, keys), environment=known)


def _from_folder(folder: Path, max_bytes: int) -> Log:
    paths = parts_of(folder)
    if not paths:
        raise ValueError(f"{folder} is not a log: it has no file part-*.rasf, which a Recorder writes")
    check_size(folder, sum(path.stat().st_size for path in paths), max_bytes)
    described, parts = zip(*map(read_part, paths), strict=True)
    different = next((d for d in (described[0].difference(each) for each in described[1:]) if d is not None), None)
    if different is not None:
        raise ValueError(f"{folder} is not a log of one environment: the {different} of its parts differ")
    _numbered(described[0].actions)
    try:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "failure"}
        joined["actions"] = joined.pop("action")
        if any("failure" in part for part in parts):  # parts before the first failure may lack the array
            none = [np.zeros(len(part["action"]), np.bool_) for part in parts]
            joined["failure"] = np.concatenate([p.get("failure", n) for p, n in zip(parts, none, strict=True)])
        return _with_keys(joined, described[0])
    except _WRONG as error:
        raise ValueError(f"{folder} is not a log: {error}") from None


def _npz(path: Path, max_bytes: int) -> Arrays:
    with readable(path, "an .npz file"), zipfile.ZipFile(path) as archive:
        members, size = declared.npz_members(archive)
        check_size(path, size, max_bytes)
        _check_columns(path, members)
        arrays: Arrays = {}
        for name, info in members.items():
            with archive.open(info) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
        return arrays


def _parquet(path: Path, max_bytes: int) -> Arrays:
    try:
        import pyarrow.parquet as parquet
        import pyarrow.types as kinds
    except ModuleNotFoundError:
        raise ValueError(f"{path} needs pyarrow to be read; install rasf[sweep]") from None
    with readable(path, "a .parquet file"):
        declared.check_parquet_head(path)
        with parquet.ParquetFile(path) as file:
            schema, names = file.schema_arrow, file.schema_arrow.names
            _check_columns(path, (_column(name)[0] for name in names))
            for field in schema:
                # a file may store equal values once, so the unpacked size of text and lists is unknown before reading
                if not (kinds.is_boolean(field.type) or kinds.is_integer(field.type) or kinds.is_floating(field.type)):
                    raise Refusal(
                        f"{path} is not a log: its column {field.name!r:.60} is {field.type!s:.60}, not numbers"
                    )
            check_size(path, declared.parquet_memory(file.metadata), max_bytes)
            # pages may be larger than declared; without threads, only one column at a time takes this memory
            table = file.read(use_threads=False)
        columns = {name: table.column(name).to_numpy() for name in names}
        arrays: Arrays = {}
        for name in _WIDE:
            numbered = sorted((_column(each)[1], each) for each in columns if _column(each)[0] == name != each)
            if numbered:
                if [number for number, _ in numbered] != [*range(len(numbered))]:
                    raise Refusal(f"{path} is not a log: its columns {name}_0, {name}_1, .. are not consecutive")
                arrays[name] = np.column_stack([columns.pop(column) for _, column in numbered])
        held = (schema.metadata or {}).get(f"rasf.{_ENVIRONMENT}".encode())
        if held is not None:
            arrays[_ENVIRONMENT] = np.array(held.decode())
        return columns | arrays


def _check_columns(path: Path, names: Iterable[str]) -> None:
    """Raise a `Refusal` if a file has unknown arrays, before arrays are read."""
    try:
        _check_names(names)
    except ValueError as error:
        raise Refusal(f"{path} is not a log: {error}") from None


def _column(name: str) -> tuple[str, int]:
    """Return the name of a column's array, and the column's index in this array; -1 for an array of one column."""
    wide, _, number = name.rpartition("_")
    return (wide, int(number)) if wide in _WIDE and number.isdecimal() and len(number) < 10 else (name, -1)


def save(log: Log, path: str | PathLike[str]) -> None:
    """Write a log to a file: the implementation of `Log.save`."""
    target = as_path(path)
    arrays: Arrays = {
        name: getattr(log, name) for name in ("obs", "actions", "phi", "next_obs", "terminated", "episode")
    }
    if log.failure is not None:
        arrays["failure"] = log.failure
    described = json.dumps(log.environment.to_json())
    if target.suffix == ".npz":

        def write_npz(partial: str) -> None:
            with open(partial, "wb") as file:
                np.savez_compressed(file, **arrays, **{_ENVIRONMENT: np.array(described)})  # type: ignore[arg-type]

        write_atomically(target, write_npz)
    elif target.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet as parquet

        columns: Arrays = {}
        for name, array in arrays.items():
            columns |= {f"{name}_{i}": part for i, part in enumerate(array.T)} if name in _WIDE else {name: array}
        table = pyarrow.table(columns).replace_schema_metadata({f"rasf.{_ENVIRONMENT}": described})
        write_atomically(target, lambda partial: parquet.write_table(table, partial))
    else:
        raise ValueError(f"path must end in .npz or .parquet, got {fspath(path)}")


# --- Minari


def _minari_dataset(name: str) -> Any:
    try:
        import minari
    except ModuleNotFoundError:
        raise ValueError(f"{_MINARI}{name} needs Minari to be read; install rasf[minari]") from None
    try:
        return minari.load_dataset(name)
    except Exception as error:  # Minari raises many kinds of errors, and its metadata may be of any form
        said = " ".join(str(error).split())[:120] or type(error).__name__
        raise ValueError(f"{name} cannot be read as a Minari dataset on this machine: {said}") from None


def _from_minari(dataset: Any, known: EnvironmentDescription | None, phi: Phi | None, max_bytes: int) -> Log:
    """Return a log of a Minari dataset. Its vector rewards are the features, unless `phi` computes the features."""
    encoder = Encoder.of(dataset.observation_space) if known is None else Encoder(known.observations)
    choices = _numbered(actions_of(dataset.action_space))
    parts: dict[str, list[np.ndarray]] = {name: [] for name in _NAMES - {"failure", "truncated"}}
    declared.check_minari(dataset, max_bytes)
    for number, one in enumerate(_episodes_of(dataset, max_bytes)):
        rewards, n = np.asarray(one.rewards), len(one.actions)
        keys = encoder.batch_keys(one.observations)
        if len(keys) != n + 1:
            raise ValueError(f"episode {number} of the dataset must have {n + 1} observations, got {len(keys)}")
        if n == 0:
            continue
        if phi is not None:
            rewards = _made_features(phi, (_step_of(one, t) for t in range(n)))
        elif rewards.ndim != 2:
            raise ValueError(
                "the dataset's reward is one number, not a vector of features; give phi(obs, action, next_obs, info)"
            )
        shown = (keys[:-1], keys[1:], np.asarray(one.actions), rewards, one.terminations, np.full(n, number))
        for name, part in zip(("obs", "next_obs", "actions", "phi", "terminated", "episode"), shown, strict=True):
            parts[name].append(part)
    joined = {name: np.concatenate(part) for name, part in parts.items() if part}
    if not joined:
        raise ValueError("a log must have at least one transition, got none")
    numbers = plain_description(encoder.size, choices.n, joined["phi"].shape[1], choices.first)
    log = from_arrays(joined, numbers)
    if known is None:  # the dataset describes its environment, which need not be installed
        spec = getattr(dataset, "env_spec", None) or getattr(dataset.spec, "env_spec", None)
        said = spec_fields(spec, phi) | {"observations": encoder.describe(), "from_file": True}
        known = replace(numbers, **said)
    return replace(log, environment=known)


def _episodes_of(dataset: Any, max_bytes: int) -> Iterator[Any]:
    """Yield the episodes of a dataset; raise a `Refusal` when their total size exceeds the limit."""
    episodes, size = iter(dataset.iterate_episodes()), 0
    while True:
        with readable("the dataset", "a Minari dataset"):
            one = next(episodes, None)
            if one is None:
                return
            size += sum(declared.episode_memory(part) for part in (one.observations, one.actions, one.rewards))
        check_size("the dataset", size, max_bytes)
        yield one


def _step_of(episode: Any, t: int) -> _Step:
    """Return step t of an episode as arguments of the function that `phi_caller` returns."""
    obs, after = (_at(episode.observations, index) for index in (t, t + 1))
    said = {name: _at(part, t + 1) for name, part in (episode.infos or {}).items()}
    ends = bool(episode.terminations[t]), bool(episode.truncations[t])
    return obs, episode.actions[t], after, said, episode.rewards[t], *ends
