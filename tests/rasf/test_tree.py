"""The root of the repository holds what it should, and nothing that a test or a command left there."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPECTED = {
    ".ci", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "README.md",
    "constraints.txt", "docs", "examples", "lab", "pyproject.toml", "src", "tests", "zensical.toml",
}  # fmt: skip


def test_the_root_has_no_file_or_folder_that_nobody_expects():
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a checkout, or there is no git")
    assert {path.partition("/")[0] for path in found.splitlines()} <= EXPECTED
