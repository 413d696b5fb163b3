"""Other tools' results become run folders: one module per tool reads the files it writes."""

from .imported import Evaluation, ImportedRun, ImportOptions, write_run
from .reading import (
    READERS,
    Reader,
    choose_reader,
    read_object,
    read_runs,
    recognize_path,
    write_runs,
)

__all__ = [
    "READERS",
    "Evaluation",
    "ImportOptions",
    "ImportedRun",
    "Reader",
    "choose_reader",
    "read_object",
    "read_runs",
    "recognize_path",
    "write_run",
    "write_runs",
]
