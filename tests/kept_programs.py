"""Folders in pytest's cache for programs that jax compiled, so that the next run need not.

Each worker of pytest-xdist has its own, as none may read what another is still writing; and what any of them compiled
in earlier runs is in all of them, as nobody knows which worker will have which test.
"""

import os
from functools import cache

KINDS = ("jax", "server-jax")  # of the tests' own process, and of the explorer's server, which runs beside it


@cache
def folder(config, kind):
    """The folder of this worker, with what earlier runs left."""
    own = config.cache.mkdir(f"{kind}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
    _link_all(config.cache.mkdir(kind), own)
    return str(own)


def gather(config):
    """Put what the workers compiled where the next run finds it; none of them is working any more."""
    for kind in KINDS:
        pool = config.cache.mkdir(kind)
        for own in pool.parent.glob(f"{kind}-*"):
            _link_all(own, pool)


def _link_all(source, target):
    there = {path.name for path in target.iterdir()}
    for path in source.iterdir():
        if path.name not in there:
            os.link(path, target / path.name)
