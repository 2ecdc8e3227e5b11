"""The combined table of a sweep: a row for every run that is finished or failed, in declared order, as Parquet.

    id, kind, seed, status ("finished" or "failed"), reason      reason: why a run failed
    parameters, scalars                                          a column each, under their own names
    version, commit, python                                      provenance
    host, device, wall_s, peak_gb, together, date                provenance that differs between equal sweeps

Names that are taken get an ending: a parameter `seed` is the column `seed_parameter`, a scalar of a parameter's name
ends in `_result`. What a run does not have is null.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rasf.files import write_atomically
from rasf.sweep.runs import Run
from rasf.sweep.store import Store

if TYPE_CHECKING:
    import pyarrow

VOLATILE = ("host", "device", "wall_s", "peak_gb", "together", "date")
_FILE = "table.parquet"
_FIRST = ("id", "kind", "seed", "status", "reason")
_LAST = ("version", "commit", "python", *VOLATILE)


def check_arrow() -> None:
    """Refuse to begin a sweep whose table could not be written."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ValueError("a sweep's table needs pyarrow: pip install 'rasf[sweep]'") from None


def table_of(store: Store) -> pyarrow.Table:
    """The table of what a folder has now."""
    check_arrow()
    import pyarrow

    runs = store.runs()
    names = _column_names(runs)
    failures = store.failures(runs)
    rows: list[dict[str, Any]] = []
    taken = {*_FIRST, *_LAST, *names.values()}
    for run in runs:
        row = {"id": run.id, "kind": run.kind, "seed": run.seed}
        row |= {names[name]: value for name, value in run.parameters.items()}
        if run.id in failures:
            rows.append(row | {"status": "failed", "reason": failures[run.id]})
        elif (found := store.finished(run)) is not None:
            scalars = {f"{name}_result" if name in taken else name: value for name, value in found.scalars.items()}
            rows.append(row | {"status": "finished"} | scalars | {name: found.provenance.get(name) for name in _LAST})
    between = dict.fromkeys((*names.values(), *(name for row in rows for name in row)))
    columns = [*_FIRST, *(name for name in between if name not in (*_FIRST, *_LAST)), *_LAST]
    return pyarrow.table({name: _column([row.get(name) for row in rows], name) for name in columns})


def stable_columns(table: pyarrow.Table) -> pyarrow.Table:
    """The table without what differs between two equal sweeps: times, hosts, memory."""
    return table.drop_columns([name for name in VOLATILE if name in table.column_names])


def parquet(table: pyarrow.Table) -> bytes:
    """The table as a Parquet file; equal tables give equal bytes."""
    from pyarrow.parquet import write_table as write

    file = io.BytesIO()
    write(table, file)
    return file.getvalue()


def write_table(store: Store) -> Path:
    """Write the table into the folder, whole or not at all."""
    content = parquet(table_of(store))
    write_atomically(store.folder / _FILE, lambda partial: Path(partial).write_bytes(content))
    return store.folder / _FILE


def _column_names(runs: Sequence[Run]) -> dict[str, str]:
    """Columns of the parameters."""
    names = dict.fromkeys(name for run in runs for name in sorted(run.parameters))
    return {name: f"{name}_parameter" if name in (*_FIRST, *_LAST) else name for name in names}


def _column(values: list[Any], name: str) -> pyarrow.Array:
    """A column of one type: truth values, whole numbers, numbers, or else text."""
    import pyarrow

    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return pyarrow.array(values, pyarrow.bool_())
    if types == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pyarrow.array(values, pyarrow.int64())
    if (types and types <= {int, float}) or name in ("wall_s", "peak_gb"):
        return pyarrow.array([None if value is None else float(value) for value in values], pyarrow.float64())
    return pyarrow.array([None if value is None else str(value) for value in values], pyarrow.string())
