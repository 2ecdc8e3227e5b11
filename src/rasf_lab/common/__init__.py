"""What all experiments share: results with provenance, claims, verdicts, drawing."""
