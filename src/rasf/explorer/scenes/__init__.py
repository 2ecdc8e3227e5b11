"""What the explorer computes: worlds under a library, scored, rolled out and swept along the risk dial. No drawing."""
