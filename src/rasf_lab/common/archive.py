"""Archives of finished runs: one numpy file for each experiment, `EXPERIMENT.npz`, with the arrays of its runs.

Runs whose arrays have the same names, shapes and types form a group. The member `GROUP/NAME` stacks the arrays NAME of
all runs in the group on axis 0. The member `shared/NAME` is an array of the whole experiment. `index.json` lists the
runs of each group in the order of axis 0, with scalars and provenance.

Members are compressed by LZMA. An array is stored plainly or as byte planes (the first byte of every number, then the
second byte of every number, and so on), whichever is smaller. Byte planes are smaller for numbers of similar size,
because their first bytes are alike. `index.json` has the dtypes of the arrays that are stored as byte planes. Archives
of equal runs are byte-identical.
"""

from __future__ import annotations

import json
import lzma
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rasf.arrays import Array
from rasf.files import Arrays, write_atomically
from rasf_lab.sweep.runs import Run
from rasf_lab.sweep.store import Finished

_INDEX, _SHARED = "index.json", "shared"
# the earliest time that a zip file can store; it is constant, so that an archive does not depend on the date
_EARLIEST = (1980, 1, 1, 0, 0, 0)


class Archive(NamedTuple):
    """The finished runs of an archive, and the arrays of the whole experiment."""

    runs: dict[Run, Finished]
    shared: Arrays


def save_archive(path: Path, runs: Iterable[Finished], shared: Mapping[str, Array]) -> None:
    """Write an archive atomically.

    Args:
        path: the file.
        runs: the finished runs, with the arrays to keep.
        shared: arrays of the whole experiment, by name.
    """
    groups: dict[str, list[Finished]] = {}
    for one in runs:
        layout = [(name, array.shape, array.dtype.str) for name, array in sorted(one.arrays.items())]
        groups.setdefault(repr(layout), []).append(one)
    index: dict[str, Any] = {"groups": [], "planes": {}}
    members = {f"{_SHARED}/{name}": array for name, array in shared.items()}
    for number, group in enumerate(groups.values()):
        index["groups"].append(
            [{"run": one.run.describe(), "scalars": one.scalars, "provenance": one.provenance} for one in group]
        )
        members |= {f"{number}/{name}": np.stack([one.arrays[name] for one in group]) for name in group[0].arrays}

    def write(partial: str) -> None:
        with zipfile.ZipFile(partial, "w") as file:
            for name, array in members.items():
                planes = _planes(array)
                is_smaller = len(lzma.compress(planes.tobytes())) < len(lzma.compress(array.tobytes()))
                if is_smaller:
                    index["planes"][name] = array.dtype.str
                with file.open(_member(f"{name}.npy"), "w") as stream:
                    np.lib.format.write_array(stream, planes if is_smaller else array, allow_pickle=False)
            file.writestr(_member(_INDEX), json.dumps(index, separators=(",", ":")))

    write_atomically(path, write)


def load_archive(path: Path) -> Archive:
    """Return the contents of an archive.

    Args:
        path: the file.

    Returns:
        The runs and shared arrays; an empty archive if the file does not exist.

    Raises:
        ValueError: the file is damaged or not an archive.
    """
    if not path.exists():
        return Archive({}, {})
    try:
        with zipfile.ZipFile(path) as file:
            index = json.loads(file.read(_INDEX))
            columns: dict[str, Arrays] = {}
            for member in file.namelist():
                if member != _INDEX:
                    group, _, name = member.removesuffix(".npy").partition("/")
                    with file.open(member) as stream:
                        array = np.lib.format.read_array(stream, allow_pickle=False)
                    stored = index["planes"].get(f"{group}/{name}")
                    columns.setdefault(group, {})[name] = array if stored is None else _joined(array, stored)
        shared, runs = columns.pop(_SHARED, {}), {}
        for number, group_runs in enumerate(index["groups"]):
            arrays = columns.get(str(number), {})
            for row, one in enumerate(group_runs):
                run = Run.from_description(one["run"])
                own = {name: column[row] for name, column in arrays.items()}
                runs[run] = Finished(run, one["scalars"], one["provenance"], own)
        return Archive(runs, shared)
    except (zipfile.BadZipFile, lzma.LZMAError, EOFError, ValueError, TypeError, KeyError, IndexError) as error:
        raise ValueError(f"{path} is damaged or not an archive of runs: {' '.join(str(error).split())[:120]}") from None


def _planes(array: Array) -> npt.NDArray[np.uint8]:
    """Return the byte planes (itemsize, ..) of an array (..)."""
    single = np.ascontiguousarray(array)[..., None].view(np.uint8)
    return np.ascontiguousarray(np.moveaxis(single, -1, 0))


def _joined(planes: npt.NDArray[np.uint8], stored: str) -> Array:
    """Return the array (..) of dtype `stored` whose byte planes are `planes` (itemsize, ..)."""
    joined: Array = np.ascontiguousarray(np.moveaxis(planes, 0, -1)).view(stored)[..., 0]
    return joined


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EARLIEST)
    info.compress_type = zipfile.ZIP_LZMA
    return info
