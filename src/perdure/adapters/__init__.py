"""Callbacks that evaluate while a framework trains: Lightning, Hugging Face Trainer, Avalanche.

`perdure.adapters.lightning`, `.transformers` and `.avalanche` each have a `ContinualEvaluation`;
importing one of them imports its framework.
"""
