"""The report's file: what it says, what it draws, and that names from files stay text."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import shlex
from collections import defaultdict
from html import unescape
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

import perdure
from perdure.metrics import METRICS, ScoreScale
from perdure.record import InputOptions
from perdure.report.charts import join_modules
from perdure.report.load import open_methods
from perdure.report.page import render_page
from perdure.report.page.narrative import describe_stability_gap, diagnose, interpret
from perdure.report.page.plot_data import make_curve_data
from perdure.report.page.sections import render_formula
from perdure.report.page.summaries import MethodSummary, make_command
from perdure.scenarios import SCENARIOS
from perdure.training import make_config

from .cli_helpers import run, write
from .report_helpers import plotted, store

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"


def points(folder: Path) -> dict[str, dict[int, float]]:
    """Return the probes of points.csv by task and step."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    with (folder / "points.csv").open() as file:
        for row in csv.DictReader(file):
            if row["kind"] == "probe":
                found[row["tested"]][int(row["step"])] = float(row["score"])
    return found


@pytest.fixture(scope="module")
def text() -> str:
    return render_page(open_methods([str(store())])[0], command=["runs"])


def test_one_file_holds_everything(text: str) -> None:
    assert not re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="', text)
    assert "default-src 'none'" in text
    assert text.count("<script") == 2
    for section in (
        "headline",
        "interpretation",
        "curves",
        "matrices",
        "criteria",
        "costs",
        "warnings",
    ):
        assert f'<section id="{section}"' in text


