"""Intervals of metrics of one run, from the results of single examples."""
