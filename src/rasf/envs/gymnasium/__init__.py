"""Any Gymnasium environment as a source of features: spaces, encoded observations, one environment or many."""
