"""Evaluation while training: the `Evaluator` and the objects that configure it."""

from .alarm import Alarm, AlarmTriggered
from .evaluator import Evaluator
from .executors import Executor, Inline, Worker
from .gradients import gradient_norm
from .live import Live
from .options import EvalTask, Record, Subset
from .recorder import EvaluationWarning
from .schedules import Burst, Every, Schedule, burst, every
from .scores.score import Score

__all__ = [
    "Alarm",
    "AlarmTriggered",
    "Burst",
    "EvalTask",
    "EvaluationWarning",
    "Evaluator",
    "Every",
    "Executor",
    "Inline",
    "Live",
    "Record",
    "Schedule",
    "Score",
    "Subset",
    "Worker",
    "burst",
    "every",
    "gradient_norm",
]
