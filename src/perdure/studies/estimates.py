"""How long the runs of a study take on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from .status import study_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..training import RunConfig
    from .study import Cell, Study

__all__ = ["RunEstimate", "estimate_runs"]


class RunEstimate(NamedTuple):
    """The state of a run and its estimated duration, 0 if it is not to be run."""

    folder: str
    state: Literal["done", "failed", "waiting"]
    seconds: float | None  # None if it was not measured


def estimate_runs(
    study: Study,
    store: Path,
    *,
    retry_failed: bool = False,
    measure: bool = True,
    on_measure: Callable[[Cell], None] | None = None,
) -> list[RunEstimate]:
    """Return every run of a study with its duration, measured on a few steps of each kind of run.

    Without `measure`, runs are only listed, which takes no PyTorch.

    Args:
        study: The study.
        store: Folder in which the runs are stored.
        retry_failed: Count failed runs as runs to do.
        measure: Measure how long runs take.
        on_measure: Called before a kind of run is measured.
    """
    from .. import training

    status = study_status(study, store)
    to_do = {folder.name for folder in status.waiting}
    to_do |= {run.config.folder for run in status.after_selection}
    failed = {folder.name for folder in status.failed}
    to_do |= failed if retry_failed else set()
    seconds: dict[bytes, float] = {}

    def estimate(cell: Cell, config: RunConfig) -> RunEstimate:
        if config.folder not in to_do:
            return RunEstimate(config.folder, "failed" if config.folder in failed else "done", 0.0)
        if not measure:
            return RunEstimate(config.folder, "waiting", None)
        kind = training.make_duration_key(config)
        if kind not in seconds:
            if on_measure is not None:
                on_measure(cell)
            seconds[kind] = training.estimate_seconds(config)
        return RunEstimate(config.folder, "waiting", seconds[kind])

    return [estimate(*run) for run in (*status.planned, *status.after_selection)]
