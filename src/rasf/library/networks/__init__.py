"""Policies of a library that are networks: training, storage, scores and actions."""
