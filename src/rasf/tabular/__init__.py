"""Tabular learners: (Ra)SFQL, (Ra)PRQL and Q-learning, compiled."""
