"""Experiments with `rasf`: the paper's experiments, the suite, competing methods, sweeps, and their commands."""
