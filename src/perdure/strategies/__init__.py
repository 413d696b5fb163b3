"""Strategies: how a model is updated on a batch. One paper, one module.

What needs PyTorch is imported when it is first used: listing strategies does not.
"""

from typing import TYPE_CHECKING

from .._extras import import_on_use
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

_MODULES = {info.class_name: info.module for info in STRATEGIES.values()}
_MODULES |= dict.fromkeys(("LossCallback", "LossTerm", "Rows", "Strategy"), "_base")

if not TYPE_CHECKING:  # a type checker would take any name for an attribute
    __getattr__ = import_on_use(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
