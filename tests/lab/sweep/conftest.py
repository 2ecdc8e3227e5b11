from sweep_help import trace as trace
