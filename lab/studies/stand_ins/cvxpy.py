"""In the place of cvxpy, which is imported but not called."""


class SolverError(Exception):
    """The name that is imported."""
