"""Many configs to many finished runs: one after the other, in a process pool, on Ray."""

from .jobs import Job
from .process_pool import default_max_parallel, run_in_processes
from .ray_executor import run_on_ray
from .serial import run_serially
from .store import can_go_on, jobs_for, last_of

__all__ = [
    "Job",
    "can_go_on",
    "default_max_parallel",
    "jobs_for",
    "last_of",
    "run_in_processes",
    "run_on_ray",
    "run_serially",
]
