from quick_compilation import kept_compilation  # noqa: F401
