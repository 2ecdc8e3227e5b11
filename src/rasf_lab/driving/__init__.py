"""highway-env's driving environments, with compiled traffic."""
