"""Libraries from logs: reading them, learning from them, and how sure that is."""
