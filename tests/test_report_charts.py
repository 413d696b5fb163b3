"""The charts of both pages: zoom, cursor, legend, themes and sizes, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perdure.report.load import open_methods
from perdure.report.page import render_page

from .browser_helpers import browser, colours_of, serious_faults, visit
from .chart_helpers import Chart
from .live_helpers import HEADER, make_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from .browser_helpers import Visit

__all__ = ["browser", "visit"]  # fixtures

TASKS, STEPS = 4, 80
MIDDLE = """part => {
  const box = part.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}"""

COUNT_DRAWINGS = """
  window.drawings = 0;
  const { replaceChildren } = Element.prototype;
  SVGSVGElement.prototype.replaceChildren = function (...children) {
    window.drawings += this.classList.contains("canvas");
    replaceChildren.apply(this, children);
  };
"""
TWO_FRAMES = "new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(end)))"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two seeds of naive, which forgets, and of replay, which does not."""
    store = tmp_path_factory.mktemp("charts") / "runs"
    for strategy, kept in (("naive", 0.25), ("replay", 0.75)):
        for seed in range(2):
            lines = []
            for step in range(1, STEPS + 1):
                now = (step - 1) * TASKS // STEPS
                for task in range(now + 1):
                    score = (0.9 if task == now else kept) + 0.05 * seed
                    kinds = ["probe", "full"] if step % (STEPS // TASKS) == 0 else ["probe"]
                    lines += [f"{step},t{now},t{task},{kind},{score},20\n" for kind in kinds]
            points = HEADER + "".join(lines)
            make_run(store / f"{strategy}-{seed}", points, strategy=strategy, seed=seed)
    path = store.parent / "report.html"
    path.write_text(render_page(open_methods([str(store)])[0]))
    return path


@pytest.fixture
def chart(visit: Visit, file: Path) -> Iterator[Chart]:
    """The curves of the report; nothing may be complained of in the end."""
    visit.page.emulate_media(color_scheme="light")
    visit.page.goto(file.as_uri())
    visit.page.wait_for_selector("html[data-drawn=yes]")
    yield Chart(visit.page, "curves-plot")
    assert visit.is_clean()


def test_opening_the_page_draws_each_chart_once(visit: Visit, file: Path) -> None:
    visit.page.add_init_script(COUNT_DRAWINGS)
    visit.page.goto(file.as_uri())
    visit.page.wait_for_selector("html[data-drawn=yes]")
    visit.page.evaluate(TWO_FRAMES)  # in which observers of sizes are called
    assert visit.page.evaluate("drawings") == visit.page.locator(".canvas:has(.ground)").count() > 0
    visit.page.set_viewport_size({"width": 700, "height": 800})
    visit.page.evaluate(TWO_FRAMES)
    assert visit.page.evaluate("drawings") > visit.page.locator(".canvas").count()


def test_axes_have_names_and_round_numbers(chart: Chart) -> None:
    assert chart.find(".title").all_text_contents() == ["training iterations", "accuracy"]
    ticks = [str(k) for k in range(10, STEPS + 1, 10)]
    assert chart.find(".tick.x").all_text_contents() == ticks
    assert chart.find(".tick.y").all_text_contents() == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    for text, x in zip(chart.find(".tick.x").all(), range(10, STEPS + 1, 10), strict=True):
        box = text.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] / 2 == pytest.approx(chart.pixel_of(x, 0)[0], abs=1.5)


