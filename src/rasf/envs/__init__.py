"""Environments: the paper's grid, four-room and reacher, and adapters from Gymnasium environments to features."""
