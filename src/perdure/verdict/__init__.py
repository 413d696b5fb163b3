"""Verdicts: whether a run keeps requirements, with stated confidence, and what it has lost."""

from .baseline import Baseline, freeze_run, read_baseline, write_baseline
from .checked_run import (
    CheckedRun,
    ExampleFlip,
    Flips,
    TaskFlips,
    TaskScore,
    find_flips,
    make_checked_run,
    read_checked_run,
)
from .conditions import CheckInputs, ScorerNoise, measure_noise
from .decision import (
    EXIT_CODES,
    Decision,
    RequirementResult,
    TaskResult,
    Verdict,
    decide,
    holm_rejections,
)
from .requirement import (
    CheckSettings,
    Requirement,
    find_settings,
    parse_requirement,
    parse_requirements,
    read_settings,
)

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
