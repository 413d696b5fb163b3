"""Verdicts: whether a run keeps requirements, with stated confidence, and what it has lost."""

from .baseline import Baseline, freeze_run, read_baseline, write_baseline
from .checked_run import CheckedRun, TaskScore, make_checked_run, read_checked_run
from .conditions import CheckInputs
from .decision import decide, holm_rejections
from .flips import ExampleFlip, Flips, TaskFlips, find_flips
from .noise import ScorerNoise, measure_noise
from .requirement import Requirement, parse_requirement, parse_requirements
from .requirement_files import CheckSettings, find_settings, read_settings
from .verdict import EXIT_CODES, Decision, RequirementResult, TaskResult, Verdict

__all__ = [
    "EXIT_CODES",
    "Baseline",
    "CheckInputs",
    "CheckSettings",
    "CheckedRun",
    "Decision",
    "ExampleFlip",
    "Flips",
    "Requirement",
    "RequirementResult",
    "ScorerNoise",
    "TaskFlips",
    "TaskResult",
    "TaskScore",
    "Verdict",
    "decide",
    "find_flips",
    "find_settings",
    "freeze_run",
    "holm_rejections",
    "make_checked_run",
    "measure_noise",
    "parse_requirement",
    "parse_requirements",
    "read_baseline",
    "read_checked_run",
    "read_settings",
    "write_baseline",
]
