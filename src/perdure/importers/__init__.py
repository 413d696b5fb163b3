"""Other tools' results become run folders: one module per tool reads the files it writes."""

from .imported import Evaluation, ImportedRun, write_run
from .options import ImportOptions
from .reading import choose_reader, read_object, read_runs, write_runs
from .registry import READERS, Reader, recognize_path

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
