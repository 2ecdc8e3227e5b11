"""Calibration of a library: the errors of its predictions, and bounds that allow for them."""
