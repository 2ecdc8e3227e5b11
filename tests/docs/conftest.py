from quick_compilation import quick_compilation  # noqa: F401
