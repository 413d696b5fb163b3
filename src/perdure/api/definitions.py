"""Which definitions and tools give a number: `perdure.which`."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from ..metrics import METRICS, TOOLS, ScoreMatrix, Stream, ToolRow, find_metric, parse_id
from ..record import InputError, InputOptions, ScoreInput
from ..record.run_index import RunRef
from ..report.tables import TextTable
from .grouped_scores import ScoreGroup, score_groups, tool_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

    Source = str | Path | Sequence[str | Path] | ArrayLike | ScoreMatrix | Stream

__all__ = [
    "PERCENT_FACTORS",
    "DefinitionMatch",
    "DefinitionMatches",
    "TypedNumber",
    "which",
    "which_of_group",
]

PERCENT_FACTORS = {"score": 100.0, "squared score": 10_000.0}  # by unit of a metric

NUMBER = re.compile(
    r"([+-]?)(\d*)(?:[.,](\d*))?(?:e([+-]?\d{1,2}))?\s*(%?)", re.ASCII | re.IGNORECASE
)
CLOSE = 3.0  # half-widths of rounding within which a value is a near miss
MAX_CLOSE = 3


class TypedNumber(NamedTuple):
    """A number as somebody has typed it: half a unit of its last digit is its precision."""

    text: str
    value: float
    half_width: float
    in_percent: bool  # it is followed by %
    whole: bool

    @classmethod
    def parse(cls, text: str) -> TypedNumber:
        """Return a number with its precision.

        Example:
            >>> TypedNumber.parse("-0.33").half_width
            0.005
        """
        parts = NUMBER.fullmatch(text.strip())
        if not parts or not (parts[2] or parts[3]):
            raise InputError(
                f"`value=` is {text!r:.40}, expected a number such as -0.33, or -33% for percent"
            )
        sign, whole, decimals, exponent, percent = parts.groups(default="")
        power = int(exponent or 0)
        value = float(f"{sign}{whole or 0}.{decimals or 0}e{power}")
        half = 0.5 * 10.0 ** (power - len(decimals))
        return cls(text.strip(), value, half, bool(percent), power >= len(decimals))

    def readings(self, unit: str, *, percent: bool) -> Iterator[tuple[float, float, bool]]:
        """Yield how the number can be meant for a metric: value, precision, whether in percent."""
        factor = PERCENT_FACTORS.get(unit)
        if not self.in_percent:
            # A whole number of a score is rather exact than anything from 0.5 to 1.5.
            half = self.half_width if unit == "none" or not self.whole else 0.005
            yield self.value, half, False
        if factor and (self.in_percent or percent or self.whole or abs(self.value) > 1):
            yield self.value / factor, self.half_width / factor, True


@dataclass(frozen=True)
class DefinitionMatch:
    """A definition and its value.

    Attributes:
        id: Id of the metric; None for a formula of a tool that has no id here.
        value: Value of the metric, as a fraction for scores.
        match: "equal" within rounding, "negated" with the other sign, "close" just outside of
            rounding, or "closest" where nothing matches.
        negated: Whether the number has the other sign.
        percent: Whether the number is read as a percentage.
        printed_by: The tools that print it, each with the name they print.
        note: A remark on the tool's formula, or on what it assumes.
    """

    id: str | None
    value: float
    match: Literal["equal", "negated", "close", "closest"]
    negated: bool
    percent: bool
    printed_by: tuple[str, ...]
    note: str = ""

    @property
    def found(self) -> bool:
        """Whether the definition gives the number, or its negative."""
        return self.match in ("equal", "negated")


@dataclass(frozen=True)
class DefinitionMatches:
    """The definitions that give a number; `print` shows a table.

    Attributes:
        number: The number as it was typed.
        matches: Definitions that give the number, then near misses.
        compared: How many definitions were compared.
        undefined: How many metrics the input does not support.
        notes: Notes on the input.
    """

    number: str
    matches: list[DefinitionMatch]
    compared: int
    undefined: int
    notes: list[str] = field(default_factory=list)

    @property
    def found(self) -> bool:
        """Whether a definition gives the number."""
        return any(match.found for match in self.matches)

    def table(self) -> TextTable:
        """Return the definitions as a table."""
        rows = [
            [
                match.id or "no id",
                f"{match.value * (PERCENT_FACTORS[_unit(match.id)] if match.percent else 1):.6g}",
                _label(match),
                "; ".join(match.printed_by),
                match.note,
            ]
            for match in self.matches
        ]
        header = ["definition", "value", "match", "printed by", "remark"]
        if not any(row[-1] for row in rows):
            header, rows = header[:-1], [row[:-1] for row in rows]
        return TextTable(header, rows, right={"value"})

    def describe(self) -> list[str]:
        """Return in words what was compared."""
        first = f"{self.compared} definitions compared"
        if self.undefined:
            first += f"; {self.undefined} metrics are undefined here (`perdure score` says why)"
        if not self.found:
            return [f"no definition gives {self.number}; the closest ones are above", first]
        return [first]

    def to_dict(self) -> dict[str, object]:
        """Return plain lists and numbers, ready for JSON."""
        plain = asdict(self)
        plain["matches"] = [{**asdict(match), "found": match.found} for match in self.matches]
        return {**plain, "found": self.found}

    def __repr__(self) -> str:
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([self.table().text(), *self.describe(), *notes])


def which(
    source: Source,
    value: float | str,
    *,
    inputs: InputOptions | None = None,
) -> DefinitionMatches:
    """Return which definitions, and which tools, give a number for these scores.

    The number is compared within its rounding: "-0.33" is anything from -0.335 to -0.325. A number
    above 1, a whole number and one with % are also read as percentages.

    Args:
        source: A score matrix as an array or a file, a points.csv, a run folder, or several paths,
            which are seeds of one method.
        value: The number. As text it keeps its digits: "0.50" is more precise than 0.5.
        inputs: How to read files and arrays, as a `perdure.InputOptions`.

    Example:
        >>> matches = which([[0.90, 0.10], [0.40, 0.85]], "-0.50")
        >>> [(match.id, match.match) for match in matches.matches][:2]
        [('bwt', 'equal'), ('bwt.all', 'equal')]
        >>> matches.matches[0].printed_by[0]
        'avalanche (StreamBWT)'
    """
    number = TypedNumber.parse(value if isinstance(value, str) else repr(float(value)))
    return which_of_group(_read_group(source, inputs), number, inputs)


def which_of_group(
    group: ScoreGroup, number: TypedNumber, inputs: InputOptions | None = None
) -> DefinitionMatches:
    """Return the definitions that give a number for runs or files that were read already."""
    candidates = _find_candidates(group)
    percent = inputs is not None and bool(inputs.percent)
    matches = [_compare(candidate, number, percent=percent) for candidate in candidates]
    found = [match for _, match in matches if match.found]
    found.sort(key=lambda match: (match.match == "negated", match.id is None))
    nearest = sorted((pair for pair in matches if not pair[1].found), key=lambda pair: pair[0])
    if found:
        rest = [match for distance, match in nearest[:MAX_CLOSE] if distance <= CLOSE]
    else:
        rest = [replace(match, match="closest") for _, match in nearest[:MAX_CLOSE]]
    undefined = len(METRICS.keys() - {parse_id(id_).base for id_ in group.summary.metrics})
    return DefinitionMatches(
        number.text, [*found, *rest], len(candidates), undefined, list(group.summary.notes)
    )


@dataclass
class _Candidate:
    """A definition with its value, and who prints it."""

    id: str | None
    value: float
    printed_by: list[str] = field(default_factory=list)
    note: str = ""


def _find_candidates(group: ScoreGroup) -> list[_Candidate]:
    """Return every definition that has a value: our metrics, then what only tools compute."""
    metrics = group.summary.metrics
    candidates = [_Candidate(id_, value) for id_, value in metrics.items()]
    for tool, tool_metrics in TOOLS.items():
        rows = _rows_of(group, tool)
        for row, metric in zip(rows, tool_metrics, strict=True):
            if row.value is None:
                continue
            for candidate in candidates:
                same = math.isclose(candidate.value, row.value, rel_tol=0, abs_tol=1e-12)
                if row.id is not None and candidate.id == row.id and same:
                    break
            else:
                note = row.note
                if row.id is not None and (reason := group.summary.undefined.get(row.id)):
                    note = note or f"undefined here ({reason}), but tools print it"
                candidate = _Candidate(row.id, row.value, note=note)
                candidates.append(candidate)
            candidate.printed_by.append(f"{tool} ({metric.name})")
    return candidates


def _rows_of(group: ScoreGroup, tool: str) -> list[ToolRow]:
    """Return what a tool would print; without a matrix of accuracies, what has an id."""
    try:
        return tool_rows(group, tool)
    except ValueError:  # no matrix, or scores that no tool knows
        return [
            ToolRow(metric.name, metric.id, group.summary.metrics.get(metric.id or ""), "")
            for metric in TOOLS[tool]
        ]


def _compare(
    candidate: _Candidate, number: TypedNumber, *, percent: bool
) -> tuple[float, DefinitionMatch]:
    """Return how far a definition is from the number, in half-widths, and how it matches."""
    unit = _unit(candidate.id)
    best = (math.inf, False, False)
    for value, half_width, in_percent in number.readings(unit, percent=percent):
        for negated, sign in ((False, 1.0), (True, -1.0)):
            distance = abs(sign * candidate.value - value) / half_width
            if distance < best[0] - 1e-9:
                best = (distance, negated, in_percent)
    distance, negated, in_percent = best
    match: Literal["equal", "negated", "close"] = "close"
    if distance <= 1 + 1e-6:
        match = "negated" if negated else "equal"
    return distance, DefinitionMatch(
        candidate.id, candidate.value, match, negated, in_percent, tuple(candidate.printed_by),
        candidate.note,
    )  # fmt: skip


def _label(match: DefinitionMatch) -> str:
    sign = ", negated" if match.negated and not match.found else ""
    squared = "squared " if _unit(match.id) == "squared score" else ""
    return match.match + sign + (f", in {squared}percent" if match.percent else "")


def _unit(id_: str | None) -> str:
    return find_metric(id_).unit if id_ else "score"


def _read_one_method(
    paths: Sequence[str | Path | ArrayLike], inputs: InputOptions | None = None
) -> ScoreGroup:
    """Return the scores of files and runs, which are seeds of one method."""
    groups, notes = score_groups(*paths, inputs=inputs)
    if len(groups) > 1:
        names = ", ".join(list(groups)[:5])
        raise InputError(
            f"{len(groups)} methods ({names:.200}), expected one; score them apart, "
            "or see `perdure which`, which prints a table for each"
        )
    (group,) = groups.values()
    group.summary.notes += notes
    return group


def _read_group(source: Source, inputs: InputOptions | None) -> ScoreGroup:
    """Return one method's scores: paths are seeds of it, an array is a single matrix."""
    if isinstance(source, str | Path):
        return _read_one_method([source], inputs)
    if isinstance(source, list | tuple) and source and isinstance(source[0], str | Path):
        return _read_one_method(source, inputs)
    if isinstance(source, Stream):
        scores = ScoreInput(stream=source, no_matrix="a stream has no score matrix")
    elif isinstance(source, ScoreMatrix):
        scores = ScoreInput(source)
    else:
        return _read_one_method([cast("ArrayLike", source)], inputs)
    summary = scores.summary()
    return ScoreGroup([RunRef("scores")], [scores], [summary], summary)
