"""Acting rules of a library: one class for each way to act. `PolicyLibrary.rule` makes the objects."""