@pytest.mark.parametrize(
    ("start", "end", "axes"),
    [
        ((0.2, 0.5), (0.6, 0.52), "x"),
        ((0.6, 0.52), (0.2, 0.5), "x"),
        ((0.5, 0.9), (0.505, 0.4), "y"),
        ((0.2, 0.9), (0.6, 0.3), "xy"),
    ],
)
def test_a_drag_zooms_and_a_double_click_resets(
    chart: Chart, start: tuple[float, float], end: tuple[float, float], axes: str
) -> None:
    before = chart.ranges()
    path = chart.find(".curve").first.get_attribute("d")
    chart.press(start, end)
    box = chart.find(".box").bounding_box()
    chart.page.mouse.up()
    assert box is not None
    assert chart.find(".box").count() == 0
    for k, (axis, (low, high), now) in enumerate(zip("xy", before, chart.ranges(), strict=True)):
        parts = sorted((start[k], end[k])) if axis in axes else (0, 1)
        expected = [low + part * (high - low) for part in parts]
        assert now == pytest.approx(expected, abs=0.005 * (high - low))
    assert chart.find(".curve").first.get_attribute("d") != path
    chart.double_click()
    assert chart.ranges() == before
    assert chart.find(".curve").first.get_attribute("d") == path


def test_what_is_zoomed_is_drawn_where_it_belongs(chart: Chart) -> None:
    chart.drag((0.1, 0.95), (0.7, 0.2))
    seen = 0
    (left, right), (low, high) = chart.ranges()
    for k, series in enumerate(chart.ask("plot.shown.map(({ kind, x, y }) => ({ kind, x, y }))")):
        if series["kind"] != "marks":
            continue
        for mark, x, y in zip(
            chart.find(".series").nth(k).locator(".mark").all(),
            series["x"],
            series["y"],
            strict=True,
        ):
            if left < x < right and low < y < high:
                box = mark.evaluate(MIDDLE)
                assert box == pytest.approx(chart.pixel_of(x, y), abs=1)
                seen += 1
    assert seen >= 3


def test_a_small_movement_is_no_zoom(chart: Chart) -> None:
    before = chart.ranges()
    x, y = chart.pixel(0.5, 0.5)
    chart.page.mouse.move(x, y)
    chart.page.mouse.down()
    chart.page.mouse.move(x + 4, y + 3)
    chart.page.mouse.up()
    assert chart.ranges() == before


def test_the_button_resets_the_zoom(chart: Chart) -> None:
    before = chart.ranges()
    button = chart.page.get_by_role("button", name="Reset zoom").first
    assert not button.is_visible()
    chart.drag((0.2, 0.9), (0.6, 0.3))
    assert serious_faults(chart.page) == []
    button.focus()
    chart.page.keyboard.press("Enter")
    assert chart.ranges() == before
    assert not button.is_visible()


def test_a_double_click_on_what_is_not_zoomed_shows_all_data(chart: Chart) -> None:
    chart.page.select_option("#zoom", index=1)
    part = chart.ranges()
    assert part[0][1] < STEPS
    chart.double_click()
    left, right = chart.ranges()[0]
    assert left < 1
    assert right > STEPS
    chart.double_click()
    assert chart.ranges() == part


def test_shift_or_an_axis_pans(chart: Chart) -> None:
    (left, right), (low, high) = chart.ranges()
    chart.page.keyboard.down("Shift")
    chart.drag((0.3, 0.3), (0.5, 0.4))
    chart.page.keyboard.up("Shift")
    across, up = chart.ranges()
    wide, tall = right - left, high - low
    assert across == pytest.approx([left - 0.2 * wide, right - 0.2 * wide], abs=0.3)
    assert up == pytest.approx([low - 0.1 * tall, high - 0.1 * tall], abs=0.005)
    chart.double_click()
    chart.drag((0.5, -0.06), (0.3, -0.02))  # on the numbers below
    assert chart.ranges()[0] == pytest.approx([left + 0.2 * wide, right + 0.2 * wide], abs=0.3)
    assert chart.ranges()[1] == [low, high]
    chart.double_click()
    chart.drag((-0.02, 0.5), (-0.02, 0.3))  # on those to the left
    assert chart.ranges()[0] == [left, right]
    assert chart.ranges()[1] == pytest.approx([low + 0.2 * tall, high + 0.2 * tall], abs=0.005)


