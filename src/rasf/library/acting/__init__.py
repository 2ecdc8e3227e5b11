"""Ways to act with a library: a class for each, made by `PolicyLibrary.rule`."""
