"""The arguments of training: declared once, read from text, and made into an environment, an agent, tasks, settings."""
