"""The live page over many runs: seeds averaged, options that differ, limits, themes, alarms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perdure.record.grouping import find_groups
from perdure.report.live.store_watcher import StoreWatcher

from .browser_helpers import browser, serious_faults, visit
from .live_helpers import HEADER, Live, make_run, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from .browser_helpers import Visit

__all__ = ["browser", "visit"]  # fixtures

MEMORIES, SEEDS = (100, 500, 1000), range(10)
STEPS = np.arange(1, 41)


def scores(memory: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([memory, seed])
    return np.clip(0.4 + memory / 2500 + rng.normal(0, 0.05, len(STEPS)), 0, 1).round(4)


def one_task(memory: int, seed: int) -> str:
    pairs = zip(STEPS, scores(memory, seed), strict=True)
    return HEADER + "".join(f"{step},a,a,probe,{score},50\n" for step, score in pairs)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seeds of three memory sizes, one of which had an alarm, and naive once."""
    folder = tmp_path_factory.mktemp("methods")
    for memory in MEMORIES:
        for seed in SEEDS:
            make_run(
                folder / f"m{memory}-s{seed}", one_task(memory, seed), strategy="replay", seed=seed,
                options={"memory": memory, "alpha": 0.3}, optimizer_options={"lr": 0.1},
            )  # fmt: skip
    make_run(folder / "naive", one_task(100, 99), optimizer_options={"lr": 0.1})
    alarmed = folder / "m500-s0" / "run.json"
    notes = ["odd", "alarm at step 3: min_acc is 0.1", "alarm at step 9: <b>min_acc</b> is 0.05"]
    alarmed.write_text(json.dumps(json.loads(alarmed.read_text()) | {"notes": notes}))
    return folder


@pytest.fixture(scope="module")
def live(store: Path) -> Iterator[Live]:
    with serving(store) as found:
        yield found


def opened(visit: Visit, live: Live, *runs: str) -> Page:
    visit.page.goto(f"{live.address}#{'&'.join(f'run={run}' for run in runs)}")
    visit.page.locator("#runs .run").first.wait_for()  # the list may come after the curves
    visit.page.locator("#chart .curve").first.wait_for(state="attached")
    visit.page.wait_for_function(
        "() => [...document.querySelectorAll('.run .acc')].every((acc) => acc.textContent)"
    )
    return visit.page


