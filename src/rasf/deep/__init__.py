"""Deep agents: feature-return laws by networks, trained in one fused loop or stepped from Python."""
