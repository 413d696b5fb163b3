"""Costs of learning, and a score that combines them with accuracy (Díaz-Rodríguez et al. 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._display import format_block, list_some
from .common import UndefinedMetricError, Value, average

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Costs", "ce", "check_weights", "clscore", "clstability", "ms", "ms_copies", "sss"]


MAX_PRINTED = 6  # tasks
SOURCES = {  # of the columns that only a training loop itself can state
    "data_bytes": "task(…, train_data=…)",
    "flops_one_pass": "task(…, train_data=…)",
    "stored_bytes": "task(…, stored_samples=…)",
    "copies_bytes": "costs.report_memory(…)",
}


@dataclass(frozen=True, eq=False)
class Costs:
    """The costs of each task, in the order of learning; NaN where not measured.

    `stored_bytes` are the samples stored when the task starts, `data_bytes` the data of the task,
    `flops_one_pass` one forward and backward pass over it, `flops_train` its whole training.

    Example:
        >>> Costs(("a", "b"), {"model_bytes": np.array([100.0, 200.0])}).column("model_bytes")
        array([100., 200.])
    """

    tasks: tuple[str, ...]
    columns: Mapping[str, NDArray[np.float64]]

    def __repr__(self) -> str:
        rows = [
            (name, *("-" if np.isnan(value) else f"{value:.4g}" for value in values[:MAX_PRINTED]))
            for name, values in self.columns.items()
        ]
        title = f"Costs of {len(self.tasks)} tasks: {list_some(self.tasks, MAX_PRINTED)}"
        return format_block(title, rows)

    def first(self, tasks: int) -> Costs:
        """Return the costs of the first `tasks` tasks."""
        columns = {name: values[:tasks] for name, values in self.columns.items()}
        return Costs(self.tasks[:tasks], columns)

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one value per task, or raise UndefinedMetricError naming the task without one."""
        values = self.columns.get(name)
        if values is None:
            raise UndefinedMetricError(f"needs {name} in the costs, which was not measured")
        for task, value in zip(self.tasks, values, strict=True):
            if math.isnan(value):
                hint = f" (an Evaluator needs {SOURCES[name]} for it)" if name in SOURCES else ""
                raise UndefinedMetricError(
                    f"needs {name} of task {task!r} in the costs, which is empty{hint}"
                )
        return values


def ms(model_bytes: ArrayLike) -> Value:
    r"""Return model size efficiency: 1 if the model did not grow after the first task.

    $$\min\Big(1, \frac1N \sum_i \mathrm{Mem}(\theta_1) / \mathrm{Mem}(\theta_i)\Big)$$

    Example:
        >>> ms([100, 200, 200, 200])
        0.625
    """
    size = _check_costs(model_bytes, "model bytes")
    ratio = average(size[0] / size)
    return Value(min(1.0, ratio), ratio.per_task)


def ms_copies(model_bytes: ArrayLike, copies_bytes: ArrayLike) -> Value:
    r"""Return model size efficiency with copies of the model counted: a teacher, initial weights.

    $$\min\Big(1, \frac1N \sum_i \frac{\mathrm{Mem}(\theta_1) + \mathrm{Mem}(K_1)}
    {\mathrm{Mem}(\theta_i) + \mathrm{Mem}(K_i)}\Big)$$

    Example:
        >>> ms_copies([100, 100, 100, 100], copies_bytes=[0, 100, 100, 100])
        0.625
    """
    model = _check_costs(model_bytes, "model bytes")
    return ms(model + _check_costs(copies_bytes, "copies bytes", positive=False, tasks=len(model)))


def sss(stored_bytes: ArrayLike, data_bytes: ArrayLike) -> Value:
    r"""Return samples storage efficiency: 1 if nothing is stored.

    $$1 - \min\Big(1, \frac1N \sum_i \mathrm{Mem}(M_i) / \mathrm{Mem}(D)\Big)$$

    `stored_bytes` are the samples stored when each task starts; D is all data by the end.

    Example:
        >>> sss([0, 100, 200, 300], data_bytes=[100, 100, 100, 100])
        0.625
    """
    data = _check_costs(data_bytes, "data bytes")
    stored = _check_costs(stored_bytes, "stored bytes", positive=False, tasks=len(data))
    share = average(stored / data.sum())
    return Value(1 - min(1.0, share), 1 - share.per_task)


