"""Figures with matplotlib, a function each: methods in, a figure out; `save` writes it."""

from ._paper import save
from .criteria_charts import fixed, spider
from .four_panels import panels
from .heatmap_grids import changes, heatmaps
from .ranking import ranks
from .rescaling import guessing, rescaled

__all__ = [
    "changes",
    "fixed",
    "guessing",
    "heatmaps",
    "panels",
    "ranks",
    "rescaled",
    "save",
    "spider",
]
