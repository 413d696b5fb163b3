"""The chart of the live page in a real browser: what is appended changes neither zoom nor drag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .browser_helpers import browser, visit
from .chart_helpers import Chart
from .live_helpers import HEADER, append, make_run, serving

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from .browser_helpers import Visit
    from .live_helpers import Live

__all__ = ["browser", "visit"]  # fixtures


def growing(tmp_path: Path) -> Path:
    points = HEADER + "".join(f"{k},a,a,probe,{0.5 + 0.001 * k},10\n" for k in range(1, 101))
    return make_run(tmp_path / "mine", points, done=False, tasks=["a"])


def opened(visit: Visit, live: Live) -> Chart:
    visit.page.goto(f"{live.address}#run=mine")
    visit.page.locator("#chart .curve").first.wait_for(state="attached")
    return Chart(visit.page, "chart")


def wait_for_step(page: Page, step: int) -> None:
    """Wait until this step is on the page: the curves are drawn right after it is written."""
    page.locator("#figures dd").get_by_text(str(step), exact=True).wait_for()
    page.evaluate("new Promise(requestAnimationFrame)")


def test_what_is_appended_does_not_change_the_zoom(visit: Visit, tmp_path: Path) -> None:
    run = growing(tmp_path)
    with serving(tmp_path) as live:
        chart = opened(visit, live)
        chart.drag((0.4, 0.9), (0.8, 0.3))
        part = chart.ranges()
        append(run, *(f"{k},a,a,probe,0.25,10" for k in range(101, 201)))
        wait_for_step(visit.page, 200)
        assert chart.ranges() == part
        chart.double_click()
        assert chart.ranges()[0] == [0, 202]
        visit.page.get_by_label("Iterations").select_option("last")
        chart.drag((0.4, 0.9), (0.8, 0.3))
        visit.page.get_by_label("Iterations").select_option("all")  # shows something else
        assert chart.ranges()[0] == [0, 202]
        assert visit.is_clean()


def test_a_drag_goes_on_while_points_arrive(visit: Visit, tmp_path: Path) -> None:
    run = growing(tmp_path)
    with serving(tmp_path) as live:
        chart = opened(visit, live)
        left, right = chart.ranges()[0]
        chart.press((0.25, 0.5), (0.75, 0.5))
        append(run, "101,a,a,probe,0.25,10")
        wait_for_step(visit.page, 101)
        assert chart.find(".box").count() == 1
        visit.page.mouse.up()
        wide = right - left
        expected = [left + 0.25 * wide, left + 0.75 * wide]
        assert chart.ranges()[0] == pytest.approx(expected, abs=1.5)
        assert visit.is_clean()


def test_the_value_at_the_cursor_stays_while_points_arrive(visit: Visit, tmp_path: Path) -> None:
    run = growing(tmp_path)
    with serving(tmp_path) as live:
        chart = opened(visit, live)
        chart.hover(50, 0.55)
        assert chart.find(".tip").inner_text().split("\n") == ["a", "0.550 at step 50"]
        append(run, "101,a,a,probe,0.25,10")
        wait_for_step(visit.page, 101)
        assert chart.find(".tip").is_visible()
        assert chart.find(".cursor").count() == 1


def test_a_theme_of_the_live_page_changes_its_lines(visit: Visit, tmp_path: Path) -> None:
    lines = "".join(f"{k},{t},{t},probe,0.5,9\n" for k, t in enumerate("abcd", 1))
    make_run(tmp_path / "mine", HEADER + lines, tasks=list("abcd"))
    visit.page.emulate_media(color_scheme="light")
    with serving(tmp_path) as live:
        chart = opened(visit, live)
        swatch = visit.page.locator("#table .swatch line").nth(3)
        colour = "line => getComputedStyle(line).stroke"
        assert (chart.strokes()[3], swatch.evaluate(colour)) == ("rgb(122, 31, 92)",) * 2
        for _ in range(2):
            visit.page.get_by_role("button", name="Theme").click()
        assert (chart.strokes()[3], swatch.evaluate(colour)) == ("rgb(204, 121, 167)",) * 2
        assert visit.is_clean()


def test_the_page_is_small_and_everything_comes_from_its_server(
    visit: Visit, tmp_path: Path
) -> None:
    sizes: dict[str, int] = {}
    wire = visit.page.context.new_cdp_session(visit.page)
    wire.send("Network.enable")
    names_: dict[str, str] = {}
    wire.on(
        "Network.requestWillBeSent", lambda e: names_.update({e["requestId"]: e["request"]["url"]})
    )
    wire.on(
        "Network.loadingFinished", lambda e: sizes.update({e["requestId"]: e["encodedDataLength"]})
    )
    growing(tmp_path)
    with serving(tmp_path) as live:
        opened(visit, live)
        assert visit.is_clean()
    page = {names_[k]: size for k, size in sizes.items() if "/api/" not in names_[k]}
    assert len(page) >= 10  # the page, its styles and scripts, compressed
    assert sum(page.values()) < 40_000
