from sweep_help import trace as trace

from quick_compilation import kept_compilation  # noqa: F401
