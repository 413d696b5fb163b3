"""placeholder"""

from __future__ import annotations


def extreme_intervals(stream, hits, wanted, *, level):
    return {}


def selection_bias(stream, wanted):
    return {}
