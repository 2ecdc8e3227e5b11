"""Colours, patterns and the scale of heat, for light and dark; nothing is ever said by colour alone.

Sources are told apart by colour and pattern together: seven colours that stay apart for eyes without red or green (a
test sees with them), and seven patterns that differ in a print without colour. Heat has one hue and runs from the
paper's lightness to the ink's, so it reads in grey, in both themes. Words keep a contrast of 4.5 to what is behind.

Colours are CSS custom properties of the class `rasf`, so one picture serves both themes: light unless an ancestor (or
the picture itself) has the class `dark` or `body--dark`; a picture that is its own document asks the reader's system,
unless it has the class `light`.
"""

from __future__ import annotations

from collections.abc import Iterable

DRIVERS = 7  # sources with a look of their own; the rest are "other"
OTHER = DRIVERS
HEAT = 9  # steps of the scale

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2430",
    "soft": "#56606e",
    "line": "#d5dae1",
    "wall": "#4a5361",
    "accent": "#0b61a4",
    "link": "#39424f",
    "trail": "#b35900",
    "warn": "#b3261e",
    "warn-fill": "#ffd9c7",
    "d0": "#0066c0",
    "d1": "#d08000",
    "d2": "#0f6b4a",
    "d3": "#cf6f9a",
    "d4": "#289dcf",
    "d5": "#4d5300",
    "d6": "#6f4a94",
    "d7": "#7a828e",
    "h0": "#f4f7fb",
    "h1": "#dfe8f4",
    "h2": "#c5d7ec",
    "h3": "#9fbfe1",
    "h4": "#749fcf",
    "h5": "#4677ad",
    "h6": "#315f96",
    "h7": "#1f487a",
    "h8": "#103059",
    "on-low": "#1c2430",
    "on-high": "#ffffff",
}
DARK = {
    "paper": "#14181f",
    "ink": "#eef1f5",
    "soft": "#a9b3c0",
    "line": "#363e4a",
    "wall": "#626c7a",
    "accent": "#7cc0ff",
    "link": "#c9d1dc",
    "trail": "#ffb454",
    "warn": "#ff9d8a",
    "warn-fill": "#5a2118",
    "d0": "#3a8ef5",
    "d1": "#f0a040",
    "d2": "#1a9a58",
    "d3": "#e88aac",
    "d4": "#8fe3ff",
    "d5": "#e9df8a",
    "d6": "#9a82d6",
    "d7": "#98a1ad",
    "h0": "#1a2029",
    "h1": "#1f2c3d",
    "h2": "#253c57",
    "h3": "#2d4f75",
    "h4": "#386595",
    "h5": "#4b83bb",
    "h6": "#74a6d6",
    "h7": "#a5c8ea",
    "h8": "#dcebfa",
    "on-low": "#eef1f5",
    "on-high": "#10151c",
}
# Marks of the looks on a tile of 8 by 8; diagonals run over the corners so that tiles join.
_MARKS = (
    '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4"/>',
    '<path d="M2 2h.01M6 6h.01" stroke-width="2.6" stroke-linecap="round"/>',
    '<path d="M0 2h8M0 6h8"/>',
    '<path d="M-2 6l4 4M0 0l8 8M6-2l4 4"/>',
    '<path d="M2 0v8M6 0v8"/>',
    '<path d="M0 4h8M4 0v8"/>',
    '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4M-2 6l4 4M0 0l8 8M6-2l4 4" stroke-width=".8"/>',
    "",
)
FIRST_HIGH = 5  # from this step of heat on, words on it take the colour `on-high`


def driver_colour(look: int) -> str:
    """The colour of a look, 0 to `OTHER`, for a fill or a stroke."""
    return f"var(--d{look})"


def heat_step(share: float) -> int:
    """The step of a share in [0, 1] of the scale."""
    return min(max(int(share * HEAT), 0), HEAT - 1)


def heat_colour(step: int) -> str:
    """The colour of a step of heat."""
    return f"var(--h{step})"


def on_heat(step: int) -> str:
    """The colour of words on a step of heat."""
    return "var(--on-high)" if step >= FIRST_HIGH else "var(--on-low)"


def pattern_id(id_prefix: str, look: int) -> str:
    """The id of a look's pattern."""
    return f"{id_prefix}-look{look}"


