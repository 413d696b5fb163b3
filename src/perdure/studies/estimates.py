"""How long the runs of a study take on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from ..training import estimate_seconds, make_duration_key
from .status import study_status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .study import Cell, Study

__all__ = ["RunEstimate", "estimate_runs"]


class RunEstimate(NamedTuple):
    """The state of a run and its estimated duration, 0 if it is not to be run."""

    folder: str
    state: Literal["done", "failed", "waiting"]
    seconds: float


def estimate_runs(
    study: Study,
    store: Path,
    *,
    retry_failed: bool = False,
    on_measure: Callable[[Cell], None] | None = None,
) -> list[RunEstimate]:
    """Return every run of a study with its duration, measured on a few steps of each kind of run.

    Args:
        study: The study.
        store: Folder in which the runs are stored.
        retry_failed: Count failed runs as runs to do.
        on_measure: Called before a kind of run is measured.
    """
    status = study_status(study, store)
    to_do = {folder.name for folder in status.waiting}
    to_do |= {run.config.folder for run in status.after_selection}
    failed = {folder.name for folder in status.failed}
    seconds: dict[bytes, float] = {}
    estimates = []
    for cell, config in (*status.planned, *status.after_selection):
        if config.folder in to_do or (retry_failed and config.folder in failed):
            kind = make_duration_key(config)
            if kind not in seconds:
                if on_measure is not None:
                    on_measure(cell)
                seconds[kind] = estimate_seconds(config)
            estimates.append(RunEstimate(config.folder, "waiting", seconds[kind]))
        else:
            state: Literal["done", "failed"] = "failed" if config.folder in failed else "done"
            estimates.append(RunEstimate(config.folder, state, 0.0))
    return estimates
