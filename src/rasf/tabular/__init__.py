"""Tabular learners, compiled with numba: SFQL and RaSFQL, and planning on a model that counts transitions."""
