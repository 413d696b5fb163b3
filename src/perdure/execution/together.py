"""Runs that take turns in this process: seeds that share a GPU, its libraries and the data."""

from __future__ import annotations

import sys
from collections import deque
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from typing import TYPE_CHECKING

from .._devices import count_gpus
from ..record import RunFolder
from .events import ExitEvent, FailureEvent, NoteEvent, ProgressEvent
from .jobs import perform_stepwise, warnings_as_notes
from .serial import run_serially

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .events import OnEvent, RunEvent
    from .jobs import Job

__all__ = ["run_together", "suits_together"]

MAX_RUNS = 8  # in turns: PyTorch has 32 streams, a run uses three, and more runs gain nothing
STEPS = 64  # of one run before it is the next one's turn; the GPU works on them meanwhile


def suits_together(jobs: Sequence[Job]) -> bool:
    """Return whether runs share a GPU best in one process: if their steps become CUDA graphs.

    Steps that keep the CPU busy, such as those of GEM, are faster in parallel processes.
    """
    configs = [job.config for job in jobs]
    if len(jobs) < 2 or not all(config.device.startswith("cuda") for config in configs):
        return False
    if count_gpus() > 1 and configs[0].device == "cuda":
        return False  # parallel processes use all GPUs
    from ..strategies import find_strategy  # imports PyTorch

    return all(
        find_strategy(config.strategy).capturable
        and (config.optimizer, config.schedule, config.gradients) == ("sgd", "constant", None)
        for config in configs
    )


def run_together(jobs: Sequence[Job], on_event: OnEvent) -> None:
    """Do all jobs in turns in this process; each job records how it ended.

    Each run has a CUDA stream and random numbers of its own, and ends with the weights that it
    would have alone. If the memory of the GPU does not hold all runs, some resume after the others.

    Args:
        jobs: The runs; of many, some follow the others.
        on_event: Called with every event of every job.
    """
    for first in range(0, len(jobs), MAX_RUNS):
        _run_in_turns(jobs[first : first + MAX_RUNS], on_event)


def _run_in_turns(jobs: Sequence[Job], on_event: OnEvent) -> None:
    from ..training.single_run import deterministic_cudnn

    runs: deque[_SteppedRun] = deque()
    postponed: list[Job] = []
    begun: set[Path] = set()  # folders of runs that have replaced what was there

    def report(job: Job, event: RunEvent) -> None:
        if isinstance(event, ProgressEvent):
            begun.add(job.folder)
        if isinstance(event, FailureEvent) and "out of memory" in event.reason and len(runs) > 1:
            postponed.append(job)
            event = NoteEvent("the GPU's memory does not hold all seeds; this one resumes later")
        if isinstance(event, ExitEvent) and job in postponed:
            return
        job.apply(event)
        on_event(job, event)

    for job in jobs:
        if job.overwrite is not True and RunFolder(job.folder).is_finished():
            report(job, ExitEvent(0))  # by another command, meanwhile
        else:
            runs.append(_SteppedRun(job, report, len(jobs)))
    with (
        deterministic_cudnn(),
        redirect_stdout(sys.stderr),  # a user's model may print, and our output is the result
        warnings_as_notes(lambda event: report(runs[0].job, event)),
    ):
        try:
            while runs:
                code = runs[0].take_steps()
                if code is None:
                    runs.rotate(-1)
                else:
                    report(runs[0].job, ExitEvent(code))
                    runs.popleft()
        finally:
            for run in runs:
                run.close()
    for job in postponed:
        if job.overwrite is not True or job.folder in begun:
            job.overwrite, job.resume = False, True
    run_serially(postponed, on_event)


class _SteppedRun:
    """A run that is done a few steps at a time."""

    def __init__(self, job: Job, on_event: OnEvent, together: int) -> None:
        import torch

        from ..evaluation.state.reachable import RandomStates

        self.job, self._random_states = job, RandomStates()
        self._steps = perform_stepwise(job, partial(on_event, job), together=together)
        self._device = torch.device(job.config.device)
        self._stream: torch.cuda.Stream | None = None
        self._generator: torch.Generator | None = None
        if self._device.type == "cuda":
            self._stream = torch.cuda.Stream(self._device)

    def take_steps(self) -> int | None:
        """Take some steps; return the exit code once the run has ended."""
        with self._turn():
            taken = 0
            try:
                while taken < STEPS:
                    taken += next(self._steps)
            except StopIteration as end:
                code: int = end.value
                return code
        return None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Continue with the random numbers of this run, on its stream."""
        import torch

        from ..evaluation.engine.cuda_graph import switch_generator

        with ExitStack() as stack:
            generator = None
            if self._stream is not None:
                stack.enter_context(torch.cuda.stream(self._stream))
                generator = stack.enter_context(switch_generator(self._device, self._generator))
            self._random_states.restore()
            try:
                yield
            finally:
                self._random_states = type(self._random_states)()
                if generator is not None:
                    self._generator = generator.graphsafe_get_state()

    def close(self) -> None:
        """Leave the run where it is: its record is complete up to there."""
        self._steps.close()
