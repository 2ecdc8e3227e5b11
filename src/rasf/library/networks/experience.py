"""A model of the environment, learned from the steps in a replay."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rasf.deep import replay
from rasf.deep.agent import Agent
from rasf.deep.clock import Clock
from rasf.library.ahead.fitting import Transitions, fit
from rasf.library.ahead.learned import LearnedModel


def model_of(
    agent: Agent, rows: npt.NDArray[np.float32], events: tuple[int, ...], seed: int
) -> tuple[LearnedModel, str]:
    """Learn a model, and return it with a sentence on its errors.

    Args:
        agent: The agent that stored the steps.
        rows: The rows (N, R) of its replay.
        events: Indices of the features that are events.
        seed: Seed of all random numbers.
    """
    return fit(transitions_of(agent, rows), 0 if agent.action_size else agent.actions, events, seed)


def transitions_of(agent: Agent, rows: npt.NDArray[np.float32]) -> Transitions:
    """Return the steps of a replay without time inputs.

    At the agent's time limit, a step is stored as the end of its episode. Such steps are left out, because it is not
    known whether the episode terminated too.

    Args:
        agent: The agent that stored the steps.
        rows: The rows (N, R).
    """
    steps = replay.unpack(rows, agent.inputs, action_size=agent.action_size)
    if agent.limit:
        within = Clock(agent.limit, agent.settings.gamma).age(steps.next_obs) < agent.limit
        rows = rows[within] if within.any() else rows
        steps = replay.unpack(rows, agent.inputs, action_size=agent.action_size)
    n = agent.inputs - agent.time_inputs
    return Transitions(steps.obs[:, :n], steps.action, steps.phi, steps.next_obs[:, :n], steps.not_terminated == 0)
