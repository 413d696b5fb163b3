"""The report in a real browser: drawn, usable, silent, readable for everybody."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.report.load import open_methods
from perdure.report.page import render_page

from .browser_helpers import browser, colours_of, serious_faults, visit
from .chart_helpers import Chart
from .report_helpers import plotted, store

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from .browser_helpers import Visit

__all__ = ["browser", "visit"]  # fixtures

BLUE, GREY = "#0072b2", "#6b6b6b"  # of replay and of naive

MARKS = """() => [...document.querySelectorAll('#curves-plot .diamond')].map((mark) => {
  const box = mark.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})"""
SPANS = """() => {
  const box = document.querySelector('#curves-plot .ground').getBoundingClientRect();
  const { x, y } = document.getElementById('curves-plot').plot.ranges;
  return [box.x, box.y, box.width, box.height, ...x, ...y];
}"""

# The middle of the circles and the radius of the largest, then the corners of each method.
CORNERS = """() => {
  const middle = (part) => {
    const box = part.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2, box.width / 2];
  };
  const circles = [...document.querySelectorAll('#criteria-plot .circle')].map(middle);
  const lines = [...document.querySelectorAll('#criteria-plot .series')].map((line) =>
    [...line.querySelectorAll('.mark')].map((mark) => middle(mark).slice(0, 2)));
  return [...circles.sort((one, other) => one[2] - other[2]).at(-1), ...lines];
}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(
        render_page(open_methods([str(store(("naive", "replay")))])[0], command=["runs"])
    )
    return path


def open_page(visit: Visit, file: Path, scheme: str = "light", width: int = 1200) -> Page:
    visit.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.page.goto(file.as_uri())
    visit.page.wait_for_selector("html[data-drawn=yes]")
    return visit.page


def test_curves_are_drawn_in_the_colours_of_their_methods(visit: Visit, file: Path) -> None:
    page = open_page(visit, file)
    found = colours_of(page.locator("#curves-plot"))
    assert found.get(BLUE, 0) > 200
    assert found.get(GREY, 0) > 100
    assert visit.is_clean()


def test_choices_change_what_is_drawn(visit: Visit, file: Path) -> None:
    page = open_page(visit, file)
    plot = page.locator("#curves-plot")
    both = len(page.query_selector_all("#curves-plot .series"))
    page.select_option("#view", label="naive: all tasks")
    assert colours_of(plot).get("#d55e00", 0) > 100  # of the second task
    page.select_option("#view", label="task 0-1: all methods")
    page.check("#seeds")
    assert len(page.query_selector_all("#curves-plot .series")) == both + 4
    page.select_option("#zoom", index=1)
    shown = page.evaluate("document.getElementById('curves-plot').plot.ranges.x")
    switches = plotted(file.read_text())["methods"][0]["switches"]
    assert shown[0] < switches[0] < shown[1] < switches[2]
    assert visit.is_clean()


def test_drawn_points_stand_where_the_data_are(visit: Visit, file: Path) -> None:
    page = open_page(visit, file)
    ends = plotted(file.read_text())["methods"][1]["tasks"][0]["ends"]
    marks = page.evaluate(MARKS)
    spans = page.evaluate(SPANS)
    mine = marks[-len(ends) :]
    x, y, wide, tall, left, right, low, high = spans
    for (step, score), (a, b) in zip(ends, mine, strict=True):
        assert a == pytest.approx(x + (step - left) / (right - left) * wide, abs=1.5)
        assert b == pytest.approx(y + tall * (high - score) / (high - low), abs=1.5)


def test_every_part_draws_its_own_curves(visit: Visit, tmp_path: Path) -> None:
    for scenario, high in (("one", 0.5), ("two", 0.8)):
        folder = tmp_path / scenario
        folder.mkdir()
        rows = [f"{step},a,a,{high}" for step in range(1, 9)]
        (folder / "points.csv").write_text("step,trained,tested,score\n" + "\n".join(rows) + "\n")
        config = {"scenario": scenario, "strategy": "replay"}
        (folder / "run.json").write_text(json.dumps({"schema": 3, "config": config}))
        (folder / "done.json").write_text("{}")
    path = tmp_path / "report.html"
    path.write_text(render_page(open_methods([str(tmp_path)])[0]))
    page = open_page(visit, path)
    for part, high in (("", 0.5), ("-2", 0.8)):
        assert colours_of(page.locator(f"#curves-plot{part}")).get(BLUE, 0) > 50
        lines = page.evaluate(
            f"document.getElementById('curves-plot{part}').plot.figure.series.map(({{ y }}) => y)"
        )
        assert {y for line in lines for y in line} == {high}
    assert serious_faults(page) == []
    assert visit.is_clean()


