"""Figures, one function per kind: each takes runs by method and returns a matplotlib figure."""

from ._paper import add_title, save
from .criteria_charts import fixed, spider
from .curves import curves
from .forgetting import forgetting
from .four_panels import panels
from .gradients import gradients
from .heatmap_grids import changes, heatmaps
from .ranking import ranks
from .rescaling import guessing, rescaled
from .series import series

__all__ = [
    "add_title",
    "changes",
    "curves",
    "fixed",
    "forgetting",
    "gradients",
    "guessing",
    "heatmaps",
    "panels",
    "ranks",
    "rescaled",
    "save",
    "series",
    "spider",
]
