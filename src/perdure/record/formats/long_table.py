"""Score matrices from a long table: one line per entry, trained,tested,score and method,seed."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import numpy as np

from ..io.files import MAX_NUMBERS, MAX_TASKS, InputError
from ..io.text import ColumnSpec, as_text, first_few, read_table, visible
from .matrix_entry import MAX_MATRICES, MatrixEntry, parse_seed
from .matrix_text import DECIMAL_COMMA, DECIMAL_POINT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from .matrix_entry import MatrixFile

__all__ = ["find_delimiter", "parse_long_table"]

REQUIRED = ("trained", "tested", "score")


def find_delimiter(header: str) -> str | None:
    """Return the delimiter of a header with trained, tested and score, but no step; else None.

    Example:
        >>> find_delimiter("method;trained;tested;score"), find_delimiter("step,tested,score")
        (';', None)
    """
    for delimiter in ",;\t":
        try:
            names = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:
            continue
        columns = {name.strip() for name in names}
        if columns.issuperset(REQUIRED) and "step" not in columns:
            return delimiter
    return None


def parse_long_table(text: str, source: str, delimiter: str) -> list[MatrixEntry]:
    r"""Return the matrix of each method and seed, or raise InputError that names file and line.

    Tasks are in the order in which they are first trained; where `trained` is empty, the score is
    that of the untrained model.

    Example:
        >>> text = "trained,tested,score\na,a,0.9\nb,a,0.6\nb,b,0.8\n"
        >>> (entry,) = parse_long_table(text, "m.csv", ",")
        >>> entry.fields["tasks"], entry.fields["matrix"][1, 0]
        (('a', 'b'), np.float64(0.6))
    """
    codes: dict[str, dict[str, int]] = {name: {} for name in ("task", "method", "seed")}
    marks: set[str] = set()
    table = read_table(text, source, _specs(codes, marks), delimiter=delimiter)
    if not table.rows:
        raise InputError(f"{source}: no scores, expected lines under {','.join(REQUIRED)}")
    if len(marks) > 1:
        raise InputError(f"{source}: decimal commas and decimal points, expected one of them")
    notes = (table.warning,) if table.warning else ()
    if marks == {","}:
        notes = (*notes, "decimal commas are read as decimal points")
    names = {kind: list(mine) for kind, mine in codes.items()}
    columns = {
        name: table.columns.get(name, np.zeros(table.rows, dtype=np.int32))
        for name in ("method", "seed")
    }
    entries = []
    left = MAX_NUMBERS
    for rows in _split_rows(columns["method"], columns["seed"], source):
        method = names["method"][columns["method"][rows[0]]] if names["method"] else None
        text_seed = names["seed"][columns["seed"][rows[0]]] if names["seed"] else None
        number = None if text_seed is None else parse_seed(text_seed)
        seed = text_seed if number is None else number
        part = ", ".join([*([method] if method else []), *([f"seed {seed}"] if text_seed else [])])
        trained, tested, score = (table.columns[name][rows] for name in REQUIRED)
        source_of_part = f"{source}: {part}" if part else source
        where = _row_namer(table.where, rows)
        if len(np.unique(trained)) ** 2 > left:
            raise InputError(
                f"{source}: too large, expected matrices of {MAX_NUMBERS} entries together"
            )
        fields, more = _make_fields(trained, tested, score, names["task"], source_of_part, where)
        left -= fields["matrix"].size
        entries.append(
            MatrixEntry(fields, method, seed, part, oriented=True, notes=(*notes, *more))
        )
    return entries


def _row_namer(where: Callable[[int], str], rows: NDArray[np.intp]) -> Callable[[int], str]:
    return lambda k: where(int(rows[k]))


def _specs(codes: dict[str, dict[str, int]], marks: set[str]) -> dict[str, ColumnSpec]:
    """Return how each column is read; names become positions in `codes`."""

    def encode(kind: str, *, blank: bool = False) -> Callable[[Sequence[str]], NDArray[np.int32]]:
        def convert(values: Sequence[str]) -> NDArray[np.int32]:
            plain = [visible(value.strip()) for value in values]
            if not blank and "" in plain:
                raise ValueError
            mine = codes[kind]
            return np.array(
                [mine.setdefault(value, len(mine)) if value else -1 for value in plain], np.int32
            )

        return convert

    def scores(values: Sequence[str]) -> NDArray[np.float64]:
        plain = [value.strip() for value in values]
        if "_" in "".join(plain):
            raise ValueError
        marks.update({","} if any(map(DECIMAL_COMMA.fullmatch, plain)) else ())
        marks.update({"."} if any(map(DECIMAL_POINT.fullmatch, plain)) else ())
        numbers = as_text([re.sub(r",(?=\d+$)", ".", v) for v in plain]).astype(np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError
        return numbers

    return {
        "trained": ColumnSpec("the name of a task", encode("task", blank=True), required=True),
        "tested": ColumnSpec("the name of a task", encode("task"), required=True),
        "score": ColumnSpec("a number", scores, required=True),
        "method": ColumnSpec("the name of a method", encode("method")),
        "seed": ColumnSpec("a seed", encode("seed")),
    }


def _split_rows(
    method: NDArray[np.int32], seed: NDArray[np.int32], source: str
) -> list[NDArray[np.intp]]:
    """Return the rows of each method and seed, in order of appearance."""
    key = method.astype(np.int64) * (int(seed.max()) + 1) + seed
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    if len(first) > MAX_MATRICES:
        raise InputError(f"{source}: {len(first)} matrices, expected at most {MAX_MATRICES}")
    order = np.argsort(inverse, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(inverse))[:-1])
    return [parts[k] for k in np.argsort(first)]


def _learning_order(trained: NDArray[np.int32], tested: NDArray[np.int32]) -> list[int]:
    """Return the trained tasks in the order they were learned in.

    A triangle shows it, however its lines are sorted: one more task is evaluated after each. Any
    other table is in the order of its lines.

    Example:
        >>> _learning_order(np.array([7, 7, 3]), np.array([7, 3, 3]))
        [3, 7]
    """
    learned = list(dict.fromkeys(code for code in trained.tolist() if code >= 0))
    counts = {code: len(np.unique(tested[trained == code])) for code in learned}
    is_triangle = sorted(counts.values()) == list(range(1, len(learned) + 1))
    return sorted(learned, key=counts.__getitem__) if is_triangle else learned


def _make_fields(
    trained: NDArray[np.int32],
    tested: NDArray[np.int32],
    score: NDArray[np.float64],
    names: list[str],
    source: str,
    where: Callable[[int], str],
) -> tuple[MatrixFile, tuple[str, ...]]:
    """Return the matrix of one method and seed with its tasks, and a note on their order."""
    learned = _learning_order(trained, tested)
    if not 0 < len(learned) <= MAX_TASKS:
        raise InputError(f"{source}: {len(learned)} trained tasks, expected 1 to {MAX_TASKS}")
    position = np.full(len(names) + 1, -2)
    position[learned] = np.arange(len(learned))
    position[-1] = -1  # no task: the untrained model
    i, j = position[trained], position[tested]
    if (j < 0).any():
        k = int(np.argmax(j < 0))
        raise InputError(
            f"{where(k)}: task {names[tested[k]]!r:.60} is never trained, expected only tasks that "
            "are; leave its lines out"
        )
    if untested := set(learned).difference(tested.tolist()):
        raise InputError(
            f"{source}: task {names[min(untested)]!r:.60} is trained and never tested, expected a "
            "score of every task; where the model is untrained, leave `trained` empty"
        )
    table = np.full((len(learned) + 1, len(learned)), np.nan)
    place = (i % len(table)) * len(learned) + j  # the untrained model, -1, is the last row
    _, first = np.unique(place, return_index=True)
    if len(first) < len(place):
        k = int(np.setdiff1d(np.arange(len(place)), first)[0])
        raise InputError(
            f"{where(k)}: a second score of {names[tested[k]]!r:.60} after learning "
            f"{names[trained[k]] if trained[k] >= 0 else 'nothing'!r:.60}, expected one; tell "
            "seeds and methods apart by columns seed and method"
        )
    table.flat[place] = score
    tasks = tuple(names[code] for code in learned)
    fields: MatrixFile = {"matrix": table[:-1], "tasks": tasks}
    if not np.isnan(table[-1]).all():
        fields["initial"] = table[-1]
    numbers = [int(task) for task in tasks if re.fullmatch(r"\d{1,18}", task)]
    if len(numbers) == len(tasks) and numbers != sorted(numbers):
        note = (
            f"tasks are in the order of the lines, {first_few(tasks, 5)}; sort the lines if they "
            "were learned in another"
        )
        return fields, (note,)
    return fields, ()
