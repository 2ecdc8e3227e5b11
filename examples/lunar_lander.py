"""mo-lunar-lander-v3: a landing module with weak engines. Minutes on a CPU teach it to land, not yet to be careful.

The module starts above a landing pad with a random push. The features are (+100 landed or -100 crashed at the end,
shaping: how much nearer, slower and more upright it got, -1 a step of the main engine, -1 a step of a side engine), so
that

    w = (weight of the end, weight of the shaping, price of the main engine, price of a side engine);

(1, 1, 0.3, 0.03) is the reward of the well-known LunarLander-v3.

Where the chance lies: in the first push, and in every step with an engine on, whose thrust is blurred. A crash counts
as a failure. A risk has the unit of 1 / return: what beta = -4 is to returns of 1, beta = -0.01 is to returns of
some hundreds.

What to expect: we take 120,000 steps, so that an example ends within minutes, and it learns to land, not yet well. The
support is given by hand: the shaping has no bounds in `reward_space`, and 100 / (1 - gamma) would be far too wide for
the end, which comes once.
"""

import rasf
from rasf import MeanVariance
from showing import act_at_random, show, table

ENV = "mo-lunar-lander-v3"
TRAINED = [[1, 1, 0.3, 0.03], [0.3, 1, 0.1, 0.1]]
NEW = [[2, 1, 0.3, 0.03], [0.5, 1, 0.5, 0.1]]
ACTING = {"neutral": MeanVariance(0.0), "averse": MeanVariance(-0.01)}
SUPPORT = [[-100, 100], [-200, 200], [-50, 0], [-50, 0]]  # of the discounted feature returns


def crashed(step) -> bool:
    """The end is -100."""
    return step.phi[0] < 0


def main(quick: bool = False, seed: int = 0) -> str:
    """Risk-neutral against risk-averse acting on mo-lunar-lander-v3."""
    library = rasf.learn(
        ENV,
        tasks=TRAINED,
        agent="rasfc51",  # histograms: features of size 100 and of size 1 are learned equally well
        steps_per_task=200 if quick else 60_000,
        gamma=0.98,
        seed=seed,
        num_envs=8,
        support=SUPPORT,
        atoms=21,
        widths=(64, 64),
        target_period=250,
        learning_rate=5e-4,
    )
    episodes, limit = (4, 20) if quick else (200, 400)
    given = {"episodes": episodes, "seed": seed, "failure": crashed, "max_steps": limit}
    found = {str(w): library.compare(ENV, w, ACTING, **given).reports for w in NEW}
    found = {w: {"random": act_at_random(ENV, one["neutral"], **given), **one} for w, one in found.items()}
    crashes = {
        acting: int(sum(by_acting[acting].failures.sum() for by_acting in found.values()))
        for acting in ("random", *ACTING)
    }
    return (
        f"{table(found)}\n\n"
        f"In {episodes * len(NEW)} episodes of at most {limit} steps random acting crashes {crashes['random']} times, "
        f"neutral acting {crashes['neutral']} times, averse acting {crashes['averse']} times."
    )


if __name__ == "__main__":
    show(main)
