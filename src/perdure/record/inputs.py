"""Reading anything that can be scored: matrices, a points.csv, a run folder, arrays, or a pipe."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from ..metrics import ACCURACY, ScoreMatrix
from ..metrics.score_matrix import REFERENCES
from .formats.matrix import parse_matrices, parse_vector
from .formats.matrix_entry import (
    are_fractions,
    detect_percent,
    detect_transposed,
    fractions_note,
    is_lower_triangle,
    refuse_fractions,
    suspect_transposed,
)
from .formats.per_example import add_per_example
from .io.files import InputError, open_stream, read_limited, unreadable
from .points import MatrixFields
from .run import add_costs, read_log, read_points_of_run, read_run
from .run_folder import RunFolder, holds_training_examples
from .run_index import MAX_MATRIX, RunRef, is_log, list_matrices, read_bytes
from .score_input import InputOptions, ScoreInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .formats.matrix_entry import MatrixEntry

__all__ = ["detect_options", "read_input", "read_ref", "read_vector"]


def read_input(
    path: str,
    options: InputOptions | None = None,
    *,
    pipe: BinaryIO | None = None,
    costs: Path | None = None,
    per_example: Path | Literal[False] | None = None,
) -> ScoreInput:
    r"""Return what the file or run folder at `path` holds; `-` reads `pipe`.

    `per_example` is a folder of per-example results; False skips the run's own, which only
    intervals need.

    Raises InputError with one line that names the file, the place, the value and what was expected.

    Example:
        >>> import io
        >>> read_input("-", pipe=io.BytesIO(b"0.9,0.1\n0.6,0.8\n")).matrix.scores[1, 0]
        np.float64(0.6)
    """
    folder = path != "-" and os.path.isdir(path)  # noqa: PTH112 - Path raises for odd names
    refs = [RunRef(path)] if folder else list_matrices(path, pipe)
    if len(refs) > 1:
        raise InputError(
            f"{path}: {len(refs)} matrices, expected one; `perdure.score_groups` reads several"
        )
    options = detect_options(refs, options)
    return read_ref(refs[0], options, costs=costs, per_example=per_example)


def read_ref(
    ref: RunRef,
    options: InputOptions | None = None,
    *,
    costs: Path | None = None,
    per_example: Path | Literal[False] | None = None,
) -> ScoreInput:
    """Return what a run, a file or one matrix of a file holds; arguments as in `read_input`."""
    options = options or InputOptions()
    if ref.summary is not None:
        raise InputError(f"{ref.name}: scored already, expected scores")
    try:
        if ref.matrix is not None:
            result = _score_matrix(ref.matrix, options, ref.name)
        elif ref.is_folder:
            result = read_run(RunFolder(ref.path), options, per_example=per_example is not False)
        else:
            result = _read_file(ref, options)
        _check_effect(options, result, ref.name)
        if costs is not None:
            add_costs(result, costs, ours=False)
        if isinstance(per_example, Path):
            add_per_example(result, per_example)
    except OSError as error:
        raise unreadable(ref.path, error) from None
    result.seed = ref.seed
    return result


def _check_effect(options: InputOptions, result: ScoreInput, name: str) -> None:
    """Raise or note if an option has no effect on this kind of input."""
    if options.subsample > 1 and result.stream is None:
        raise InputError(
            f"{name}: a score matrix has no evaluations during training to leave out, expected a "
            f"points.csv or a run; leave out `subsample={options.subsample}`"
        )
    if options.control and result.points is None:
        raise InputError(
            f"{name}: a score matrix has no control tasks, expected a points.csv or a run; leave "
            "out `control=`"
        )
    if options.transposed and result.points is not None:
        result.notes.append(f"{name}: `transposed=True` is for matrices, and had no effect here")


def detect_options(refs: Sequence[RunRef], options: InputOptions | None = None) -> InputOptions:
    """Return the options with the unit and the orientation of the matrices of one method.

    What the user states stays; what is detected is stated in `notes`.
    """
    options = options or InputOptions()
    entries = [(ref.name, ref.matrix) for ref in refs if ref.matrix is not None]
    if not entries or len(entries) < len(refs):
        return options  # a run states its own unit; a log is read by itself
    notes = list(options.notes)
    first = refs[0]
    group = f"{first.path}: {first.method}" if first.method else first.path
    if others := len({ref.path for ref in refs}) - 1:
        group += f" and {others} more"
    if options.transposed is None:
        note = detect_transposed(entries, group)
        options = replace(options, transposed=note is not None)
        note = note or suspect_transposed(entries, group, lower_is_better=options.lower_is_better)
        notes += [note] if note else []
    if options.percent is None and options.scale is None:
        note = detect_percent(entries, group)
        options = replace(options, percent=note is not None)
        notes += [note] if note else []
    elif options.allows_fractions and _none_is_percent(entries):
        options = replace(options, percent=False)
        notes.append(fractions_note(group))
    return replace(options, notes=tuple(notes))


def read_vector(path: str) -> list[float]:
    """Return one number per task from a small file."""
    try:
        with open_stream(path) as file:
            return parse_vector(read_limited(file, path, MAX_MATRIX), path)
    except OSError as error:
        raise unreadable(path, error) from None


def _read_file(ref: RunRef, options: InputOptions) -> ScoreInput:
    """Return what a log holds; a matrix is here only if it could not be read."""
    path, folder = ref.path, RunFolder(Path(ref.path).parent)
    name = "standard input" if path == "-" else path
    finished = folder.is_finished()  # asked first: a writer may finish in between
    data = ref.log
    if data is None:
        with open_stream(path) as file:
            data = read_bytes(file, name)
    if not is_log(data):
        (entry,) = parse_matrices(data, name)
        return _score_matrix(entry, options, name)
    if path != "-" and folder.has_metadata():
        result = read_points_of_run(data, options, folder, name, finished=finished)
    else:
        result = read_log(data, name, options)
    if holds_training_examples(path):
        result.notes.append(f"{name}: evaluated on training examples, not on test sets")
    return result


def _score_matrix(entry: MatrixEntry, options: InputOptions, name: str) -> ScoreInput:
    """Return the matrix of a source; options override what the source states."""
    file, stated = entry.fields, options.matrix_fields()
    if options.transposed and is_lower_triangle(file["matrix"]):
        raise InputError(
            f"{name}: no score is above the diagonal, expected the trained tasks in columns; omit "
            "`transposed=True`"
        )
    tasks = file.get("tasks", ())
    if options.transposed and entry.row_tasks:
        tasks = entry.row_tasks
    fields = MatrixFields(**{k: v for k, v in file.items() if k not in ("matrix", "tasks")})  # type: ignore[typeddict-item]
    if options.percent:
        if are_fractions(file["matrix"]):
            raise refuse_fractions(name)
        for key in REFERENCES:
            value = getattr(options, key) or fields.get(key)
            if value is not None and are_fractions(value):
                raise InputError(
                    f"{name}: the matrix is in percent and no score of `{key}=` is above 1, "
                    "expected percent as well"
                )
    for key in REFERENCES:
        if key in fields:
            fields[key] = options.to_fractions(fields[key])
    try:
        matrix = ScoreMatrix(
            options.to_fractions(file["matrix"]),
            tasks,
            transposed=bool(options.transposed),
            scale=options.scale or ACCURACY,
            upper=options.upper,
            **(fields | stated),
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"{name}: {error}") from None
    return ScoreInput(matrix, notes=[*options.notes, *entry.notes])


def _none_is_percent(entries: Sequence[tuple[str, MatrixEntry]]) -> bool:
    return all(not entry.percent and are_fractions(entry.fields["matrix"]) for _, entry in entries)
