"""Costs of training and evaluation: operations, time and memory."""
