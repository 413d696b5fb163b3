"""Figures with matplotlib, a function each: methods in, a figure out; `save` writes it."""

from ._paper import save
from .curves import curves
from .forgetting import forgetting
from .gradients import gradients
from .series import series

__all__ = ["curves", "forgetting", "gradients", "save", "series"]
