"""Figures, one function per kind: each takes runs by method and returns a matplotlib figure."""

from .class_results import classes, confusion
from .criteria_charts import fixed, spider
from .curves import curves
from .drawing.paper import add_title, get_caption, save
from .forgetting import forgetting
from .four_panels import panels
from .gradients import gradients
from .heatmap_grids import changes, heatmaps
from .ranking import ranks
from .rescaling import guessing, rescaled
from .series import series
from .stopping import early_stopping
from .task_averages import averages

__all__ = [
    "add_title",
    "averages",
    "changes",
    "classes",
    "confusion",
    "curves",
    "early_stopping",
    "fixed",
    "forgetting",
    "get_caption",
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
