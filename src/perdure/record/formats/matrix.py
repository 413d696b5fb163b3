"""Score matrices from files of other tools and from Python: CSV, TSV, JSON, NPY, NPZ, arrays.

One source may hold several: the seeds of a method, several methods, or the seeds of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from ...metrics.score_matrix import REFERENCES
from ..io.files import MAX_NUMBERS, MAX_TASKS, InputError, array_from, arrays_from_zip, parse_json
from ..io.text import decode, visible
from .long_table import find_delimiter, parse_long_table
from .matrix_entry import MAX_MATRICES, MatrixEntry, depth_of, parse_seed, to_array, to_matrix
from .matrix_text import parse_number, parse_table, read_decimal_commas, split_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .matrix_entry import MatrixFile

__all__ = ["parse_matrices", "parse_vector", "split_contents"]

FIELDS = ("matrix", "tasks", *REFERENCES, "classes", "sizes", "setting")


def parse_matrices(data: bytes, source: str) -> list[MatrixEntry]:
    r"""Return the matrices in the bytes of a file, recognised by its first bytes.

    Example:
        >>> (entry,) = parse_matrices(b",a,b\na,0.9,\nb,0.6,0.8\n", "m.csv")
        >>> entry.fields["tasks"]
        ['a', 'b']
        >>> [e.method for e in parse_matrices(b'{"er": [[0.9]], "ewc": [[0.8]]}', "m.json")]
        ['er', 'ewc']
    """
    if data.startswith(b"\x93NUMPY"):
        return split_contents(array_from(data, source), source)
    if data.startswith(b"PK"):
        arrays = arrays_from_zip(data, source)
        # An archive of one array is that array, whatever its name.
        return split_contents(next(iter(arrays.values())) if len(arrays) == 1 else arrays, source)
    text = decode(data, source)
    if not text.strip():
        raise InputError(f"{source}: the file is empty, expected a matrix of scores")
    if text.lstrip()[0] in "[{":
        return split_contents(_parse_json(text, source), source)
    if delimiter := find_delimiter(text.partition("\n")[0]):
        return parse_long_table(text, source, delimiter)
    return [parse_table(text, source)]


def split_contents(contents: object, source: str) -> list[MatrixEntry]:
    """Return the matrices in nested lists, arrays and mappings.

    A matrix is rows of scores, or a mapping with `matrix` and other fields. A list of matrices or
    an array of shape (seeds, T, T) holds the seeds of one method, and so does a mapping from seeds
    to matrices; another mapping has the name of a method before each of these.

    Example:
        >>> entries = split_contents({"er": {"0": [[0.9]], "1": [[0.8]]}}, "m.json")
        >>> [(entry.method, entry.seed) for entry in entries]
        [('er', 0), ('er', 1)]
    """
    if not isinstance(contents, Mapping):
        return _split_seeds(contents, source, {})
    if "matrix" in contents:
        return _split_fields(contents, source)
    shared, methods = _split_shared(contents)
    if not methods:
        raise InputError(f"{source}: no 'matrix' in it, expected rows of scores under that name")
    if len(methods) > MAX_MATRICES:
        raise InputError(f"{source}: {len(methods)} matrices, expected at most {MAX_MATRICES}")
    if all(parse_seed(name) is not None for name in methods):
        return _split_by_seed(methods, source, shared)
    entries = []
    for key, value in methods.items():
        name = visible(str(key))
        for entry in _split_method(value, f"{source}: {name}", shared):
            part = f"{name}, {entry.part}" if entry.part else name
            entries.append(entry._replace(method=name, part=part))
    return entries


def _split_method(value: object, source: str, shared: Mapping[str, object]) -> list[MatrixEntry]:
    """Return the matrices of one method: one, a list of seeds, or seeds by name."""
    if not isinstance(value, Mapping):
        return _split_seeds(value, source, shared)
    if "matrix" in value:
        return _split_fields({**shared, **value}, source)
    own, seeds = _split_shared(value)
    return _split_by_seed(seeds, source, {**shared, **own})


def _split_shared(
    contents: Mapping[str, object],
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the fields that all matrices of an object share, and the rest: methods or seeds."""
    shared = {k: v for k, v in contents.items() if k in FIELDS and depth_of(v) < 2}
    return shared, {k: v for k, v in contents.items() if k not in shared}


