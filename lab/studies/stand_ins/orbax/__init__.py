"""In the place of orbax, which is imported but not called."""
