"""Reading a .parquet file: images, features or tokens, and a label column."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..record import InputError
from ._decoding import decode_into_cache, decoded_name
from ._own_arrays import (
    MAX_BYTES,
    PART_NAMES,
    ROLES,
    TOKEN_NAMES,
    InputKind,
    Part,
    Parts,
    choose_parts,
)
from ._own_images import decode_image, plan_shape, read_header
from ._parquet import (
    DUCKDB_LIMITS,
    class_names,
    escape_glob,
    import_duckdb,
    read_schema,
    unreadable,
)
from .paths import compute_sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ._own_images import Header
    from ._parquet import ImageBatch

__all__ = ["read_parquet"]

BATCH = 4096
NUMERIC = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
    "FLOAT", "DOUBLE", "BOOLEAN",
)  # fmt: skip
LABELS = (*ROLES["y"], "fine_label")
IGNORED = ("id", "index", "__index_level_0__")  # numbers that are no features


class Table(NamedTuple):
    """A file and the role of its columns."""

    path: Path
    rows: int
    inputs: tuple[str, ...]
    kind: InputKind
    is_list: bool  # one column that contains all features or tokens of a row
    label: str
    task: str | None
    split: str | None
    classes: tuple[str, ...] | None
    types: dict[str, str]


def read_parquet(paths: dict[str, Path], size: int | None) -> Parts:
    """Return the parts of one file, or of one file per part; images become squares of `size`."""
    notes: list[str] = []
    tables = {part: _open_table(path, notes) for part, path in paths.items()}
    sha256 = {path.name: compute_sha256(path) for path in paths.values()}
    found: dict[str, Part] = {}
    shape = None
    if any(table.kind == "images" for table in tables.values()):
        shape = _plan_shape(list(tables.values()), size, notes)
    for part, table in tables.items():
        whole = _read_table(table, shape, sha256[table.path.name])
        found |= _divide(table, whole) if table.split and len(tables) == 1 else {part: whole}
    train, test = choose_parts(found, notes)
    return Parts(train, test, tables["train"].kind, sha256, list(dict.fromkeys(notes)))


def _open_table(path: Path, notes: list[str]) -> Table:
    types, rows, metadata = read_schema(path, "write it again")
    if not rows:
        raise InputError(f"{path}: has no rows, expected examples")
    label = _find(types, LABELS)
    if label is None:
        raise InputError(
            f"{path}: columns are {', '.join(types):.200}, expected a label column: "
            f"{', '.join(LABELS)}"
        )
    task, split = _find(types, ROLES["task"]), _find(types, ("split", "part"))
    others = [c for c in types if c not in (label, task, split) and c.lower() not in IGNORED]
    inputs, kind, is_list = _find_inputs(path, {c: types[c] for c in others})
    if unused := [c for c in types if c not in (*inputs, label, task, split)]:
        notes.append(f"columns that are not used: {', '.join(unused):.100}")
    names = class_names(metadata, label)
    return Table(path, rows, inputs, kind, is_list, label, task, split, names, types)


def _find(types: dict[str, str], names: Sequence[str]) -> str | None:
    by_name = {column.lower(): column for column in types}
    return next((by_name[name] for name in names if name in by_name), None)


def _find_inputs(path: Path, types: dict[str, str]) -> tuple[tuple[str, ...], InputKind, bool]:
    """Return the columns of the examples, what they hold, and whether it is one list column."""
    if images := [c for c, t in types.items() if t == "BLOB" or t.startswith("STRUCT(bytes BLOB")]:
        if len(images) > 1:
            raise InputError(f"{path}: {' and '.join(images[:2])} hold images, expected one column")
        return (images[0],), "images", False
    lists = [c for c, t in types.items() if t.endswith("]") and t.split("[")[0] in NUMERIC]
    if len(lists) > 1:
        lists = [c for c in lists if c.lower() in TOKEN_NAMES] or lists
    if len(lists) == 1:
        is_tokens = lists[0].lower() in TOKEN_NAMES or types[lists[0]].split("[")[0].endswith("INT")
        return (lists[0],), "tokens" if is_tokens else "features", True
    if len(lists) > 1:
        raise InputError(f"{path}: {' and '.join(lists[:2])} hold lists, expected one such column")
    numbers = tuple(c for c, t in types.items() if t in NUMERIC or t.startswith("DECIMAL"))
    if not numbers:
        raise InputError(
            f"{path}: no column of images, numbers or tokens next to the label, expected some"
        )
    return numbers, "features", False


def _iterate(table: Table, columns: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of some columns, one window at a time: a single query would hold them all."""
    duckdb = import_duckdb()
    quoted = ", ".join(
        f"{_quote(c)}.bytes" if table.types[c].startswith("STRUCT") else _quote(c) for c in columns
    )
    query = (
        f"SELECT {quoted} FROM read_parquet(?, file_row_number = true) "  # noqa: S608 - quoted
        "WHERE file_row_number >= ? AND file_row_number < ? ORDER BY file_row_number"
    )
    try:
        connection = duckdb.connect(config=DUCKDB_LIMITS)
        for first in range(0, table.rows, BATCH):
            window = [*escape_glob(table.path), first, first + BATCH]
            yield connection.execute(query, window).fetchall()
    except duckdb.Error as error:
        raise unreadable(table.path, error, "write it again") from None


