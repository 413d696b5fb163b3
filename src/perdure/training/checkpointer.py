"""Saving checkpoints while a run trains."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from ..record import RecordError
from .checkpoint import save_checkpoint
from .config import CHECKPOINT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..evaluation import Evaluator
    from ..strategies import Strategy
    from .early_stopping import EarlyStopping
    from .loop import Position

__all__ = ["Checkpointer"]

TASK_END_SECONDS = 5.0  # after a checkpoint, none is saved at the end of a task


class Checkpointer:
    """Saves a run every few seconds and at the ends of tasks.

    Args:
        folder: For the checkpoint.
        strategy: The learner.
        evaluator: Its record is part of the checkpoint.
        stopping: The state of early stopping.
        every: Seconds between two checkpoints within a task; 0 saves after every iteration, or
            after those that are taken together on a GPU.
        on_checkpoint: Called after each checkpoint.
    """

    def __init__(
        self,
        folder: Path,
        strategy: Strategy,
        evaluator: Evaluator,
        stopping: EarlyStopping,
        *,
        every: float = CHECKPOINT_SECONDS,
        on_checkpoint: Callable[[], None] | None = None,
    ) -> None:
        self._folder, self._strategy, self._evaluator = folder, strategy, evaluator
        self._stopping, self._every, self._on_checkpoint = stopping, every, on_checkpoint
        self._last = time.monotonic()
        self._has_failed = False

    def is_due(self, *, task_ended: bool = False) -> bool:
        """Return whether it is time to save."""
        seconds = min(TASK_END_SECONDS, self._every) if task_ended else self._every
        return time.monotonic() - self._last >= seconds

    def save(self, position: Position) -> None:
        """Save the run at `position`; a failure is reported once and does not stop the run."""
        with self._evaluator.costs.exclude_from_costs():
            try:
                state = self._evaluator.state_dict()
                save_checkpoint(self._folder, self._strategy, position, self._stopping, state)
                saved = True
            except (OSError, RecordError, SafetensorError, TypeError) as error:
                saved = False
                if not self._has_failed:
                    self._evaluator.warn(
                        f"the checkpoint after step {position.step} could not be saved ({error}); "
                        "if this run is stopped, it resumes from an earlier one or starts over"
                    )
                self._has_failed = True
        self._last = time.monotonic()
        if saved and self._on_checkpoint is not None:
            self._on_checkpoint()

    def remove(self) -> None:
        """Remove the checkpoint of a finished run."""
        shutil.rmtree(self._folder, ignore_errors=True)
