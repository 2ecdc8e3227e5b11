"""Deep agents: networks that learn distributions of feature returns, in a compiled loop or stepped from Python."""
