"""Libraries from logs: reading logs, learning from logs, and the uncertainty of the results."""
