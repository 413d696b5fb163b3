"""Study files, selection on validation data, tables and reporting guidelines."""

from .rows import GuidelineCheck, StudyRow, build_rows, check_guidelines
from .runner import run_study
from .status import (
    PlannedRun,
    RunEstimate,
    Selection,
    StudyStatus,
    Trial,
    estimate_runs,
    study_status,
)
from .study import Cell, SelectionRule, Study, make_study, read_study

__all__ = [
    "Cell",
    "GuidelineCheck",
    "PlannedRun",
    "RunEstimate",
    "Selection",
    "SelectionRule",
    "Study",
    "StudyRow",
    "StudyStatus",
    "Trial",
    "build_rows",
    "check_guidelines",
    "estimate_runs",
    "make_study",
    "read_study",
    "run_study",
    "study_status",
]
