"""Intervals of the metrics of one run, from per-example results."""
