"""The parts of a dataset as a reader found them, .npz files, and what the axes of an array mean."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._display import count_of
from ..record import InputError, read_file
from ..record.io.files import arrays_from_zip

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from ._load import PerChannel

__all__ = [
    "MAX_BYTES",
    "PART_NAMES",
    "InputKind",
    "Part",
    "Parts",
    "arrange",
    "choose_parts",
    "find_layout",
    "normalization_of",
    "read_npz",
]

InputKind = Literal["images", "features", "tokens"]
MAX_BYTES = 8 << 30  # of all examples in memory
# The names of the training and of the test part; a validation part replaces a missing test part.
PART_NAMES = {
    "train": "train", "training": "train",
    "test": "test", "testing": "test",
    "val": "validation", "valid": "validation", "validation": "validation", "dev": "validation",
}  # fmt: skip

TOKEN_NAMES = ("tokens", "token_ids", "input_ids")
ROLES: dict[str, tuple[str, ...]] = {
    "x": ("x", "data", "images", "image", "img", "features", "inputs", "input", *TOKEN_NAMES),
    "y": ("y", "labels", "label", "targets", "target", "class", "classes"),
    "task": ("task", "tasks", "task_id", "task_ids", "domain"),
}
PLAIN = {"arr_0": "x", "arr_1": "y"}  # the names that np.savez gives
EXPECTED = "expected x and y, or x_train, y_train, x_test and y_test"

CHANNELS = (1, 3, 4)
MAX_VOCABULARY = 10_000_000


class Part(NamedTuple):
    """Examples, the label of each as it was written, and its task if the data states tasks."""

    x: NDArray[Any]
    y: NDArray[Any]
    task: NDArray[Any] | None = None

    def select(self, rows: NDArray[np.bool_]) -> Part:
        """Return some of the examples."""
        return Part(self.x[rows], self.y[rows], None if self.task is None else self.task[rows])


@dataclass
class Parts:
    """The parts of a dataset: `train` and, unless it has to be drawn from that, `test`.

    `kind` is what the examples are, if the file says so; `sha256` has the digests of the files.
    """

    train: Part
    test: Part | None
    kind: InputKind | None = None
    sha256: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def choose_parts(found: dict[str, Part], notes: list[str]) -> tuple[Part, Part | None]:
    """Return the training and the test part of those that were found, by their names."""
    if "test" in found and "validation" in found:
        notes.append("the validation part is not used; the test part is evaluated")
    elif "validation" in found:
        notes.append("there is no test part; the validation part is evaluated")
    return found["train"], found.get("test", found.get("validation"))


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


class Layout(NamedTuple):
    """How to arrange examples: what they are, and whether channels come last."""

    kind: InputKind
    channels_last: bool
    as_bytes: bool  # whole numbers from 0 to 255
    note: str


def find_layout(
    x: NDArray[Any],
    source: str,
    *,
    kind: InputKind | None = None,
    channels: Literal["first", "last"] | None = None,
) -> Layout:
    """Return the layout of an array of examples, or raise where its shape allows several.

    `source` is named in errors; `kind` and `channels` are what the file or the user says.

    Example:
        >>> find_layout(np.zeros((9, 32, 32, 3)), "a.npz").note
        'examples of shape (32, 32, 3): images of 32x32 with 3 channels (the last axis)'
    """
    shape = f"examples of shape {x.shape[1:]}"
    if x.dtype.kind not in "fiub":
        raise InputError(f"{source}: examples are {x.dtype}, expected numbers")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        bad = int((~np.isfinite(x)).sum())
        raise InputError(
            f"{source}: {bad} values of the examples are not finite (NaN or infinite); fill or "
            "remove them"
        )
    if x.ndim == 2:
        return _flat_layout(x, source, kind, shape)
    if kind in ("features", "tokens") or x.ndim not in (3, 4):
        wanted = kind or "images, features or tokens"
        raise InputError(
            f"{source}: {shape}, expected {wanted}: (N, F), (N, H, W), (N, H, W, C) or (N, C, H, W)"
        )
    as_bytes = x.dtype.kind == "u" and x.itemsize == 1
    if x.dtype.kind in "iu" and not as_bytes:
        as_bytes = bool(x.min(initial=0) >= 0 and x.max(initial=0) <= 255)
    if x.ndim == 3:
        height, width = x.shape[1:]
        note = f"{shape}: grey images of {width}x{height}"
        return Layout("images", channels_last=False, as_bytes=as_bytes, note=note)
    last = _channels_last(x.shape, source, channels)
    height, width, count = x.shape[1:] if last else (x.shape[2], x.shape[3], x.shape[1])
    where = "last" if last else "first"
    number = count_of(count, "channel")
    note = f"{shape}: images of {width}x{height} with {number} (the {where} axis)"
    return Layout("images", channels_last=last, as_bytes=as_bytes, note=note)


def _flat_layout(x: NDArray[Any], source: str, kind: InputKind | None, shape: str) -> Layout:
    count = x.shape[1]
    if kind == "images":
        raise InputError(f"{source}: {shape}, expected images: (N, H, W) or with channels")
    if not count:
        raise InputError(f"{source}: {shape}, expected at least one number per example")
    if kind is None and x.dtype.kind in "iu" and x.itemsize > 1:
        raise InputError(
            f"{source}: {shape} are whole numbers, which may be features or tokens of a text; "
            "use `input='features'` or `input='tokens'`"
        )
    if kind == "tokens":
        if x.dtype.kind not in "iu" or x.min(initial=0) < 0:
            raise InputError(f"{source}: tokens are {x.dtype} from {x.min()}, expected whole "
                             "numbers from 0")  # fmt: skip
        if x.max(initial=0) >= MAX_VOCABULARY:
            raise InputError(
                f"{source}: a token is {x.max()}, expected less than {MAX_VOCABULARY:,}; number "
                "the tokens from 0"
            )
        note = f"{shape}: {count} tokens, vocabulary of {int(x.max(initial=0)) + 1}"
        return Layout("tokens", channels_last=False, as_bytes=False, note=note)
    return Layout("features", channels_last=False, as_bytes=False, note=f"{shape}: features")


def _channels_last(
    shape: tuple[int, ...], source: str, channels: Literal["first", "last"] | None
) -> bool:
    if channels is not None:
        return channels == "last"
    first, last = shape[1] in CHANNELS, shape[3] in CHANNELS
    if first == last:
        raise InputError(
            f"{source}: examples of shape {shape[1:]} have their channels first or last; use "
            "`channels='first'` or `channels='last'`"
        )
    return last


def arrange(x: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return examples as a dataset holds them: contiguous, channels first, of one of its types."""
    if layout.kind == "tokens":
        return np.ascontiguousarray(x, dtype=np.int64)
    if layout.kind == "features":
        return np.ascontiguousarray(x, dtype=np.float32)
    x = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2) if layout.channels_last else x
    return np.ascontiguousarray(x, dtype=np.uint8 if layout.as_bytes else np.float32)


