"""Intervals, tests and ranks of plain numbers: pure functions of NumPy and SciPy."""

from .letter_display import *
from .nemenyi import *
from .pair_tests import *
from .pairwise import *
from .permutation_tests import *
from .rank_tests import *
from .t_tests import *
from .wilson import *
