"""resource-gathering-v0: a walk for gold and a gem past two enemies. Here risk-aware acting helps.

    . . g E .      The walker leaves home (H), may pick up gold (g) and a gem (G), and the episode ends when it comes
    . . E . G      home. The features are (killed: -1, gold brought home, gem brought home), so that
    . . . . .
    . . . . .          w = (price of dying, value of the gold, value of the gem).
    . . H . .
                   The chance: each step onto an enemy (E) kills with probability 0.1, which also ends the episode.

The gem can be had without danger in 10 steps and the gold in 12. Both in 12 steps lead past both enemies (19 % die),
and in 14 steps past one (10 % die). With gamma = 0.9 time is dear, so the best mean is often the dangerous way.

We train on three weightings, once neutral and once averse, and meet four others. In the first three, exact planning
says, neutral acting should risk death and averse acting should not; in the last the gem is worth so much that both are
safe. A library that has never seen these weightings should find that out at once. To tell 0.36 (the gold, dangerous)
from 0.31 (the gold, safe) takes many deaths to average over, so all experience is kept (rasf-model).
"""

import rasf
from rasf import MeanVariance
from showing import show, table

ENV = "resource-gathering-v0"
TRAINED = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
NEW = [[0.5, 1, 1], [0.2, 1, 0.2], [1, 2, 1], [0.5, 1, 2]]
ACTING = {"neutral": MeanVariance(0.0), "averse": MeanVariance(-4.0)}


def killed(step) -> bool:
    """The environment names no failures; dying is one."""
    return step.phi[0] < 0


def main(quick: bool = False, seed: int = 0) -> str:
    """Risk-neutral against risk-averse acting on resource-gathering-v0."""
    library = rasf.learn(
        ENV,
        tasks=TRAINED,
        agent="rasf-model",
        risk=list(ACTING.values()),  # a policy for each weighting and each risk, all from one stream
        steps_per_task=500 if quick else 50_000,
        gamma=0.9,
        seed=seed,
        epsilon=0.5,  # a wanderer: half of the steps go anywhere,
        margin=100.0,  # also where little is to be expected
    )
    episodes = 20 if quick else 500
    found = {str(w): library.compare(ENV, w, ACTING, episodes, seed=seed, failure=killed).reports for w in NEW}
    neutral, averse = (int(sum(by_acting[name].failures.sum() for by_acting in found.values())) for name in ACTING)
    return (
        f"{table(found)}\n\n"
        f"In {episodes * len(NEW)} episodes neutral acting dies {neutral} times, averse acting {averse} times."
    )


if __name__ == "__main__":
    show(main)
