"""Rival algorithms that were written for comparisons."""
