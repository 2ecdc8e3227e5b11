"""The four-room experiment: the paper's Figures 2, 3, 8 and 9, its claims F1 to F17 and T7, and our goals M1 to M9."""
