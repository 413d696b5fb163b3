"""A callback for Lightning that evaluates every task while `Trainer.fit` trains."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ._base import FrameworkEvaluation

__all__ = ["ContinualEvaluation"]


class ContinualEvaluation(FrameworkEvaluation[Trainer], Callback):  # type: ignore[misc]
    """Evaluates every task while Lightning trains, and leaves training bit-identical.

    A step is one in which the trainer's `global_step` rises, so accumulated batches count once.
    Checkpoints of Lightning contain the state of the evaluation, and `fit(…, ckpt_path=…)` resumes
    its record.

    Args:
        tasks: evaluation data by task name, as for `perdure.Evaluator`.
        task: the task that `fit` trains, or a function of the trainer that returns it, called
            before every batch: `lambda trainer: f"task {trainer.current_epoch // 5}"`. The record
            is closed when `fit` ends. For several calls of `fit`, leave it out, assign it before
            each (`evaluation.task = "b"`), and call `close` at the end.
        options: further arguments of `perdure.Evaluator`: `every`, `score`, `record`, …
    """

    _global_step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin the task."""
        self._global_step = trainer.global_step
        if trainer.is_global_zero:
            self.begin_training(pl_module, trainer)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Begin another task if the function says so."""
        if trainer.is_global_zero and callable(self.task):
            self.enter_task(pl_module, trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a step if the optimizer made one."""
        if trainer.global_step > self._global_step and trainer.is_global_zero:
            self.evaluator.step(pl_module)
        self._global_step = trainer.global_step

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End the task."""
        if trainer.is_global_zero:
            self.end_training()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Record what was evaluated before the error."""
        self.abort_training(exception)
