"""The rows of a study's tables, and whether they report what a reader needs.

The guidelines are those of "Evaluation Metrics for Continual Learning" (tutorial).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..record import RunFolder
from ..stats import mean_over_seeds, variance_components

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..record import RunMetadata, RunSummary
    from .status import Selection, StudyStatus
    from .study import Cell, Study

__all__ = ["GuidelineCheck", "StudyRow", "build_rows", "check_guidelines"]

COSTS = ("seconds_train", "peak_bytes")  # the costs that a study reports

REQUIRED_METRICS = {"acc": "AA", "bwt": "BWT", "acc.learning": "LA"}
BASELINES = ("naive", "joint")
MIN_SEEDS = 3
MAX_LISTED = 3  # violations that are listed per guideline


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


class GuidelineCheck(NamedTuple):
    """A reporting guideline, whether a study meets it, and what violates it."""

    guideline: str
    violations: Sequence[str]

    @property
    def met(self) -> bool:
        """Whether nothing violates the guideline."""
        return not self.violations

    def __str__(self) -> str:
        if self.met:
            return self.guideline
        more = len(self.violations) - MAX_LISTED
        listed = "; ".join(self.violations[:MAX_LISTED])
        return f"{self.guideline}: {listed}{f', and {more} more' if more > 0 else ''}"


def check_guidelines(rows: Sequence[StudyRow], selected_on: str | None) -> list[GuidelineCheck]:
    """Return whether a study meets each reporting guideline.

    Args:
        rows: The rows of the study's tables.
        selected_on: The data that hyperparameters were selected on, `validation` or `test`; None
            if nothing was searched.
    """
    groups: dict[str, list[StudyRow]] = {}
    for row in rows:
        groups.setdefault(f"{row.cell.scenario} {row.cell.setting}", []).append(row)
    baselines, architectures, data = (
        [text for name, group in groups.items() for text in check(name, group)]
        for check in (_missing_baselines, _architecture_differences, _data_differences)
    )
    few = [f"{row.cell} has fewer" for row in rows if len(row.runs) < MIN_SEEDS]
    checks = [
        GuidelineCheck("AA, BWT and LA are reported", _missing_metrics(rows)),
        GuidelineCheck("naive and joint training are included as baselines", baselines),
        GuidelineCheck("all methods use the same architectures", architectures),
        GuidelineCheck("all methods use the same data and task order", data),
        GuidelineCheck("training time and memory are reported", _missing_costs(rows)),
        GuidelineCheck("three seeds or more", few),
    ]
    if selected_on is not None:
        text = "hyperparameters are not selected on the test set"
        violations = ["they were selected on the test set"] if selected_on == "test" else []
        checks.append(GuidelineCheck(text, violations))
    return checks


def _missing_metrics(rows: Sequence[StudyRow]) -> list[str]:
    return [
        f"{row.cell} has no {label}"
        for row in rows
        for id_, label in REQUIRED_METRICS.items()
        if row.mean_and_sd(id_) is None
    ]


def _missing_costs(rows: Sequence[StudyRow]) -> list[str]:
    return [
        f"{row.cell} has none"
        for row in rows
        if not row.runs or any(len(row.costs(name)) < len(row.runs) for name in COSTS)
    ]


def _missing_baselines(name: str, rows: Sequence[StudyRow]) -> list[str]:
    present = {row.cell.strategy for row in rows if row.runs}
    return [f"{name} has no {baseline}" for baseline in BASELINES if baseline not in present]


def _architecture_differences(name: str, rows: Sequence[StudyRow]) -> list[str]:
    """Return the strategies that lack a model, and models that stand for several networks."""
    violations = []
    models: dict[str, set[str]] = {}
    networks: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        models.setdefault(row.cell.strategy, set()).add(row.cell.model)
        networks.setdefault((row.cell.model, row.cell.variant), set()).update(row.networks)
    for strategy, used in models.items():
        if missing := set().union(*models.values()) - used:
            violations.append(f"{strategy} lacks {', '.join(sorted(missing))}")
    different = [names for names in networks.values() if len(names) > 1]
    return violations + [f"{name} has {'; '.join(sorted(names))}" for names in different]


def _data_differences(name: str, rows: Sequence[StudyRow]) -> list[str]:
    data = sorted({description for row in rows for description in row.data})
    return [f"{name} has {len(data)} different: {'; '.join(data)}"] if len(data) > 1 else []
