"""What a notebook shows: tables and pictures that say what the objects hold, and run nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import perdure
from perdure._display import HEIGHT, LEFT_MARGIN, WIDTH, render_curves, select_extremes
from perdure.metrics import ScoreScale, summary_of_runs

from .report_helpers import store

HOSTILE = "<script>alert(1)</script>&\"'"
SCORES = [[0.9, np.nan, np.nan], [0.6, 0.85, np.nan], [0.45, 0.7, 0.95]]


class Cells(HTMLParser):
    """Collects the text of cells, and every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1] and self.tags[-1] in ("td", "th"):
            self.rows[-1][-1] += data.strip()


def read(html: str) -> Cells:
    cells = Cells()
    cells.feed(html)
    return cells


def test_a_summary_is_a_table_of_every_metric() -> None:
    found = perdure.summary(SCORES)
    rows = {row[0]: row for row in read(found._repr_html_()).rows}
    assert rows["bwt"][2] == "-0.3000"
    assert rows["acc"][1:3] == ["↑", "0.7000"]
    assert rows["forgetting.best"][1] == "↓"
    assert set(found.metrics) <= rows.keys()
    assert rows["fwt.gem"][1] == found.undefined["fwt.gem"]
    scale = ScoreScale(0, np.inf, lower_is_better=True)
    loss = perdure.summary(perdure.metrics.ScoreMatrix([[0.9]], scale=scale))
    rows = {row[0]: row for row in read(loss._repr_html_()).rows}
    assert rows["acc"][1:] == ["↓", "0.9000", "", "average score"]


def test_several_runs_show_their_spread() -> None:
    runs = [perdure.summary([[0.5]]), perdure.summary([[0.75]])]
    rows = {row[0]: row for row in read(summary_of_runs(runs)._repr_html_()).rows}
    assert rows["acc"][2] == "0.6250"
    assert "SD 0.1768" in rows["acc"][3]


def test_intervals_say_their_level_and_stay_on_one_line() -> None:
    html = summary_of_runs([perdure.summary([[s]]) for s in (0.5, 0.75)])._repr_html_()
    assert ">95% interval<" in html
    assert 'white-space:nowrap">0.0000 to 1.0000' in html


def test_a_matrix_is_darker_where_scores_are_higher() -> None:
    html = perdure.ScoreMatrix(SCORES)._repr_html_()
    rows = read(html).rows
    assert rows[0] == ["after", "task 0", "task 1", "task 2"]
    assert rows[3] == ["task 2", "0.45", "0.70", "0.95"]
    assert rows[1] == ["task 0", "0.90", "", ""]
    dark = [float(a) for a in re.findall(r"rgba\(0, 114, 178, ([\d.]+)\)", html)]
    scores = [0.9, 0.6, 0.85, 0.45, 0.7, 0.95]
    assert np.argsort(dark).tolist() == np.argsort(scores).tolist()


def test_a_stream_is_drawn_where_its_scores_are() -> None:
    stream = perdure.Stream(
        {"a": ([1, 2, 3, 5], [0.5, 1.0, 0.0, 0.25]), "b": ([3, 5], [0.5, 0.75])},
        spans=[("a", 2), ("b", 5)],
    )
    svg = ET.fromstring(stream._repr_html_().partition("</svg>")[0] + "</svg>")
    lines = [line.get("points", "") for line in svg.iter("polyline")]
    tall = HEIGHT - 20
    wide = WIDTH - LEFT_MARGIN
    a = [
        (LEFT_MARGIN, tall / 2),
        (LEFT_MARGIN + wide / 4, 0),
        (LEFT_MARGIN + wide / 2, tall),
        (WIDTH, 0.75 * tall),
    ]
    drawn = [tuple(map(float, pair.split(","))) for pair in lines[0].split()]
    np.testing.assert_allclose(drawn, a, atol=0.06)
    assert [line.get("x1") for line in svg.iter("line")] == [f"{LEFT_MARGIN + wide / 4:.1f}"]
    texts = {text.text: float(text.get("y", "nan")) for text in svg.iter("text")}
    assert texts.keys() == {"accuracy", "iterations", "0", "0.5", "1", "5"}
    _, top, _, whole = map(float, svg.get("viewBox", "").split())
    assert all(top + 8 <= y <= top + whole for y in texts.values())  # nothing above or below


def test_losses_fill_the_picture() -> None:
    scale = ScoreScale(-np.inf, np.inf, lower_is_better=True)
    stream = perdure.Stream({"a": ([1, 2], [2.0, 6.0])}, scale=scale)
    assert re.findall(r">([\d.]+)</text>", stream._repr_html_())[:3] == ["2", "4", "6"]


@pytest.mark.parametrize("most", [10, 100, 999])
def test_the_lowest_and_the_highest_are_always_drawn(most: int) -> None:
    values = np.random.default_rng(most).random(50_000)
    kept = select_extremes(values, most)
    assert len(kept) <= most
    assert {int(values.argmin()), int(values.argmax()), 0, 49_999} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()


def test_names_from_files_are_text() -> None:
    matrix = perdure.ScoreMatrix([[0.5]], tasks=[HOSTILE])
    stream = perdure.Stream({HOSTILE: ([1], [0.5])})
    for html in (matrix._repr_html_(), stream._repr_html_()):
        assert "<script" not in html
        assert "script" not in read(html).tags
        assert "&lt;script&gt;" in html


def test_an_empty_stream_shows_an_empty_picture() -> None:
    assert "<svg" in render_curves({"a": (np.empty(0, int), np.empty(0))})


def test_a_real_run_shows_its_matrix_and_its_curves() -> None:
    run = perdure.open_run(next(store(("replay",), 1).iterdir()))
    html = run._repr_html_()
    assert html.count("<polyline") == 5
    assert run.matrix is not None
    assert [row[-1] for row in read(html).rows][5] == f"{run.matrix.scores[4, 4]:.2f}"
