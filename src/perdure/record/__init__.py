"""Files in, arrays out: readers of the run folder and of other tools' matrices."""

from .costs_file import read_costs
from .gradients_file import Gradients, read_gradients
from .incremental_reader import GrowingPoints
from .inputs import InputOptions, ScoreInput, read_input, read_vector
from .io.append import RecordError, is_locked
from .io.append import replace as replace_file
from .io.files import InputError, check_depth, open_regular, read_file, read_json
from .matrix_file import parse_matrix, parse_vector
from .per_example_folder import read_per_example
from .points import Points
from .points_file import read_points
from .run import FAILED, Run, failure_of, open_run
from .summary_cache import RunSummary, load_summary
from .writer import RunWriter, csv_field

__all__ = [
    "FAILED",
    "Gradients",
    "GrowingPoints",
    "InputError",
    "InputOptions",
    "Points",
    "RecordError",
    "Run",
    "RunSummary",
    "RunWriter",
    "ScoreInput",
    "check_depth",
    "csv_field",
    "failure_of",
    "is_locked",
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
]
