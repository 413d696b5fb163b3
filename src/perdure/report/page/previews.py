"""Previews of examples on a page: a thumbnail, or the beginning of a text."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...record import InputError
from ...record.io.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    ShowExample = Callable[[str, int], object]  # of a task and the id of an example

__all__ = ["Preview", "make_preview"]

MAX_TEXT = 300  # characters
MAX_SIDE = 64  # pixels


class Preview(NamedTuple):
    """A text, or the data URI of a thumbnail; the other is empty."""

    text: str = ""
    image: str = ""


def make_preview(show: ShowExample, task: str, id_: int) -> Preview:
    """Return what the user's function shows of an example, or raise InputError if it cannot.

    Args:
        show: returns text, an image of Pillow, or an array of (H, W), (H, W, C) or (C, H, W).
        task: name of the task.
        id_: id of the example.

    Example:
        >>> make_preview(lambda task, id_: f"{task} {id_}", "sql", 7).text
        'sql 7'
        >>> make_preview(lambda task, id_: np.zeros((8, 8)), "digits", 7).image[:22]
        'data:image/png;base64,'
    """
    try:
        shown = show(task, id_)
        if shown is None:
            return Preview()
        if isinstance(shown, str):
            text = visible(" ".join(shown.split()))
            return Preview(text=text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…")
        return Preview(image=_encode_thumbnail(shown))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"examples: example {id_} of task {task!r:.60} cannot be shown ({reason:.200}); "
            "expected a function of task and id that returns text or an image"
        ) from None


def _encode_thumbnail(shown: object) -> str:
    from PIL import Image

    image = shown if isinstance(shown, Image.Image) else Image.fromarray(_as_bytes(shown))
    image = image.convert("RGB")
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    file = io.BytesIO()
    image.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _as_bytes(shown: object) -> NDArray[np.uint8]:
    """Return an image as bytes with its channels last; other numbers are stretched to 0 to 255."""
    array = np.asarray(shown)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3):
        raise ValueError(f"an array of shape {array.shape} is no image")
    if array.dtype != np.uint8:
        array = array.astype(np.float64)
        low, high = float(array.min()), float(array.max())
        array = 255 * (array - low) / (high - low or 1.0)
    return array.astype(np.uint8)
