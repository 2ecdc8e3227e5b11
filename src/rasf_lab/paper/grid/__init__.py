"""The paper's motivating example (Figure 1), planned exactly."""
