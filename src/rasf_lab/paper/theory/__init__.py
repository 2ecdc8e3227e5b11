"""The paper's theorems, tested on random instances (claims T1 to T6, Figure 7)."""
