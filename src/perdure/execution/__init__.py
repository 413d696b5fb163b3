"""Many configs to many finished runs: one after the other, in a process pool, on Ray."""

from .jobs import Job
from .process_pool import at_once, run_side_by_side
from .ray_executor import run_on_ray
from .serial import run_serially
from .store import can_go_on, jobs_for, last_of

__all__ = [
    "Job",
    "at_once",
    "can_go_on",
    "jobs_for",
    "last_of",
    "run_on_ray",
    "run_serially",
    "run_side_by_side",
]
