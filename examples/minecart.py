"""minecart-v0: a cart that fetches two kinds of ore. A little chance, and little for risk aversion to do.

The cart starts at a base in one corner. Five mines hold the two ores in different mixtures; the cart drives to one,
brakes, mines until it is full (two actions or so), and sells what it has when it comes back, which ends the episode.
The features are (ore 1 sold, ore 2 sold, -fuel), so that

    w = (price of ore 1, price of ore 2, price of fuel).

Where the chance lies: only in how much of each ore a mining action brings up (standard deviation 0.07 to 0.08 of each
in a full load of 1.5). A cart that is full of more of the one holds less of the other: where both have the same price
the chance cancels, and where one of them costs (a negative price, waste to be disposed of) it adds up.

A good trip takes some 16 decisions. We train two weightings, neutral only, for five minutes on a CPU. That is enough to
fetch a full load on most weightings, and not on all: leaving the base now or a step later differs by V (1 - gamma), and
a network that misjudges this small difference for a new weighting waits at the base until the clock stops it. Such a
row (no variance, no failure, a small loss) shows what was not learned, and says nothing about risk.
"""

import rasf
from rasf import MeanVariance
from showing import act_at_random, show, table

ENV = "minecart-v0"
TRAINED = [[1, 0.5, 0.05], [0.5, 1, 0.05]]
NEW = [[1, 1, 0.05], [1, -0.5, 0.05], [-0.5, 1, 0.05]]
ACTING = {"neutral": MeanVariance(0.0), "averse": MeanVariance(-4.0)}
SUPPORT = [[0, 1.5], [0, 1.5], [-2, 0]]  # of the discounted feature returns; ore is sold once
MEANT = ("return", "return_variance")


def empty(step) -> bool:
    """A failure is to come back with nothing to sell."""
    return step.terminated and step.phi[:2].sum() == 0


def main(quick: bool = False, seed: int = 0) -> str:
    """Risk-neutral against risk-averse acting on minecart-v0."""
    library = rasf.learn(
        ENV,
        tasks=TRAINED,
        agent="rasfc51",
        steps_per_task=200 if quick else 80_000,
        gamma=0.97,
        seed=seed,
        num_envs=8,
        support=SUPPORT,
        atoms=21,
        widths=(64, 64),
        batch=64,
        epsilon=0.3,  # half of all random episodes bring some ore home, which is how the first is found
        target_period=250,
    )
    episodes, limit = (4, 20) if quick else (64, 200)
    given = {"episodes": episodes, "seed": seed, "failure": empty, "max_steps": limit}
    found = {str(w): library.compare(ENV, w, ACTING, **given).reports for w in NEW}
    found = {w: {"random": act_at_random(ENV, one["neutral"], **given), **one} for w, one in found.items()}
    neutral, averse = (
        {
            name: sum(by_acting[acting].measures[name].estimate for by_acting in found.values()) / len(NEW)
            for name in MEANT
        }
        for acting in ACTING
    )
    return (
        f"{table(found)}\n\n"
        f"Averse acting earns {averse['return']:.3g} an episode with variance {averse['return_variance']:.3g}, "
        f"neutral acting {neutral['return']:.3g} with {neutral['return_variance']:.3g}."
    )


if __name__ == "__main__":
    show(main)
