"""The live page in a real browser: drawn, growing, filtered, compared; nothing of a name runs."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from perdure.record import RunWriter
from perdure.report.colours import choose_styles, task_styles

from .browser_helpers import Visit, browser, colours_of, serious_faults, visit
from .live_helpers import HEADER, Live, append, make_run, serving
from .report_helpers import store as real_store
from .score_name_helpers import loss_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page, Route

__all__ = ["browser", "visit"]  # fixtures

CURVES = "#chart .curve"
SERIES = "document.getElementById('chart').plot.figure.series"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A store of four real runs, one of which failed, and a study of them."""
    store = tmp_path_factory.mktemp("live") / "runs"
    shutil.copytree(real_store(("naive", "gem"), 1), store)
    for run in list(store.iterdir()):  # as if there were another seed
        shutil.copytree(run, store / run.name.replace("-s0-", "-s1-"))
    failed = make_run(store / "failed-one", done=False, strategy="ewc", scenario="split-other")
    (failed / "failed.json").write_text(json.dumps({"error": "loss is nan"}))
    runs = [path.name for path in store.iterdir()]
    (store / "mine.study.json").write_text(json.dumps({"runs": [*runs, "later"], "later": 0}))
    with serving(store) as found:
        yield found


def names(page: Page) -> list[str]:
    return page.locator("#runs .run .name").all_text_contents()


def wait_for_names(page: Page, expected: list[str]) -> None:
    """Fail unless these runs are listed in this order, at once or after the list is drawn."""
    page.wait_for_function(
        "names => document.querySelectorAll('#runs .run .name').length === names.length &&"
        " [...document.querySelectorAll('#runs .run .name')].every("
        "(each, k) => each.textContent === names[k])",
        arg=expected,
    )


def wait_for_scores(page: Page) -> None:
    """Runs are listed before they are scored."""
    page.wait_for_function(
        "() => [...document.querySelectorAll('.run .acc')].every((acc) => acc.innerText)"
    )


def named(live: Live, strategy: str) -> list[str]:
    return sorted(name for name, row in live.rows().items() if row["strategy"] == strategy)


def opened(visit: Visit, live: Live, *runs: str) -> Page:
    fragment = "&".join(f"run={run}" for run in runs)
    visit.page.goto(f"{live.address}#{fragment}")
    visit.page.locator("#runs .run").first.wait_for()  # the list may come after the curves
    visit.page.locator(CURVES).first.wait_for(state="attached")
    return visit.page


@pytest.mark.parametrize("width", [390, 1280])
def test_the_chosen_order_is_not_cut_off(visit: Visit, live: Live, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 800})
    page = opened(visit, live, named(live, "gem")[0])
    if not page.locator("#order").is_visible():
        page.click("#filters summary")
    wide, room = page.evaluate(
        """() => {
          const order = document.getElementById("order"), style = getComputedStyle(order);
          const ink = document.createElement("canvas").getContext("2d");
          ink.font = `${style.fontSize} ${style.fontFamily}`;
          const wide = [...order.options].map((one) => ink.measureText(one.text).width);
          return [Math.max(...wide), order.clientWidth - 40];
        }"""
    )
    assert wide <= room  # next to the padding and the arrow


def test_the_curves_of_every_task_are_drawn(visit: Visit, live: Live) -> None:
    gem = named(live, "gem")[0]
    page = opened(visit, live, gem)
    page.locator("#table tbody tr").nth(4).wait_for()
    colours = [style.colour for style in task_styles(5)]
    assert page.locator(CURVES).count() >= 5
    seen = colours_of(page.locator("#chart"))
    for colour in colours:
        assert seen.get(colour, 0) > 20, (colour, seen.get(colour))
    found = live.json(f"/api/run/{gem}")
    row = page.locator("#table tbody tr").first
    assert row.locator("td").nth(2).inner_text() == f"{found['worst']['0'][1]:.3f}"
    assert page.locator("#figures").inner_text().count(f"{found['row']['acc']:.3f}") == 1
    # Where the lines are on the page is where the numbers are.
    data = page.evaluate(
        SERIES + ".filter((each) => each.kind === 'line' && each.x.length > 2)"
        ".map((each) => [each.x, each.y])"
    )
    assert data == [[task["steps"], task["scores"]] for task in found["tasks"]]
    ends = [last for _, _, last in found["spans"][:-1]]
    assert page.evaluate("document.getElementById('chart').plot.figure.boundaries") == ends
    expected = page.evaluate("ends => ends.map(document.getElementById('chart').plot.toX)", ends)
    drawn = page.locator("#chart .boundary").evaluate_all(
        "all => all.map((b) => b.x1.baseVal.value)"
    )
    assert drawn == pytest.approx(expected, abs=0.01)
    assert visit.is_clean()


