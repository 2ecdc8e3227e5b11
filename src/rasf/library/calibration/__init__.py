"""Calibration of a library: how far its predictions are from realised outcomes, and bounds that allow for that."""
