"""four-room-v0: shapes to collect on the way to a goal. No chance here either; the paper's own four rooms have some.

Four rooms hold twelve shapes of three colours; the goal, in the far corner, ends the episode. The features say which
colour was picked up in a step (at the goal all three are 1), so that w says what a shape of each colour is worth, or
costs. Every shape can be taken once, so there are as many states as cells times sets of shapes left.

Where the chance lies: nowhere. MO-Gymnasium's world has neither traps nor slips, and one beginning. Risk-neutral and
risk-averse acting should do the same, and the table says whether they do. Do not look for an optimum: the new
weightings combine colours that no policy was trained to combine, the tables have met a small part of the states, and a
policy made of several may walk in circles where two of them disagree, until the clock stops it after 200 steps.

For risk in four rooms see docs/results.md: `rasf/FourRoom-v0` is this world with traps.
"""

import rasf
from rasf import MeanVariance
from showing import agreement, show, table

ENV = "four-room-v0"
TRAINED = [[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1]]
NEW = [[1, 0.5, -0.5], [-0.5, 1, 1], [0.3, 0.6, 0.9]]
ACTING = {"neutral": MeanVariance(0.0), "averse": MeanVariance(-1.0)}


def main(quick: bool = False, seed: int = 0) -> str:
    """Risk-neutral against risk-averse acting on four-room-v0."""
    library = rasf.learn(
        ENV,
        tasks=TRAINED,
        agent="rasf-model",
        risk=list(ACTING.values()),
        steps_per_task=500 if quick else 40_000,
        gamma=0.95,
        seed=seed,
        epsilon=0.3,  # a wanderer: three steps in ten go anywhere,
        margin=100.0,  # also where little is to be expected
    )
    found = {str(w): library.compare(ENV, w, ACTING, 10, seed=seed).reports for w in NEW}
    return f"{table(found)}\n\n{agreement(found)}"


if __name__ == "__main__":
    show(main)