def test_curves_are_the_means_of_the_records(text: str) -> None:
    replay = next(each for each in plotted(text)["methods"] if each["name"] == "replay")
    runs = [points(folder) for folder in sorted(store().glob("split-digits-replay-*"))]
    assert replay["runs"] == len(runs) == 2
    assert replay["names"] == ["0-1", "2-3", "4-5", "6-7", "8-9"]
    for task, shown in zip(replay["names"], replay["tasks"], strict=True):
        steps = sorted(runs[0][task].keys() & runs[1][task].keys())
        assert shown["x"] == steps
        values = np.array([[each[task][step] for step in steps] for each in runs])
        np.testing.assert_allclose(shown["y"], values.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(shown["sd"], values.std(axis=0, ddof=1), atol=1e-5)
    for k, each in enumerate(runs):
        for task, (x, y) in zip(replay["names"], replay["seeds"][k], strict=True):
            assert y == [pytest.approx(each[task][step], abs=1e-5) for step in x]


def test_the_lowest_line_is_the_mean_of_the_lowest_after_learning(text: str) -> None:
    replay = next(each for each in plotted(text)["methods"] if each["name"] == "replay")
    runs = [points(folder) for folder in sorted(store().glob("split-digits-replay-*"))]
    first, end = replay["tasks"][0], replay["switches"][0]
    lows = [min(score for step, score in each["0-1"].items() if step > end) for each in runs]
    assert first["low"] == pytest.approx(np.mean(lows), abs=1e-5)
    assert replay["tasks"][-1]["low"] is None  # nothing came after it


def test_ends_are_whole_sets_at_task_ends(text: str) -> None:
    replay = next(each for each in plotted(text)["methods"] if each["name"] == "replay")
    folders = sorted(store().glob("split-digits-replay-*"))
    full: dict[int, list[float]] = defaultdict(list)
    for folder in folders:
        with (folder / "points.csv").open() as file:
            for row in csv.DictReader(file):
                if row["kind"] == "full" and row["tested"] == "0-1":
                    full[int(row["step"])].append(float(row["score"]))
    assert dict(replay["tasks"][0]["ends"]) == {
        step: pytest.approx(np.mean(scores), abs=1e-5) for step, scores in full.items()
    }


def test_long_curves_keep_their_extremes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(20_000).round(4)
    lines = [f"{k + 1},a,a,{score}" for k, score in enumerate(scores)]
    path = write(tmp_path, "long.csv", "step,trained,tested,score\n" + "\n".join(lines) + "\n")
    shown = make_curve_data(open_methods([str(path)])[0]).methods[0].tasks[0]
    assert len(shown.x) <= 600
    assert (min(shown.y), max(shown.y)) == (scores.min(), scores.max())
    assert scores[shown.x[int(np.argmin(shown.y))] - 1] == scores.min()


def test_the_way_into_a_dip_is_drawn_whole(tmp_path: Path) -> None:
    lines = [f"{k},{'a' if k <= 5000 else 'b'},a,{k % 7 / 10}" for k in range(1, 10_001)]
    lines += ["10000,b,b,0.5"]
    path = write(tmp_path, "long.csv", "step,trained,tested,score\n" + "\n".join(lines) + "\n")
    shown = make_curve_data(open_methods([str(path)])[0]).methods[0].tasks[0]
    after = [step for step in shown.x if step > 5000]
    assert after[:200] == list(range(5001, 5201))


def test_headline_and_words_of_a_matrix(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.csv", "0.99,,\n0.30,0.98,\n0.20,0.25,0.97\n")
    shown = render_page(open_methods([str(path)])[0])
    cells = re.findall(r"</span>([-\d.]+)</td>", shown)
    assert "0.473" in cells  # (.2 + .25 + .97) / 3
    assert "-0.760" in cells  # ((.2 - .99) + (.25 - .98)) / 2
    assert "severe forgetting" in shown
    assert "lost 76 points" in shown
    assert "needs a stream" in shown  # why min_acc is not there


@pytest.mark.parametrize(
    ("learned", "bwt", "acc", "name"),
    [
        (0.95, 0.0, 0.95, "a good continual learner"),
        (0.95, -0.04, 0.85, "a good continual learner"),
        (0.98, -0.6, 0.4, "severe forgetting"),
        (0.5, 0.0, 0.5, "poor learning"),
        (0.92, 0.05, 0.97, "beneficial transfer"),
        (0.95, 0.001, 0.95, "a good continual learner"),
        (0.95, -0.1, 0.86, "some forgetting"),
        (0.6, -0.4, 0.3, "severe forgetting, and learns less than it could"),
    ],
)
def test_the_table_of_the_tutorial(learned: float, bwt: float, acc: float, name: str) -> None:
    assert diagnose({"acc.learning": learned, "bwt": bwt, "acc": acc})[0] == name


def test_the_gap_in_words() -> None:
    assert "60 points below" in describe_stability_gap({"min_acc": 0.3}, 0.9)
    assert "hardly" in describe_stability_gap({"min_acc": 0.88}, 0.9)
    # Learned to .6, it rose to .9 while other tasks were learned: it never fell.
    assert "hardly" in describe_stability_gap({"min_acc": 0.6, "gap.depth": 0.01}, 0.9)
    assert "1 point at" in describe_stability_gap({"min_acc": 0.6, "gap.depth": 0.01}, 0.9)
    assert "30 points below" in describe_stability_gap({"min_acc": 0.6, "gap.depth": 0.2}, 0.9)
    assert describe_stability_gap({}, 0.9) == ""
    lost = {"min_acc": 0.0, "bwt": -0.9}
    assert (
        describe_stability_gap(lost, 0.02)
        == "during training older tasks fell to 0.00 and stayed there"
    )


def test_words_and_name_of_a_reading_agree() -> None:
    diagnosis, reason = diagnose({"acc.learning": 0.95, "bwt": 0.03, "acc": 0.97})
    assert diagnosis == "beneficial transfer"
    assert "gained 3 points" in reason


def log(a: str, b: str, high: float) -> str:
    """Return a log of two tasks, the first of which falls by half when the second is learned."""
    lines = [f"{k},{a},{a},{high}" for k in (1, 2)]
    lines += [f"{k},{b},{a},{high / 2}\n{k},{b},{b},{high}" for k in (3, 4)]
    return "\n".join(["step,trained,tested,score", *lines]) + "\n"


@pytest.mark.parametrize("others", [("y", "x"), ("z", "w")])
def test_tasks_of_other_names_or_order_are_places(tmp_path: Path, others: tuple[str, str]) -> None:
    one = write(tmp_path, "1.csv", log("x", "y", 0.8))
    two = write(tmp_path, "2.csv", log(*others, 0.4))
    methods = open_methods([f"mine={one},{two}"])[0]
    [mine] = plotted(render_page(methods))["methods"]
    assert mine["names"] == ["task no. 1", "task no. 2"]
    first, second = mine["tasks"]
    assert first["x"] == [1, 2, 3, 4]
    np.testing.assert_allclose(first["y"], [0.6, 0.6, 0.3, 0.3])
    assert first["low"] == pytest.approx(0.3)
    assert first["ends"] == [[2, pytest.approx(0.6)], [4, pytest.approx(0.3)]]
    assert second["x"] == [3, 4]
    head = re.search(r"<thead><tr><th[^>]*>after</th>(.*?)</tr>", render_page(methods))
    assert head is not None
    assert re.findall(r">([^<]+)<", head[1]) == ["task no. 1", "task no. 2"]


def test_nothing_is_best_among_methods_that_did_other_things(tmp_path: Path) -> None:
    two = write(tmp_path, "two.csv", "0.9,\n0.6,0.8\n")
    three = write(tmp_path, "three.csv", "0.9,,\n0.6,0.8,\n0.5,0.5,0.9\n")
    more = write(tmp_path, "more.csv", "0.9,\n0.7,0.8\n")
    shown = render_page(open_methods([str(two), str(three)])[0])
    assert 'class="number best"' not in shown
    assert "no number says which is better across parts" in shown
    assert re.findall(r'<h2 class="part"[^>]*>(.*?)</h2>', shown) == ["2 tasks", "3 tasks"]
    shown = render_page(open_methods([str(two), str(more)])[0])
    assert 'class="number best"' in shown
    assert "across parts" not in shown
    assert 'class="part"' not in shown


def test_losses_and_accuracies_are_in_parts_of_their_own(tmp_path: Path) -> None:
    for name, scale in (("a", {}), ("b", {"low": 0, "high": 9, "lower_is_better": True})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "points.csv").write_text(log("x", "y", 0.8))
        said = {"schema": 3, "config": {"strategy": name}} | ({"scale": scale} if scale else {})
        (tmp_path / name / "run.json").write_text(json.dumps(said))
    shown = render_page(open_methods([str(tmp_path)])[0])
    arrows = re.findall(
        r'href="#def-([\w.]+)"[^>]*>[^<]*</a>(?: <span[^>]*>(.)</span>)?</th>', shown
    )
    assert [arrow for id_, arrow in arrows if id_ == "acc"] == ["↑", "↓"]
    assert {arrow for id_, arrow in arrows if id_ == "wf10"} == {"↓"}  # drops are positive in both
    assert re.findall(r'<h2 class="part"[^>]*>(.*?)</h2>', shown) == ["1 task", "1 task, score"]


def test_every_scenario_has_a_part_that_says_what_is_best_in_it(tmp_path: Path) -> None:
    for scenario, strategy, last in (
        ("one", "gem", 0.9), ("one", "naive", 0.5), ("two", "gem", 0.4), ("two", "naive", 0.8),
    ):  # fmt: skip
        folder = tmp_path / f"{scenario}-{strategy}"
        folder.mkdir()
        (folder / "points.csv").write_text(log("x", "y", last))
        said = {"schema": 3, "config": {"scenario": scenario, "strategy": strategy}}
        (folder / "run.json").write_text(json.dumps(said))
        (folder / "done.json").write_text("{}")
    methods = open_methods([str(tmp_path)])[0]
    assert sorted(methods) == ["one gem", "one naive", "two gem", "two naive"]
    shown = render_page(methods)
    one, two = re.split(r'<h2 class="part" id="part(?:-2)?">', shown)[1:]
    assert (one[:12], two[:12]) == ("one, 2 tasks", "two, 2 tasks")
    for part, best in ((one, "gem"), (two, "naive")):
        table = re.search(r'<table class="headline".*?</table>', part, re.S)
        assert table is not None
        rows = re.findall(
            r'<span title="([^"]*)">.*?<td[^>]*class="number( best)?"', table[0], re.S
        )
        assert dict(rows) == {name: " best" * (name == best) for name in ("gem", "naive")}
    ids = re.findall(r' id="([^"]+)"', shown)
    assert len(ids) == len(set(ids))


def test_one_script_may_run_and_charts_are_only_there_if_something_is_plotted(
    tmp_path: Path,
) -> None:
    file = write(tmp_path, "a.csv", "0.9,\n0.6,0.8\n")
    shown = render_page(open_methods([str(file)])[0])
    script = re.search(r'<script type="module">(.*?)</script>', shown, re.S)
    assert script is not None
    assert script[1].startswith(join_modules())
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in unescape(shown)
    assert len(shown) < 0.15e6
    loss = write(tmp_path, "b.csv", "5,\n6,8\n")
    options = InputOptions(scale=ScoreScale(0, 9, lower_is_better=True))
    shown = render_page(open_methods([str(loss)], options)[0])
    assert "class Plot" not in shown
    assert len(shown) < 0.1e6
    assert unescape(shown).count("'sha256-") == 1


def test_the_page_says_which_options_made_it(tmp_path: Path) -> None:
    path = write(tmp_path, "my results.csv", "9,\n6,8\n")
    out = tmp_path / "x.html"
    answer = run("report", str(path), "--range", "0,10", "--title", "A & B", "-o", str(out))
    assert answer.code == 0, answer.err
    command = re.search(r'aria-label="Command of this page"><code>(.*?)</code>', out.read_text())
    assert command is not None
    words = shlex.split(unescape(command[1]))
    first = out.read_text()
    assert words[:2] == ["perdure", "report"]
    out.unlink()
    assert run(*words[1:]).code == 0
    assert out.read_text() == first


def test_a_reading_says_what_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.csv", "0.9\n")
    assert "bwt is undefined: needs at least 2 tasks, got 1" in render_page(
        open_methods([str(path)])[0]
    )


@pytest.mark.parametrize("id_", METRICS)
def test_every_formula_can_be_drawn(id_: str) -> None:
    svg = render_formula(METRICS[id_].formula)
    assert svg.count("M") > 3  # outlines of letters
    assert 'fill="currentColor"' in svg


def test_formulas_have_hyphens_in_words_and_fractions_of_full_size() -> None:
    def size(latex: str) -> list[int]:
        return [int(n) for n in re.findall(r'(?:width|height)="(\d+)"', render_formula(latex))]

    assert size(r"\text{min-ACC}")[0] < size(r"\mathrm{min-ACC}")[0]  # the latter has a minus
    assert size(r"\frac1T")[1] > 1.8 * size("T")[1]


def test_matrices_are_explained_in_light_and_dark(tmp_path: Path) -> None:
    text = render_page(open_methods([str(write(tmp_path, "a.csv", "0.9,\n0.6,0.8\n"))])[0])
    assert "the stronger the colour, the better" in text
    assert "darker" not in text.partition("<main")[2].partition("<script")[0]


@pytest.mark.parametrize(
    ("scenario", "options"),
    [*((scenario, {}) for scenario in SCENARIOS), ("split-digits", {"settings": {"hidden": 50}}),
     ("split-digits", {"settings": {"hidden": [50, 20]}, "setting": "task", "every": "10%"})],
)  # fmt: skip
def test_the_command_gives_the_same_run(scenario: str, options: dict[str, Any]) -> None:
    config = make_config(scenario, "replay", seed=1, **options)
    command = make_command(msgspec.to_builtins(config), [1])
    assert command is not None
    answer = run(*shlex.split(command)[1:], "--dry-run", "--format", "json")
    assert json.loads(answer.out)[0]["folder"].endswith(config.folder)


def test_names_from_files_run_nothing(tmp_path: Path) -> None:
    said = {"schema": 3, "config": {"scenario": HOSTILE, "strategy": HOSTILE, "name": HOSTILE}}
    for seed in ("a", "b"):
        (tmp_path / seed).mkdir()
        lines = f'step,trained,tested,score\n1,"{HOSTILE}","{HOSTILE}",0.5\n'
        (tmp_path / seed / "points.csv").write_text(lines + f'2,"{HOSTILE}","{HOSTILE}",0.7\n')
        (tmp_path / seed / "run.json").write_text(json.dumps(said))
    shown = render_page(open_methods([str(tmp_path)])[0], command=[HOSTILE], title=None)
    assert "<img" not in shown.replace("<image", "")
    assert shown.count("<script") == 2
    assert HOSTILE in plotted(shown)["tasks"]


def test_a_report_of_a_study(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(
        'scenarios = ["split-digits"]\nstrategies = ["naive", "replay"]\nseeds = 1\n'
        "[run]\niterations = 3\n"
    )
    answer = run("report", str(file), "--store", str(tmp_path / "runs"))
    assert answer.code == 2
    assert "no finished run" in answer.err
    run("study", "run", str(file), "--store", str(tmp_path / "runs"), "--serial")
    out = tmp_path / "x.html"
    answer = run("report", str(file), "--store", str(tmp_path / "runs"), "-o", str(out))
    assert answer.code == 0, answer.err
    assert [each["name"] for each in plotted(out.read_text())["methods"]] == ["naive", "replay"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to report"),
        (("nothing-there",), "no such file or folder"),
        (("{matrix}", "-o", "nowhere/x.html"), "there is no folder nowhere"),
        (("{matrix}", "-o", "."), "is a folder, expected a file"),
        (("<stdin>",), "- is standard input"),
        (("er=study.toml",), "a study names its methods itself"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    path = write(tmp_path, "mine.csv", "0.9,\n0.6,0.8\n")
    answer = run("report", *(each.replace("{matrix}", str(path)) for each in arguments))
    assert answer.code == 2
    assert message in answer.err
    assert len(answer.err.splitlines()) == 1


def test_the_same_runs_give_the_same_file(text: str) -> None:
    assert render_page(open_methods([str(store())])[0], command=["runs"]) == text


def test_older_tasks_are_those_that_min_acc_is_about(tmp_path: Path) -> None:
    """A task that is evaluated but never learned makes no learned one an older one."""
    with perdure.Log(tmp_path / "run") as log:
        for step, trained, scores in (
            (1, "a", {"a": 0.9, "z": 0.1}), (2, "b", {"a": 0.4, "b": 1.0, "z": 0.1}),
        ):  # fmt: skip
            for tested, score in scores.items():
                log.add(step, trained, tested, score, kind="full")
    recorded = perdure.open_run(tmp_path / "run")
    summary = recorded.summary()
    told = interpret(MethodSummary("mine", [recorded], [summary], summary, label="mine"))
    assert "fell to 0.40 and stayed there" in told.reason
