"""Lost examples: a strip per task with a mark for each one, and previews of the examples."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...record import InputError
from ...record.io.text import visible
from ...verdict import find_flips, make_checked_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ...verdict import ExampleFlip, TaskFlips
    from .summaries import MethodSummary

    ShowExample = Callable[[str, int], object]  # of a task and the id of an example

__all__ = [
    "LostExamples",
    "find_lost_examples",
]

MAX_MARKS = 200  # examples per strip
MARK_WIDTH, MARK_HEIGHT = 5, 16


class LostExample(NamedTuple):
    """One example that was lost, in words and, where its data is at hand, as a preview."""

    text: str
    preview: Preview


class LostRow(NamedTuple):
    """What one task has lost: counts, a strip of marks as HTML, and the examples."""

    task: str
    examples: int
    lost: int
    returned: int
    gained: int
    p: str
    strip: str
    entries: list[LostExample]
    more: int


class LostExamples(NamedTuple):
    """The lost examples of a method."""

    name: str
    rows: list[LostRow]


def find_lost_examples(
    methods: Sequence[MethodSummary], show: ShowExample | None = None
) -> list[LostExamples]:
    """Return what the methods have lost that are a single run with per-example results.

    `show(task, id)` returns text or an image of an example, for a preview.
    """
    found = []
    for method in methods:
        if len(method.runs) != 1 or not method.runs[0].per_example_last:
            continue
        try:
            flips = find_flips(make_checked_run(method.label, method.runs[0]))
        except InputError:  # recorded, but not at task ends
            continue
        found.append(LostExamples(method.label, [_make_row(task, show) for task in flips.tasks]))
    return found


def _make_row(task: TaskFlips, show: ShowExample | None) -> LostRow:
    shown = task.flips[:MAX_MARKS]
    return LostRow(
        task=task.task,
        examples=task.examples,
        lost=task.lost,
        returned=task.returned,
        gained=task.gained,
        p=f"{task.p:.3g}",
        strip=_draw_strip(task, shown),
        entries=[
            LostExample(
                _describe(flip),
                Preview() if show is None else make_preview(show, task.task, flip.id),
            )
            for flip in shown
        ],
        more=len(task.flips) - len(shown),
    )


def _draw_strip(task: TaskFlips, flips: Sequence[ExampleFlip]) -> str:
    """Return an SVG with a mark per example; its title says which one it is."""
    if not flips:
        return ""
    label = f"{task.task}: {task.lost} lost, {task.returned} came back"
    width = MARK_WIDTH * len(flips)
    marks = "".join(
        f'<rect x="{MARK_WIDTH * k}" width="{MARK_WIDTH - 1}" height="{MARK_HEIGHT}" '
        f'class="{"returned" if flip.returned_after is not None else "lost"}">'
        f"<title>{escape(_describe(flip))}</title></rect>"
        for k, flip in enumerate(flips)
    )
    size = f'width="{width}" height="{MARK_HEIGHT}" viewBox="0 0 {width} {MARK_HEIGHT}"'
    return f'<svg class="strip" role="img" aria-label="{escape(label)}" {size}>{marks}</svg>'


def _describe(flip: ExampleFlip) -> str:
    text = f"example {flip.id}: lost after {flip.lost_after}"
    if flip.returned_after is None:
        return text
    return f"{text}, right again after {flip.returned_after}"


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
