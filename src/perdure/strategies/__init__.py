"""A batch to an update: one paper, one file. Names are looked up here, files read when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from .._names import near
from .._own import imported
from ..record import BadInput

if TYPE_CHECKING:
    from ._base import Strategy

__all__ = ["STRATEGIES", "Entry", "Strategy", "find_strategy"]


class Entry(NamedTuple):
    """A strategy's line in the table."""

    file: str
    name: str
    about: str
    paper: str
    keeps: str


STRATEGIES: dict[str, Entry] = {
    "naive": Entry(
        "naive", "Naive", "fine-tuning, the lower bound", "", "nothing beside the network",
    ),
    "cumulative": Entry(
        "cumulative", "Cumulative", "everything seen so far, learned together with the new",
        "Diaz-Rodriguez et al. 2018; Maltoni & Lomonaco 2019", "all examples seen",
    ),
    "joint": Entry(
        "joint", "Joint", "all tasks at once, the upper bound", "", "all examples",
    ),
    "single": Entry(
        "single", "Single", "each task by itself, from scratch", "", "the initial weights",
    ),
    "replay": Entry(
        "replay", "Replay", "old examples beside the new ones in every step",
        "Chaudhry et al. 2019, On tiny episodic memories; De Lange et al. 2023",
        "the examples of a memory",
    ),
    "random": Entry(
        "random_", "Random", "guesses among the classes seen",
        "Michel et al., New metrics for analyzing continual learners",
        "nothing",
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
    raise BadInput(
        f"strategy {name!r:.60} is not known; {near(name, STRATEGIES)}expected one of "
        f"{', '.join(STRATEGIES)}, or your own as module:Class"
    )


def _own(name: str) -> type[Strategy]:
    from ._base import Strategy

    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise BadInput(f"strategy is {name!r}, expected module:Class")
    where = imported(module, f"strategy {name!r}")
    if not hasattr(where, attribute):
        raise BadInput(f"strategy {name!r}: {module} has no {attribute!r}")
    found = getattr(where, attribute)
    if not (isinstance(found, type) and issubclass(found, Strategy)):
        raise BadInput(
            f"strategy {name!r} is {type(found).__name__}, expected a class made from "
            "perdure.strategies.Strategy"
        )
    return found


def __getattr__(name: str) -> Any:
    if name in ("Rows", "Strategy", "Term", "Watch"):  # they need PyTorch, which listing does not
        from . import _base

        return getattr(_base, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
