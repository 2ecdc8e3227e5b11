"""Experiments with `rasf`: the paper's, a suite of environments, competing methods, sweeps, and their commands."""
