"""Exact planning: entropic utilities, moments, certificates and rollouts of finite MDPs."""
