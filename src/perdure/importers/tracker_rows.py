"""From the rows of a tracker or a table to a run: which names are steps, tasks and scores."""

from __future__ import annotations

import math
import re
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ..metrics import ACCURACY, ScoreScale
from ..record import InputError
from ..record.io.text import first_few
from ..record.points import KINDS
from .imported import NO_SIZES, Evaluation, ImportedRun
from .values import as_name, as_number, as_whole_number, check_order, find_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from .imported import ImportOptions

__all__ = ["TrackerRow", "make_run"]

NAMES = ("step", "trained", "tested", "score", "n", "kind")
PLACEHOLDER = re.compile(r"\{(tested|trained)\}")
MAX_ROWS = 2_000_000
MAX_NAMED = 8
NO_KINDS = "whether whole test sets were evaluated is not known: every evaluation is a probe"
NO_BOUNDARIES = "which task was trained when is not known: a stream without task boundaries"


class TrackerRow(NamedTuple):
    """Values that were logged together, by name; `where` names their place in errors."""

    where: str
    step: object
    values: Mapping[str, object]


class FoundScore(NamedTuple):
    """A score, and what its row and its name say about it."""

    row: TrackerRow
    step: int
    tested: str
    trained: str | None
    score: float


def make_run(
    rows: Iterable[TrackerRow],
    options: ImportOptions,
    *,
    tool: str,
    files: Sequence[Path],
    label: str = "",
    config: Mapping[str, object] | None = None,
    version: str | None = None,
    notes: Sequence[str] = (),
) -> ImportedRun:
    """Return the run that rows make up, or raise InputError.

    `options.columns` has the name of the column, the tag or the metric for each of our names. A
    score may be a pattern, `eval/{tested}/acc`, which the names of many columns match.
    """
    source = str(files[0])
    if options.metric is not None:
        raise InputError(f"{source}: metric is not used here; name the score in `columns=`")
    columns = _check_columns(options.columns, source)
    pattern = _compile(columns["score"]) if PLACEHOLDER.search(columns["score"]) else None
    listed, names = _select_rows(rows, {*columns.values()}, pattern, source)
    listing = _check_names(names, options.columns, source)
    scores = _find_scores(listed, columns, pattern)
    if not scores:
        raise InputError(f"{source}: score is {columns['score']!r:.60}, expected one of {listing}")
    _check_steps(scores)
    trained = _find_trained(listed, scores, columns)
    evaluations = check_order(
        [_make_evaluation(*pair, columns) for pair in zip(scores, trained, strict=True)],
        options.order, source,
    )  # fmt: skip
    scale, unit, unit_notes = ACCURACY, 1, list[str]()
    if options.lower_is_better:
        scale = ScoreScale(-math.inf, math.inf, lower_is_better=True)
    else:
        unit, unit_notes = find_unit([s.score for s in scores], options.percent, source)
    return ImportedRun(
        tool=tool,
        evaluations=[e._replace(score=float(e.score or 0) / unit) for e in evaluations],
        files=files,
        version=version,
        label=label,
        config=dict(config or {}),
        scale=scale,
        notes=[*notes, *unit_notes, *_note_unknown(evaluations)],
    )


def _note_unknown(evaluations: Sequence[Evaluation]) -> list[str]:
    notes = [NO_SIZES] if any(e.n is None for e in evaluations) else []
    notes += [NO_KINDS] if all(e.kind == "probe" for e in evaluations) else []
    return notes + ([NO_BOUNDARIES] if all(e.trained is None for e in evaluations) else [])


def _check_columns(columns: Mapping[str, str], source: str) -> dict[str, str]:
    """Return the columns to read; those of a long table have our names unless others are given."""
    for name in columns:
        if name not in NAMES:
            raise InputError(
                f"{source}: columns has {name!r:.40}, expected {', '.join(NAMES[:-1])} or kind"
            )
    if PLACEHOLDER.search(columns.get("score", "")):
        return dict(columns)
    return {name: name for name in NAMES if name != "step"} | dict(columns)


def _select_rows(
    rows: Iterable[TrackerRow], columns: set[str], pattern: re.Pattern[str] | None, source: str
) -> tuple[list[TrackerRow], list[str]]:
    """Return the rows with a column that is read, and the names in all of them."""
    selected: list[TrackerRow] = []
    names: dict[str, bool] = {}  # whether it is read
    for row in rows:
        for name in row.values:
            if name not in names:
                names[name] = name in columns or bool(pattern and pattern.fullmatch(name))
        if any(names[name] for name in row.values):
            selected.append(row)
        if len(selected) > MAX_ROWS or len(names) > MAX_ROWS:
            raise InputError(f"{source}: more than {MAX_ROWS} rows or names, expected fewer")
    return selected, list(names)


def _find_scores(
    rows: Sequence[TrackerRow], columns: Mapping[str, str], pattern: re.Pattern[str] | None
) -> list[FoundScore]:
    scores = []
    for row in rows:
        for name in [columns["score"]] if pattern is None else row.values:
            match = pattern.fullmatch(name) if pattern else None
            value = row.values.get(name)
            if (pattern and match is None) or _is_blank(value):
                continue
            groups = match.groupdict() if match else {}
            tested = groups.get("tested") or _read_name(row, columns, "tested")
            trained = groups.get("trained") or _read_name(row, columns, "trained")
            score = as_number(value, f"{row.where}: {name}")
            if tested is None:
                raise InputError(
                    f"{row.where}: no evaluated task in {columns['tested']!r:.60}; name its column "
                    "as tested in `columns=`"
                )
            if score is not None:
                scores.append(FoundScore(row, _read_step(row, columns), tested, trained, score))
    return scores


