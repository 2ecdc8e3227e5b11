"""Fast rollouts of a library in the worlds that are compiled: four rooms and the reacher."""
