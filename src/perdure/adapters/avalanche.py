"""A plugin for Avalanche that evaluates every experience of a test stream while it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from avalanche.core import SupervisedPlugin
from avalanche.models import avalanche_forward

from ._base import FrameworkEvaluation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["ContinualEvaluation"]


class ContinualEvaluation(FrameworkEvaluation[Any], SupervisedPlugin):  # type: ignore[misc]
    """Evaluates every experience while a strategy trains, and leaves training bit-identical.

    Pass it in the strategy's `plugins`, and call `close` after the last experience.

    Args:
        test_stream: the experiences to evaluate, as `benchmark.test_stream` has them.
        task: a function of the strategy that returns the name of the experience that is trained;
            by default its number, which is also the name of the experience of that number in
            `test_stream`.
        options: further arguments of `perdure.Evaluator`: `every`, `score`, `record`, …
    """

    def __init__(
        self, test_stream: Iterable[Any], *, task: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        experiences = {str(e.current_experience): e for e in test_stream}
        labels = {name: int(getattr(e, "task_label", 0)) for name, e in experiences.items()}

        def forward(model: torch.nn.Module, x: torch.Tensor, task: str) -> object:
            """Return the outputs of a model with one head, or of the task's head."""
            return avalanche_forward(model, x, torch.full((len(x),), labels[task], device=x.device))

        if options.get("score") is None:
            options = {"forward": forward, **options}
        datasets = {name: e.dataset.eval() for name, e in experiences.items()}
        super().__init__(datasets, **options)
        self.task = task or (lambda strategy: strategy.experience.current_experience)

    def before_training_exp(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        """Begin the task of the experience."""
        self.begin_training(strategy.model, strategy)

    def after_training_iteration(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        """Count a step."""
        self.evaluator.step(strategy.model)

    def after_training_exp(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        """End the task of the experience."""
        self.leave_task()