def test_the_cursor_shows_name_and_value_of_the_nearest_point(chart: Chart) -> None:
    tip = chart.find(".tip")
    chart.hover(33, 0.275)
    assert tip.inner_text().split("\n") == ["naive", "step 33: 0.275"]
    ring = chart.find(".cursor").bounding_box()
    assert ring is not None
    x, y = chart.pixel_of(33, 0.275)
    middle = (ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    assert middle == pytest.approx((x, y), abs=1)
    chart.hover(33, 0.775)
    assert tip.inner_text().split("\n") == ["replay", "step 33: 0.775"]
    chart.hover(40, 0.775)  # the mark is on top of the line
    assert tip.inner_text().split("\n") == ["replay", "task end, step 40: 0.775"]
    chart.hover(33, 0.5)
    assert not tip.is_visible()
    assert chart.find(".cursor").count() == 0
    chart.hover(STEPS, 0.775)
    inside, area = tip.bounding_box(), chart.find(".drawing").bounding_box()
    assert inside is not None
    assert area is not None
    assert inside["x"] + inside["width"] <= area["x"] + area["width"]
    chart.page.mouse.move(5, 5)
    assert not tip.is_visible()


def test_the_legend_hides_and_shows_all_of_a_method(chart: Chart) -> None:
    chart.page.check("#seeds")
    every = chart.find(".series").count()
    naive, replay = chart.find(".entry").all()
    assert [naive.inner_text(), replay.inner_text()] == ["naive", "replay"]
    naive.click()
    assert naive.get_attribute("aria-pressed") == "false"
    kinds = chart.ask("plot.shown.map(({ kind, group }) => [kind, group])")
    assert {group for _, group in kinds} == {"replay"}
    # Band, two runs, mean, worst score and task ends.
    assert [kind for kind, _ in kinds] == ["band", "line", "line", "line", "line", "marks"]
    assert chart.find(".series").count() == every - 6
    assert "#6b6b6b" not in colours_of(chart.find(".drawing"))
    chart.hover(33, 0.275)
    assert not chart.find(".tip").is_visible()
    chart.page.uncheck("#seeds")  # and it stays hidden
    assert {group for _, group in chart.ask("plot.shown.map((s) => [0, s.group])")} == {"replay"}
    chart.page.check("#seeds")
    chart.find(".entry").first.click()
    assert chart.find(".series").count() == every


def test_a_double_click_in_the_legend_shows_nothing_else(chart: Chart) -> None:
    groups = "[...new Set(plot.shown.map(({ group }) => group))]"
    chart.find(".entry").last.dblclick()
    assert chart.ask(groups) == ["replay"]
    chart.find(".entry").last.dblclick()
    assert chart.ask(groups) == ["naive", "replay"]


def test_the_legend_can_be_used_by_keyboard(chart: Chart) -> None:
    chart.find(".entry").first.focus()
    chart.page.keyboard.press("Space")
    pressed = "[...document.querySelectorAll('#curves-plot .entry')].map((b) => b.ariaPressed)"
    assert chart.page.evaluate(pressed) == ["false", "true"]
    assert chart.page.evaluate("document.activeElement.innerText") == "naive"
    chart.page.keyboard.press("Enter")
    assert chart.page.evaluate(pressed) == ["true", "true"]
    picture = chart.page.get_by_role("img", name="accuracy on each task over training iterations")
    assert picture.count() == 1
    assert serious_faults(chart.page) == []


def test_zoom_lasts_until_something_else_is_shown(chart: Chart) -> None:
    whole = chart.ranges()
    chart.drag((0.2, 0.9), (0.6, 0.3))
    part = chart.ranges()
    chart.page.check("#seeds")
    chart.page.emulate_media(color_scheme="dark")
    chart.page.set_viewport_size({"width": 700, "height": 800})
    assert chart.ranges() == part
    chart.page.select_option("#view", label="task t1: all methods")
    assert chart.ranges() != part
    chart.page.set_viewport_size({"width": 1200, "height": 900})
    chart.page.select_option("#view", label="task t0: all methods")
    chart.page.wait_for_function(
        "low => document.getElementById('curves-plot').plot.ranges.x[0] === low", arg=whole[0][0]
    )
    assert chart.ranges() == whole


def test_a_theme_that_changes_while_the_page_is_open_and_paper(chart: Chart) -> None:
    chart.page.select_option("#view", label="naive: all tasks")
    light = ["rgb(0, 114, 178)", "rgb(213, 94, 0)", "rgb(0, 158, 115)", "rgb(122, 31, 92)"]
    dark = [*light[:3], "rgb(204, 121, 167)"]
    ink = "tick => getComputedStyle(tick).fill"
    assert chart.strokes() == light
    on_light = chart.find(".tick").first.evaluate(ink)
    chart.page.emulate_media(color_scheme="dark")
    assert chart.strokes() == dark
    assert colours_of(chart.find(".drawing")).get("#cc79a7", 0) > 20
    assert chart.find(".tick").first.evaluate(ink) != on_light
    chart.page.emulate_media(color_scheme="dark", media="print")  # paper is white
    assert chart.strokes() == light


def test_dashes_and_bands_are_drawn(chart: Chart) -> None:
    dashes = "all => all.map((line) => getComputedStyle(line).strokeDasharray)"
    found = chart.find(".curve").evaluate_all(dashes)
    assert found == ["none", "9px, 6px"] * 2  # means, and worst scores
    band = chart.find(".series.band path").first
    low, high = (chart.pixel_of(33, y)[1] for y in (0.275 - 0.0354, 0.275 + 0.0354))
    x = chart.pixel_of(33, 0)[0]
    inside = """(band, [x, y]) => {
      const at = new DOMPoint(x, y).matrixTransform(band.getScreenCTM().inverse());
      return band.isPointInFill(at);
    }"""
    assert [band.evaluate(inside, [x, y]) for y in (high - 2, high + 2, low - 2, low + 2)] == [
        False, True, True, False,
    ]  # fmt: skip
    switches = [20, 40, 60]
    expected = [chart.pixel_of(step, 0)[0] for step in switches]
    drawn = chart.find(".boundary").evaluate_all(
        "all => all.map((b) => b.getBoundingClientRect().x)"
    )
    assert drawn == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_chart_is_as_wide_as_there_is_room(chart: Chart, width: int) -> None:
    chart.page.set_viewport_size({"width": width, "height": 800})
    room = chart.page.locator("#curves").evaluate("part => part.clientWidth")
    chart.page.wait_for_function(
        "room => document.querySelector('#curves-plot svg.canvas').viewBox.baseVal.width === room",
        arg=room,
    )
    area = chart.area()
    assert area["width"] > 0.75 * room
    assert area["x"] + area["width"] <= width
    for text in chart.find(".canvas text").all():
        box = text.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert chart.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_finger_finds_values_and_zooms(browser: Browser, file: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn=yes]")
    chart = Chart(page, "curves-plot")
    page.touchscreen.tap(*chart.pixel_of(33, 0.275))
    assert chart.find(".tip").is_visible()  # also after the finger is lifted
    assert chart.find(".tip").inner_text().startswith("naive")
    # The page scrolls up and down under a finger; from side to side it zooms.
    assert chart.find(".canvas").evaluate("c => getComputedStyle(c).touchAction") == "pan-y"
    (left, right), up = chart.ranges()
    hand = context.new_cdp_session(page)
    for kind, across in (("touchStart", 0.2), ("touchMove", 0.4), ("touchMove", 0.7)):
        x, y = chart.pixel(across, 0.5)
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    hand.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    part = [left + share * (right - left) for share in (0.2, 0.7)]
    assert chart.ranges()[0] == pytest.approx(part, abs=1)
    assert chart.ranges()[1] == up
    context.close()
