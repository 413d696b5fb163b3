"""A config to one finished run: the training loop, checkpoints, early stopping."""

from .changes import check_unchanged, data_changed, is_finished, versions_changed
from .checkpoint import load_checkpoint, save_checkpoint
from .config import RunConfig, make_config
from .early_stopping import EarlyStopping
from .estimate import estimated_seconds, length_of
from .loop import DivergedError, Position, TrainingPlan, train
from .run import data_of, device_of, learner, run

__all__ = [
    "DivergedError",
    "EarlyStopping",
    "Position",
    "RunConfig",
    "TrainingPlan",
    "check_unchanged",
    "data_changed",
    "data_of",
    "device_of",
    "estimated_seconds",
    "is_finished",
    "learner",
    "length_of",
    "load_checkpoint",
    "make_config",
    "run",
    "save_checkpoint",
    "train",
    "versions_changed",
]
