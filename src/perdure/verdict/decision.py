"""The verdict on a run: PASS, FAIL or INCONCLUSIVE, with a stated error of each.

With an error of alpha = 1 - level:

- PASS needs every requirement on the right side of its limit at error alpha. A run that violates
  one of them passes with probability alpha at most (intersection-union test; no correction).
- FAIL needs one requirement on the wrong side. A run that meets all of them fails with probability
  alpha at most, because the errors are shared out over requirements by Holm's procedure, and
  equally over the tasks of one requirement.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from .._display import format_block
from ..metrics import UndefinedMetricError
from ..record import InputError
from ..stats import examples_to_decide
from .conditions import CheckInputs, Condition, check_inputs, make_conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..stats import OneSidedBounds
    from .requirement import Requirement

__all__ = [
    "EXIT_CODES",
    "Decision",
    "RequirementResult",
    "TaskResult",
    "Verdict",
    "decide",
    "holm_rejections",
]

Decision = Literal["PASS", "FAIL", "INCONCLUSIVE", "UNDEFINED"]
EXIT_CODES: dict[Decision, int] = {"PASS": 0, "FAIL": 1, "UNDEFINED": 2, "INCONCLUSIVE": 3}
ROUNDING = 1e-12  # of a bound that equals its limit
RANKS = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}


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


def decide(
    requirements: Sequence[Requirement], inputs: CheckInputs, *, level: float = 0.95
) -> Verdict:
    """Return the verdict on runs; every requirement is decided, or undefined with a reason."""
    if not 0.5 < level < 1:
        raise InputError(f"`level=` is {level:g}, expected above 0.5 and below 1")
    notes = check_inputs(inputs)
    alpha = 1 - level
    tests: list[_RequirementTest] = []
    undefined: dict[int, str] = {}
    for requirement in requirements:
        try:
            conditions = make_conditions(requirement, inputs)
        except UndefinedMetricError as reason:
            undefined[len(tests)], conditions = str(reason), []
        tests.append(_RequirementTest(requirement, conditions, alpha))
    rejected = holm_rejections([test.fails for test in tests], alpha)
    results = [
        _undefined(test, undefined[k]) if k in undefined else test.result(k in rejected, inputs)
        for k, test in enumerate(tests)
    ]
    if inputs.noise is not None:
        notes.append(inputs.noise.describe())
    return Verdict(
        decision=_combine(results), level=level, requirements=results,
        run=", ".join(run.name for run in inputs.runs),
        baseline=", ".join(base.name for base in inputs.baselines) or None,
        uncertainty="seeds" if inputs.seeds else "examples", notes=notes,
    )  # fmt: skip


def holm_rejections(tests: Sequence[Callable[[float], bool]], alpha: float) -> set[int]:
    """Return which tests reject by Holm's procedure; a test takes the error it may make.

    Example:
        >>> p_values = [0.01, 0.04, 0.03]
        >>> tests = [lambda error, p=p: p <= error for p in p_values]
        >>> holm_rejections(tests, 0.05), holm_rejections(tests, 0.09)
        ({0}, {0, 1, 2})
    """
    rejected: set[int] = set()
    while left := [k for k in range(len(tests)) if k not in rejected]:
        more = {k for k in left if tests[k](alpha / len(left))}
        if not more:
            break
        rejected |= more
    return rejected


def _combine(results: Sequence[RequirementResult]) -> Literal[
    "PASS", "FAIL", "INCONCLUSIVE", "UNDEFINED"
]:  # fmt: skip
    decisions = {result.decision for result in results}
    for decision in ("UNDEFINED", "FAIL", "INCONCLUSIVE"):
        if decision in decisions:
            return decision
    return "PASS"


def _undefined(test: _RequirementTest, reason: str) -> RequirementResult:
    requirement = test.requirement
    return RequirementResult(
        requirement.text, "UNDEFINED", limit=requirement.limit, sense=requirement.sense,
        metric=requirement.metric, relative=requirement.relative, reason=reason,
    )  # fmt: skip


@dataclass
class _RequirementTest:
    """A requirement, its conditions, and the error with which FAIL was last tried."""

    requirement: Requirement
    conditions: Sequence[Condition]
    alpha: float
    fail_alpha: float = field(init=False)

    def __post_init__(self) -> None:
        self.fail_alpha = self.alpha

    def fails(self, alpha: float) -> bool:
        """Return whether a condition is on the wrong side; alpha is the error of all together."""
        self.fail_alpha = alpha
        return any(self._is_violated(condition) for condition in self.conditions)

    def _is_violated(self, condition: Condition) -> bool:
        if not self._is_bad(condition.estimate.value):
            return False  # its bound is even further on the right side
        bounds = condition.estimate.bounds(self.fail_alpha / len(self.conditions))
        return self._is_bad(self._near(bounds, bad=True))

    def _is_bad(self, value: float) -> bool:
        limit = self.requirement.limit
        if self.requirement.sense == "<=":
            return value > limit + ROUNDING
        return value < limit - ROUNDING

    def _near(self, bounds: OneSidedBounds, *, bad: bool) -> float:
        """Return the bound that shows the wrong side (`bad`) or the right side."""
        return bounds.low if (self.requirement.sense == "<=") == bad else bounds.high

    def result(self, rejected: bool, inputs: CheckInputs) -> RequirementResult:
        """Return the decision with its numbers."""
        tasks = [self._task_result(condition) for condition in self.conditions]
        decision: Literal["PASS", "FAIL", "INCONCLUSIVE"] = "INCONCLUSIVE"
        if rejected:
            decision = "FAIL"
        elif all(task.decision == "PASS" for task in tasks):
            decision = "PASS"
        upwards = self.requirement.sense == "<="
        shown = min(tasks, key=lambda t: (RANKS[t.decision], -t.value if upwards else t.value))
        requirement = self.requirement
        return RequirementResult(
            requirement.text, decision, value=shown.value, low=shown.low, high=shown.high,
            limit=requirement.limit, sense=requirement.sense, metric=requirement.metric,
            relative=requirement.relative, task=shown.task or None, method=shown.method,
            examples=shown.examples, unit=shown.unit,
            examples_needed=self._needed(tasks) if decision == "INCONCLUSIVE" else None,
            reference=inputs.reference if requirement.metric is None else "",
            base=_base_value(requirement, inputs), tasks=tasks if shown.task else [],
        )  # fmt: skip

    def _task_result(self, condition: Condition) -> TaskResult:
        estimate = condition.estimate
        right = self._near(estimate.bounds(self.alpha), bad=False)
        wrong_alpha = self.fail_alpha / len(self.conditions)
        wrong = self._near(estimate.bounds(wrong_alpha), bad=True)
        decision: Literal["PASS", "FAIL", "INCONCLUSIVE"] = "INCONCLUSIVE"
        if self._is_bad(wrong):
            decision = "FAIL"
        elif not self._is_bad(right):
            decision = "PASS"
        low, high = sorted((right, wrong))
        needed = None
        if decision == "INCONCLUSIVE" and estimate.examples:
            bad = self._is_bad(estimate.value)
            needed = examples_to_decide(
                estimate.examples, abs((wrong if bad else right) - estimate.value),
                abs(estimate.value - self.requirement.limit),
                alpha=wrong_alpha if bad else self.alpha,
            )  # fmt: skip
        return TaskResult(
            condition.task, decision, estimate.value, low, high, estimate.method,
            estimate.examples or None, needed, estimate.unit,
        )  # fmt: skip

    def _needed(self, tasks: Sequence[TaskResult]) -> int | None:
        """Return the number that would decide: FAIL by one bad task, or PASS by all the others."""
        bad = [task for task in tasks if self._is_bad(task.value)]
        undecided = [task for task in tasks if task.decision == "INCONCLUSIVE"]
        needed = [task.examples_needed for task in bad or undecided]
        known = [number for number in needed if number is not None]
        if not known or (not bad and len(known) < len(needed)):
            return None
        return min(known) if bad else max(known)


def _base_value(requirement: Requirement, inputs: CheckInputs) -> float | None:
    if not requirement.relative or requirement.metric is None or not inputs.baselines:
        return None
    values = [base.metric(requirement.metric)[0] for base in inputs.baselines]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
