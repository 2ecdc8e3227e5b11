"""The laboratory: what was done with the library. The paper's experiments, the suite, rivals, and their commands."""
