"""Static risk on a grid of accrued returns: 10,000 states, 200 levels, and how far it is from what memory allows.

    python lab/benchmarks/static.py [--states 10000] [--levels 200] [--horizon 50] [--sources 4]

4 actions, 3 successors each, gamma = 0.95, CVaR of the worst tenth. One step back reads two values for every state,
level, action, successor and source; the time is told beside that of copying as many bytes in the same run.
"""

import argparse
import time

import numpy as np
import scipy.sparse as sp

import rasf

ACTIONS, SUCCESSORS = 4, 3


def random_mdp(states, seed):
    """Sparse, with one feature."""
    rng = np.random.default_rng(seed)
    rows = states * ACTIONS
    weight = rng.random((rows, SUCCESSORS))
    weight /= weight.sum(axis=1, keepdims=True)
    successor = rng.integers(states, size=rows * SUCCESSORS, dtype=np.int32)
    P = sp.csr_array((weight.ravel(), successor, np.arange(rows + 1) * SUCCESSORS), shape=(rows, states))
    return rasf.FiniteMDP(P, rng.normal(size=(rows * SUCCESSORS, 1)), gamma=0.95)


def main():
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, usual in (("states", 10_000), ("levels", 200), ("horizon", 50), ("sources", 4)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    mdp, rng = random_mdp(given.states, 0), np.random.default_rng(1)
    policies = [rng.integers(ACTIONS, size=given.states) for _ in range(given.sources)]
    options = {"start": 0, "levels": given.levels}
    rasf.static_gpi(mdp, policies, [1.0], rasf.CVaR(0.1), horizon=1, **options)  # compiles
    for name, solve in (
        ("static_gpi", lambda: rasf.static_gpi(mdp, policies, [1.0], rasf.CVaR(0.1), horizon=given.horizon, **options)),
        ("plan_static", lambda: rasf.plan_static(mdp, [1.0], rasf.CVaR(0.1), horizon=given.horizon, **options)),
    ):
        begin = time.perf_counter()
        found = solve()
        seconds = time.perf_counter() - begin
        several = 2 if name == "plan_static" else given.sources + 1
        read = 2 * 8.0 * mdp.n_states * given.levels * ACTIONS * SUCCESSORS * several * given.horizon
        copied = np.zeros(2**26)
        begin = time.perf_counter()
        for _ in range(4):
            copied.copy()
        bandwidth = 4 * 2 * copied.nbytes / (time.perf_counter() - begin)
        print(
            f"{name}: {seconds:.1f} s, {read / 1e9:.0f} GB of values read, {seconds / (read / bandwidth):.1f} times a "
            f"copy of as many; risk {found.risk:.3f}, best source {found.sources.max(initial=-np.inf):.3f}, error "
            f"{found.error:.2f}"
        )


if __name__ == "__main__":
    main()
