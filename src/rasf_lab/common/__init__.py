"""Code shared by all experiments: runs and their archive, results with provenance, claims, rules and verdicts."""