def ce(flops_one_pass: ArrayLike, flops_train: ArrayLike, *, epsilon: float = 1.0) -> Value:
    r"""Return computational efficiency: 1 if training took a single pass over the data.

    $$\min\Big(1, \frac1N \sum_i
    \frac{\mathrm{Ops}{\uparrow\downarrow}(Tr_i)\,\varepsilon}{\mathrm{Ops}(Tr_i)}\Big)$$

    Example:
        >>> round(ce([10, 10], flops_train=[100, 50]), 6)
        0.15
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be a positive number, got {epsilon}")
    once = _check_costs(flops_one_pass, "operations of one pass")
    all_ = _check_costs(flops_train, "training operations", tasks=len(once))
    ratio = average(once * epsilon / all_)
    return Value(min(1.0, ratio), ratio.per_task)


def clscore(criteria: Mapping[str, float], weights: Mapping[str, float] | None = None) -> float:
    r"""Return $\sum_c w_c c$ over criteria in [0, 1], higher is better; equal weights by default.

    Example:
        >>> round(clscore({"A": 0.5, "MS": 1.0}, {"A": 0.75, "MS": 0.25}), 6)
        0.625
    """
    w = check_weights(weights, criteria)
    for name, value in criteria.items():
        if not 0 <= value <= 1:
            raise ValueError(f"criterion {name!r} is {value}, expected 0 to 1")
    return math.fsum(w[name] * value for name, value in criteria.items())


def clstability(
    criteria: Mapping[str, Sequence[float]], weights: Mapping[str, float] | None = None
) -> float:
    r"""Return $1 - \sum_c w_c \, \mathrm{std}(c)$, the sample SD of each criterion over runs.

    Example:
        >>> round(clstability({"A": [0.5, 0.7], "MS": [1.0, 1.0]}), 6)
        0.929289
    """
    w = check_weights(weights, criteria)
    spread = {}
    for name, values in criteria.items():
        if len(values) < 2:
            raise UndefinedMetricError(f"needs at least 2 runs, got {len(values)}")
        spread[name] = float(np.std(np.array(values, dtype=np.float64), ddof=1))
    return 1 - math.fsum(w[name] * sd for name, sd in spread.items())


def check_weights(
    weights: Mapping[str, float] | None, names: Mapping[str, object]
) -> dict[str, float]:
    """Return a weight for each name, or raise if the weights do not match them or sum to 1.

    Example:
        >>> check_weights(None, {"A": 0.5, "MS": 1.0})
        {'A': 0.5, 'MS': 0.5}
    """
    if not names:
        raise ValueError("at least one criterion is needed")
    if weights is None:
        return dict.fromkeys(names, 1 / len(names))
    if set(weights) != set(names):
        raise ValueError(f"weights are for {sorted(weights)}, criteria are {sorted(names)}")
    for name, weight in weights.items():
        if not 0 <= weight <= 1:
            raise ValueError(f"weight of {name!r} is {weight}, expected 0 to 1")
    total = math.fsum(weights.values())
    if not math.isclose(total, 1, abs_tol=1e-6):
        raise ValueError(f"weights sum to {total:g}, expected 1")
    return dict(weights)


def _check_costs(
    values: ArrayLike, name: str, *, positive: bool = True, tasks: int | None = None
) -> NDArray[np.float64]:
    """Return one finite cost per task, or raise."""
    v = np.array(values, dtype=np.float64)
    kind = "positive" if positive else "0 or more"
    is_vector = v.ndim == 1 and len(v) > 0 and len(v) == (tasks or len(v))
    if not (is_vector and (np.isfinite(v) & (v > 0 if positive else v >= 0)).all()):
        count = "each task" if tasks is None else f"each of {tasks} tasks"
        raise ValueError(f"{name} must be {kind} for {count}, got {v.tolist()}")
    return v
