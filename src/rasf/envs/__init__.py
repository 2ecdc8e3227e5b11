"""Environments: exact finite MDPs and their Gymnasium forms."""
