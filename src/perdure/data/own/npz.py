"""Reading an .npz file: x and y, or x_train, y_train, x_test and y_test, by any common spelling."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from ...record import InputError, read_file
from ...record.io.arrays import arrays_from_zip
from .parts import MAX_BYTES, PART_NAMES, InputKind, Part, Parts, choose_parts

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["find_role", "read_npz"]

TOKEN_NAMES = ("tokens", "token_ids", "input_ids")
ROLES: dict[str, tuple[str, ...]] = {
    "x": ("x", "data", "images", "image", "img", "features", "inputs", "input", *TOKEN_NAMES),
    "y": ("y", "labels", "label", "targets", "target", "class", "classes"),
    "task": ("task", "tasks", "task_id", "task_ids", "domain"),
}
PLAIN = {"arr_0": "x", "arr_1": "y"}  # the names that np.savez gives
EXPECTED = "expected x and y, or x_train, y_train, x_test and y_test"


def read_npz(path: Path) -> Parts:
    """Return the parts of an .npz file."""
    data = read_file(path, MAX_BYTES)
    arrays = arrays_from_zip(data, str(path), max_bytes=MAX_BYTES, kinds="fiubUS")
    found: dict[str, dict[str, str]] = {}
    kind: InputKind | None = None
    unused = []
    for name in arrays:
        place = find_role(name)
        if place is None:
            unused.append(name)
            continue
        part, role = place
        if (other := found.setdefault(part, {}).setdefault(role, name)) != name:
            raise InputError(f"{path}: both {other} and {name} could be {role}, expected one")
        if role == "x" and any(word in name.lower() for word in TOKEN_NAMES):
            kind = "tokens"
    notes = [f"not used: {', '.join(unused)}"] if unused else []
    train, test = choose_parts(_make_parts(path, found, arrays), notes)
    digest = hashlib.sha256(data).hexdigest()
    return Parts(train, test, kind, {path.name: digest}, notes)


def find_role(name: str) -> tuple[str, str] | None:
    """Return the part (train, test, validation, or "" for none) and the role of a name, or None.

    Example:
        >>> find_role("X_train"), find_role("test_labels"), find_role("y"), find_role("mean")
        (('train', 'x'), ('test', 'y'), ('', 'y'), None)
    """
    if name in PLAIN:
        return "", PLAIN[name]
    words = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()).strip("_")
    first, _, rest = words.partition("_")
    before, _, last = words.rpartition("_")
    candidates = [("", words)]
    candidates += [(PART_NAMES[first], rest)] if first in PART_NAMES else []
    candidates += [(PART_NAMES[last], before)] if last in PART_NAMES else []
    for part, stem in candidates:
        for role, names in ROLES.items():
            if stem in names:
                return part, role
    return None


def _make_parts(
    path: Path, found: dict[str, dict[str, str]], arrays: dict[str, NDArray[Any]]
) -> dict[str, Part]:
    """Return the parts by name; a single one without a name is the training part."""
    listed = ", ".join(arrays)
    if "" in found and len(found) > 1:
        raise InputError(f"{path}: has {listed:.200}: both one part and several, {EXPECTED}")
    found = {part or "train": names for part, names in found.items()}
    if "train" not in found:
        raise InputError(f"{path}: has {listed or 'nothing':.200}, {EXPECTED}")
    parts = {}
    for part, names in found.items():
        if missing := {"x", "y"} - names.keys():
            raise InputError(
                f"{path}: has {listed:.200}, and no {'/'.join(sorted(missing))} of the {part} "
                f"part, {EXPECTED}"
            )
        x, y = arrays[names["x"]], arrays[names["y"]]
        task = arrays[names["task"]] if "task" in names else None
        for name, other in (("y", y), ("task", task)):
            if other is not None and (x.ndim == 0 or other.ndim == 0 or len(other) != len(x)):
                raise InputError(
                    f"{path}: {names['x']} has shape {x.shape} and {names[name]} {other.shape}, "
                    "expected one row of each per example"
                )
        parts[part] = Part(x, y, task)
    return parts
