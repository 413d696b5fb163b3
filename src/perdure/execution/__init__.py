"""Many configs to many finished runs: one after the other, in turns, in a process pool, on Ray."""

from .events import (
    ExitEvent,
    FailureEvent,
    NoteEvent,
    ProgressEvent,
    RunEvent,
    SuccessEvent,
)
from .jobs import Job
from .process_pool import default_max_parallel, run_in_processes
from .ray_executor import run_on_ray
from .serial import run_serially
from .store import can_resume, find_last_run, plan_jobs
from .together import run_together, suits_together

__all__ = [
    "ExitEvent",
    "FailureEvent",
    "Job",
    "NoteEvent",
    "ProgressEvent",
    "RunEvent",
    "SuccessEvent",
    "can_resume",
    "default_max_parallel",
    "find_last_run",
    "plan_jobs",
    "run_in_processes",
    "run_on_ray",
    "run_serially",
    "run_together",
    "suits_together",
]