def test_what_is_appended_appears_by_itself(visit: Visit, tmp_path: Path) -> None:
    with (
        RunWriter(tmp_path / "mine", {"config": {"strategy": "gem"}}) as writer,
        serving(tmp_path, every=0.5) as live,  # as the command does
    ):
        writer.append_points([f"{k},a,a,probe,0.9,10" for k in range(1, 50)])
        page = opened(visit, live, "mine")
        page.get_by_text("running").first.wait_for()
        last = SERIES + "[0].y.at(-1)"
        assert page.evaluate(last) == 0.9
        before = page.locator(CURVES).first.get_attribute("d")
        writer.append_points(["50,a,a,probe,0.125,10"])
        page.wait_for_function(f"() => {last} === 0.125")
        page.wait_for_function(
            "([css, d]) => document.querySelector(css).getAttribute('d') !== d",
            arg=[CURVES, before],
        )
        writer.append_points(["51,b,a,probe,0.25,10", "51,b,b,probe,0.5,10"])  # a task begins
        page.wait_for_function("() => document.querySelectorAll('#table tbody tr').length === 2")
        page.get_by_text("min 0.250").wait_for()
        writer.finish()
        page.locator("#shown-about", has_text="finished").wait_for()
        assert visit.is_clean()


def test_a_loss_has_its_own_name_sign_and_direction(visit: Visit, tmp_path: Path) -> None:
    loss_run(tmp_path / "worse")
    better = loss_run(tmp_path / "better", seed=1)
    points = better / "points.csv"
    points.write_text(points.read_text().replace("4.0", "2.5").replace("8.0", "3.5"))
    make_run(tmp_path / "other")  # of accuracies
    with serving(tmp_path) as live:
        page = opened(visit, live, "worse")
        page.get_by_text("max 8.000").wait_for()
        page.locator("#figures", has_text="mean perplexity so far").wait_for()
        assert page.locator("#figures dd").all_inner_texts()[:2] == ["3.500", "8.000"]
        assert page.locator("#table thead").inner_text().split("\t")[3] == "highest since"
        assert page.locator("#table tbody tr").first.inner_text().split("\t")[3:] == [
            "8.000", "3", "6.000"
        ]  # fmt: skip
        assert page.locator("#chart .title.y").text_content() == "perplexity (lower is better)"
        page.locator("#order").select_option("acc")
        wait_for_names(page, ["other", "better", "worse"])  # a lower loss is the better one
        page.locator("#order").select_option("min_acc")
        wait_for_names(page, ["other", "worse", "better"])
        page = opened(visit, live, "worse", "better")
        page.locator("#table thead", has_text="highest since learned").wait_for()
        page = opened(visit, live, "worse", "other")
        page.locator("#table tbody", has_text="perplexity 8.000").wait_for()
        assert visit.is_clean()


def test_a_new_run_appears_and_a_deleted_one_goes(visit: Visit, tmp_path: Path) -> None:
    make_run(tmp_path / "old")
    with serving(tmp_path) as live:
        page = opened(visit, live, "old")
        make_run(tmp_path / "new")
        page.locator(".run .name", has_text="new").wait_for()
        shutil.rmtree(tmp_path / "old")
        page.locator(".run .name", has_text="old").wait_for(state="detached")
        page.get_by_text("this run no longer exists").wait_for()
        assert names(page) == ["new"]
        assert visit.strangers == []


def test_the_list_does_not_wait_for_curves(visit: Visit, live: Live) -> None:
    held: list[Route] = []
    is_held = True
    visit.page.route(
        "**/api/run/**", lambda route: held.append(route) if is_held else route.continue_()
    )
    visit.page.goto(live.address, wait_until="commit")
    visit.page.locator(".run").first.wait_for()
    while not held:  # the browser asks for them when it likes
        visit.page.wait_for_timeout(20)
    assert visit.page.locator(CURVES).count() == 0
    is_held = False
    for route in held:
        route.continue_()
    visit.page.locator(CURVES).first.wait_for(state="attached")
    assert visit.is_clean()


