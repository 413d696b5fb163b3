"""Descriptions to finished runs: the only training loop, and seeds side by side."""

from .checkpoint import load_checkpoint, save_checkpoint
from .early_stopping import EarlyStopping
from .loop import Diverged, Place, Plan, train

__all__ = [
    "Diverged",
    "EarlyStopping",
    "Place",
    "Plan",
    "load_checkpoint",
    "save_checkpoint",
    "train",
]
