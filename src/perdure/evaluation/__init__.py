"""A model at step t in, points out: the evaluator and what it is made of."""

from .alarm import AlarmTriggered
from .evaluator import Evaluator
from .gradients import gradient_norm
from .live import Live
from .recorder import EvaluationWarning
from .schedules import Burst, Every, Schedule, burst, every

__all__ = [
    "AlarmTriggered",
    "Burst",
    "EvaluationWarning",
    "Evaluator",
    "Every",
    "Live",
    "Schedule",
    "burst",
    "every",
    "gradient_norm",
]
