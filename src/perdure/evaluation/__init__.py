"""Evaluation while training: the `Evaluator` and the objects that configure it."""

from .alarm import Alarm, AlarmTriggered
from .arguments import EvalTask, Record, Subset
from .evaluator import Evaluator
from .live import Live
from .recorder import EvaluationWarning
from .schedules import Burst, Every, Executor, Inline, Schedule, Worker, burst, every
from .scores import Score
from .state.weights import gradient_norm

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
