"""Intervals, tests, ranks and sample-size planning: pure functions of NumPy and SciPy."""

from .intervals import *
from .letter_display import *
from .one_sided_bounds import *
from .pair_tests import *
from .paired_proportions import *
from .pairwise import *
from .permutation_tests import *
from .planning import *
from .rank_tests import *
from .ranks import *
from .schedules import *
from .selection_bias import *
from .t_tests import *
from .variance_components import *
