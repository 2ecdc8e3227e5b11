import numpy as np
import pytest

pytest.importorskip("nicegui", reason="the pages need the extra `explorer`")

from dataclasses import replace

from small_scenes import LAYOUT

from rasf_explorer.pages.arm import heaviest
from rasf_explorer.pages.map import step_over_walls, why_no_scores

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


@pytest.mark.parametrize(
    ("cell", "layout", "said"),
    [
        (1, LAYOUT, "A wall."),
        (5, LAYOUT, "The episode ends here."),
        (4, LAYOUT, "Nothing was learned here."),
        (4, replace(LAYOUT, hazards=(4,)), "Nothing was learned here."),
        (4, replace(LAYOUT, hazards=(4,), hazards_end=True), "The episode ends here."),
    ],
)
def test_a_cell_without_scores_has_a_reason(cell, layout, said):
    assert why_no_scores(layout, cell) == said


def test_no_target_is_the_heaviest_where_none_has_a_weight():
    assert heaviest(np.array([0.0, 0.5, 0.2])) == 1
    assert heaviest(np.zeros(3)) is None
