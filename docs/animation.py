"""Animates the stability gap of a recorded run: python docs/animation.py RUN -o FILE.svg.

The file is an SVG without scripts. It shows the scores as they were recorded, one iteration after
the other, with the first iterations after each task switch in slow motion. It plays twice and then
remains complete. With --still it is complete from the start, for readers who ask for reduced motion
(a browser does not tell an image in a page that they do, so the page has to choose the file).
"""

import argparse
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

import perdure
from perdure._display import HUES

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 330, 34, 16, 50, 46
SLOW = 30  # iterations after a switch, which take half of the time of their task
SECONDS = 16
PLAYED = 90  # percent of these; the complete figure remains for the rest

STILL = """
text { font: 13px system-ui, sans-serif; fill: #1b1b1b }
.soft { font-size: 11px; fill: #5c5c5c }
.axis { stroke: #8888 }
.slow { fill: #8882 }
.curve { fill: none; stroke-width: 1.5; stroke-linejoin: round }
.first { stroke-width: 3 }
.cursor { stroke: #888; opacity: 0 }
@media (prefers-color-scheme: dark) {
  svg { background: #16171a } text { fill: #ececec } .soft { fill: #b0b0b0 }
}
"""
MOTION = f"""
@keyframes reveal {{ from {{ transform: scaleX(0) }} {PLAYED}%, to {{ transform: scaleX(1) }} }}
@keyframes move {{
  from {{ transform: none; opacity: 1 }}
  {PLAYED}% {{ transform: translateX({WIDTH - LEFT - RIGHT}px); opacity: 1 }}
  to {{ transform: translateX({WIDTH - LEFT - RIGHT}px); opacity: 0 }}
}}
@media (prefers-reduced-motion: no-preference) {{
  .reveal {{ transform-origin: {LEFT}px 0; animation: reveal {SECONDS}s linear 2 }}
  .cursor {{ animation: move {SECONDS}s linear 2 }}
  .mark {{ animation: {SECONDS}s linear 2 }}
}}
"""


class Axes(NamedTuple):
    """Where iterations and scores are drawn; `starts` are the first iterations of the tasks."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def x(self, steps: ArrayLike) -> NDArray[np.float64]:
        """Return the places of iterations: half of a task's width for the first ones."""
        slow = np.minimum(self.starts + SLOW, self.ends)
        known = np.append(np.stack([self.starts, slow], axis=1), self.ends[-1])
        return np.interp(steps, known, np.linspace(LEFT, WIDTH - RIGHT, len(known)))

    def y(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the places of scores from 0 to 1."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * np.asarray(scores)


def animate(stream: perdure.Stream, title: str, *, still: bool = False) -> str:
    """Return the animation as SVG, or the complete figure without motion."""
    ends = np.array([span.last for span in stream.spans])
    axes = Axes(np.append(0, ends[:-1]), ends)
    style = STILL if still else STILL + MOTION
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img"',
        f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
        f"<title>{escape(title)}</title><style>{style}</style>",
        f'<text x="{LEFT}" y="16">{escape(title)}</text>',
        *_draw_axes(stream, axes),
        '<clipPath id="played">',
        f'<rect class="reveal" x="{LEFT}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT}"/>',
        '</clipPath><g clip-path="url(#played)">',
    ]
    for k, name in reversed([*enumerate(stream.names)]):
        steps, scores = stream.tasks[name]
        points = zip(axes.x(steps), axes.y(scores), strict=True)
        lines.append(
            f'<polyline class="curve{"" if k else " first"}" stroke="{HUES[k % len(HUES)]}" '
            f'points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        )
    cursor = f'<path class="cursor" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}"/>'
    return "\n".join([*lines, "</g>", cursor, *_mark_lowest(stream, axes), "</svg>\n"])


def _draw_axes(stream: perdure.Stream, axes: Axes) -> list[str]:
    lines = []
    for score in (0, 0.5, 1):
        y = axes.y(score)
        lines.append(f'<path class="axis" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>')
        lines.append(_text(LEFT - 6, y + 4, f"{score:g}", "soft", "end"))
    for k, (start, end) in enumerate(zip(axes.starts, axes.ends, strict=True)):
        x, slow = axes.x(start), min(start + SLOW, end)
        lines.append(
            f'<rect class="slow" x="{x:.1f}" y="{TOP}" width="{axes.x(slow) - x:.1f}" '
            f'height="{HEIGHT - TOP - BOTTOM}"/>'
        )
        name = _text(x + 18, TOP - 8, f"learns {stream.spans[k].task}")
        colour = HUES[stream.names.index(stream.spans[k].task) % len(HUES)]
        lines += [name, f'<path stroke="{colour}" stroke-width="3" d="M{x:.1f} {TOP - 12}h14"/>']
        for step in range(start, slow + 1, 10):
            lines.append(
                _text(axes.x(step), HEIGHT - BOTTOM + 16, str(step - start), "soft", "middle")
            )
    note = f"iterations since the task switch; the first {SLOW} are stretched (grey)"
    return [*lines, _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, note, "soft", "middle")]


def _mark_lowest(stream: perdure.Stream, axes: Axes) -> list[str]:
    """Return a note at the lowest score of the first task after each switch, as it is reached."""
    steps, scores = stream.tasks[stream.names[0]]
    lines, bottom = [], HEIGHT - BOTTOM - 6
    for k, (start, end) in enumerate(zip(axes.starts[1:], axes.ends[1:], strict=True)):
        within = np.flatnonzero((steps > start) & (steps <= end))
        lowest = within[np.argmin(scores[within])]
        x, y = float(axes.x(steps[lowest])), float(axes.y(scores[lowest]))
        reached = PLAYED * (x - LEFT) / (WIDTH - LEFT - RIGHT)
        hidden = f"0%, {reached:.2f}% {{ opacity: 0 }} {reached + 0.5:.2f}% {{ opacity: 1 }}"
        lines.append(
            f'<style>@keyframes mark{k} {{ {hidden} }}</style><g class="mark" '
            f'style="animation-name: mark{k}"><circle cx="{x:.1f}" cy="{y:.1f}" r="4" '
            f'fill="{HUES[0]}"/>{_text(x + 8, min(y + 5, bottom), f"{scores[lowest]:.2f}")}</g>'
        )
    return lines


def _text(x: ArrayLike, y: ArrayLike, text: str, kind: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="a run folder with evaluations during training")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the SVG to write")
    parser.add_argument("--still", action="store_true", help="no motion")
    given = parser.parse_args()
    try:
        stream = perdure.open_run(given.run).stream
    except perdure.InputError as error:
        parser.error(str(error))
    if stream is None or not stream.spans:
        parser.error(f"{given.run} has no evaluations during training with task boundaries")
    count = len(stream.names)
    title = f"Accuracy on each of {count} tasks, learned in turn; the thick line is the first"
    given.output.write_text(animate(stream, title, still=given.still))
