"""Metrics of whole sets, which are no mean over examples: F1, R2, anything of torchmetrics."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["WholeSetMetric", "is_metric_object"]


def is_metric_object(metric: object) -> bool:
    """Return whether a metric has `update`, `compute` and `reset`, as those of torchmetrics."""
    return all(callable(getattr(metric, name, None)) for name in ("update", "compute", "reset"))


class WholeSetMetric:
    """Computes a metric from the outputs and labels of a whole set.

    Args:
        metric: an object with `update(outputs, labels)`, `compute()` and `reset()`, which is
            passed a batch at a time; or a function of all outputs and labels, on the CPU.
    """

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def compute(self, batches: Iterable[tuple[Tensor, object]], task: str) -> float:
        """Return the metric of the outputs and labels of all batches."""
        if is_metric_object(self._metric):
            value = self._update(batches)
        else:
            outputs, labels = zip(*batches, strict=True)
            if not all(isinstance(part, Tensor) for part in labels):
                raise TypeError(f"labels of task {task!r} are no tensor, which metric= needs")
            shapes = list(dict.fromkeys(tuple(part.shape[1:]) for part in outputs))
            if len(shapes) > 1:
                raise ValueError(
                    f"outputs of task {task!r} have the shapes {shapes[0]} and {shapes[1]} in "
                    "different batches, which a function is not passed at once; use a metric "
                    "with update(), compute() and reset(), or pad all examples to one length"
                )
            value = self._metric(
                *(torch.cat([p.cpu() for p in part]) for part in (outputs, labels))
            )
        score = float(value)
        if not isfinite(score):
            raise ValueError(f"metric of task {task!r} is {score}, expected a finite number")
        return score

    def _update(self, batches: Iterable[tuple[Tensor, object]]) -> Any:
        metric = self._metric
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if distributed and getattr(metric, "sync_on_compute", False):
            raise ValueError(
                f"{type(metric).__name__} would wait for the other processes, which do not "
                "evaluate; create it with sync_on_compute=False"
            )
        device = getattr(metric, "device", "cpu")
        metric.reset()
        for outputs, labels in batches:
            labels = labels.to(device) if isinstance(labels, Tensor) else labels
            metric.update(outputs.to(device), labels)
        value = metric.compute()
        metric.reset()
        return value
