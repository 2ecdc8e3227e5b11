"""Experiments for tests: short, and willing to go wrong when asked to.

A worker is another process, so what a test wants to know is written to files: in the folder that RASF_TEST_TRACE names,
one file per run, a word each time it is executed.
"""

import fcntl
import os
import sys
import time
from pathlib import Path

import numpy as np

from rasf_lab.sweep.runs import RunResult, alone


def trace_of(run):
    return Path(os.environ["RASF_TEST_TRACE"]) / run.id


class Probe:
    """Draws numbers, for `sleep` seconds, unless it is asked to fail."""

    known = ("scale", "sleep", "fail", "unless")

    def check(self, parameters):
        for name, value in parameters.items():
            if name not in self.known:
                raise ValueError(f"{name} is unknown; known are {', '.join(self.known)}")
            if name == "scale" and value == 13:
                raise ValueError(f"scale must not be {value}")

    def uses_gpus(self, runs):
        return False

    def pack(self, runs, gpus):
        return alone(runs)

    def execute(self, runs, scratch):
        return [self._one(run, scratch) for run in runs]

    def _one(self, run, scratch):
        with open(trace_of(run), "a") as trace:
            try:
                fcntl.flock(trace, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                trace.write("beside itself\n")
            finished = (scratch.parent.parent / "runs" / f"{run.id}.run").exists()
            trace.write("again\n" if finished else "begun\n")
            trace.flush()
            time.sleep(run.parameters.get("sleep", float(os.environ.get("RASF_TEST_SLEEP", "0"))))
            if not Path(run.parameters.get("unless", "/nowhere")).exists():
                self._fail(run)
            draws = np.random.default_rng(run.seed).random(5) * run.parameters.get("scale", 1.0)
            return RunResult({"mean": draws.mean(), "seed": run.seed * 10, "word": f"w{run.seed}"}, {"draws": draws})

    def _fail(self, run):
        match run.parameters.get("fail", "") if run.seed == 1 else "":
            case "raise":
                raise RuntimeError("asked to\nraise")
            case "exit":
                sys.exit(3)
            case "die":
                os.abort()
            case "hang":
                time.sleep(60)
            case "eat":
                eaten = np.ones(40_000_000)  # 0.32 GB
                time.sleep(60 + eaten[0])
            case "full":
                raise OSError(28, "No space left on device", "/somewhere")


class Lanes(Probe):
    """Packs runs that differ only in their seed, four at a time where there are GPUs; notes who ran together."""

    def uses_gpus(self, runs):
        return True

    def pack(self, runs, gpus):
        if not gpus:
            return alone(runs)
        groups = {}
        for run in runs:
            groups.setdefault(tuple(sorted(run.parameters.items())), []).append(run)
        return [group[i : i + 4] for group in groups.values() for i in range(0, len(group), 4)]

    def execute(self, runs, scratch):
        with open(scratch.parent.parent / "lanes", "a") as file:
            file.write(f"{os.environ['CUDA_VISIBLE_DEVICES']} {' '.join(run.id for run in runs)}\n")
        return super().execute(runs, scratch)


class Talk(Probe):
    """Prints."""

    def execute(self, runs, scratch):
        print(*(f"{name}={os.environ.get(name)}" for name in ("OMP_NUM_THREADS", "JAX_COMPILATION_CACHE_DIR")))
        print("said and", flush=True)
        os.write(2, b"warned\n")
        return super().execute(runs, scratch)


PROBE, LANES, TALK = Probe(), Lanes(), Talk()
