"""What the explorer computes: each scene answers for one world, with numbers, for any reward weights and risk."""
