"""The verdict on a run as plain data, and its exit code."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

from .._display import format_block

__all__ = ["EXIT_CODES", "Decision", "RequirementResult", "TaskResult", "Verdict"]

Decision = Literal["PASS", "FAIL", "INCONCLUSIVE", "UNDEFINED"]
EXIT_CODES: dict[Decision, int] = {"PASS": 0, "FAIL": 1, "UNDEFINED": 2, "INCONCLUSIVE": 3}


@dataclass(frozen=True)
class TaskResult:
    """The decision on one task of a requirement about tasks.

    Attributes:
        task: Name of the task.
        decision: PASS, FAIL or INCONCLUSIVE for this task.
        value: The estimated drop.
        low: Lower bound of the drop.
        high: Upper bound of the drop.
        method: How the bounds were computed.
        examples: Number of examples, or of seeds; None if unknown.
        examples_needed: Number that would decide; None if decided, or if none would.
        unit: What is counted: examples or seeds.
    """

    task: str
    decision: Literal["PASS", "FAIL", "INCONCLUSIVE"]
    value: float
    low: float
    high: float
    method: str
    examples: int | None = None
    examples_needed: int | None = None
    unit: str = "examples"


@dataclass(frozen=True)
class RequirementResult:
    """The decision on one requirement, with the numbers behind it.

    `value` is the metric, its difference from the baseline if the limit is `relative`, or the drop
    of `task`. The bound that would show the limit kept has the error 1 - level; the bound that
    would show it violated has the part of that error that Holm's procedure leaves it.

    Attributes:
        requirement: The requirement as it was written.
        decision: PASS, FAIL, INCONCLUSIVE or UNDEFINED.
        value: The estimate; None if undefined.
        low: Its lower bound.
        high: Its upper bound.
        limit: The limit that it must keep.
        sense: Whether it must be at most or at least the limit.
        metric: Id of the metric; None for drops of tasks.
        relative: Whether value and limit are differences from the baseline.
        base: Value of the metric in the baseline, if `relative`.
        task: The task that decides; None for a metric.
        reference: What drops are measured against.
        method: How the bounds were computed.
        examples: Number of examples per task, or of seeds; None if unknown.
        examples_needed: Number that would decide an inconclusive requirement with probability .8
            if the estimate were true; None if decided, or if no number would.
        unit: What is counted: examples or seeds.
        reason: Why it is undefined.
        tasks: The decision on each task.
    """

    requirement: str
    decision: Decision
    value: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float = 0.0
    sense: Literal["<=", ">="] = "<="
    metric: str | None = None
    relative: bool = False
    base: float | None = None
    task: str | None = None
    reference: str = ""
    method: str = ""
    examples: int | None = None
    examples_needed: int | None = None
    unit: str = "examples"
    reason: str = ""
    tasks: list[TaskResult] = field(default_factory=list)

    @property
    def quantity(self) -> str:
        """What `value` is, in words."""
        if self.metric is None:
            return "drop" if self.task is None else f"drop of {self.task}"
        return f"{self.metric} - base" if self.relative else self.metric


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run: that of every requirement, and of all of them together.

    Attributes:
        decision: PASS if every requirement passes, FAIL if one fails, UNDEFINED if one cannot be
            decided at all, and otherwise INCONCLUSIVE.
        level: Confidence level: each wrong verdict has a probability of 1 - level at most.
        requirements: The decision on each requirement.
        run: The checked run, or runs.
        baseline: The baseline; None without one.
        uncertainty: Whether the bounds are about other examples or about other seeds.
        notes: Notes on the comparison.
        inconclusive: What an inconclusive verdict counts as: pass, fail, or None for itself.
    """

    decision: Decision
    level: float
    requirements: list[RequirementResult]
    run: str
    baseline: str | None = None
    uncertainty: Literal["examples", "seeds"] = "examples"
    notes: list[str] = field(default_factory=list)
    inconclusive: Literal["pass", "fail"] | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of `perdure check`: 0 PASS, 1 FAIL, 2 UNDEFINED, 3 INCONCLUSIVE."""
        if self.decision == "INCONCLUSIVE" and self.inconclusive is not None:
            return 0 if self.inconclusive == "pass" else 1
        return EXIT_CODES[self.decision]

    @property
    def passed(self) -> bool:
        """Whether the run passes, as the exit code says."""
        return self.exit_code == 0

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        return asdict(self) | {"exit_code": self.exit_code}

    def __repr__(self) -> str:
        rows = [
            (one.decision, one.requirement, "" if one.value is None else f"{one.value:.4f}",
             one.reason if one.low is None else f"{one.low:.4f} to {one.high:.4f}")
            for one in self.requirements
        ]  # fmt: skip
        return format_block(f"Verdict: {self.decision}", rows, [f"note: {n}" for n in self.notes])
