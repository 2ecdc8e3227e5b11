"""Experiments with `rasf`: those of the paper, a suite of environments, rival agents, sweeps, and their commands."""
