"""Logs in several formats: a `Recorder`'s folder, arrays, .npz, .parquet, Minari.

Arrays go by these names, N transitions each, in the order in which they happened:

    obs           (N, n) or (N,) numbers of an observation, or what the space of `env` has actions       (N,) the
    environment's own numbers phi           (N, d) features; computed by the function `phi` where there are none
    next_obs      like obs; where it is missing, the next row's, and the last step of an episode that did not terminate
    is left out terminated    (N,) a true end truncated     (N,) a cut; may be missing, and so may episode       (N,)
    whole numbers; else an episode lasts until it is terminated or truncated failure       (N,) may be missing

A .parquet file has a column for each number: obs_0, obs_1, .., next_obs_0, .., phi_0, .. Files that `save` wrote know
their environment, as a recorder's folder does.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rasf.arrays import Bools, Floats, Ints
from rasf.envs.gymnasium.description import INTERFACE, EnvironmentDescription
from rasf.envs.gymnasium.encoder import Encoder
from rasf.envs.gymnasium.recorder import parts_of, read_parts
from rasf.files import Arrays, write_atomically
from rasf.library.logs.log import Log, as_flags, plain_description

if TYPE_CHECKING:
    from rasf.envs.gymnasium.single import Environment, FeatureEnvironment, Phi

_NAMES = {"obs", "actions", "phi", "next_obs", "terminated", "truncated", "episode", "failure"}
_WIDE = ("obs", "next_obs", "phi")  # one column for each number
_ENVIRONMENT = "environment"
_MINARI = "minari:"


def read(data: Any, *, env: Environment | None = None, phi: Phi | None = None) -> Log:
    """A log; `env`, where it is given, is the environment that it must come from."""
    wanted = None if env is None else _described(env, phi)
    if isinstance(data, Log):
        log = data
    elif hasattr(data, "iterate_episodes"):
        log = _from_minari(data, wanted, phi)
    elif isinstance(data, Mapping):
        log = from_arrays(data, wanted, phi)
    elif isinstance(data, str) and data.startswith(_MINARI):
        log = _from_minari(_minari_dataset(data.removeprefix(_MINARI)), wanted, phi)
    elif isinstance(data, str | PathLike):
        log = _from_path(Path(data), wanted, phi)
    else:
        raise ValueError(f"data must be a log, a path, a dict of arrays or a Minari dataset, got {type(data).__name__}")
    return log if wanted is None else _of(log, wanted)


@contextmanager
def opened(env: Environment, phi: Phi | None) -> Iterator[FeatureEnvironment]:
    """The environment that a log comes from, closed in the end unless it is the caller's."""
    from rasf.envs.gymnasium.single import open_environment

    found = open_environment(env, phi)
    try:
        yield found
    finally:
        if found.env is not env:
            found.close()


def _described(env: Environment, phi: Phi | None) -> EnvironmentDescription:
    with opened(env, phi) as found:
        return found.describe()


def _of(log: Log, wanted: EnvironmentDescription) -> Log:
    """The log as one of an environment that was named; a log of another is refused."""
    different = log.environment.difference(wanted, INTERFACE)
    if different is not None:
        held, there = getattr(log.environment, different), getattr(wanted, different)
        told = f"its {different} are {held!r:.60}, not {there!r:.60}"
        raise ValueError(f"the log is of another environment than {wanted.title}: {told}")
    return replace(log, environment=wanted)


# --- arrays


def from_arrays(
    arrays: Mapping[str, npt.ArrayLike], known: EnvironmentDescription | None = None, phi: Phi | None = None
) -> Log:
    """A log from arrays by their names; `known` describes the environment that they come from."""
    missing = {"obs", "actions", "terminated"} - arrays.keys()
    if phi is None:
        missing |= {"phi"} - arrays.keys()
    if missing:
        raise ValueError(f"a log needs {', '.join(sorted(missing))}, which it does not have; {_known(arrays)}")
    unknown = arrays.keys() - _NAMES - {_ENVIRONMENT}
    if unknown:
        raise ValueError(f"a log knows no array {', '.join(sorted(map(str, unknown)))}; {_known(arrays)}")
    actions = np.asarray(arrays["actions"])
    if actions.ndim != 1 or actions.dtype.kind not in "iuf" or not (actions == np.rint(actions)).all():
        raise ValueError(f"actions must be whole numbers (N,), got {actions.dtype} of shape {actions.shape}")
    n = len(actions)
    if n == 0:
        raise ValueError("a log must have one transition at least, got none")
    flags = {name: as_flags(name, arrays[name], n) for name in ("terminated", "truncated", "failure") if name in arrays}
    terminated, truncated = flags["terminated"], flags.get("truncated", np.zeros(n, np.bool_))
    episode = _episodes(arrays.get("episode"), terminated | truncated)
    obs, next_obs, kept = _successors(arrays, terminated, episode)
    taken, episode, terminated = actions.astype(np.int64)[kept], episode[kept], terminated[kept]
    features = _features(arrays, obs, taken, next_obs, kept, phi)
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


