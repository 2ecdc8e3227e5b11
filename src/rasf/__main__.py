"""`python -m rasf`, the same as the command `rasf`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; Ctrl-C while rasf is imported ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rasf.cli.main import main as run

    run()


if __name__ == "__main__":  # false in the worker processes of a sweep, which import this file too
    main()
