"""Engines, which execute a sweep's jobs in worker processes on this machine, or on a Ray cluster."""
