"""Fast rollouts of a library in compiled worlds: four-room and the reacher."""
