"""perdure measures what a model keeps while it goes on learning."""

from .metrics import (
    Costs,
    Hits,
    Options,
    ScoreMatrix,
    ScoreScale,
    Stream,
    Summary,
    Undefined,
    summary,
)

__all__ = [
    "Costs",
    "Hits",
    "Options",
    "ScoreMatrix",
    "ScoreScale",
    "Stream",
    "Summary",
    "Undefined",
    "__version__",
    "summary",
]
__version__ = "0.1.0"
