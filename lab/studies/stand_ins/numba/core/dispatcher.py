"""In the place of numba.core.dispatcher."""


class Dispatcher:
    """No function is of this class, as with NUMBA_DISABLE_JIT."""
