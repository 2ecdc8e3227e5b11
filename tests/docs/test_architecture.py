"""The picture of docs/architecture.md is that of the present import graph."""

import re
from pathlib import Path

import architecture_picture

ROOT = Path(__file__).parents[2]


def test_the_picture_is_current():
    assert architecture_picture.FIGURE.read_text(encoding="utf-8") == architecture_picture.picture()


def test_every_file_that_the_page_names_exists():
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", architecture_picture.PAGE.read_text(encoding="utf-8"))
    inside = [name for name in named if not name.startswith(("src/", "docs/", "lab/"))]
    assert len(inside) > 30
    missing = [name for name in inside if not list((ROOT / "src").rglob(name.rstrip("/")))]
    assert missing == []


def test_a_longer_way_replaces_an_arrow():
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert architecture_picture.reduced(edges) == {"a": {"b"}, "b": {"c"}, "c": set()}
