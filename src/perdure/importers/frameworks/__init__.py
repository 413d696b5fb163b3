"""Readers of the logs of continual-learning frameworks."""
