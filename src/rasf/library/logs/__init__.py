"""Libraries from logs: reading logs, learning from them, and the uncertainty of what is learned."""
