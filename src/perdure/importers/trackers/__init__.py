"""Readers of experiment trackers and plain tables: one module per format."""
