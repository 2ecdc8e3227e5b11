"""A driver as a process of its own, to be killed: SPEC FOLDER WORKERS."""

import sys
from pathlib import Path

from rasf_lab.sweep.drive import drive, jobs_of
from rasf_lab.sweep.engines.local import LocalEngine
from rasf_lab.sweep.spec import read_spec
from rasf_lab.sweep.store import Store
from rasf_lab.sweep.table import write_table

if __name__ == "__main__":
    spec, store = read_spec(Path(sys.argv[1])), Store(Path(sys.argv[2]))
    try:
        with store.driving():
            store.declare(spec)
            drive(spec, store, LocalEngine(store.folder, int(sys.argv[3])), jobs_of(spec, store, 0))
            write_table(store)
    except ValueError as error:
        sys.exit(str(error))
