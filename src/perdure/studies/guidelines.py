"""Whether a study reports what a reader needs, by common guidelines for continual learning.

The guidelines are those of "Evaluation Metrics for Continual Learning" (tutorial).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .rows import COSTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .rows import StudyRow

__all__ = ["GuidelineCheck", "check_guidelines"]

REQUIRED_METRICS = {"acc": "AA", "bwt": "BWT", "acc.learning": "LA"}
BASELINES = ("naive", "joint")
MIN_SEEDS = 3
MAX_LISTED = 3  # violations that are listed per guideline


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
