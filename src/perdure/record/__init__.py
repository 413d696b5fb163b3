"""Files in, arrays out: the run folder, and readers of other tools' matrices and logs."""

from .formats.matrix import parse_matrices, parse_vector
from .formats.per_example import read_per_example
from .formats.points import IncrementalPoints, read_points
from .formats.tables import Gradients, read_costs, read_gradients
from .inputs import detect_options, read_input, read_ref, read_vector
from .io.files import InputError, check_depth, open_regular, read_file, read_json
from .io.folder import RecordError
from .io.folder import replace as replace_file
from .io.text import csv_field, visible
from .log import Log
from .points import Points
from .run import Run, RunSummary, load_summary, open_run
from .run_folder import RunFolder, RunStatus
from .run_index import list_runs
from .run_metadata import JSON, RunMetadata, config_as_json
from .score_input import InputOptions, ScoreInput
from .writer import RunWriter

__all__ = [
    "JSON",
    "Gradients",
    "IncrementalPoints",
    "InputError",
    "InputOptions",
    "Log",
    "Points",
    "RecordError",
    "Run",
    "RunFolder",
    "RunMetadata",
    "RunStatus",
    "RunSummary",
    "RunWriter",
    "ScoreInput",
    "check_depth",
    "config_as_json",
    "csv_field",
    "detect_options",
    "list_runs",
    "load_summary",
    "open_regular",
    "open_run",
    "parse_matrices",
    "parse_vector",
    "read_costs",
    "read_file",
    "read_gradients",
    "read_input",
    "read_json",
    "read_per_example",
    "read_points",
    "read_ref",
    "read_vector",
    "replace_file",
    "visible",
]
