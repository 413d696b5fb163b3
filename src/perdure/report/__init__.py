"""Numbers in, things to read out: tables for the terminal, Markdown, LaTeX and CSV."""

from .grid import Grid
from .scores import scores_grids, tool_grid

__all__ = ["Grid", "scores_grids", "tool_grid"]
