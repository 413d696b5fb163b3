"""Scores other than accuracy: functions, scores of tokens by name, and metrics of whole sets."""
