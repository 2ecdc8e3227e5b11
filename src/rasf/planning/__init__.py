"""Exact planning for finite MDPs: entropic utilities, moments, static risk, limits, certificates and rollouts."""
