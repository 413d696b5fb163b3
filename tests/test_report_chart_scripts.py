"""The scripts of the charts, called on a live page without runs: ticks and visible points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from .browser_helpers import browser, open_visit
from .live_helpers import serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, Page

__all__ = ["browser"]  # a fixture


@pytest.fixture(scope="module")
def scripts(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with serving(tmp_path_factory.mktemp("empty")) as live, open_visit(browser) as visit:
        visit.page.goto(live.address)
        yield visit.page
        assert visit.is_clean()


@pytest.mark.parametrize(
    ("range_", "room", "percent", "expected"),
    [
        ([0, 1], 9, False, "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1"),
        ([-0.02, 1.04], 4, False, "0 0.5 1"),
        ([0, 1], 4, True, "0% 20% 40% 60% 80% 100%"),
        ([0.501, 0.504], 4, True, "50.1% 50.2% 50.3% 50.4%"),
        ([0, 10_000], 4, False, "0 2k 4k 6k 8k 10k"),
        ([0, 9000], 4, False, "0 2000 4000 6000 8000"),
        ([1.2e6, 1.9e6], 4, False, "1.2M 1.4M 1.6M 1.8M"),
        ([-3, 3], 4, False, "−2 0 2"),
        ([0, 5e-6], 4, False, "0 1e−6 2e−6 3e−6 4e−6 5e−6"),
    ],
)
def test_ticks(scripts: Page, range_: list[float], room: int, percent: bool, expected: str) -> None:
    found = scripts.evaluate(
        "async ([range, room, percent]) => { const { ticks } = await import('/static/scale.js');"
        " const { values, write } = ticks(range, room, percent); return values.map(write); }",
        [range_, room, percent],
    )
    assert " ".join(found) == expected


def visible(
    page: Page, x: Sequence[float], y: Sequence[float | None], low: float, high: float
) -> Any:
    return page.evaluate(
        "async ([x, y, range]) => { const { visiblePoints } = await import('/static/scale.js');"
        " return visiblePoints(x, y, range, 100); }",
        [list(x), list(y), [low, high]],
    )


def test_long_curves_are_drawn_with_few_points_and_all_extremes(scripts: Page) -> None:
    scores = np.random.default_rng(0).random(20_000).round(4)
    steps = np.arange(1, 20_001)
    points = visible(scripts, steps.tolist(), scores.tolist(), 0.5, 20_000.5)
    assert len(points) <= 4 * 101
    drawn = np.array(points)
    assert np.all(np.diff(drawn[:, 0]) > 0)
    np.testing.assert_array_equal(scores[drawn[:, 0].astype(int) - 1], drawn[:, 1])
    for pixel in range(100):  # 200 points each
        own = scores[200 * pixel : 200 * (pixel + 1)]
        mine = drawn[(drawn[:, 0] > 200 * pixel) & (drawn[:, 0] <= 200 * (pixel + 1)), 1]
        assert (mine.min(), mine.max(), mine[-1]) == (own.min(), own.max(), own[-1])


def test_a_gap_in_a_long_curve_stays(scripts: Page) -> None:
    scores = [None if k == 5000 else 0.5 for k in range(10_000)]
    points = visible(scripts, range(10_000), scores, -0.5, 9999.5)
    assert len(points) < 500
    assert [step for step, score in points if score is None] == [5000]


def test_a_line_that_leaves_the_range_ends_at_its_edge(scripts: Page) -> None:
    assert visible(scripts, [0, 1000], [0, 1], 400, 500) == [[400, 0.4], [500, 0.5]]
    assert visible(scripts, [0, 10, 20, 30], [0, 1, 0, 1], 5, 18) == [
        [5, 0.5], [10, 1], [18, pytest.approx(0.2)],
    ]  # fmt: skip
    assert visible(scripts, [1, 2, 3], [0.5, None, 0.7], 0, 9) == [[1, 0.5], [2, None], [3, 0.7]]


def test_a_gap_is_no_line(scripts: Page) -> None:
    drawn = scripts.evaluate(
        """async () => {
          const { Plot } = await import('/static/plot.js');
          const host = document.getElementById('chart');
          host.hidden = false;
          const style = { colour: '#000000', dark: '#ffffff', dash: 'solid' };
          new Plot(host).draw({ x: { title: 'x' }, y: { title: 'y' }, series: [
            { kind: 'line', x: [1, 2, 3, 4, 5], y: [1, 2, null, 4, 5], name: 'one', style },
          ] });
          return host.querySelector('.series path').getAttribute('d');
        }"""
    )
    assert [part.count("L") for part in drawn.split("M")[1:]] == [1, 1]
