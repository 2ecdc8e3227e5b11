"""The charts of the page, in one place: returns, the frontier, the scores at one place."""

from rasf.explorer.drawing.frontier import draw_frontier
from rasf.explorer.drawing.returns import draw_returns
from rasf.explorer.drawing.scores import draw_scores, scores_rows

__all__ = ["draw_frontier", "draw_returns", "draw_scores", "scores_rows"]
