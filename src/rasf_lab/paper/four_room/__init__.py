"""The four-room experiment (Figures 2, 3, 8 and 9; claims F1 to F17, T7 and our goals M1 to M9)."""