def test_an_old_browser_is_told_where_the_numbers_are(visit: Visit, file: Path) -> None:
    visit.page.add_init_script("delete window.DecompressionStream")
    visit.page.goto(file.as_uri())
    visit.page.get_by_text("This browser cannot draw the curves").first.wait_for()
    assert visit.page.locator("table.headline").is_visible()
    assert visit.is_clean()


def test_two_matrices_of_ten_tasks_fit_next_to_each_other(visit: Visit, tmp_path: Path) -> None:
    text = "\n".join(",".join("0.85" for _ in range(k + 1)) + "," * (9 - k) for k in range(10))
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(text + "\n")
    path = tmp_path / "report.html"
    path.write_text(render_page(open_methods([str(tmp_path / f"{n}.csv") for n in "ab"])[0]))
    page = open_page(visit, path, width=1280)
    one, two = (table.bounding_box() for table in page.locator(".cards table").all())
    assert one is not None
    assert two is not None
    assert one["y"] == two["y"]


def test_a_name_leads_to_its_definition(visit: Visit, file: Path) -> None:
    page = open_page(visit, file)
    page.click("table.headline a[href='#def-bwt']")
    assert page.locator("#def-bwt").is_visible()
    assert page.evaluate("location.hash") == "#def-bwt"
    assert page.locator("#def-bwt svg").bounding_box()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_everybody_can_read_it(visit: Visit, file: Path, scheme: str, width: int) -> None:
    page = open_page(visit, file, scheme, width)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert serious_faults(page) == []
    # Nothing makes the page itself wider than the screen: tables scroll inside.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.is_clean()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven methods of five seeds, with letters: all that papers compare."""
    folder_of_all = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(0)
    for k in range(11):
        for seed in range(5):
            folder = folder_of_all / "runs" / f"m{k}-{seed}"
            folder.mkdir(parents=True)
            config = {"strategy": f"method-{k}", "seed": seed}
            (folder / "run.json").write_text(json.dumps({"config": config}))
            noise = rng.normal(0.5 + 0.02 * k, 0.02, (60, 2)).round(3)
            rows = [f"{s},{'ab'[s > 30]},a,probe,{noise[s - 1, 0]},90" for s in range(1, 60)]
            rows += [f"{s},b,b,probe,{noise[s - 1, 1]},90" for s in range(31, 60)]
            text = "step,trained,tested,kind,score,n\n" + "\n".join(rows) + "\n"
            (folder / "points.csv").write_text(text)
            (folder / "done.json").write_text("{}")
    path = folder_of_all / "report.html"
    path.write_text(render_page(open_methods([str(folder_of_all / "runs")])[0]))
    return path


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_the_table_of_results_needs_no_scrolling(visit: Visit, many: Path, width: int) -> None:
    page = open_page(visit, many, width=width)
    table = page.locator("table.headline")
    assert table.locator("thead th").count() == 9  # of the method and eight metrics
    wide, room = table.evaluate("t => [t.parentElement.scrollWidth, t.parentElement.clientWidth]")
    assert wide <= room
    letters = page.locator("table.headline sup").all_inner_texts()
    assert len(letters) == 88
    cell = table.locator("tbody tr").first.locator("td").first
    assert cell.locator(".label").is_visible() == (width < 960)  # a card names its numbers
    assert table.locator("thead").is_visible() == (width >= 960)
    below = page.locator(".verdicts").bounding_box()
    box = table.bounding_box()
    assert box is not None
    assert below is not None
    assert 0 < below["y"] - (box["y"] + box["height"]) < 60  # what differs is right under it
    assert visit.is_clean()


def test_every_axis_of_the_radar_is_explained(visit: Visit, file: Path) -> None:
    page = open_page(visit, file)
    page.locator("#criteria-plot .label").first.wait_for()
    labels = page.locator("#criteria-plot .label").all_text_contents()
    assert labels[:5] == ["0.2", "0.4", "0.6", "0.8", "1"]
    axes = labels[5:]
    explained = [each.partition(":")[0] for each in page.locator(".criteria dt").all_inner_texts()]
    assert len(axes) >= 3
    assert set(axes) <= set(explained)
    assert sorted(explained) == sorted(["A", "REM", "BWT+", "FWT", "MS", "SSS", "CE"])
    left_out = [d for d in page.locator(".criteria dd").all_inner_texts() if "no axis" in d]
    assert len(left_out) == 7 - len(axes)


