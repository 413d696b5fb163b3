"""Numbers in, things to read out: tables for the terminal, Markdown, LaTeX and CSV."""

from .comparison import Compared
from .comparison_tables import comparison_grids
from .grid import Grid
from .scores import scores_grids, tool_grid
from .task_table import headline_grid, kept_grid

__all__ = [
    "Compared",
    "Grid",
    "comparison_grids",
    "headline_grid",
    "kept_grid",
    "scores_grids",
    "tool_grid",
]
