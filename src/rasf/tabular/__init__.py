"""Tabular learners, compiled with numba: SFQL, RaSFQL, and planning on a model that counts transitions."""