def _split_by_seed(
    seeds: Mapping[str, object], source: str, shared: Mapping[str, object]
) -> list[MatrixEntry]:
    if not seeds:
        raise InputError(f"{source}: no matrix in it, expected one for each seed")
    entries = []
    for key, value in seeds.items():
        seed = parse_seed(key)
        name = visible(str(key)) if seed is None else f"seed {seed}"
        where = f"{source}: {name}"
        if isinstance(value, Mapping):
            (entry, *more) = _split_fields({**shared, **value}, where)
        else:
            (entry, *more) = _split_seeds(value, where, shared)
        if more:
            raise InputError(f"{where}: {1 + len(more)} matrices, expected one for each seed")
        entries.append(entry._replace(seed=name if seed is None else seed, part=name))
    return entries


def _split_fields(contents: Mapping[str, object], source: str) -> list[MatrixEntry]:
    for name in contents:
        if name not in FIELDS:
            raise InputError(f"{source}: {name!r} is unknown, expected {', '.join(FIELDS)}")
    if contents.get("matrix") is None:
        raise InputError(f"{source}: no 'matrix' in it, expected rows of scores under that name")
    others = {name: value for name, value in contents.items() if name != "matrix"}
    return _split_seeds(contents["matrix"], source, others)


def _split_seeds(values: object, source: str, others: Mapping[str, object]) -> list[MatrixEntry]:
    """Return one matrix, or each of a list of matrices or of an array (seeds, T, T)."""
    shared = _check_others(others, source)
    if depth_of(values) < 3:
        matrix, notes = to_matrix(values, source)
        return [MatrixEntry(cast("MatrixFile", {"matrix": matrix, **shared}), notes=notes)]
    several = cast("Sequence[object]", values)
    if not 0 < len(several) <= MAX_MATRICES:
        raise InputError(f"{source}: {len(several)} matrices, expected 1 to {MAX_MATRICES}")
    if depth_of(values) > 3:
        shape = getattr(values, "shape", f"{depth_of(values)} levels of lists")
        raise InputError(
            f"{source}: {shape}, expected a matrix (T, T) or one per seed (seeds, T, T); for "
            "several methods, give each its name: {name: matrices}"
        )
    entries = []
    for k, value in enumerate(several):
        part = f"matrix {k}" if len(several) > 1 else ""
        matrix, notes = to_matrix(value, f"{source}: {part}" if part else source)
        fields = cast("MatrixFile", {"matrix": matrix, **shared})
        entries.append(MatrixEntry(fields, part=part, notes=notes))
    return entries


def _check_others(others: Mapping[str, object], source: str) -> dict[str, object]:
    """Return the fields next to a matrix: names of tasks, and one number per task."""
    fields = {name: value for name, value in others.items() if value is not None}
    names = fields.get("tasks", [])
    if not isinstance(names, list | tuple) or not all(isinstance(n, str | int) for n in names):
        raise InputError(f"{source}: tasks are {names!r:.40}, expected a list of names")
    for name in (*REFERENCES, "classes", "sizes"):
        if name in fields:
            fields[name] = to_array(fields[name], f"{source}: {name}")
    return fields


def parse_vector(data: bytes, source: str) -> list[float]:
    """Return one number per task from a file: one line or column of CSV, a JSON list, or NPY.

    Example:
        >>> parse_vector(b"0.1,0.2,", "b.csv")
        [0.1, 0.2, nan]
    """
    if data.startswith(b"\x93NUMPY"):
        array = to_array(array_from(data, source), source)
    elif decode(data, source).lstrip()[:1] == "[":
        array = to_array(_parse_json(decode(data, source), source), source)
    else:
        lines, _ = read_decimal_commas(split_rows(decode(data, source), source), source)
        rows = [row for _, row in lines]
        if len({len(row) for row in rows}) > 1:
            raise InputError(
                f"{source}: rows of several lengths, expected one number for each task"
            )
        array = np.array([[parse_number(cell, source) for cell in row] for row in rows])
    if array.ndim == 2 and 1 in array.shape:
        array = array.ravel()
    if array.ndim != 1 or not len(array):
        raise InputError(f"{source}: expected one number for each task, got shape {array.shape}")
    return [float(value) for value in array]


def _parse_json(text: str, source: str) -> object:
    # Counted first: an empty list takes three bytes of a file, and sixty of memory.
    if text.count(",") > MAX_NUMBERS + 8 * MAX_TASKS:
        raise InputError(f"{source}: too large, expected a matrix of at most {MAX_TASKS} tasks")
    contents: object = parse_json(text, source)
    return contents
