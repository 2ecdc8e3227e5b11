"""Rival algorithms, implemented for comparison."""
