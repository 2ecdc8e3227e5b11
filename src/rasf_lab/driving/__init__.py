"""Driving: highway-env's environments, with their traffic compiled."""
