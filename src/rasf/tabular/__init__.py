"""Tabular learners, compiled: (Ra)SFQL, and planning on a model learned from counts."""
