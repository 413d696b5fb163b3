"""Tables for the terminal, Markdown, LaTeX and CSV."""

from .comparison import ComparisonReport
from .comparison_tables import make_comparison_tables
from .scores import make_headline_table, make_score_tables, make_task_table, make_tool_table
from .text_table import TextTable

__all__ = [
    "ComparisonReport",
    "TextTable",
    "make_comparison_tables",
    "make_headline_table",
    "make_score_tables",
    "make_task_table",
    "make_tool_table",
]