def looks(drivers: list[int]) -> dict[int, int]:
    """A look for each source, most important first: as far as can be one and the same whatever else drives."""
    found: dict[int, int] = {}
    for driver in drivers:
        if len(found) >= DRIVERS:
            found[driver] = OTHER
            continue
        taken = set(found.values())
        found[driver] = next(look for step in range(DRIVERS) if (look := (driver + step) % DRIVERS) not in taken)
    return found


def patterns(id_prefix: str, used: Iterable[int]) -> str:
    """Definitions of the patterns of these looks: a tint of the colour, and marks in the full colour on it."""
    return "".join(
        f'<pattern id="{pattern_id(id_prefix, look)}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<g fill="none" stroke="{driver_colour(look)}" stroke-width="1.1">'
        f'<rect width="8" height="8" fill="{driver_colour(look)}" fill-opacity=".2" stroke="none"/>'
        f"{_MARKS[look]}</g></pattern>"
        for look in sorted(set(used))
    )


def _variables(theme: dict[str, str]) -> str:
    return ";".join(f"--{name}:{colour}" for name, colour in theme.items())


STYLE = (
    f".rasf{{{_variables(LIGHT)};font-family:system-ui,sans-serif}}"
    f".dark .rasf,.body--dark .rasf,svg.rasf.dark{{{_variables(DARK)}}}"
    f"@media (prefers-color-scheme:dark){{svg.rasf:root:not(.light){{{_variables(DARK)}}}}}"
    ".rasf text{fill:var(--ink);font-size:13px}"
    ".rasf .paper{fill:var(--paper)}"
    ".rasf .soft{fill:var(--soft)}"
    ".rasf .strong{font-weight:600}"
    ".rasf .halo{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}"
    ".rasf .over{pointer-events:none}"
    ".rasf .letter{text-anchor:middle;font-weight:700}"
    ".rasf text.tick{font-size:12px}"
    ".rasf .frame{fill:none;stroke:var(--soft);stroke-width:.8px}"
    ".rasf .swatch{stroke-width:1.2px}"
    # the map
    ".rasf .cell{cursor:pointer}"
    ".rasf .box{stroke:var(--line);stroke-width:1px}"
    ".rasf .box:not([fill]){fill:var(--paper)}"
    ".rasf .wall{fill:var(--wall)}"
    ".rasf .go{fill:var(--ink);stroke:var(--paper);stroke-width:1.6px;paint-order:stroke;stroke-linejoin:round}"
    ".rasf .on-low{fill:var(--on-low);stroke:none}"
    ".rasf .on-high{fill:var(--on-high);stroke:none}"
    ".rasf .faint,.rasf.walked .go{opacity:.4}"
    ".rasf .object{fill:var(--ink);stroke:var(--paper);stroke-width:1.2px}"
    ".rasf .object-letter{fill:var(--paper)}"
    ".rasf .collected{fill:var(--paper);stroke:var(--soft);stroke-width:1.4px;stroke-dasharray:2.5 2}"
    ".rasf .collected-letter{fill:var(--soft)}"
    ".rasf .trap{fill:var(--warn-fill);stroke:var(--warn);stroke-width:1.8px;stroke-linejoin:round}"
    ".rasf .trap-letter{fill:var(--warn)}"
    ".rasf .start{fill:var(--paper);stroke:var(--ink);stroke-width:1.6px}"
    ".rasf .start-letter{fill:var(--ink)}"
    ".rasf .pole{stroke:var(--ink);stroke-width:2.2px;stroke-linecap:round}"
    ".rasf .flag{fill:var(--accent);stroke:var(--paper);stroke-width:1px}"
    ".rasf .path,.rasf .path-edge,.rasf .ahead,.rasf .ahead-edge{fill:none;stroke-linejoin:round;stroke-linecap:round}"
    ".rasf .path{stroke:var(--ink);stroke-width:3px}"
    ".rasf .path-edge{stroke:var(--paper);stroke-width:6px}"
    ".rasf .ahead{stroke:var(--ink);stroke-width:2.2px;stroke-dasharray:.1 5}"
    ".rasf .ahead-edge{stroke:var(--paper);stroke-width:4.6px;opacity:.8}"
    ".rasf .mark{fill:var(--ink);stroke:var(--paper);stroke-width:1px}"
    ".rasf .agent-edge{fill:var(--paper);stroke:var(--ink);stroke-width:2px}"
    ".rasf .agent-body{fill:var(--accent)}"
    ".rasf .selected-edge{fill:none;stroke:var(--paper);stroke-width:6px}"
    ".rasf .selected{fill:none;stroke:var(--accent);stroke-width:3px}"
    # charts
    ".rasf.chart text{font-size:12.5px}"
    ".rasf .grid{stroke:var(--line);stroke-width:.8px}"
    ".rasf .axis{stroke:var(--soft);stroke-width:1px}"
    ".rasf .leader{stroke:var(--soft);stroke-width:.8px}"
    ".rasf .chosen-tint{fill:var(--accent);fill-opacity:.25}"
    ".rasf .chosen-hatch{stroke:var(--accent);stroke-width:1.1px;fill:none}"
    ".rasf .chosen-bar{stroke:var(--accent);stroke-width:1.2px}"
    ".rasf .neutral-bar{fill:none;stroke:var(--ink);stroke-width:1.6px;stroke-linejoin:round}"
    ".rasf .chosen-mark{stroke:var(--accent);stroke-width:1.6px}"
    ".rasf .neutral-mark{stroke:var(--ink);stroke-width:1.4px;stroke-dasharray:4 3}"
    ".rasf .chosen-dot{fill:var(--accent);stroke:var(--paper);stroke-width:1px}"
    ".rasf .neutral-dot{fill:var(--paper);stroke:var(--ink);stroke-width:1.6px}"
    ".rasf .curve{fill:none;stroke:var(--accent);stroke-width:2px;stroke-linejoin:round;opacity:.75}"
    ".rasf .whisker{stroke:var(--soft);stroke-width:1px;opacity:.7}"
    ".rasf .point{fill:var(--accent);stroke:var(--paper);stroke-width:1.2px}"
    ".rasf .neutral-point{fill:var(--paper);stroke:var(--ink);stroke-width:1.8px}"
    ".rasf .here{fill:none;stroke:var(--ink);stroke-width:2.4px}"
    ".rasf .here-edge{fill:none;stroke:var(--paper);stroke-width:5px}"
    ".rasf .spread{fill:var(--d7);fill-opacity:.28}"
    ".rasf .spread.wins{fill:var(--accent);fill-opacity:.3}"
    ".rasf .mean{fill:var(--paper);stroke:var(--ink);stroke-width:1.5px}"
    ".rasf .value{fill:var(--ink)}"
    ".rasf .star{fill:var(--accent)}"
    ".rasf .row-wins{fill:var(--accent);fill-opacity:.1}"
    # the arm
    ".rasf .reach{fill:none;stroke:var(--line);stroke-width:1.5px;stroke-dasharray:4 4}"
    ".rasf .heat{shape-rendering:crispEdges}"
    ".rasf .risk-hatch{stroke:var(--warn);stroke-width:1.2px;opacity:.7;fill:none}"
    ".rasf .risky-edge{fill:none;stroke:var(--paper);stroke-width:4px;opacity:.7}"
    ".rasf .risky{stroke:var(--warn);stroke-width:1.8px}"
    ".rasf .target{stroke:var(--ink);stroke-width:1.8px}"
    ".rasf .trained{fill:var(--ink)}"
    ".rasf .new{fill:var(--paper)}"
    ".rasf .trained-letter{fill:var(--paper)}"
    ".rasf .goal-ring{fill:none;stroke:var(--accent);stroke-width:3px}"
    ".rasf .goal-edge{fill:none;stroke:var(--paper);stroke-width:7px}"
    ".rasf .peak{stroke:var(--ink);stroke-width:2.4px;fill:none}"
    ".rasf .peak-edge,.rasf .failure-edge{stroke:var(--paper);stroke-width:5px;fill:none}"
    ".rasf .failure{stroke:var(--warn);stroke-width:2.6px;fill:none}"
    ".rasf .trail,.rasf .trail-edge{fill:none;stroke-linejoin:round;stroke-linecap:round}"
    ".rasf .trail{stroke:var(--trail);stroke-width:2px}"
    ".rasf .trail-edge{stroke:var(--paper);stroke-width:4.5px;opacity:.75}"
    ".rasf .link{stroke:var(--link);stroke-width:9px;stroke-linecap:round;opacity:.9}"
    ".rasf .joint{fill:var(--paper);stroke:var(--link);stroke-width:3px}"
    ".rasf .tip{fill:var(--trail);stroke:var(--paper);stroke-width:2.5px}"
)
