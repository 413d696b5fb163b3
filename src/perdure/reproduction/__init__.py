"""Published tables and claims, next to what was measured."""

from .claims import statements
from .comparison import Line, findings_of, lines_of, measured_lines, study_for
from .figure_data import write_figures
from .measurements import CellRuns, Findings
from .published import Entry, entries, find_entry, missing_data

__all__ = [
    "CellRuns",
    "Entry",
    "Findings",
    "Line",
    "entries",
    "find_entry",
    "findings_of",
    "lines_of",
    "measured_lines",
    "missing_data",
    "statements",
    "study_for",
    "write_figures",
]
