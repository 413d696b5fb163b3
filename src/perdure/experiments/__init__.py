"""Descriptions to finished runs: the only training loop, executors, studies."""

from .checkpoint import load_checkpoint, save_checkpoint
from .description import Description, described
from .early_stopping import EarlyStopping
from .entries import Entry, entries, find_entry, missing_data
from .estimate import estimated_seconds, length_of
from .figures import write_figures
from .findings import CellRuns, Findings
from .jobs import Job
from .loop import Diverged, Place, Plan, train
from .on_ray import run_on_ray
from .reproduce import Line, findings_of, lines_of, measured_lines, study_for
from .run import data_of, device_of, learner, run
from .run_study import Outcome, failure_of, outcome, plan_study, run_study
from .serial import run_serially
from .shapes import statements
from .side_by_side import at_once, run_side_by_side
from .store import (
    can_go_on,
    check_unchanged,
    data_changed,
    is_finished,
    jobs_for,
    last_of,
    versions_changed,
)
from .study import Cell, Study, read_study, study_of

__all__ = [
    "Cell",
    "CellRuns",
    "Description",
    "Diverged",
    "EarlyStopping",
    "Entry",
    "Findings",
    "Job",
    "Line",
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
    "entries",
    "estimated_seconds",
    "failure_of",
    "find_entry",
    "findings_of",
    "is_finished",
    "jobs_for",
    "last_of",
    "learner",
    "length_of",
    "lines_of",
    "load_checkpoint",
    "measured_lines",
    "missing_data",
    "outcome",
    "plan_study",
    "read_study",
    "run",
    "run_on_ray",
    "run_serially",
    "run_side_by_side",
    "run_study",
    "save_checkpoint",
    "statements",
    "study_for",
    "study_of",
    "train",
    "versions_changed",
    "write_figures",
]
