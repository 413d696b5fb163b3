r"""A row of the registry: everything there is to know about one metric.

In the formulas R_{i,j} is the score on task j after learning task i and T the number of tasks, both
counted from 1; b_j, J_j and S_j are the scores on task j of the untrained, the joint and the
single-task model, and O_i the mean score on tasks 1 to i of a model trained offline on them. F_c
and b_c are the scores on control task c at the end and before training, C is the number of control
tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NEEDS", "Metric"]

NEEDS = {
    "control": "control tasks, evaluated before training and later but never trained (`control=`)",
    "initial": "the untrained model's scores (`initial=`)",
    "joint": "the scores of a model trained on all tasks at once (`joint=`)",
    "single": "the scores of models trained on one task each (`single=`)",
    "offline": "the scores of models trained offline on the tasks so far (`offline=`)",
    "classes": "how many classes each task brings (`classes=`)",
    "setting": "the setting: class, task or domain; class by default",
    "sizes": "how many test examples each task has (`sizes=`)",
    "unseen": "scores on tasks before they are learned",
    "zero-shot": "scores on tasks before they are learned, by a model that can name their classes",
    "boundaries": "task boundaries",
    "every iteration": "an evaluation at every iteration",
    "model_bytes": "model_bytes of every task (costs)",
    "copies_bytes": "copies_bytes of every task (costs)",
    "stored_bytes": "stored_bytes of every task (costs)",
    "data_bytes": "data_bytes of every task (costs)",
    "flops_one_pass": "flops_one_pass of every task (costs)",
    "flops_train": "flops_train of every task (costs)",
    "criteria": "seven criteria: A, REM, BWT+, FWT, MS, SSS, CE",
    "runs": "several runs",
}

GEM = "Lopez-Paz & Ranzato 2017 (GEM)"
DIAZ = "Díaz-Rodríguez et al. 2018"
DELANGE = "De Lange et al. 2023"
MICHEL = "Michel et al. 2023"
FABER = "Faber et al. 2023 (M2I/I2M)"
TUTORIAL = "Evaluation Metrics for Continual Learning (tutorial)"
KEMKER = "Kemker & Kanan 2018 (FearNet)"
HAYES = "Hayes et al. 2019 (ExStream)"
OURS = "perdure"


@dataclass(frozen=True)
class Metric:
    """One metric: its formula, its source, the function that computes it and how to read it.

    Attributes:
        name: short name in words.
        symbol: symbol in LaTeX.
        formula: formula in LaTeX.
        source: where the formula comes from.
        input: what the function takes.
        function: computes the metric.
        low: smallest possible value for accuracies.
        high: largest possible value for accuracies.
        better: whether higher or lower values are better.
        needs: keys of `NEEDS`, what it needs besides its input.
        accepts: which scores it is defined for.
        is_score: whether it is a score itself; otherwise it is a change or a ratio.
        unit: unit of the value.
        curve: computes the value after each task, where that is not the metric of the tasks so far.
        parameter: argument of `function` that is part of the id, as 10 in `wf10`.
        distinction: how it differs from metrics of similar name.
        interpretation: what its values mean.
        rule_of_thumb: which accuracies are good.
    """

    name: str
    symbol: str
    formula: str
    source: str
    input: Literal["matrix", "stream", "control", "costs", "runs"]
    function: Callable[..., float]
    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    needs: tuple[str, ...] = ()
    accepts: Literal["any", "not negative", "accuracy"] = "any"
    is_score: bool = False
    unit: Literal["score", "squared score", "none"] = "score"
    curve: Callable[..., NDArray[np.float64]] | None = None
    parameter: Literal["window", "beta"] | None = None
    distinction: str = ""
    interpretation: str = ""
    rule_of_thumb: str = ""
