"""In the place of wandb, which is not used without a log."""


def finish() -> None:
    """Do nothing, as without a log."""
