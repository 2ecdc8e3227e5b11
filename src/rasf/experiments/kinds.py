"""What can be swept, by the name that stands in a sweep file, and the sweep files that ship."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

KINDS = {
    "four-room": "rasf.experiments.four_room.runs:FOUR_ROOM",
    "reacher": "rasf.experiments.reacher.kind:REACHER",
}


def shipped_sweeps() -> dict[str, Path]:
    """The paper's experiments as sweep files, by name."""
    folder = Path(str(resources.files("rasf.experiments"))) / "sweeps"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}
