"""Study files, selection on validation data, and how far a study is."""

from .run_study import StudyStatus, failure_of, plan_study, run_study, study_status
from .study import Cell, Study, make_study, read_study

__all__ = [
    "Cell",
    "Study",
    "StudyStatus",
    "failure_of",
    "make_study",
    "plan_study",
    "read_study",
    "run_study",
    "study_status",
]
