"""deep-sea-treasure-v0: a submarine and ten treasures, the larger the farther. No chance, so nothing to be averse to.

The submarine starts in the upper left corner of a sea; treasures lie on its floor, from 0.7 (one step away) to 23.7
(nineteen steps away), and the first one reached ends the episode. The features are (treasure, -1 a step), so that

    w = (value of a unit of treasure, price of a step).

Where the chance lies: nowhere. Every step and every beginning is the same, so the return of a policy has no variance,
and risk-neutral and risk-averse acting ought to agree. What is left to see is transfer: three prices of a step are
trained, three others are met, and below the table stands how much the best of the ten treasures would earn.

A learner that takes variances from its own temporal differences (rasfql) could still go wrong here, as long as its
values move. On a model of what was seen (rasf-model) a variance of nothing random is 0.
"""

import numpy as np

import rasf
from rasf import MeanVariance
from showing import agreement, show, table

ENV = "deep-sea-treasure-v0"
TRAINED = [[1, 0.2], [1, 0.6], [1, 2.0]]
NEW = [[1, 0.4], [1, 1.0], [1, 3.0]]
ACTING = {"neutral": MeanVariance(0.0), "averse": MeanVariance(-1.0)}


def main(quick: bool = False, seed: int = 0) -> str:
    """Risk-neutral against risk-averse acting on deep-sea-treasure-v0."""
    import mo_gymnasium

    library = rasf.learn(
        ENV,
        tasks=TRAINED,
        agent="rasf-model",
        risk=list(ACTING.values()),
        steps_per_task=300 if quick else 20_000,
        gamma=0.98,
        seed=seed,
        epsilon=0.5,  # a wanderer: half of the steps go anywhere,
        margin=100.0,  # also where little is to be expected
    )
    found = {str(w): library.compare(ENV, w, ACTING, 10, seed=seed).reports for w in NEW}
    front = np.array(mo_gymnasium.make(ENV).unwrapped.pareto_front(library.gamma))
    best = ", ".join(f"{(front @ w).max():.3g}" for w in NEW)
    return f"{table(found)}\n\nThe best discounted returns are {best}. {agreement(found)}"


if __name__ == "__main__":
    show(main)
