"""Readers of language-model evaluations: one module per tool."""
