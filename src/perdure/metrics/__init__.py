"""Metrics as pure functions of arrays, and summaries of runs; NumPy, SciPy and stats only."""

from .functional.accuracy import *
from .functional.common import UndefinedMetricError as UndefinedMetricError
from .functional.common import Value as Value
from .functional.costs import *
from .functional.forgetting import *
from .functional.gap import *
from .functional.learning import *
from .functional.rescaled import *
from .functional.worst_case import *
from .registry import *
from .run_intervals import *
from .runs import *
from .score_matrix import *
from .stream import *
from .stream_extremes import *
from .summary import *
from .summary_options import *
from .summary_types import *
from .task_end_intervals import *
from .tools import *