def test_filters(visit: Visit, live: Live) -> None:
    page = opened(visit, live)
    page.wait_for_function("() => document.querySelectorAll('#runs .run').length === 5")
    page.get_by_label("Filter").fill("GEM s1")
    assert [("gem" in name, "s1" in name) for name in names(page)] == [(True, True)]
    assert page.locator("#count").inner_text() == "1 run, of 5 in total"
    page.get_by_label("Filter").fill("")
    for label, value, expected in (
        ("State", "failed", {"failed-one"}),
        ("Strategy", "naive", set(named(live, "naive"))),
        ("Scenario", "split-other", {"failed-one"}),
    ):
        page.get_by_role("combobox", name=label).select_option(value)
        assert set(names(page)) == expected
        page.get_by_role("combobox", name=label).select_option("")
    page.get_by_label("Order").select_option("acc")
    wait_for_scores(page)
    accs = [float(text) for text in page.locator(".run .acc").all_inner_texts()]
    assert accs == sorted(accs, reverse=True)
    assert visit.is_clean()


def test_chosen_runs_are_compared(visit: Visit, live: Live) -> None:
    one, two = named(live, "naive")[0], named(live, "gem")[0]
    page = opened(visit, live, one)
    page.get_by_label(f"compare {two}", exact=True).check()
    page.get_by_role("heading", name="2 runs compared").wait_for()
    wanted = choose_styles({"naive": [], "gem": []})
    page.wait_for_function(
        "colours => { const drawn = " + SERIES + ".map((each) => each.style.colour);"
        " return colours.every((c) => drawn.includes(c)); }",
        arg=[look.colour for look in wanted.values()],
    )
    seen = colours_of(page.locator("#chart"))
    for look in wanted.values():
        assert seen.get(look.colour, 0) > 20
    means = {name: live.json(f"/api/run/{name}")["mean"] for name in (one, two)}
    drawn = SERIES + ".filter((each) => each.x.length > 2).map((each) => each.y)"
    assert page.evaluate(drawn) == [means[one]["scores"], means[two]["scores"]]
    task = live.json(f"/api/run/{two}")["tasks"][0]
    page.get_by_role("combobox", name="Compare").select_option(task["name"])
    assert page.evaluate(drawn)[1] == task["scores"]
    page.get_by_role("button", name="Show only one").click()
    page.get_by_role("heading", name=one).wait_for()
    assert visit.is_clean()


def test_a_study_shows_how_far_it_is(visit: Visit, live: Live) -> None:
    page = opened(visit, live)
    assert page.locator(".study p").inner_text() == "4 of 6 done, 1 failed, 1 waiting"
    widths = {
        part: page.locator(f".bar .{part}").bounding_box() for part in ("done", "failed", "waiting")
    }
    done, failed = widths["done"], widths["failed"]
    assert done is not None
    assert failed is not None
    assert done["width"] == pytest.approx(4 * failed["width"], rel=0.05)


def test_after_a_switch_only_what_follows_is_shown(visit: Visit, live: Live) -> None:
    gem = named(live, "gem")[0]
    page = opened(visit, live, gem)
    page.get_by_label("Iterations").select_option("switch")
    switch = live.json(f"/api/run/{gem}")["spans"][-2][2]
    low, high = page.evaluate("document.getElementById('chart').plot.ranges.x")
    assert switch - 40 < low < switch < high


def test_the_keyboard_is_enough(visit: Visit, live: Live) -> None:
    page = opened(visit, live, named(live, "naive")[0])
    page.get_by_label("Order").select_option("name")
    page.get_by_label("Order").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # past "Tick all listed"
    first, second = names(page)[:2]
    assert not page.get_by_label(f"compare {first}", exact=True).is_checked()
    page.keyboard.press("Space")
    assert page.get_by_label(f"compare {first}", exact=True).is_checked()
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # opens the second alone
    page.get_by_role("heading", name=second).wait_for()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    assert second in page.evaluate("document.activeElement.textContent")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390), ("dark", 1200)])
def test_no_serious_fault_for_those_who_need_aids(
    visit: Visit, live: Live, scheme: str, width: int
) -> None:
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    gem = named(live, "gem")
    page = opened(visit, live, *(gem if width == 1200 else gem[:1]))
    page.locator("#table tbody tr").nth(1).wait_for()
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert serious_faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert visit.is_clean()


