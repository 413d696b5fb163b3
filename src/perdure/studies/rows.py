"""The rows of a study's tables, from the records of its finished runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..record import RunFolder
from ..stats import mean_over_seeds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ..record import RunSummary
    from .status import Selection, StudyStatus
    from .study import Cell, Study

__all__ = ["COSTS", "StudyRow", "build_rows"]

COSTS = ("seconds_train", "peak_bytes")  # the costs that a study reports


class StudyRow(NamedTuple):
    """A cell of a study and its finished runs.

    Args:
        cell: what was run.
        seeds: the number of runs that the study asks for.
        runs: the summaries of the finished ones.
        data: per run, the data, class order and task sizes it was trained on.
        networks: per run, its model and the options of that model.
        selection: the grid point that is reported; None while the search is not finished.
    """

    cell: Cell
    seeds: int
    runs: Sequence[RunSummary]
    data: Sequence[str] = ()
    networks: Sequence[str] = ()
    selection: Selection | None = None

    def has(self, id_: str) -> bool:
        """Return whether any run has a metric."""
        return any(id_ in run.metrics for run in self.runs)

    def mean_and_sd(self, id_: str) -> tuple[float, float | None] | None:
        """Return mean and sample SD of a metric over seeds; None unless every run has it."""
        values = [run.metrics[id_] for run in self.runs if id_ in run.metrics]
        if not values or len(values) < len(self.runs):
            return None
        mean = sum(values) / len(values)
        return mean, mean_over_seeds(values).sd if len(values) > 1 else None

    def costs(self, name: str) -> list[float]:
        """Return a cost of every run in which it was measured."""
        return [run.costs[name] for run in self.runs if name in run.costs]

    @property
    def selected(self) -> str:
        """The grid point that was selected, in words; empty if nothing was searched."""
        if self.selection is None or not self.selection.trials:
            return ""
        if self.selection.point is None:
            return "no grid point has a score"
        return ", ".join(f"{name} = {value}" for name, value in self.selection.point.items())


def build_rows(study: Study, status: StudyStatus) -> list[StudyRow]:
    """Return a row per cell of a study."""
    rows = []
    for cell in study.cells:
        folders = status.done[cell]
        configs = [_read_config(folder) for folder in folders]
        rows.append(
            StudyRow(
                cell,
                len(study.seed_list),
                [status.summary(folder) for folder in folders],
                [_describe_data(config) for config in configs],
                [_describe_network(config) for config in configs],
                status.selections.get(cell),
            )
        )
    return rows


def _read_config(folder: Path) -> Mapping[str, object]:
    return RunFolder(folder).metadata().config


def _describe_data(config: Mapping[str, object]) -> str:
    """Return what a run was trained on: class order, sizes of tasks, hashes of the data."""
    data = config.get("data")
    used = sorted(data.items()) if isinstance(data, dict) else []
    hashes = [f"{name} {each.get('sha256')}" for name, each in used if isinstance(each, dict)]
    return f"order {config.get('order')}, {config.get('examples')}, {', '.join(hashes)}"


def _describe_network(config: Mapping[str, object]) -> str:
    options = config.get("model_options")
    options = options if isinstance(options, dict) else {}
    return " ".join([str(config.get("model")), *(f"{k}={v}" for k, v in sorted(options.items()))])
