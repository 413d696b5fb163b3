"""Descriptions to finished runs: the only training loop, and seeds side by side."""

from .checkpoint import load_checkpoint, save_checkpoint
from .description import Description, described
from .early_stopping import EarlyStopping
from .loop import Diverged, Place, Plan, train
from .run import learner, run

__all__ = [
    "Description",
    "Diverged",
    "EarlyStopping",
    "Place",
    "Plan",
    "described",
    "learner",
    "load_checkpoint",
    "run",
    "save_checkpoint",
    "train",
]
