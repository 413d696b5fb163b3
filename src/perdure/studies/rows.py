"""The rows of a study's tables, from the records of its finished runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..record import RunFolder
from ..stats import mean_over_seeds, variance_components

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..record import RunMetadata, RunSummary
    from .status import Selection, StudyStatus
    from .study import Cell, Study

__all__ = ["COSTS", "StudyRow", "build_rows"]

COSTS = ("seconds_train", "peak_bytes")  # the costs that a study reports


class StudyRow(NamedTuple):
    """A cell of a study and its finished runs.

    Args:
        cell: The combination that was run.
        seeds: The number of runs that the study asks for.
        runs: The summaries of the finished runs.
        data: Per run, the data, class order and task sizes it was trained on.
        networks: Per run, its model and the options of that model.
        selection: The grid point that is reported; None while the search is not finished.
        replicates: Per run, its task order and its seed.
    """

    cell: Cell
    seeds: int
    runs: Sequence[RunSummary]
    data: Sequence[str] = ()
    networks: Sequence[str] = ()
    selection: Selection | None = None
    replicates: Sequence[tuple[str, int]] = ()

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

    def describe_orders(self, id_: str) -> str:
        """Return how much a metric varies over task orders and seeds; empty for one order."""
        orders = [order for order, _ in self.replicates]
        if len(set(orders)) < 2 or not all(id_ in run.metrics for run in self.runs):
            return ""
        seeds = [seed for _, seed in self.replicates]
        parts = variance_components([run.metrics[id_] for run in self.runs], orders, seeds)
        over = f"SD over {parts.orders} orders {parts.order_sd:.3g}, over seeds {parts.seed_sd:.3g}"
        if parts.order_sd != parts.order_sd:  # one seed per order
            over = f"{parts.orders} task orders with one seed each"
        return f"{self.cell}: {over} ({id_})"

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
        metadata = [RunFolder(folder).metadata() for folder in folders]
        rows.append(
            StudyRow(
                cell,
                len(study.seed_list) * (study.orders or 1),
                [status.summary(folder) for folder in folders],
                [_describe_data(run) for run in metadata],
                [_describe_network(run) for run in metadata],
                status.selections.get(cell),
                [(str(run.config.get("task_order")), int(run.seed or 0)) for run in metadata],
            )
        )
    return rows


def _describe_data(run: RunMetadata) -> str:
    """Return what a run was trained on: class order, sizes of tasks, digests of the data."""
    digests = [f"{name} {digest}" for name, digest in sorted(run.data_digests().items())]
    examples = run.config.get("examples")
    if run.config.get("task_order") is not None and isinstance(examples, dict):
        examples = dict(sorted(examples.items()))  # every method is run in the same task orders
    return f"order {run.config.get('order')}, {examples}, {', '.join(digests)}"


def _describe_network(run: RunMetadata) -> str:
    options = run.config.get("model_options")
    pairs = sorted(options.items()) if isinstance(options, dict) else []
    return " ".join([str(run.config.get("model")), *(f"{name}={value}" for name, value in pairs)])
