"""Figures with matplotlib, a function each: methods in, a figure out; `save` writes it."""

from ._paper import save

__all__ = ["save"]