def drawn(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(
        "document.getElementById('chart').plot.figure.series"
        ".map(({ x, y, low, high, name, kind }) => ({ x, y, low, high, name, kind }))"
    )
    return found


def test_groups_are_those_of_every_other_command(store: Path) -> None:
    watching = StoreWatcher(store)
    for _ in range(25):
        watching.poll(())
    shown: dict[str, set[str]] = {}
    for name, row in watching.listing.items():
        shown.setdefault(row.group or name, set()).add(name)
    groups, _ = find_groups([str(store)])
    expected = [{run.path.rpartition("/")[2] for run in runs} for runs in groups.values()]
    assert sorted(map(sorted, shown.values())) == sorted(map(sorted, expected))


def test_seeds_are_drawn_as_their_mean_with_a_band(visit: Visit, live: Live) -> None:
    page = opened(visit, live, "m100-s0")
    page.get_by_role("button", name="Add 9 other seeds").click()
    page.get_by_role("heading", name="10 runs of 1 method compared").wait_for()
    page.wait_for_function("() => document.querySelectorAll('#chart .series').length === 2")
    band, line = drawn(page)
    every = np.array([scores(100, seed) for seed in SEEDS])
    assert line["x"] == STEPS.tolist()
    np.testing.assert_allclose(line["y"], every.mean(axis=0), atol=1e-9)
    assert band["kind"] == "band"
    upper, lower = np.array(band["high"]), np.array(band["low"])
    np.testing.assert_allclose(upper - lower, 2 * every.std(axis=0, ddof=1), atol=1e-9)
    np.testing.assert_allclose((upper + lower) / 2, every.mean(axis=0), atol=1e-9)
    page.check("#single")
    page.wait_for_function("() => document.querySelectorAll('#chart .series').length === 12")
    ends = [scores(100, seed)[-1] for seed in SEEDS]
    cell = page.locator("#table tbody tr").first.locator("td").first.inner_text()
    assert cell == f"{np.mean(ends):.3f} ± {np.std(ends, ddof=1):.3f}"
    assert page.locator("#table tbody tr").count() == 11
    assert visit.is_clean()


def test_other_methods_are_not_averaged_and_named_by_what_differs(visit: Visit, live: Live) -> None:
    page = opened(visit, live, "m100-s0", "m100-s1", "m500-s0", "m500-s1", "naive")
    page.get_by_role("heading", name="5 runs of 3 methods compared").wait_for()
    page.locator("#table tbody tr").nth(2).wait_for()
    assert page.locator("#table tbody th").all_inner_texts() == [
        "replay memory=100 (2 seeds)", "replay memory=500 (2 seeds)", "naive",
    ]  # fmt: skip
    means = [trace for trace in drawn(page) if trace["name"] and trace["kind"] == "line"]
    wanted = np.mean([scores(500, 0), scores(500, 1)], axis=0)
    np.testing.assert_allclose(means[1]["y"], wanted, atol=1e-9)


def test_the_list_shows_only_options_that_differ(visit: Visit, live: Live) -> None:
    page = opened(visit, live, "naive")
    options = {
        item.locator(".name").text_content(): item.locator(".options").text_content()
        for item in page.locator(".run").all()
    }
    assert options == {
        "naive": "",
        **{f"m{memory}-s{seed}": f"memory={memory}" for memory in MEMORIES for seed in SEEDS},
    }
    page.get_by_label("Filter", exact=True).fill("memory=1000")
    page.wait_for_function("() => document.querySelectorAll('.run').length === 10")


def test_of_many_ticked_runs_it_says_which_are_drawn(visit: Visit, live: Live) -> None:
    page = opened(visit, live, "naive")
    assert not page.locator("#limit").is_visible()
    page.get_by_label("Order").select_option("name")
    page.get_by_role("button", name="Tick all listed").click()
    page.locator("#limit", has_text="20 of the 31 ticked runs are drawn: at most 24").wait_for()
    page.get_by_role("heading", name="20 runs of 2 methods compared").wait_for()  # whole methods
    assert page.locator(".run input:checked").count() == 31
    for seed in SEEDS:
        page.get_by_label(f"compare m100-s{seed}", exact=True).uncheck()
    page.get_by_role("heading", name="21 runs of 3 methods compared").wait_for()
    assert not page.locator("#limit").is_visible()
    assert visit.is_clean()


def test_a_seed_that_occurs_twice_is_not_averaged(visit: Visit, tmp_path: Path) -> None:
    for name in ("first", "again"):
        make_run(tmp_path / name, one_task(100, 0))
    with serving(tmp_path) as live:
        page = opened(visit, live, "first", "again")
        page.get_by_role("heading", name="2 runs compared").wait_for()
        assert page.locator("#single").is_hidden()


def test_an_alarm_is_shown(visit: Visit, live: Live) -> None:
    page = opened(visit, live, "m500-s0")
    page.locator("#alarm", has_text="alarm at step 9: <b>min_acc</b> is 0.05").wait_for()
    assert "1 with an alarm" in page.locator("#totals").inner_text()
    page.locator(".run", has_text="alarm").wait_for()
    page.get_by_role("button", name="m500-s1").click()
    page.get_by_role("heading", name="m500-s1").wait_for()
    assert not page.locator("#alarm").is_visible()


def ground(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def ink(page: Page) -> str:
    """Return the colour of numbers on the axes; tests/test_report_charts.py has those of lines."""
    colour: str = page.locator("#chart .tick").first.evaluate("tick => getComputedStyle(tick).fill")
    return colour


def test_the_theme_follows_the_system_until_one_is_chosen(visit: Visit, live: Live) -> None:
    visit.page.emulate_media(color_scheme="light")
    page = opened(visit, live, "naive")
    light = ground(page)
    page.emulate_media(color_scheme="dark")
    dark = ground(page)
    assert ink(page) == "rgb(163, 172, 186)"
    assert light != dark
    button = page.get_by_role("button", name="Theme")
    button.click()
    assert (button.inner_text(), ground(page)) == ("Theme: light", light)
    assert ink(page) == "rgb(90, 99, 116)"  # the chart is in it too
    page.reload()
    assert ground(page) == light
    button.click()
    page.emulate_media(color_scheme="light")
    assert (button.inner_text(), ground(page)) == ("Theme: dark", dark)
    button.click()
    assert (button.inner_text(), ground(page)) == ("Theme: auto", light)
    assert visit.is_clean()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_list_and_curves(visit: Visit, live: Live, theme: str) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 844})
    visit.page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page = opened(visit, live, "m100-s0", "m100-s1", "m500-s0")
    assert not page.get_by_label("Order").is_visible()  # behind "Filters and order"
    page.check("#single")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious_faults(page) == []
    name = page.locator(".run .name").nth(3).inner_text()
    page.locator(".run button").nth(3).click()
    page.locator("#shown-title", has_text=name).wait_for()
    page.wait_for_function(  # the curves are at the top, or the page ends with them
        "() => document.getElementById('shown').getBoundingClientRect().top < 10"
        " || scrollY + innerHeight > document.documentElement.scrollHeight - 2"
    )
    assert visit.is_clean()


def test_after_a_restart_with_another_token_it_says_what_to_do(
    visit: Visit, tmp_path: Path
) -> None:
    make_run(tmp_path / "mine")
    with serving(tmp_path, token="first-token") as live:
        port = live.port
        visit.page.goto(live.address)
        visit.page.locator("#connection", has_text="live").wait_for()
    with serving(tmp_path, token="other-token", port=port):
        visit.page.locator("#connection", has_text="the token has changed").wait_for()
