"""Strategies: how a model is updated on a batch. One paper, one module."""

from importlib import import_module
from typing import TYPE_CHECKING

from .registry import (
    STRATEGIES,
    STRATEGY_ALIASES,
    StrategyInfo,
    find_strategy,
    resolve_strategy,
)

if TYPE_CHECKING:
    from ._base import LossCallback, LossTerm, Rows, Strategy
    from .agem import AGEM
    from .baselines import Cumulative, Joint, Naive, Random, Single
    from .cwr_star import CWRStar
    from .ewc import EWC
    from .gdumb import GDumb
    from .gem import GEM
    from .lwf import LwF
    from .mas import MAS
    from .replay import Replay
    from .si import SI

__all__ = [
    "AGEM",
    "EWC",
    "GEM",
    "MAS",
    "SI",
    "STRATEGIES",
    "STRATEGY_ALIASES",
    "CWRStar",
    "Cumulative",
    "GDumb",
    "Joint",
    "LossCallback",
    "LossTerm",
    "LwF",
    "Naive",
    "Random",
    "Replay",
    "Rows",
    "Single",
    "Strategy",
    "StrategyInfo",
    "find_strategy",
    "resolve_strategy",
]

_CLASSES = {info.class_name: name for name, info in STRATEGIES.items()}


def __getattr__(name: str) -> object:
    """Import what needs PyTorch when it is first used: listing strategies does not."""
    if name in _CLASSES:
        return find_strategy(_CLASSES[name])
    if name in __all__:
        return getattr(import_module("._base", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
