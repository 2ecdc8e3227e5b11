"""The table of results of a sweep, as Parquet: a row for every run that is finished or failed, in declared order.

    id, kind, seed, status, reason                      status is "finished" or "failed"; reason says why a run failed
    one column for each parameter and each scalar
    version, commit, python                             provenance
    host, device, wall_s, peak_gb, together, date       provenance that may differ if the sweep is repeated

A suffix makes the names of columns different: a parameter `seed` has the column `seed_parameter`, and a scalar with the
name of a parameter has a column that ends in `_result`. Missing values are null.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rasf.files import write_atomically
from rasf_lab.sweep.store import Store

if TYPE_CHECKING:
    import pyarrow

VOLATILE = ("host", "device", "wall_s", "peak_gb", "together", "date")
_FIRST = ("id", "kind", "seed", "status", "reason")
_LAST = ("version", "commit", "python", *VOLATILE)


def check_arrow() -> None:
    """Check that pyarrow is installed, before a sweep starts.

    Raises:
        ValueError: pyarrow is not installed.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ValueError("a sweep's table needs pyarrow: pip install 'rasf[sweep]'") from None


def table_of(store: Store) -> pyarrow.Table:
    """Return the table of the finished and failed runs in a folder."""
    check_arrow()
    import pyarrow

    runs = store.runs()
    parameters = dict.fromkeys(name for run in runs for name in sorted(run.parameters))
    names = {name: f"{name}_parameter" if name in (*_FIRST, *_LAST) else name for name in parameters}
    failures = store.failures(runs)
    rows: list[dict[str, object]] = []
    taken = {*_FIRST, *_LAST, *names.values()}
    for run in runs:
        row: dict[str, object] = {"id": run.id, "kind": run.kind, "seed": run.seed}
        row |= {names[name]: value for name, value in run.parameters.items()}
        if run.id in failures:
            rows.append(row | {"status": "failed", "reason": failures[run.id]})
        elif (found := store.finished(run)) is not None:
            scalars = {f"{name}_result" if name in taken else name: value for name, value in found.scalars.items()}
            rows.append(row | {"status": "finished"} | scalars | {name: found.provenance.get(name) for name in _LAST})
    between = dict.fromkeys((*names.values(), *(name for row in rows for name in row)))
    columns = [*_FIRST, *(name for name in between if name not in (*_FIRST, *_LAST)), *_LAST]
    return pyarrow.table({name: _column([row.get(name) for row in rows], name) for name in columns})


def write_table(store: Store) -> Path:
    """Write the table into the folder, completely or not at all, and return its path. Equal tables give equal bytes."""
    table, path = table_of(store), store.folder / "table.parquet"
    from pyarrow import parquet

    write_atomically(path, lambda partial: parquet.write_table(table, partial))
    return path


def _column(values: list[Any], name: str) -> pyarrow.Array:
    """Return a column of one type: bool, int, float, or else text. Lists and dicts become JSON text."""
    import pyarrow

    values = [json.dumps(value) if isinstance(value, list | dict) else value for value in values]
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return pyarrow.array(values, pyarrow.bool_())
    if types == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pyarrow.array(values, pyarrow.int64())
    if (types and types <= {int, float}) or name in ("wall_s", "peak_gb"):
        return pyarrow.array([None if value is None else float(value) for value in values], pyarrow.float64())
    return pyarrow.array([None if value is None else str(value) for value in values], pyarrow.string())
