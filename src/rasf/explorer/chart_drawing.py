"""The charts of the page, in one place: returns, the frontier, the scores at one place."""

from rasf.explorer.frontier_drawing import draw_frontier
from rasf.explorer.returns_drawing import draw_returns
from rasf.explorer.score_drawing import draw_scores, scores_rows

__all__ = ["draw_frontier", "draw_returns", "draw_scores", "scores_rows"]
