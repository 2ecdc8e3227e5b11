"""Ways to act with a library: one class each, built by `PolicyLibrary.rule`."""