def _known(arrays: Mapping[str, Any]) -> str:
    return f"names are {', '.join(sorted(_NAMES))}, got {', '.join(sorted(map(str, arrays))) or 'none'}"


def _numbers(name: str, given: npt.ArrayLike) -> Floats:
    """Observations as rows (N, n) of numbers."""
    array = np.asarray(given)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise ValueError(f"{name} must be numbers (N, n), got {array.dtype} of shape {array.shape}")
    return array.reshape(len(array), -1).astype(np.float64) + 0.0


def _episodes(given: npt.ArrayLike | None, ends: Bools) -> Ints:
    """Numbers of episodes (N,): those given, or one more after every end."""
    if given is None:
        return np.concatenate([[0], np.cumsum(ends[:-1])]).astype(np.int64)[: len(ends)]
    named = np.asarray(given)
    if named.shape != ends.shape or named.dtype.kind not in "iuf" or not (named == np.rint(named)).all():
        raise ValueError(f"episode must be {len(ends)} whole numbers, got {named.dtype} of shape {named.shape}")
    episode = named.astype(np.int64)
    if (ends[:-1] & (episode[1:] == episode[:-1])).any():
        row = int(np.flatnonzero(ends[:-1] & (episode[1:] == episode[:-1]))[0])
        raise ValueError(f"nothing can follow the end of an episode; row {row} of the log ended episode {episode[row]}")
    return episode


def _successors(arrays: Mapping[str, Any], terminated: Bools, episode: Ints) -> tuple[Any, Any, Bools]:
    """Observations, their successors, and the transitions (N,) that have one."""
    obs = arrays["obs"]
    kept = np.ones(len(terminated), np.bool_)
    if "next_obs" in arrays:
        return obs, arrays["next_obs"], kept
    if isinstance(obs, Mapping | tuple):
        raise ValueError("next_obs must be given where obs is not one array")
    rows = np.asarray(obs)
    if len(rows) != len(kept):
        raise ValueError(f"obs must have a row for each of {len(kept)} actions, got {len(rows)}")
    last = np.append(episode[1:] != episode[:-1], True)
    kept = ~last | terminated
    following = np.concatenate([rows[1:], rows[-1:]])
    return rows[kept], following[kept], kept


def _features(
    arrays: Mapping[str, Any], obs: Any, actions: Ints, next_obs: Any, kept: Bools, phi: Phi | None
) -> Floats:
    if phi is None:
        found = np.asarray(arrays["phi"])
        if found.ndim == 1:
            raise ValueError(
                "phi must be features (N, d), got one number a step; give the function phi that makes them"
            )
        if found.dtype.kind not in "biuf" or found.shape[:1] != kept.shape:
            raise ValueError(f"phi must be numbers ({len(kept)}, d), got {found.dtype} of shape {found.shape}")
        return found.astype(np.float64)[kept]
    return np.array([np.asarray(phi(*step, {}), np.float64) for step in zip(obs, actions, next_obs, strict=True)])


# --- files


def _from_path(path: Path, known: EnvironmentDescription | None, phi: Phi | None) -> Log:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        return _from_folder(path)
    if path.suffix == ".npz":
        arrays = _npz(path)
    elif path.suffix == ".parquet":
        arrays = _parquet(path)
    else:
        raise ValueError(f"a log must be a recorder's folder, .npz or .parquet, got {path}")
    try:
        held = str(arrays.pop(_ENVIRONMENT)) if _ENVIRONMENT in arrays else None
        own = None if held is None else EnvironmentDescription.from_json(json.loads(held))
        if own is not None:  # its observations are keys already, and its actions counted from 0
            keys = plain_description(Encoder(own.observations).size, own.n_actions, own.n_features)
            return replace(from_arrays(arrays, keys), environment=own)
        return from_arrays(arrays, known, phi)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a log: {error}") from None


def _from_folder(folder: Path) -> Log:
    if not parts_of(folder):
        raise ValueError(f"{folder} is not a log: it has no part-*.rasf that a Recorder writes")
    described, parts = zip(*read_parts(folder), strict=True)
    different = next((d for d in (described[0].difference(each) for each in described[1:]) if d is not None), None)
    if different is not None:
        raise ValueError(f"{folder} is not a log of one environment: the {different} of its parts differ")
    try:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "failure"}
        joined["actions"] = joined.pop("action")
        if any("failure" in part for part in parts):  # perhaps only after the first one happened
            none = [np.zeros(len(part["action"]), np.bool_) for part in parts]
            joined["failure"] = np.concatenate([p.get("failure", n) for p, n in zip(parts, none, strict=True)])
        known = described[0]
        keys = plain_description(Encoder(known.observations).size, known.n_actions, known.n_features)
        return replace(from_arrays(joined, keys), environment=known)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{folder} is not a log: {error}") from None


