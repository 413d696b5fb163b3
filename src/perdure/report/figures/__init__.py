"""Figures with matplotlib, a function each: methods in, a figure out; `save` writes it."""

from ._paper import entitle, save
from .curves import curves
from .forgetting import forgetting
from .gradients import gradients
from .series import series

__all__ = ["curves", "entitle", "forgetting", "gradients", "save", "series"]
