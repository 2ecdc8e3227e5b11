"""In the place of numba.core."""
