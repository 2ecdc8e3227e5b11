"""The modules of rasf and their imports, from the import graph: `python docs/architecture_picture.py` redraws.

Writes docs/figures/architecture.svg. An arrow is left out if a longer path implies it, which keeps the picture
readable. `tests/docs/test_architecture.py` checks that the picture is current.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import grimp

FIGURE = Path(__file__).parent / "figures" / "architecture.svg"
PAGE = Path(__file__).parent / "architecture.md"
ROWS: tuple[dict[str, int], ...] = (  # top-level modules and their x, from the user's side down
    {"rasf_explorer": 320},
    {"rasf_lab": 320},
    {"cli": 320},
    {"drawing": 320},
    {"library": 430},
    {"planning": 90, "tabular": 330, "deep": 530},
    {"envs": 210, "limits": 430},
    {"mdp": 90, "transfer": 245, "agents": 400, "statistics": 555},
    {"risk": 320},
)
PACKAGES = ("rasf_explorer", "rasf_lab")  # beside the library
BASE = ("world", "compiled", "checks", "files", "arrays")  # which most modules import: drawn without arrows
_TOP = [top for row in ROWS for top in row] + list(BASE)
_WIDTH, _STEP, _BOX = 640, 74, (128, 38)


def imports() -> dict[str, set[str]]:
    """Return the top-level modules that each top-level module imports, anywhere inside."""
    graph = grimp.build_graph("rasf", *PACKAGES, cache_dir=None)
    found = {child.removeprefix("rasf.") for child in graph.find_children("rasf")} - {"__main__"} | {*PACKAGES}
    if found != set(_TOP):
        raise ValueError(f"ROWS and BASE must name the modules of rasf; they differ in {sorted(found ^ set(_TOP))}")
    edges: dict[str, set[str]] = {top: set() for top in _TOP}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            source, target = map(_top_of, (module, imported))
            if source in edges and target in edges and source != target:
                edges[source].add(target)
    return edges


def _top_of(module: str) -> str:
    """Return the top-level module of a module: a package beside `rasf`, or a folder or file of it."""
    package, _, inside = module.partition(".")
    return package if package in PACKAGES else inside.partition(".")[0]


def reduced(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the edges that no longer path implies."""

    def reach(modules: Iterable[str]) -> set[str]:
        below = set(modules)
        for module in modules:
            below |= reach(edges[module])
        return below

    return {
        top: {target for target in targets if not any(target in reach(edges[other]) for other in targets - {target})}
        for top, targets in edges.items()
    }


def picture() -> str:
    """Return the picture as SVG text."""
    width, height = _BOX
    places = {top: (x, _STEP * level + _STEP / 2) for level, row in enumerate(ROWS) for top, x in row.items()}
    total = _STEP * (len(ROWS) + 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {total}" font-family="sans-serif" '
        'font-size="15" role="img" aria-label="Modules of rasf and their imports">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>',
        f'<rect width="{_WIDTH}" height="{total}" fill="#ffffff"/>',
    ]
    for top, targets in reduced(imports()).items():
        if top not in places:
            continue
        for target in sorted(targets & places.keys()):
            (x, y), (to_x, to_y) = places[top], places[target]
            y, to_y = y + height / 2, to_y - height / 2
            middle = (y + to_y) / 2
            curve = f"M{x:.0f} {y:.0f} C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"
            lines.append(f'<path d="{curve}" fill="none" stroke="#667" stroke-width="1.3" marker-end="url(#tip)"/>')
    for top, (x, y) in places.items():
        box = f'x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" width="{width}" height="{height}" rx="6"'
        lines.append(f'<rect {box} fill="#eef3fa" stroke="#345"/>')
        lines.append(f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="#123">{top}</text>')
    y = total - _STEP / 2
    bar = f'x="26" y="{y - height / 2:.0f}" width="{_WIDTH - 52}" height="{height}" rx="6"'
    lines.append(f'<rect {bar} fill="#f4f4f4" stroke="#345"/>')
    names = " · ".join(BASE)
    lines.append(f'<text x="{_WIDTH / 2:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="#123">{names}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    FIGURE.write_text(picture(), encoding="utf-8")