def _quote(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _read_table(table: Table, shape: tuple[int, ...] | None, sha256: str) -> Part:
    y = _read_values(table, table.label)
    if table.classes is not None and y.dtype.kind in "iu":
        if y.min() < 0 or y.max() >= len(table.classes):
            raise InputError(
                f"{table.path}: labels go from {y.min()} to {y.max()}, and its metadata names "
                f"{len(table.classes)} classes"
            )
        y = np.array(table.classes)[y]
    task = None if table.task is None else _read_values(table, table.task)
    if shape is not None:
        return Part(_read_images(table, shape, sha256), y, task)
    return Part(_read_numbers(table), y, task)


def _read_values(table: Table, column: str) -> NDArray[Any]:
    values = [row[0] for rows in _iterate(table, [column]) for row in rows]
    if None in values:
        raise InputError(
            f"{table.path}, row {values.index(None)}: {column} is empty, expected a value"
        )
    return np.array(values if isinstance(values[0], int | float) else list(map(str, values)))


def _read_numbers(table: Table) -> NDArray[Any]:
    """Return features as float32 or tokens as int64, one row per example."""
    dtype = np.int64 if table.kind == "tokens" else np.float32
    parts: list[NDArray[Any]] = []
    size = 0
    for k, rows in enumerate(_iterate(table, table.inputs)):
        values = [row[0] for row in rows] if table.is_list else rows
        try:
            part = np.array(values, dtype=dtype)
        except (TypeError, ValueError):
            first = f"rows {k * BATCH} to {k * BATCH + len(rows) - 1}"
            raise InputError(
                f"{table.path}, {first}: empty values, or lists of several lengths; expected as "
                "many numbers in every row"
            ) from None
        size += part.nbytes
        if part.ndim != 2 or part.shape[1:] != (parts or [part])[0].shape[1:] or size > MAX_BYTES:
            raise InputError(
                f"{table.path}: rows of several lengths, or more than {MAX_BYTES >> 30} GiB; "
                "expected as many numbers in every row"
            )
        parts.append(part)
    return np.concatenate(parts)


def _plan_shape(tables: Sequence[Table], size: int | None, notes: list[str]) -> tuple[int, ...]:
    headers: Counter[Header] = Counter()
    for table in tables:
        for data, source in _iterate_images(table):
            headers[read_header(data, source)] += 1
    shape = plan_shape(headers, size, notes)
    if sum(table.rows for table in tables) * int(np.prod(shape)) > MAX_BYTES:
        raise InputError(
            f"{tables[0].path}: the images take more than {MAX_BYTES >> 30} GiB; use a smaller "
            "`image_size=`"
        )
    return shape


def _iterate_images(table: Table) -> Iterator[tuple[bytes, str]]:
    row = 0
    for rows in _iterate(table, table.inputs):
        for (data,) in rows:
            source = f"{table.path}, row {row}"
            if not data:
                raise InputError(f"{source}: {table.inputs[0]} is empty, expected an image")
            yield data, source
            row += 1


def _read_images(table: Table, shape: tuple[int, ...], sha256: str) -> NDArray[np.uint8]:
    def batches() -> Iterator[ImageBatch]:
        for data, source in _iterate_images(table):
            yield decode_image(data, shape, source)[None], np.zeros(1, dtype=np.int64)

    key = json.loads(json.dumps([shape, sha256, table.inputs]))
    cached, title = decoded_name("own-parquet", key), (table.path.name, "all")
    return decode_into_cache(cached, batches, (table.rows, *shape), (), title).x


def _divide(table: Table, whole: Part) -> dict[str, Part]:
    """Return the parts that a column called split names."""
    assert table.split is not None
    words = np.array([str(value).lower() for value in _read_values(table, table.split)])
    parts = {}
    for word in np.unique(words):
        if word not in PART_NAMES:
            raise InputError(
                f"{table.path}: {table.split} has {word!r:.40}, expected train, test or validation"
            )
        parts[PART_NAMES[word]] = whole.select(words == word)
    if "train" not in parts:
        raise InputError(f"{table.path}: {table.split} never says train, expected a training part")
    return parts
