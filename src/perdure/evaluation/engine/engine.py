"""Where tests run: beside training at a chosen place, or here and now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ..state.preserve import preserve_state
from .eval_batches import EvalBatches, device_of
from .inline import Inline
from .side_stream import SideStream
from .worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from ..tasks import EvaluationTask
    from .inline import EvalResult
    from .scoring import Scorer

__all__ = ["Engine"]

WHOLE_BATCH = 1000  # examples of a whole set that are in memory at a time


class Engine:
    """Tests models on tasks. What the arguments mean is said at `Evaluator`."""

    def __init__(
        self,
        scorer: Scorer,
        *,
        where: str,
        mode: str,
        queue: int,
        device: torch.device | str | None,
        screen: bool,
        audit: int,
        redraw: bool,
        say: Callable[[str], None],
    ) -> None:
        if screen and redraw:
            raise ValueError("screen=True needs a fixed subset; drop redraw=True")
        if device is not None and where == "inline":
            raise ValueError("device= is for where='worker'; inline tests run where the model is")
        self.scorer = scorer
        self._latest, self._queue, self._audit, self._say = mode == "latest", queue, audit, say
        self._device = None if device is None else torch.device(device)
        if self._device is not None and (
            self._device.type != "cuda" or (self._device.index or 0) >= torch.cuda.device_count()
        ):
            raise ValueError(f"device is {device!r}, expected a CUDA device that is there")
        self._redraw = redraw
        self._inline = Inline(scorer, screen=screen, audit=audit, say=say)
        self._place: Inline | Worker | SideStream | None = (
            None if where == "worker" else self._inline
        )
        self._prepared: EvalBatches | None = None

    def probe(self, model: Any, tasks: Sequence[EvaluationTask], step: int) -> None:
        """Have the subsets of `tasks` tested on the weights of now; `collect` has the results."""
        device = self._device or device_of(model)
        known = self._prepared
        if known is None or known.device != device or known.tasks != tuple(tasks):
            with preserve_state(model):
                known = EvalBatches(tasks, self.scorer, device, redraw=self._redraw)
                known.at(step)
            self._prepared = known
        if self._place is None:
            self._place = self._beside(model)
        try:
            self._place.submit(model, known, step)
        except Exception as error:
            error.add_note(f"while testing {', '.join(t.name for t in tasks)} after step {step}")
            raise

    def _beside(self, model: Any) -> Inline | Worker | SideStream:
        if not isinstance(model, nn.Module):
            self._say("the model has no tensors to take snapshots of; it is tested inline")
            return self._inline
        device = device_of(model)
        if device.type != "cuda" and self._device is not None:
            raise ValueError(
                f"device={self._device} is for models on CUDA, this one is on {device}"
            )
        place = SideStream if device.type == "cuda" else Worker
        return place(
            self._inline, latest=self._latest, slots=self._queue, audit=self._audit, say=self._say
        )

    def collect(self, *, wait: bool = False) -> list[EvalResult]:
        """Return the tests that are done, in order; all of them if told to wait."""
        return [] if self._place is None else self._place.collect(wait=wait)

    def trouble(self) -> Exception | None:
        """Return the next error of the user's own code that a worker met, each once."""
        errors = self._place.errors if isinstance(self._place, Worker) else []
        return errors.pop(0) if errors else None

    @property
    def in_trainers_time(self) -> bool:
        """Whether tests run where training runs, and not beside it."""
        return self._place is self._inline

    def now(
        self, model: Any, tasks: Iterable[EvaluationTask], *, whole: bool
    ) -> dict[str, NDArray[Any]]:
        """Return the values of the rows of each task, whole sets or subsets, tested here."""
        device = device_of(model)
        found = {}
        with preserve_state(model):
            for task in tasks:
                size = self.scorer.batch or WHOLE_BATCH
                batches = task.batches(size) if whole else [task.subset()]
                parts = []
                for x, y in batches:
                    (rows,) = self.scorer.together([(task.name, x, y)], device)
                    parts.append(self.scorer.values(model, rows).numpy(force=True))
                found[task.name] = np.concatenate(parts)
        return found

    def close(self) -> None:
        """End what runs beside training."""
        if self._place is not None:
            self._place.close()
