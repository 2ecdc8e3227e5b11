"""The computations of the explorer: a scene evaluates policies in one world, for any reward weights and risk."""
