"""Metrics as pure functions of arrays, and summaries of runs; NumPy, SciPy and stats only."""

from .control_scores import *
from .criteria import *
from .functional.accuracy import *
from .functional.costs import *
from .functional.forgetting import *
from .functional.forgetting_pairs import *
from .functional.gap import *
from .functional.learning import *
from .functional.rescaled import *
from .functional.retention import *
from .functional.transfer import *
from .functional.value import UndefinedMetricError as UndefinedMetricError
from .functional.value import Value as Value
from .functional.windows import *
from .functional.worst_case import *
from .intervals.control_intervals import *
from .intervals.extremes import *
from .intervals.matrix_intervals import *
from .intervals.run_difference import *
from .intervals.stream_intervals import *
from .methods import *
from .metric_names import *
from .per_example import *
from .registry import *
from .runs import *
from .score_matrix import *
from .stream import *
from .summary import *
from .summary_types import *
from .tools import *
