"""Tabular policies of a library: training, freezing, storing and scoring."""
