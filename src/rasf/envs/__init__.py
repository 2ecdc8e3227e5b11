"""Environments: the paper's grid, four-room and reacher, and any Gymnasium environment as a source of features."""
