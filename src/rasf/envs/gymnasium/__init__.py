"""Adapters of Gymnasium environments: encoded observations, and features as rewards of one or several environments."""
