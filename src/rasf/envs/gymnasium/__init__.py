"""Adapters from Gymnasium environments to features: spaces, encoded observations, single and vector environments."""
