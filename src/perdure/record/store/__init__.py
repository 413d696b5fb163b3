"""A store, which is a folder of runs: what is in it, removing runs, and archives of them."""

from .listing import StoredRun, find_stored_runs, list_stored_runs
from .removal import finish_removals, remove_stored_run
from .zip_archive import extract_archive, write_archive

__all__ = [
    "StoredRun",
    "extract_archive",
    "find_stored_runs",
    "finish_removals",
    "list_stored_runs",
    "remove_stored_run",
    "write_archive",
]
