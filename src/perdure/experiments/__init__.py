"""Descriptions to finished runs: the only training loop, executors, studies."""

from .checkpoint import load_checkpoint, save_checkpoint
from .description import Description, described
from .early_stopping import EarlyStopping
from .jobs import Job
from .loop import Diverged, Place, Plan, train
from .run import data_of, device_of, learner, run
from .run_study import Outcome, outcome, plan_study, run_study
from .serial import run_serially
from .side_by_side import at_once, run_side_by_side
from .store import can_go_on, check_unchanged, data_changed, jobs_for, last_of, versions_changed
from .study import Cell, Study, read_study, study_of

__all__ = [
    "Cell",
    "Description",
    "Diverged",
    "EarlyStopping",
    "Job",
    "Outcome",
    "Place",
    "Plan",
    "Study",
    "at_once",
    "can_go_on",
    "check_unchanged",
    "data_changed",
    "data_of",
    "described",
    "device_of",
    "jobs_for",
    "last_of",
    "learner",
    "load_checkpoint",
    "outcome",
    "plan_study",
    "read_study",
    "run",
    "run_serially",
    "run_side_by_side",
    "run_study",
    "save_checkpoint",
    "study_of",
    "train",
    "versions_changed",
]
