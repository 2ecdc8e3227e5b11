"""A library's file of a gigabyte: saved, and loaded with every checksum verified, beside a plain read of its bytes.

    python lab/benchmarks/storage.py [--gigabytes 1.0] [--json FILE]

Every load and every plain read is a new process, as a user's is (memory that a process already holds flatters copies),
on one core, from the page cache; imports are not counted. Ratios, because machines are noisy; least and median times
beside them. safetensors' own reader, which verifies nothing, is the third line.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rasf.files import load_file, save_file

READERS = ("load", "plain_read", "safetensors")


def library_arrays(n_bytes: int) -> dict[str, np.ndarray]:
    """Arrays like those of a tabular library: covariances take most of the room."""
    rng = np.random.default_rng(0)
    d, n_actions, policies = 4, 4, 32
    states = max(n_bytes // (8 * policies * n_actions * (d + d * d)), 1)
    return {
        "psi": rng.random((policies, states, n_actions, d)),
        "sigma": rng.random((policies, states, n_actions, d, d)),
    }


def seconds_to_read(reader: str, path: str) -> float:
    """Seconds of one read in this process."""
    if reader == "safetensors":
        from safetensors.numpy import load_file as load_safetensors
    begin = time.perf_counter()
    if reader == "load":
        kept: Any = load_file(path)
    elif reader == "plain_read":
        kept = Path(path).read_bytes()
    else:
        kept = load_safetensors(path)
    seconds = time.perf_counter() - begin
    del kept
    return seconds


def in_new_process(reader: str, path: Path) -> float:
    """Seconds of one read in a process of its own."""
    command = [sys.executable, __file__, "--reader", reader, "--file", str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(gigabytes: float, repeats: int) -> dict[str, Any]:
    """Save once, read in turns."""
    arrays = library_arrays(int(gigabytes * 1e9))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.rasf"
        begin = time.perf_counter()
        save_file(path, {"note": "benchmark"}, arrays)
        results: dict[str, Any] = {"gigabytes": path.stat().st_size / 1e9, "save_seconds": time.perf_counter() - begin}
        times: dict[str, list[float]] = {reader: [] for reader in READERS}
        for _ in range(repeats):
            for reader in READERS:
                times[reader].append(in_new_process(reader, path))
    for reader in READERS:
        results[reader] = {
            "least_seconds": min(times[reader]),
            "median_seconds": statistics.median(times[reader]),
            "most_seconds": max(times[reader]),
            "gigabytes_per_second": results["gigabytes"] / statistics.median(times[reader]),
        }
    for other in READERS[1:]:
        results[f"load_over_{other}"] = results["load"]["median_seconds"] / results[other]["median_seconds"]
    return results


def main() -> None:
    """Print the table; or, in a process of its own, the seconds of one read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--reader", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # one core, where the system can be asked for it
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if options.reader:
        print(seconds_to_read(options.reader, options.file))
        return
    results = measure(options.gigabytes, options.repeats)
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
