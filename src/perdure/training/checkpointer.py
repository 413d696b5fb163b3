"""Saving a learner while it learns, so that a run that was stopped can go on."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from ..record import RecordError
from .checkpoint import save_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..evaluation import Evaluator
    from ..strategies import Strategy
    from .early_stopping import EarlyStopping
    from .loop import Position

__all__ = ["CHECKPOINT_SECONDS", "Checkpointer"]

CHECKPOINT_SECONDS = 120.0  # seconds between two checkpoints
APART = 5.0  # seconds that are not worth saving when a task ends


class Checkpointer:
    """Saves at the ends of tasks and every so many seconds, into the run's folder.

    Args:
        folder: `checkpoint` of the run.
        strategy: the learner.
        evaluator: whose record belongs to the checkpoint.
        stopping: what early stopping remembers.
        every: seconds between two checkpoints inside a task; 0 saves after every step.
        saved: called after each.
    """

    def __init__(
        self,
        folder: Path,
        strategy: Strategy,
        evaluator: Evaluator,
        stopping: EarlyStopping,
        *,
        every: float = CHECKPOINT_SECONDS,
        saved: Callable[[], None] | None = None,
    ) -> None:
        self._folder, self._strategy, self._evaluator = folder, strategy, evaluator
        self._stopping, self._every, self._saved = stopping, every, saved
        self._last = time.monotonic()
        self._troubled = False

    def due(self, *, ended: bool = False) -> bool:
        """Return whether it is time to save; `ended` where a task has."""
        wait = min(APART, self._every) if ended else self._every
        return time.monotonic() - self._last >= wait

    def save(self, position: Position) -> None:
        """Save the learner at `position`; what cannot be saved is said once and stops nobody."""
        with self._evaluator.costs.exclude_from_costs():
            try:
                state = self._evaluator.state_dict()
                save_checkpoint(self._folder, self._strategy, position, self._stopping, state)
            except (OSError, RecordError, SafetensorError, TypeError) as error:  # full, or odd
                if not self._troubled:
                    self._evaluator.warn(
                        f"no checkpoint could be saved after step {position.step} ({error}); if "
                        "this run is stopped it goes on from an earlier one, or starts again"
                    )
                self._troubled = True
                self._last = time.monotonic()
                return
        self._last = time.monotonic()
        if self._saved is not None:
            self._saved()

    def remove(self) -> None:
        """Remove the checkpoint of a run that is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)
