import pytest

pytest.importorskip("nicegui", reason="the pages need the extra `explorer`")

from rasf.explorer.map_page import step_over_walls

WALLS = (1, 4, 5)  # . # .
#                    . # #
#                    . . .


@pytest.mark.parametrize(
    ("cell", "move", "found"),
    [
        (0, (0, 1), 2),  # over a wall
        (2, (0, -1), 0),
        (2, (1, 0), 8),
        (3, (0, 1), 3),  # nothing but walls
        (0, (0, -1), 0),  # the border
        (0, (-1, 0), 0),
        (7, (-1, 0), 7),  # two walls, then the border
        (6, (0, 1), 7),
    ],
)
def test_arrow_keys_step_over_walls_and_stay_on_the_map(cell, move, found):
    assert step_over_walls(cell, move, 3, 3, WALLS) == found
