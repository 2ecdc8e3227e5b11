"""Sweeps: many runs, declared as data, spread over processes or machines, and resumed after faults."""
