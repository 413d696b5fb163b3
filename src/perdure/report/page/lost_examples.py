"""Lost examples: a strip per task with a mark for each example that was right and then wrong."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from ...record import InputError
from ...verdict import find_flips, make_checked_run
from .previews import Preview, make_preview

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...verdict import ExampleFlip, TaskFlips
    from .previews import ShowExample
    from .summaries import MethodSummary

__all__ = ["LostExample", "LostExamples", "LostRow", "find_lost_examples"]

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
    previews = [
        Preview() if show is None else make_preview(show, task.task, flip.id) for flip in shown
    ]
    return LostRow(
        task=task.task,
        examples=task.examples,
        lost=task.lost,
        returned=task.returned,
        gained=task.gained,
        p=f"{task.p:.3g}",
        strip=_draw_strip(task, shown),
        entries=[
            LostExample(_describe(flip), preview)
            for flip, preview in zip(shown, previews, strict=True)
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
