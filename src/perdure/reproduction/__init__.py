"""Published tables and claims, next to what was measured."""

from .comparison import ComparisonRow, build_study, collect_measurements
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
    "collect_measurements",
    "find_missing_data",
    "find_published_result",
    "load_published_results",
    "write_report",
]
