"""Descriptions to finished runs: the only training loop, and seeds side by side."""

from .checkpoint import load_checkpoint, save_checkpoint
from .description import Description, described
from .early_stopping import EarlyStopping
from .loop import Diverged, Place, Plan, train
from .run import data_of, device_of, learner, run
from .side_by_side import Job, at_once, run_jobs
from .store import data_changed, jobs_for, last_of, versions_changed

__all__ = [
    "Description",
    "Diverged",
    "EarlyStopping",
    "Job",
    "Place",
    "Plan",
    "at_once",
    "data_changed",
    "data_of",
    "described",
    "device_of",
    "jobs_for",
    "last_of",
    "learner",
    "load_checkpoint",
    "run",
    "run_jobs",
    "save_checkpoint",
    "train",
    "versions_changed",
]
