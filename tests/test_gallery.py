"""docs/gallery.md: every kind of figure, each with the command that draws it."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import numpy as np

import perdure
from perdure.cli.plot import KINDS

DOCS = Path(__file__).parents[1] / "docs"
GALLERY = (DOCS / "gallery.md").read_text("utf-8")


def words_of(command: str) -> list[str]:
    """Return the words of a command without its output file and without the store's folders."""
    words = shlex.split(command.replace('"$runs"', "runs").replace("$runs", "runs"))
    if "-o" in words:
        del words[words.index("-o") : words.index("-o") + 2]
    return [word.replace("runs/five", "runs") for word in words]


def test_every_kind_is_shown_with_the_command_that_drew_it() -> None:
    script = re.findall(r"^draw (.*)$", (DOCS / "pictures.sh").read_text("utf-8"), re.M)
    drawn = {re.findall(r"\$here/([\w-]+\.png)", line)[0]: words_of(line) for line in script}
    shown = re.findall(r"\]\(pictures/([\w-]+\.png)\)<br>`perdure plot ([^`]*)`", GALLERY)
    assert {name: words_of(command) for name, command in shown} == drawn
    assert {words[0] for words in drawn.values()} == set(KINDS)


def test_every_picture_is_there_is_used_and_is_small() -> None:
    pages = "".join(path.read_text("utf-8") for path in DOCS.glob("*.md"))
    pictures = {path.name: path.stat().st_size for path in (DOCS / "pictures").iterdir()}
    used = set(re.findall(r'pictures/([\w-]+\.(?:png|svg))[)"]', pages))
    assert used == set(pictures)
    assert max(pictures.values()) < 150_000


def test_the_animation_marks_the_lowest_scores_and_can_stand_still() -> None:
    animate = runpy.run_path(str(DOCS / "animation.py"))["animate"]
    rng = np.random.default_rng(0)
    scores, steps = rng.uniform(0.2, 1, 150).round(2), np.arange(1, 151)
    spans = [("<a>", 50), ("b", 100), ("c", 150)]
    others = {name: ([150], [0.5]) for name in ("b", "c")}
    stream = perdure.Stream({"<a>": (steps, scores), **others}, spans=spans)
    shown = animate(stream, "A & B")
    marked = re.findall(r'class="mark".*?>(0\.\d\d)</text>', shown)
    assert marked == [f"{min(scores[50:100]):.2f}", f"{min(scores[100:]):.2f}"]
    assert len(re.findall(r"[\d.]+,[\d.]+", shown.split("</clipPath>")[1])) == 150 + 2
    assert "prefers-reduced-motion: no-preference" in shown
    still = animate(stream, "A & B", still=True)
    assert "keyframes reveal" not in still
    for text in (shown, still):
        assert "<script" not in text
        assert "learns &lt;a&gt;" in text
