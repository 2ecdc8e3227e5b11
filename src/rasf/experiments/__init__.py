"""Experiments: the paper's figures and claims, measured, saved and drawn; the only room that imports matplotlib."""
