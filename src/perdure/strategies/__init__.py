"""A batch to an update: one paper, one file. Names are looked up here, files read when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from .._suggestions import suggest_names
from .._user_modules import describe_module, import_user_module
from ..record import InputError

if TYPE_CHECKING:
    from ._base import Strategy

__all__ = ["STRATEGIES", "Strategy", "StrategyInfo", "find_strategy"]


class StrategyInfo(NamedTuple):
    """A strategy's line in the table."""

    file: str
    name: str
    about: str
    paper: str
    keeps: str
    costs: str  # beside a step of naive


STRATEGIES: dict[str, StrategyInfo] = {
    "naive": StrategyInfo(
        "naive", "Naive", "fine-tuning, the lower bound", "",
        "nothing beside the network",
        "nothing",
    ),
    "cumulative": StrategyInfo(
        "cumulative", "Cumulative", "everything seen so far, learned together with the new",
        "Diaz-Rodriguez et al. 2018; Maltoni & Lomonaco 2019",
        "all examples seen, the initial weights where it begins with them",
        "as many more steps as there are old examples",
    ),
    "joint": StrategyInfo(
        "joint", "Joint", "all tasks at once, the upper bound", "",
        "all examples",
        "every task takes the steps of all",
    ),
    "single": StrategyInfo(
        "single", "Single", "each task by itself, from scratch", "",
        "the initial weights",
        "nothing",
    ),
    "replay": StrategyInfo(
        "replay", "Replay", "old examples beside the new ones in every step",
        "Chaudhry et al. 2019, On tiny episodic memories; De Lange et al. 2023",
        "the examples of a memory",
        "twice the examples in every step",
    ),
    "random": StrategyInfo(
        "random_", "Random", "guesses among the classes seen",
        "Michel et al., New metrics for analyzing continual learners",
        "nothing",
        "no steps at all",
    ),
    "gdumb": StrategyInfo(
        "gdumb", "GDumb", "a balanced memory, learned from scratch when a task ends",
        "Prabhu, Torr, Dokania 2020, GDumb: a simple approach that questions our progress",
        "the examples of a memory, the initial weights",
        "no steps while a task streams by, passes over the memory at its end",
    ),
    "ewc": StrategyInfo(
        "ewc", "EWC", "weights pulled back as hard as old tasks depended on them",
        "Kirkpatrick et al. 2017, Overcoming catastrophic forgetting in neural networks; "
        "online: Schwarz et al. 2018",
        "an importance and an anchor for each weight, however many tasks",
        "two passes over the weights a step, a pass over the task's examples at its end",
    ),
    "si": StrategyInfo(
        "si", "SI", "weights pulled back as hard as moving them lowered the loss",
        "Zenke, Poole, Ganguli 2017, Continual learning through synaptic intelligence",
        "an importance and an anchor for each weight",
        "five passes over the weights a step",
    ),
    "mas": StrategyInfo(
        "mas", "MAS", "weights pulled back as hard as the outputs depend on them",
        "Aljundi et al. 2018, Memory aware synapses",
        "an importance and an anchor for each weight",
        "two passes over the weights a step, a pass over the task's examples at its end",
    ),
    "lwf": StrategyInfo(
        "lwf", "LwF", "old outputs on new examples are kept",
        "Li, Hoiem 2017, Learning without forgetting",
        "the old outputs for the task's examples, while it is learned",
        "old heads in every step, a pass over the task's examples at its beginning",
    ),
    "gem": StrategyInfo(
        "gem", "GEM", "no step may raise the loss of any old task's memory",
        "Lopez-Paz, Ranzato 2017, Gradient episodic memory for continual learning",
        "the examples of a memory for each task",
        "forward and backward through all memories in every step",
    ),
    "agem": StrategyInfo(
        "agem", "AGEM", "no step may raise the loss of examples drawn from memories",
        "Chaudhry et al. 2019, Efficient lifelong learning with A-GEM",
        "the examples of a memory for each task",
        "forward and backward through the drawn examples in every step",
    ),
    "cwr-star": StrategyInfo(
        "cwr_star", "CWRStar", "last-layer weights kept for each class, the rest frozen",
        "Lomonaco, Maltoni, Pellegrini 2020, Rehearsal-free continual learning",
        "the last layer twice more",
        "less: after the first task only the last layer is trained",
    ),
}  # fmt: skip


def find_strategy(name: str) -> type[Strategy]:
    """Return the strategy of that name, or `"module:Class"` of your own, or raise.

    Example:
        >>> find_strategy("replay").__name__
        'Replay'
    """
    if name in STRATEGIES:
        entry = STRATEGIES[name]
        found: type[Strategy] = getattr(
            importlib.import_module(f".{entry.file}", __name__), entry.name
        )
        return found
    if ":" in name:
        return _own(name)
    raise InputError(
        f"strategy {name!r:.60} is not known; {suggest_names(name, STRATEGIES)}expected one of "
        f"{', '.join(STRATEGIES)}, or your own as module:Class"
    )


def _own(name: str) -> type[Strategy]:
    from ._base import Strategy

    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise InputError(f"strategy is {name!r}, expected module:Class")
    where = import_user_module(module, f"strategy {name!r}")
    if not hasattr(where, attribute):
        raise InputError(f"strategy {name!r}: {describe_module(where)} has no {attribute!r}")
    found = getattr(where, attribute)
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise InputError(
            f"strategy {name!r} is {type(found).__name__}, expected a class made from "
            "perdure.strategies.Strategy"
        )
    return found


_BASE = (
    "Rows",
    "Strategy",
    "LossTerm",
    "LossCallback",
)  # they need PyTorch, which listing does not


def __getattr__(name: str) -> Any:
    if name in _BASE:
        from . import _base

        return getattr(_base, name)
    for key, entry in STRATEGIES.items():  # perdure.strategies.EWC, to build on
        if entry.name == name:
            return find_strategy(key)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_BASE, *(entry.name for entry in STRATEGIES.values())})
