"""`CellMap`: a text map with one symbol per cell, on which an agent moves; base class of `Grid` and `FourRoom`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

MOVES = {"left": (0, -1), "up": (-1, 0), "right": (0, 1), "down": (1, 0)}
START, GOAL, EMPTY = "S", "G", "."


class CellMap:
    """A map with one start S and at least one goal G; the cell in row i and column j has the number i * columns + j.

    Spaces in `layout`, the text of the map, are ignored.
    """

    layout: str
    wall: ClassVar[str]

    def check_map(self, is_known: Callable[[str], bool], known: str) -> None:
        """Raise ValueError unless the map is a rectangle of known symbols with one start and at least one goal.

        Args:
            is_known: function that returns whether a symbol is known.
            known: the known symbols in words, for the error message.
        """
        if not self.rows or len({len(row) for row in self.rows}) != 1:
            raise ValueError("layout must have rows of equal length")
        for symbol in sorted(set(self.cells)):
            if not is_known(symbol):
                raise ValueError(f"layout must hold {known}, got {symbol!r}")
        if self.cells.count(START) != 1:
            raise ValueError(f"layout must have exactly one start S, got {self.cells.count(START)}")
        if GOAL not in self.cells:
            raise ValueError("layout must have a goal G")

    @cached_property
    def rows(self) -> list[str]:
        return ["".join(line.split()) for line in self.layout.strip().splitlines()]

    @cached_property
    def cells(self) -> str:
        """The symbols in the order of the cells."""
        return "".join(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self.rows), len(self.rows[0])

    @property
    def start(self) -> int:
        return self.cells.index(START)

    def move(self, cell: int, action: int) -> int:
        """Return the cell after a move from `cell`; a move off the map or into a wall has no effect."""
        rows, columns = self.shape
        down, right = tuple(MOVES.values())[action]
        i, j = cell // columns + down, cell % columns + right
        inside = 0 <= i < rows and 0 <= j < columns
        return i * columns + j if inside and self.rows[i][j] != self.wall else cell