EVIL = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def test_nothing_in_a_store_runs(visit: Visit, tmp_path: Path) -> None:
    evil = EVIL.replace("/", "\N{DIVISION SLASH}")
    link = "<a href='javascript:window.hacked=1'>x</a> %{x} &lt;b&gt;"
    quoted = ",".join(['"' + EVIL.replace('"', '""') + '"'] * 2)
    points = HEADER + "".join(f"{k},{quoted},probe,0.5,1\n" for k in range(1, 9))
    points += f'9,"{link}","{link}",probe,0.5,1\n'
    folders = [make_run(tmp_path / evil, points), make_run(tmp_path / f"b{evil}", points)]
    for folder in folders:
        names_ = ("scenario", "strategy", "model", "setting", "device", "seed")
        said: dict[str, object] = {**dict.fromkeys(names_, EVIL), "options": {EVIL: EVIL}}
        (folder / "run.json").write_text(json.dumps({"config": said, "created": EVIL}))
    failed = make_run(tmp_path / "failed", done=False)
    (failed / "failed.json").write_text(json.dumps({"error": EVIL}))
    (tmp_path / f"{evil}.study.json").write_text(json.dumps({"runs": [evil, EVIL]}))
    with serving(tmp_path) as live:
        visit.page.goto(live.address)
        page = visit.page
        page.locator(".run .name", has_text=evil).first.wait_for()
        for item in page.locator(".run button").all():
            item.click()
            page.wait_for_timeout(100)
        for box in page.locator(".run input").all():
            if not box.is_checked():
                box.check()
        page.get_by_role("heading", name="3 runs compared").wait_for()
        page.locator(CURVES).first.wait_for(state="attached")
        page.locator("#chart").hover()
        page.locator(".run button", has_text=evil).first.click()
        page.locator("#chart .label", has_text="<a href='javascript:").wait_for()
        mark = page.locator("#chart .mark").last.bounding_box()
        assert mark is not None
        page.mouse.move(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
        page.locator(
            "#chart .tip b", has_text="<a href='javascript:window.hacked=1'>x</a> %{x} &lt;b&gt;"
        ).wait_for()
        assert page.evaluate("window.hacked") is None
        inside = "document.querySelectorAll('main img, main script, svg a, #studies img').length"
        assert page.evaluate(inside) == 0
        assert page.locator(".study h2").inner_text() == evil
        assert visit.is_clean()


@pytest.mark.slow
def test_ten_thousand_runs_in_the_list(visit: Visit, tmp_path: Path) -> None:
    one = make_run(tmp_path / "one")
    store = tmp_path / "store"
    for k in range(10_000):
        folder = store / f"run-{k:05}"
        folder.mkdir(parents=True)
        for name in ("points.csv", "done.json"):
            (folder / name).hardlink_to(one / name)
    with serving(store) as live:
        page = opened(visit, live)
        page.wait_for_function("() => document.querySelectorAll('#runs .run').length === 200")
        assert page.locator("#count").inner_text() == "first 200 of 10000 runs"
        page.get_by_label("Filter").fill("run-0424")
        assert len(names(page)) == 10
        page.get_by_label("Filter").fill("")
        page.get_by_role("button", name="Show more").click()
        assert len(names(page)) == 400
        assert visit.is_clean()


def test_a_lost_connection_is_said_and_found_again(visit: Visit, tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", done=False)
    with serving(tmp_path) as live:
        page = opened(visit, live, "r")
        page.locator("#connection[data-state=live]").wait_for()
        address, port = live.address, live.port
    page.locator("#connection[data-state=lost]").wait_for()
    append(run, "4,b,b,probe,0.875,10")
    with serving(tmp_path, port=port) as live:
        assert live.address == address
        page.locator("#connection[data-state=live]").wait_for()
        page.wait_for_function(
            "() => document.getElementById('table').textContent.includes('0.875')"
        )
        append(run, "5,b,b,probe,0.625,10")
        page.wait_for_function(
            "() => document.getElementById('table').textContent.includes('0.625')"
        )


def test_with_a_word_the_page_opens_and_the_address_forgets_it(
    visit: Visit, tmp_path: Path
) -> None:
    make_run(tmp_path / "r")
    with serving(tmp_path, token="a-word-that-is-long") as live:
        visit.page.goto(live.address)
        visit.page.locator(CURVES).first.wait_for(state="attached")
        assert "token" not in visit.page.url
        assert visit.page.evaluate("document.cookie") == ""
        assert visit.is_clean()
