"""The module for `python -m rasf`, which does the same as the command `rasf`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line. Ctrl-C during the import of rasf ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rasf.cli.main import main as run

    run()


if __name__ == "__main__":  # worker processes also import this file, under another name than __main__
    main()
