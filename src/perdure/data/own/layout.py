"""What the axes of an array mean: images, features or tokens, and where the channels are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._display import count_of
from ...record import InputError

if TYPE_CHECKING:
    from typing import Literal

    from numpy.typing import NDArray

    from .._load import PerChannel
    from .parts import InputKind

__all__ = ["Layout", "arrange", "find_layout", "normalization_of"]

CHANNELS = (1, 3, 4)
MAX_VOCABULARY = 10_000_000


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

    Args:
        x: The examples, one per row.
        source: The file, for errors.
        kind: What the examples are, if the file or the user says so.
        channels: Where the channels are, if the user says so.

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