def normalization_of(x: NDArray[Any]) -> tuple[PerChannel, PerChannel]:
    """Return the mean and standard deviation of each channel or feature; bytes count from 0 to 1.

    Example:
        >>> normalization_of(np.array([[0, 5], [2, 5]], dtype=np.float32))
        ((1.0, 5.0), (1.0, 1.0))
    """
    if x.dtype == np.int64:
        return (0.0,), (1.0,)
    total, squares, count = 0.0, 0.0, 0
    axes = (0, *range(2, x.ndim))
    unit = 255 if x.dtype == np.uint8 else 1
    center = x[:1].astype(np.float64).mean(axis=axes) / unit  # for precision far from 0
    size = (1, -1, *[1] * (x.ndim - 2))
    for start in range(0, len(x), 4096):
        part = x[start : start + 4096].astype(np.float64) / unit - center.reshape(size)
        total = total + part.sum(axis=axes)
        squares = squares + (part**2).sum(axis=axes)
        count += part.size // part.shape[1]
    mean = np.asarray(total / count)
    std = np.sqrt(np.maximum(np.asarray(squares / count) - mean**2, 0))
    std = np.where(std > 1e-12 * np.maximum(1, np.abs(center)), std, 1.0)  # constant
    return tuple(map(float, mean + center)), tuple(map(float, std))