def _npz(path: Path) -> Arrays:
    try:
        # opened here: numpy leaves a file open that it cannot read
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"{path} is truncated or not an .npz file: {' '.join(str(error).split())[:120]}") from None


def _parquet(path: Path) -> Arrays:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError:
        raise ValueError(f"{path} needs pyarrow to be read; install rasf[sweep]") from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is truncated or not a .parquet file: {' '.join(str(error).split())[:120]}") from None
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    arrays: Arrays = {}
    for name in _WIDE:
        numbered = sorted(
            (int(column.removeprefix(f"{name}_")), column)
            for column in columns
            if column.startswith(f"{name}_") and column.removeprefix(f"{name}_").isdigit()
        )
        if numbered:
            if [number for number, _ in numbered] != list(range(len(numbered))):
                raise ValueError(f"{path} is not a log: its columns {name}_0, {name}_1, .. have a hole")
            arrays[name] = np.column_stack([columns.pop(column) for _, column in numbered])
    held = (table.schema.metadata or {}).get(f"rasf.{_ENVIRONMENT}".encode())
    if held is not None:
        arrays[_ENVIRONMENT] = np.array(held.decode())
    return columns | arrays


def save(log: Log, path: str | PathLike[str]) -> None:
    """Write a log as .npz or .parquet, whole or not at all."""
    target = Path(path)
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
    except (ValueError, FileNotFoundError, ImportError) as error:
        said = " ".join(str(error).split())[:120]
        raise ValueError(f"{name} cannot be read as a Minari dataset of this machine: {said}") from None


def _from_minari(dataset: Any, known: EnvironmentDescription | None, phi: Phi | None) -> Log:
    """Episodes of a Minari dataset; features are its rewards where they are vectors, else those of `phi`."""
    from rasf.envs.gymnasium.single import actions_of

    encoder = Encoder.of(dataset.observation_space) if known is None else Encoder(known.observations)
    choices = actions_of(dataset.action_space)
    parts: dict[str, list[Any]] = {name: [] for name in _NAMES - {"failure", "truncated"}}
    for number, one in enumerate(dataset.iterate_episodes()):
        rewards, n = np.asarray(one.rewards), len(one.actions)
        keys = encoder.batch_keys(one.observations)
        if len(keys) != n + 1:
            raise ValueError(f"episode {number} of the dataset must have {n + 1} observations, got {len(keys)}")
        if phi is not None:
            rewards = np.array([_phi_of_step(phi, one, t) for t in range(n)], np.float64)
        elif rewards.ndim != 2:
            raise ValueError(
                "the dataset's reward is one number, not a vector of features; give phi(obs, action, next_obs, info)"
            )
        shown = (keys[:-1], keys[1:], np.asarray(one.actions), rewards, one.terminations, np.full(n, number))
        for name, part in zip(("obs", "next_obs", "actions", "phi", "terminated", "episode"), shown, strict=True):
            parts[name].append(part)
    joined = {name: np.concatenate(part) for name, part in parts.items() if part}
    if not joined:
        raise ValueError("a log must have one transition at least, got none")
    first, features = int(choices[0]), joined["phi"].shape[1]
    log = from_arrays(joined, plain_description(encoder.size, len(choices), features, first))
    return replace(log, environment=known or _described_by_minari(dataset, encoder, len(choices), first, features, phi))


def _phi_of_step(phi: Phi, episode: Any, t: int) -> Any:
    obs, after = (_at(episode.observations, index) for index in (t, t + 1))
    infos = episode.infos or {}
    return phi(obs, episode.actions[t], after, {name: _at(part, t + 1) for name, part in infos.items()})


def _at(part: Any, index: int) -> Any:
    """One step of arrays that may be nested."""
    if isinstance(part, Mapping):
        return {name: _at(inner, index) for name, inner in part.items()}
    if isinstance(part, tuple):
        return tuple(_at(inner, index) for inner in part)
    return part[index]


def _described_by_minari(
    dataset: Any, encoder: Encoder, actions: int, first: int, features: int, phi: Phi | None
) -> EnvironmentDescription:
    """What the dataset says of its environment, which need not be installed."""
    from rasf.envs.gymnasium.description import plain

    spec = getattr(dataset, "env_spec", None) or getattr(dataset.spec, "env_spec", None)
    return EnvironmentDescription(
        id=None if spec is None else spec.id,
        kwargs={} if spec is None else {str(name): plain(value) for name, value in spec.kwargs.items()},
        observations=encoder.describe(),
        n_actions=actions,
        first_action=first,
        n_features=features,
        bounds=None,
        phi=None if phi is None else getattr(phi, "__name__", type(phi).__name__),
        max_episode_steps=None if spec is None else spec.max_episode_steps,
        from_file=True,
    )
