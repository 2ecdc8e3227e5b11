"""The lines of a sweep file: `tomllib` says what stands there but not where, so keys are looked for."""

from __future__ import annotations

import re
from pathlib import Path


class Lines:
    """A file's lines, to name the one of a key."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._lines = path, text.splitlines()

    def refuse(self, what: str, key: str = "", section: str = "", index: int = 0) -> ValueError:
        """The error for something wrong at a key of a section; `index` counts sections of the same name."""
        return ValueError(f"{self._path}, line {self._find(key, section, index)}: {what}")

    def _find(self, key: str, section: str, index: int) -> int:
        """The key's line, or else its section's, or else the first."""
        at, inside, seen = 1, section == "", -1
        for number, line in enumerate(self._lines, 1):
            header = re.match(r"\s*\[{1,2}\s*[\"']?([\w-]+)[\"']?\s*\]{1,2}\s*(#|$)", line)
            if header:
                seen += header[1] == section
                if section == "" and header[1] == key:  # an unknown section
                    return number
                inside = header[1] == section and seen == index
                at = number if inside else at
            elif section and re.match(rf"\s*{re.escape(section)}\s*[.=]", line):
                at = number  # of grid.risk = [0.0], or of grid = {risk = [0.0]}
                if key and re.search(rf"\b{re.escape(key)}\b", line):
                    return number
            elif inside and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", line):
                return number
        return at