def _compile(pattern: str) -> re.Pattern[str]:
    """Return the expression for a pattern with {tested}, and perhaps {trained}.

    Example:
        >>> _compile("eval/{tested}/acc").fullmatch("eval/red/acc")["tested"]
        'red'
    """
    parts = PLACEHOLDER.split(pattern)
    names = parts[1::2]
    if len(set(names)) < len(names) or "tested" not in names:
        raise InputError(
            f"columns has score={pattern:.80}, expected {{tested}} once in it, as in "
            "eval/{tested}/acc"
        )
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [f"(?P<{name}>.+)" for name in names]
    return re.compile("".join(parts))


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _read_name(row: TrackerRow, columns: Mapping[str, str], name: str) -> str | None:
    value = row.values.get(columns.get(name, ""))
    return None if _is_blank(value) else as_name(value, f"{row.where}: {columns[name]}")


def _read_step(row: TrackerRow, columns: Mapping[str, str]) -> int:
    column = columns.get("step")
    value = row.step if column is None else row.values.get(column)
    if _is_blank(value):
        raise InputError(
            f"{row.where}: no step; say which column has the iterations in `columns=`, as in "
            "step=iter"
            if column is None
            else f"{row.where}: no step in {column!r:.60}"
        )
    return as_whole_number(value, f"{row.where}: {column or 'step'}", least=0)


def _check_steps(scores: list[FoundScore]) -> None:
    """Sort scores by step, or raise if those of a task go back: two runs, or no order."""
    last: dict[str, FoundScore] = {}
    for score in scores:
        before = last.setdefault(score.tested, score)
        if before is not score and score.step <= before.step:
            problem = "again" if score.step == before.step else f"after step {before.step}"
            raise InputError(
                f"{score.row.where}: a score of {score.tested!r:.60} at step {score.step} "
                f"{problem}, expected steps that increase; two runs in one place? Import each by "
                "itself, and sort the rows of one run by step"
            )
        last[score.tested] = score
    scores.sort(key=lambda score: score.step)


def _find_trained(
    rows: Sequence[TrackerRow], scores: Sequence[FoundScore], columns: Mapping[str, str]
) -> list[str | None]:
    """Return the task that was trained at each score: as its row says, or the last one logged.

    Where one task was logged at the step itself, it counts, before or after the score.
    """
    stated = [
        (_read_step(row, columns), name)
        for row in rows
        if (name := _read_name(row, columns, "trained")) is not None
    ]
    if not stated and all(score.trained is None for score in scores):
        return [None] * len(scores)
    stated.sort(key=lambda pair: pair[0])
    by_step = {step: [name for _, name in group] for step, group in groupby(stated, lambda p: p[0])}
    steps = sorted(by_step)
    trained: list[str | None] = []
    at, current = 0, None
    for score in scores:
        while at < len(steps) and steps[at] < score.step:
            current = by_step[steps[at]][-1]
            at += 1
        here = set(by_step.get(score.step, ()))
        name = score.trained or (here.pop() if len(here) == 1 else current)
        if name is None and not _is_initial(score.row, columns):
            raise InputError(
                f"{score.row.where}: nothing says which task was trained at step {score.step}, "
                f"expected {columns.get('trained', 'trained')!r:.60} there or before"
            )
        trained.append(name)
    return trained


def _is_initial(row: TrackerRow, columns: Mapping[str, str]) -> bool:
    return row.values.get(columns.get("kind", "")) == "initial"


def _make_evaluation(
    score: FoundScore, trained: str | None, columns: Mapping[str, str]
) -> Evaluation:
    row = score.row
    n, kind = (row.values.get(columns.get(name, "")) for name in ("n", "kind"))
    evaluation = Evaluation(score.step, trained, score.tested, score.score, kind="probe")
    if not _is_blank(n):
        count = as_whole_number(n, f"{row.where}: {columns['n']}", least=1)
        evaluation = evaluation._replace(n=count)
    if not _is_blank(kind):
        if kind not in KINDS:
            raise InputError(f"{row.where}: kind is {kind!r:.40}, expected {' or '.join(KINDS)}")
        evaluation = evaluation._replace(kind=kind)  # type: ignore[arg-type]
    return evaluation


def _check_names(names: Sequence[str], stated: Mapping[str, str], source: str) -> str:
    """Return the names in the rows for errors, or raise if one that the user named is missing."""
    if not names:
        raise InputError(f"{source}: nothing was logged, expected scores")
    listed = first_few(names, MAX_NAMED)
    for name, column in stated.items():
        if column not in names and not PLACEHOLDER.search(column):
            raise InputError(f"{source}: {name} is {column!r:.60}, expected one of {listed}")
    if "score" not in stated and "score" not in names:
        raise InputError(
            f"{source}: which of {listed} are scores? Say it in `columns=`, as in "
            "score=eval/{tested}/acc, or for one row per evaluation score=acc,tested=task"
        )
    return listed
