"""Environments: the paper's grid, four rooms and reacher, and adapters that give Gymnasium environments features."""
