"""Engines, which execute a sweep's jobs: worker processes on this machine, or a Ray cluster."""