def test_the_corners_of_the_radar_are_where_the_numbers_are(visit: Visit, file: Path) -> None:
    page = open_page(visit, file, width=1280)
    page.locator("#criteria-plot .series .mark").first.wait_for()
    x, y, size, *corners = page.evaluate(CORNERS)
    table = page.locator("#criteria table")
    names = table.locator("thead th").all_inner_texts()[1:]
    for row, drawn in zip(table.locator("tbody tr").all(), corners, strict=True):
        values = [float(text) for text in row.locator("td").all_inner_texts()]
        angles = 2 * np.pi * np.arange(len(names)) / len(names)
        expected = size * np.transpose([np.cos(angles), -np.sin(angles)]) * np.c_[values] + [x, y]
        # The first corner is also the last.
        np.testing.assert_allclose(drawn, [*expected, expected[0]], atol=1.5)


def test_the_radar_answers_the_mouse(visit: Visit, file: Path) -> None:
    page = open_page(visit, file)
    lines = page.locator("#criteria-plot .series")
    lines.first.wait_for()
    assert lines.count() == 2
    page.locator("#criteria-plot .entry").last.click()  # replay would hide a corner
    lines.nth(1).wait_for(state="detached")
    page.locator("#criteria-plot .series .mark").first.hover(force=True)
    number = page.locator("#criteria tbody tr", has_text="naive").locator("td").first.inner_text()
    page.locator("#criteria-plot .tip", has_text=f"A: {number}").wait_for()
    page.locator("#criteria-plot .entry").last.click()
    lines.nth(1).wait_for()
    assert visit.is_clean()


def test_it_can_be_used_by_keyboard(visit: Visit, file: Path) -> None:
    page = open_page(visit, file)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#headline"
    page.focus("#view")
    before = page.input_value("#view")
    page.keyboard.press("ArrowUp")
    assert page.input_value("#view") != before


def test_it_prints_without_its_controls(visit: Visit, file: Path) -> None:
    page = open_page(visit, file)
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert not page.locator("#view").is_visible()
    assert page.locator("table.headline").is_visible()
    assert len(page.pdf()) > 20_000
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    box = page.locator("#curves-plot .canvas").first.bounding_box()
    assert box is not None
    assert box["width"] == 680  # as wide as a sheet of A4 has room for


def test_names_from_files_run_nothing(visit: Visit, tmp_path: Path) -> None:
    bad = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>$x_1$"
    line = bad.replace('"', "")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "points.csv").write_text(
        f'step,trained,tested,score\n1,"{line}","{line}",0.5\n2,__proto__,"{line}",0.9\n2,__proto__,__proto__,0.8\n'
    )
    (folder / "run.json").write_text(json.dumps({"schema": 3, "config": {"strategy": bad}}))
    (folder / "done.json").write_text("{}")
    path = tmp_path / "report.html"
    path.write_text(render_page(open_methods([str(folder)])[0], command=[bad]))
    page = open_page(visit, path)
    chart = Chart(page, "curves-plot")
    chart.hover(1, 0.5)
    assert chart.find(".tip b").inner_text().startswith("</script><script>window.ha")
    assert chart.find(".entry").all_inner_texts()[0].startswith("</script><script>window.ha")
    assert chart.find(".entry").all_inner_texts()[1:] == ["__proto__"]
    chart.find(".entry").last.click()
    assert set(chart.ask("plot.shown.map(({ group }) => group)")) == {line}
    chart.find(".entry").last.click()
    assert set(chart.ask("plot.shown.map(({ group }) => group)")) == {line, "__proto__"}
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert visit.is_clean()


def test_long_names_leave_room_for_numbers(visit: Visit, tmp_path: Path) -> None:
    name, path = "a" * 200, tmp_path / "report.html"
    (tmp_path / "log.csv").write_text(f"after,{name},b\n{name},0.9,\nb,0.6,0.8\n")
    [run] = open_methods([str(tmp_path / "log.csv")])[0].values()
    path.write_text(render_page({name: run, "another one " * 20: run}))
    page = open_page(visit, path, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    rows = page.locator(".headline th[scope=row] span")
    labels = [each.inner_text() for each in rows.all()]
    assert max(map(len, labels)) <= 40
    # The whole name is in a tooltip and in a list below, as others may begin alike.
    assert [each.get_attribute("title") for each in rows.all()] == [name, "another one " * 20]
    assert page.locator(".names dt").all_inner_texts() == labels
    assert page.locator(".names dd").all_inner_texts() == [name, ("another one " * 20).strip()]
    legend = page.locator("#curves-plot .entry").all_text_contents()
    assert max(map(len, legend), default=0) <= 40
