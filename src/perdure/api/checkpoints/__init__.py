"""Evaluating saved models: files, how they become models, and the record of their scores."""
