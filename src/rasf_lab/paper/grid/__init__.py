"""The paper's motivating example (Figure 1), exact."""
