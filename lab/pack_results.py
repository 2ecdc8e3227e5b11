"""Put the finished runs of a folder into one file per experiment: `python lab/pack_results.py [FOLDER]`.

FOLDER (lab/results by default) may have reacher.npz and reacher-sweep, suite.npz and suite-runs. The runs of each sweep
are added to the file beside it, with the arrays that the summary reads; afterwards the folders of the sweeps can be
removed. `rasf reproduce reacher --out FOLDER` and `rasf suite --preset full --out FOLDER` sum up both.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rasf_lab.paper.reacher import runs as reacher
from rasf_lab.suite import runs as suite

RESULTS = Path(__file__).parent / "results"

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    for name, experiment in (("reacher-sweep", reacher), ("suite-runs", suite)):
        if (folder / name).exists():
            experiment.pack(folder)
