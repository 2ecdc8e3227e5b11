"""Sweeps: many runs that are declared as data, executed by processes or machines, and resumed after faults."""
