"""A driver over a Ray cluster of two nodes of this machine, one of which is killed midway: SPEC FOLDER."""

import os
import signal
import sys
from pathlib import Path

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

from ray.cluster_utils import Cluster

from rasf_lab.sweep.drive import drive, jobs_of
from rasf_lab.sweep.engines.ray import RayEngine
from rasf_lab.sweep.spec import read_spec
from rasf_lab.sweep.store import Store

SMALL = {"num_cpus": 2, "object_store_memory": 80_000_000}


def kill(raylet):
    """All processes of a node at once, as when a machine goes away."""
    workers = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    for process in (raylet, *map(int, workers)):
        os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={**SMALL, "include_dashboard": False})
    nodes = [cluster.add_node(**SMALL)]

    def show(progress):
        if nodes and progress.done >= 10:
            kill(nodes.pop().all_processes["raylet"][0].process.pid)

    spec, store = read_spec(Path(sys.argv[1])), Store(Path(sys.argv[2]))
    with store.driving():
        store.declare(spec)
        engine = RayEngine(store.folder, None, spec.limits, cluster.address)
        assert engine.free() == 4
        ended = drive(spec, store, engine, jobs_of(spec, store, engine.gpus), show)
    print(ended.done, ended.failed, ended.losses)
    cluster.shutdown()
