"""The reacher experiment (the paper's Figures 2, 4, 6 and 10 to 14, and its claims R1 to R18)."""
