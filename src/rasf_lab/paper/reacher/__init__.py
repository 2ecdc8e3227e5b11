"""The reacher experiment (Figures 2, 4, 6 and 10 to 14; claims R1 to R18)."""
