"""Study files, selection on validation data, tables and reporting guidelines."""

from .estimates import RunEstimate, estimate_runs
from .guidelines import GuidelineCheck, check_guidelines
from .rows import StudyRow, build_rows
from .runner import run_study
from .status import PlannedRun, Selection, StudyStatus, Trial, study_status
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
