"""Published tables and claims, next to what was measured."""

from .claims import check_claims
from .comparison import (
    ComparisonRow,
    build_study,
    collect_measurements,
    compare_with_published,
    list_measured_rows,
)
from .figure_data import write_figures
from .measurements import CellRuns, Measurements
from .published import (
    PublishedResult,
    find_missing_data,
    find_published_result,
    load_published_results,
)
from .report import ReproductionReport, write_report

__all__ = [
    "CellRuns",
    "ComparisonRow",
    "Measurements",
    "PublishedResult",
    "ReproductionReport",
    "build_study",
    "check_claims",
    "collect_measurements",
    "compare_with_published",
    "find_missing_data",
    "find_published_result",
    "list_measured_rows",
    "load_published_results",
    "write_figures",
    "write_report",
]
