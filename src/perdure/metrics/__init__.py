"""Arrays in, numbers out: every metric as a pure function. NumPy and SciPy only."""

from ._value import Undefined as Undefined
from ._value import Value as Value
from .accuracy import *
from .compare import *
from .costs import *
from .criteria import *
from .extremes import *
from .forgetting import *
from .gap import *
from .hits import *
from .honesty import *
from .learning import *
from .letters import *
from .matrix_intervals import *
from .methods import *
from .nemenyi import *
from .pair_tests import *
from .pairs import *
from .permutation_tests import *
from .plan import *
from .rank_tests import *
from .reading import *
from .rescaled import *
from .results import *
from .run_difference import *
from .runs import *
from .score_matrix import *
from .seeds import *
from .stream_data import *
from .summary import *
from .t_tests import *
from .table import *
from .tools import *
from .transfer import *
from .wilson import *
from .windows import *
from .worst_case import *
