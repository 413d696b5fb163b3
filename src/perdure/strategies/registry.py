"""The strategies by name. Importing this module does not import PyTorch."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from .._extras import import_user_attribute
from .._suggestions import normalize_name, suggest_names
from ..record import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._base import Strategy

__all__ = [
    "IMPLEMENTATIONS",
    "STRATEGIES",
    "STRATEGY_ALIASES",
    "StrategyInfo",
    "check_ranges",
    "find_strategy",
    "follows_avalanche",
    "resolve_strategy",
]


LARGEST = sys.float_info.max  # of a float; an int may be larger


class Range(NamedTuple):
    """The numbers that a hyperparameter may be."""

    least: float
    most: float = LARGEST
    is_open: bool = False  # whether it has to be more than `least`

    def __str__(self) -> str:
        if self.most < LARGEST:
            return f"{self.least:g} to {self.most:g}"
        return f"more than {self.least:g}" if self.is_open else f"{self.least:g} or more"


class StrategyInfo(NamedTuple):
    """What is known about a strategy without importing it."""

    module: str
    class_name: str
    about: str
    paper: str
    keeps: str
    costs: str  # compared with a step of naive
    ranges: Mapping[str, Range] = {}  # of the hyperparameters that are numbers


STRATEGIES: dict[str, StrategyInfo] = {
    "naive": StrategyInfo(
        "baselines", "Naive", "fine-tuning, the lower bound", "",
        "nothing besides the network",
        "nothing",
    ),
    "cumulative": StrategyInfo(
        "baselines", "Cumulative", "trains on all examples seen so far",
        "Diaz-Rodriguez et al. 2018; Maltoni & Lomonaco 2019",
        "all examples seen; the initial weights if it restarts from them",
        "additional steps in proportion to the number of old examples",
    ),
    "joint": StrategyInfo(
        "baselines", "Joint", "trains on all tasks at once, the upper bound", "",
        "all examples",
        "every task takes as many steps as all tasks together",
    ),
    "single": StrategyInfo(
        "baselines", "Single", "trains on each task alone, from scratch", "",
        "the initial weights",
        "nothing",
    ),
    "replay": StrategyInfo(
        "replay", "Replay", "trains on old examples alongside the new ones in every step",
        "Chaudhry et al. 2019, On tiny episodic memories; De Lange et al. 2023",
        "the examples of a memory",
        "twice the examples in every step",
        {"memory": Range(0), "alpha": Range(0, 1), "replay_batch": Range(0)},
    ),
    "random": StrategyInfo(
        "baselines", "Random", "guesses among the classes seen",
        "Michel et al. 2023, New metrics for analyzing continual learners",
        "nothing",
        "no training steps at all",
    ),
    "gdumb": StrategyInfo(
        "gdumb", "GDumb", "trains from scratch on a balanced memory at the end of each task",
        "Prabhu, Torr, Dokania 2020, GDumb: a simple approach that questions our progress",
        "the examples of a memory, the initial weights",
        "no training during a task, several passes over the memory at its end",
        {"memory": Range(0), "passes": Range(1), "batch_size": Range(1)},
    ),
    "ewc": StrategyInfo(
        "ewc", "EWC", "penalizes changes of weights that the likelihood of old tasks depends on",
        "Kirkpatrick et al. 2017, Overcoming catastrophic forgetting in neural networks; "
        "online: Schwarz et al. 2018",
        "an importance and an anchor per weight, regardless of the number of tasks",
        "two passes over the weights per step, one pass over the examples at the end of a task",
        {"strength": Range(0), "decay": Range(0, 1)},
    ),
    "si": StrategyInfo(
        "si", "SI", "penalizes changes of weights whose movement lowered the loss",
        "Zenke, Poole, Ganguli 2017, Continual learning through synaptic intelligence",
        "an importance and an anchor per weight",
        "five passes over the weights per step",
        {"strength": Range(0), "eps": Range(0, is_open=True)},
    ),
    "mas": StrategyInfo(
        "mas", "MAS", "penalizes changes of weights that the outputs are sensitive to",
        "Aljundi et al. 2018, Memory aware synapses",
        "an importance and an anchor per weight",
        "two passes over the weights per step, one pass over the examples at the end of a task",
        {"strength": Range(0), "alpha": Range(0, 1)},
    ),
    "lwf": StrategyInfo(
        "lwf", "LwF", "distills the previous model's outputs on new examples",
        "Li, Hoiem 2017, Learning without forgetting",
        "the previous outputs for the examples of the current task",
        "old heads in every step, one pass over the examples at the start of a task",
        {"alpha": Range(0), "temperature": Range(0, is_open=True)},
    ),
    "gem": StrategyInfo(
        "gem", "GEM", "no step may increase the loss on the memory of any old task",
        "Lopez-Paz, Ranzato 2017, Gradient episodic memory for continual learning",
        "the examples of one memory per task",
        "forward and backward passes through all memories in every step",
        {"memory": Range(0), "strength": Range(0)},
    ),
    "agem": StrategyInfo(
        "agem", "AGEM", "no step may increase the loss on examples sampled from the memories",
        "Chaudhry et al. 2019, Efficient lifelong learning with A-GEM",
        "the examples of one memory per task",
        "a forward and a backward pass through the sampled examples in every step",
        {"memory": Range(0), "sample": Range(1)},
    ),
    "cwr-star": StrategyInfo(
        "cwr_star", "CWRStar", "last-layer weights kept per class, the other layers frozen",
        "Lomonaco, Maltoni, Pellegrini 2020, Rehearsal-free continual learning",
        "two additional copies of the last layer",
        "less: after the first task only the last layer is trained",
    ),
}  # fmt: skip

IMPLEMENTATIONS = ("perdure", "avalanche-0.2.1")  # of EWC, SI, MAS, LwF and GEM

STRATEGY_ALIASES = {  # by normalized name
    "finetune": "naive",
    "finetuning": "naive",
    "sequential": "naive",
    "sgd": "naive",
    "lowerbound": "naive",
    "er": "replay",
    "experiencereplay": "replay",
    "rehearsal": "replay",
    "multitask": "joint",
    "jointtraining": "joint",
    "offline": "joint",
    "upperbound": "joint",
    "independent": "single",
    "singletask": "single",
    "randomguessing": "random",
    "elasticweightconsolidation": "ewc",
    "synapticintelligence": "si",
    "memoryawaresynapses": "mas",
    "learningwithoutforgetting": "lwf",
    "gradientepisodicmemory": "gem",
    "averagedgem": "agem",
    "cwr*": "cwr-star",
}


def check_ranges(strategy: str, options: Mapping[str, object]) -> None:
    """Raise if a hyperparameter of a strategy of ours is out of its range.

    Example:
        >>> check_ranges("replay", {"memory": 0, "alpha": None, "fill": "end"})
        >>> check_ranges("replay", {"memory": -5})
        Traceback (most recent call last):
        perdure.record.io.files.InputError: memory is -5, expected 0 or more
    """
    ranges = STRATEGIES[strategy].ranges if strategy in STRATEGIES else {}
    for name, allowed in ranges.items():
        value = options.get(name)
        if not isinstance(value, int | float):  # not given, or none
            continue
        low_enough = allowed.least < value or (value == allowed.least and not allowed.is_open)
        if not (low_enough and value <= allowed.most):  # as it is for NaN
            shown = f"{value:g}" if isinstance(value, float) else f"{value!r:.40}"
            finite = " and a finite number" if value > LARGEST else ""
            raise InputError(f"{name} is {shown}, expected {allowed}{finite}")


def follows_avalanche(implementation: str) -> bool:
    """Return whether a strategy is asked to compute what Avalanche 0.2.1 computes.

    Example:
        >>> follows_avalanche("avalanche-0.2.1")
        True
        >>> follows_avalanche("avalanche")
        Traceback (most recent call last):
        perdure.record.io.files.InputError: implementation is 'avalanche', expected perdure or ...
    """
    if implementation not in IMPLEMENTATIONS:
        expected = " or ".join(IMPLEMENTATIONS)
        raise InputError(f"implementation is {implementation!r}, expected {expected}")
    return implementation == "avalanche-0.2.1"


def resolve_strategy(name: str) -> str:
    """Return the name of the strategy that people call `name`; unknown names are returned as given.

    Example:
        >>> resolve_strategy("er"), resolve_strategy("A-GEM"), resolve_strategy("mine:Own")
        ('replay', 'agem', 'mine:Own')
    """
    if name in STRATEGIES:
        return name
    word = normalize_name(name)
    by_word = {normalize_name(known): known for known in STRATEGIES}
    return by_word.get(word) or STRATEGY_ALIASES.get(word, name)


def find_strategy(name: str) -> type[Strategy]:
    """Return the strategy class of that name, or your own for `"module:Class"`.

    Example:
        >>> find_strategy("replay").__name__
        'Replay'
    """
    if name in STRATEGIES:
        info = STRATEGIES[name]
        known: type[Strategy] = getattr(
            import_module(f".{info.module}", __package__), info.class_name
        )
        return known
    if ":" not in name:
        raise InputError(
            f"strategy {name!r:.60} is not known; {suggest_names(name, STRATEGIES)}expected one of "
            f"{', '.join(STRATEGIES)}, or your own as module:Class"
        )
    from ._base import Strategy

    own = import_user_attribute(name, "strategy")
    if not (isinstance(own, type) and issubclass(own, Strategy)):
        raise InputError(
            f"strategy {name!r} is {type(own).__name__}, expected a subclass of "
            "perdure.strategies.Strategy"
        )
    return own
