"""Study files, selection on validation data, and how far a study is."""

from .run_study import Outcome, failure_of, outcome, plan_study, run_study
from .study import Cell, Study, read_study, study_of

__all__ = [
    "Cell",
    "Outcome",
    "Study",
    "failure_of",
    "outcome",
    "plan_study",
    "read_study",
    "run_study",
    "study_of",
]
