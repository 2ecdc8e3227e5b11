"""Gymnasium environments as sources of features: spaces, encoded observations, one environment or many."""
