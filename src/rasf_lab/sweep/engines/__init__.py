"""Where a sweep's jobs run: worker processes on this machine, or a Ray cluster."""
