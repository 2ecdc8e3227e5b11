"""The four-room experiment (Figures 2, 3, 8 and 9; claims F1 to F17 and T7)."""
