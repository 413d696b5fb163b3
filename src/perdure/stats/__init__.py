"""Intervals, tests, ranks and sample-size planning: pure functions of NumPy and SciPy."""

from .difference_tests import *
from .intervals import *
from .one_sided_bounds import *
from .pair_tests import *
from .pairwise import *
from .planning import *
from .ranks import *
from .schedules import *
