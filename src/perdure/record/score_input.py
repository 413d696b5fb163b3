"""ScoreInput: what a file or a run holds for scoring, and the options for reading it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Literal

import numpy as np

from .._display import format_block, list_some
from ..metrics import find_metric, summary
from ..metrics.score_matrix import REFERENCES
from .points import MatrixFields

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..metrics import (
        ControlScores,
        Costs,
        PerExample,
        ScoreMatrix,
        ScoreScale,
        Setting,
        Stream,
        Summary,
        SummaryOptions,
    )
    from .points import Points

MAX_NOTES = 3  # printed
INITIAL_LINES = "(lines of kind initial at step 0, or `initial=`)"

__all__ = ["InputOptions", "ScoreInput"]


@dataclass(frozen=True)
class InputOptions:
    """What the user states about a file: fields of ScoreMatrix, None where nothing is stated.

    Without `transposed` and `percent`, orientation and unit are detected where only one is
    plausible; `notes` say so. With `or_fractions`, `percent` reads scores of which none is above 1
    as fractions instead of refusing them: a command prints either in percent.
    """

    transposed: bool | None = None
    percent: bool | None = None
    or_fractions: bool = False
    scale: ScoreScale | None = None
    setting: Setting | None = None
    classes: list[float] | None = None
    initial: list[float] | None = None
    joint: list[float] | None = None
    single: list[float] | None = None
    offline: list[float] | None = None
    sizes: list[float] | None = None
    control: list[str] | None = None
    subsample: int = 1
    upper: Literal["measured"] | None = None
    notes: tuple[str, ...] = ()

    @property
    def lower_is_better(self) -> bool:
        """Whether the scores are stated to be losses or errors."""
        return self.scale is not None and self.scale.lower_is_better

    @property
    def allows_fractions(self) -> bool:
        """Whether `percent` may mean fractions; error rates below 1 percent are plausible."""
        return bool(self.percent) and self.or_fractions and not self.lower_is_better

    def matrix_fields(self) -> MatrixFields:
        """Return the stated fields as arguments of ScoreMatrix, percent as fractions."""
        fields = MatrixFields()
        for name in ("setting", "classes", "sizes"):
            if (value := getattr(self, name)) is not None:
                fields[name] = value
        for key in REFERENCES:
            if (scores := getattr(self, key)) is not None:
                fields[key] = self.to_fractions(scores)
        return fields

    def to_fractions(self, scores: ArrayLike) -> ArrayLike:
        """Return scores as the formulas expect them: divided by 100 if they are percent."""
        return np.asarray(scores, dtype=np.float64) / 100 if self.percent else scores


@dataclass
class ScoreInput:
    """What a file or a run holds. `no_matrix` says why there is no matrix.

    `per_example` has the results of the evaluations during training, `per_example_at_ends` those
    behind the matrix, with its rows as steps; `per_example_last` those of the last evaluation of
    each task, `per_example_first` those before training; `control` has the scores of tasks that
    are evaluated but never trained, with their results; `evaluation_data` has a fingerprint per
    task. `seed` is that which a file or a run states.
    """

    matrix: ScoreMatrix | None = None
    stream: Stream | None = None
    costs: Costs | None = None
    control: ControlScores | None = None
    per_example: dict[str, PerExample] = field(default_factory=dict)
    per_example_at_ends: dict[str, PerExample] = field(default_factory=dict)
    per_example_last: dict[str, PerExample] = field(default_factory=dict)
    per_example_first: dict[str, PerExample] = field(default_factory=dict)
    evaluation_data: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    no_matrix: str = ""
    points: Points | None = None
    seed: int | str | None = None

    def summary(self, options: SummaryOptions | None = None) -> Summary:
        """Return every metric that can be computed from this and, for the rest, why it cannot."""
        result = summary(
            self.matrix, stream=self.stream, costs=self.costs, control=self.control,
            per_example=self.per_example, per_example_at_ends=self.per_example_at_ends,
            options=options,
        )  # fmt: skip
        if self.points is not None:
            for id_, reason in result.undefined.items():
                result.undefined[id_] = reason.replace("(`initial=`)", INITIAL_LINES)
        if self.no_matrix:
            for id_ in result.undefined:
                if find_metric(id_).input == "matrix":
                    result.undefined[id_] = self.no_matrix
        result.notes = list(dict.fromkeys([*self.notes, *result.notes]))
        return result

    def show_percent(self) -> None:
        """Have figures and pages show the scores in percent."""
        for name in ("matrix", "stream", "control", "points"):
            if (part := getattr(self, name)) is not None:
                setattr(self, name, replace(part, scale=replace(part.scale, percent=True)))

    def describe(self) -> list[tuple[str, str]]:
        """Return what is there as pairs of a name and a value, for `print`."""
        rows = []
        if self.matrix is not None or self.no_matrix:
            rows.append(("matrix", _describe_matrix(self.matrix) or self.no_matrix))
        if self.stream is not None:
            count = sum(len(steps) for steps, _ in self.stream.tasks.values())
            rows.append(("evaluations", f"{count} of {list_some(self.stream.names)}"))
        if self.control is not None:
            rows.append(("control", list_some(self.control.tasks)))
        if self.costs is not None:
            rows.append(("costs", f"of {list_some(self.costs.tasks)}"))
        if self.per_example:
            rows.append(("per_example", f"of {list_some(list(self.per_example))}"))
        return rows

    def __repr__(self) -> str:
        return format_block(type(self).__name__, self.describe(), _describe_notes(self.notes))

    def _repr_html_(self) -> str:
        parts = [part._repr_html_() for part in (self.matrix, self.stream) if part is not None]
        return "\n".join(parts) or escape(repr(self))


def _describe_matrix(matrix: ScoreMatrix | None) -> str:
    return "" if matrix is None else f"{len(matrix.tasks)} tasks: {list_some(matrix.tasks)}"


def _describe_notes(notes: list[str]) -> list[str]:
    more = [f"{len(notes) - MAX_NOTES} more in .notes"] if len(notes) > MAX_NOTES else []
    return [*(f"note: {note}" for note in notes[:MAX_NOTES]), *more]
