"""Figures, one function per kind: each takes runs by method and returns a matplotlib figure."""

from .class_results import classes, confusion
from .criteria_charts import fixed, spider
from .curves import curves
from .drawing import add_title, get_caption, save
from .gradients import gradients
from .matrices import changes, heatmaps, panels
from .progress import averages, early_stopping
from .ranking import ranks
from .relations import forgetting, series
from .rescaling import guessing, rescaled

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
