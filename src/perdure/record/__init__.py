"""Files in, arrays out: the run folder, and readers of other tools' matrices and logs."""

from .costs_file import read_costs
from .gradients_file import Gradients, read_gradients
from .incremental_reader import GrowingPoints
from .inputs import read_input, read_vector
from .io.append import RecordError
from .io.append import replace as replace_file
from .io.files import InputError, check_depth, open_regular, read_file, read_json
from .io.text import visible
from .matrix_file import parse_matrix, parse_vector
from .per_example_folder import read_per_example
from .points import Points
from .points_file import read_points
from .run import Run, open_run
from .run_folder import RunFolder, RunStatus, list_runs
from .run_metadata import JSON, RunMetadata
from .score_input import InputOptions, ScoreInput
from .summary_cache import RunSummary, load_summary
from .writer import RunWriter, csv_field

__all__ = [
    "JSON",
    "Gradients",
    "GrowingPoints",
    "InputError",
    "InputOptions",
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
    "csv_field",
    "list_runs",
    "load_summary",
    "open_regular",
    "open_run",
    "parse_matrix",
    "parse_vector",
    "read_costs",
    "read_file",
    "read_gradients",
    "read_input",
    "read_json",
    "read_per_example",
    "read_points",
    "read_vector",
    "replace_file",
    "visible",
]
