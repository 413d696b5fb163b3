"""One failed, empty or broken run breaks no figure and no page, and the reason given is true."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perdure.metrics import ScoreMatrix
from perdure.record import ScoreInput, open_run, read_input
from perdure.report import figures
from perdure.report.filtering import LeftOutWarning, drop_other_task_counts
from perdure.report.live.store_watcher import StoreWatcher
from perdure.report.load import open_methods
from perdure.report.page import render_page

from .cli_helpers import refused, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADER = "step,trained,tested,kind,score,n\n"
FAILURE = "the loss of step 1 is nan, expected a finite number"


def points(tasks: int, score: float = 0.5) -> str:
    """Return a log in which every task is learned in two steps, and all are tested at each."""
    lines = [
        f"{step},t{trained},t{tested},{kind},{score + 0.1 * (trained == tested)},10\n"
        for trained in range(tasks)
        for step in (2 * trained + 1, 2 * trained + 2)
        for kind in ("probe", "full")
        for tested in range(tasks)
        if kind == "probe" or step == 2 * trained + 2
    ]
    return HEADER + "".join(lines)


def make(folder: Path, text: str | None = None, *, done: bool = True, seed: int = 0) -> Path:
    folder.mkdir(parents=True)
    said = {"config": {"strategy": folder.name.partition("-")[0], "seed": seed}}
    (folder / "run.json").write_text(json.dumps(said | {"classes": [2, 2, 2]}))
    (folder / "points.csv").write_text(points(3) if text is None else text)
    if done:
        (folder / "done.json").write_text("{}")
    return folder


def result_rows(page: str) -> list[tuple[str, str]]:
    """Return the methods in the table of results, and the number of runs of each."""
    return re.findall(r'role="rowheader"><span[^>]*>([^<]*)</span><small>(\d+) runs?<', page)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two good methods with two seeds each."""
    for name in ("gem", "si"):
        for seed in (0, 1):
            make(tmp_path / "runs" / f"{name}-{seed}", seed=seed)
    return tmp_path / "runs"


def fail(folder: Path) -> None:
    (folder / "failed.json").write_text(json.dumps({"error": FAILURE}))


def failed(folder: Path) -> None:
    fail(make(folder, HEADER, done=False))


def failed_and_corrupt(folder: Path) -> None:
    fail(make(folder, HEADER + "1,a,a,probe,abc,1\n", done=False))


def without_points(folder: Path) -> None:
    (make(folder, done=False) / "points.csv").unlink()


def only_failed(folder: Path) -> None:
    folder.mkdir(parents=True)
    fail(folder)


def broken_config(folder: Path) -> None:
    (make(folder) / "run.json").write_text("{")


# What is wrong with a run that cannot be read, and what must be said of it.
UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "failed": (failed, f"ewc-0: the run failed: {FAILURE}"),
    "failed and corrupt": (failed_and_corrupt, f"ewc-0: the run failed: {FAILURE}"),
    "run.json only": (without_points, "ewc-0: no points.csv in it, no evaluation was recorded"),
    "failed.json only": (only_failed, f"ewc-0: the run failed: {FAILURE}"),
    "broken run.json": (broken_config, "run.json: "),
    "header only": (lambda f: make(f, HEADER, done=False), "no evaluations"),
    "0 bytes": (lambda f: make(f, "", done=False), "points.csv: no evaluations, the file is empty"),
    "0 bytes, done": (lambda f: make(f, ""), "points.csv: no evaluations, the file is empty"),
    "corrupt": (lambda f: make(f, HEADER + "1,a,a,probe,abc,1\n"), "line 2: score is 'abc'"),
    "nan": (lambda f: make(f, HEADER + "1,a,a,probe,nan,1\n"), "line 2: score is 'nan'"),
    "other": (lambda f: make(f, HEADER + "1,a,a,probe,7,1\n"), "score is 7"),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["curves", "heatmaps", "ranks"])
@pytest.mark.parametrize("what", UNREADABLE)
def test_the_others_are_shown_and_the_reason_is_said(
    store: Path, tmp_path: Path, what: str, kind: str
) -> None:
    make_bad, reason = UNREADABLE[what]
    make_bad(store / "ewc-0")
    answer = run("plot", kind, store, "-o", tmp_path / "x.svg")
    assert answer.code == 0, answer.err
    assert answer.err.startswith("perdure: note: left out: ")
    assert (answer.err.count("note: "), reason in answer.err) == (1, True), answer.err
    text = (tmp_path / "x.svg").read_text()
    assert "gem" in text
    assert "ewc" not in text
    answer = run("report", store, "-o", tmp_path / "x.html")
    assert (answer.code, reason in answer.err) == (0, True), answer.err
    text = unescape((tmp_path / "x.html").read_text())
    assert reason in text  # who is sent the page sees it too
    assert result_rows(text) == [("gem", "2"), ("si", "2")]


@pytest.mark.parametrize("what", UNREADABLE)
def test_nothing_left_is_one_line(tmp_path: Path, what: str) -> None:
    make_bad, reason = UNREADABLE[what]
    make_bad(tmp_path / "runs" / "ewc-0")
    make_bad(tmp_path / "runs" / "mas-0")
    for command in (("plot", "curves"), ("plot", "ranks"), ("report",)):
        line = refused(*command, tmp_path / "runs", "-o", tmp_path / "x.pdf")
        assert reason in line
        assert "1 other run cannot be shown either" in line


@pytest.mark.parametrize("what", UNREADABLE)
def test_the_live_page_shows_the_others_and_says_what_is_wrong(store: Path, what: str) -> None:
    make_bad, _ = UNREADABLE[what]
    make_bad(store / "ewc-0")
    watching = StoreWatcher(store)
    watching.poll()
    for name in ("gem-0", "gem-1", "si-0", "si-1"):
        row = watching.listing[name]
        assert row.acc == pytest.approx(0.5 + 0.1 / 3, abs=1e-6)
        assert row.problem == ""
    problem = watching.listing["ewc-0"].problem
    if "failed" in what:
        assert problem.startswith(FAILURE)
    elif what == "broken run.json":
        assert problem.startswith("run.json cannot be read: ")
    elif what in ("corrupt", "nan", "other"):
        assert problem.startswith("cannot be read: ")
    else:
        assert problem == "no evaluations were recorded"


def test_a_run_that_failed_later_is_shown_as_far_as_it_came(store: Path, tmp_path: Path) -> None:
    folder = make(store / "ewc-0", points(2), done=False)
    fail(folder)
    answer = run("report", store, "-o", tmp_path / "x.html")
    said = f"{folder}: the run failed ({FAILURE}): scored over 2 finished tasks"
    assert answer.err == f"perdure: note: {said}\n"
    text = unescape((tmp_path / "x.html").read_text())
    assert said in text
    assert '<tr><th scope="row">ewc</th>' in text
    assert '<h2 class="part" id="part-2">' in text
    assert said.partition(": ")[2] in read_input(str(folder)).notes


def test_a_report_says_how_to_leave_unfinished_runs_out(store: Path, tmp_path: Path) -> None:
    make(store / "ewc-0", points(2), done=False)
    answer = run("report", store, "-o", tmp_path / "x.html")
    assert "note: 1 unfinished run is shown up to the last finished task; --finished" in answer.err
    assert "shown up to" not in run("report", store, "--finished", "-o", tmp_path / "y.html").err


def test_a_run_that_may_only_lack_its_close_says_so(tmp_path: Path) -> None:
    hint = "if training has ended, evaluator.close() was not called"
    ended = make(tmp_path / "er-0", points(3), done=False)
    assert hint in "".join(read_input(str(ended)).notes)
    midway = make(tmp_path / "er-1", points(2) + "5,t2,t0,probe,0.5,10\n", done=False)
    notes = "".join(read_input(str(midway)).notes)
    assert "unfinished" in notes
    assert hint not in notes


def test_no_task_ended_before_a_failure(tmp_path: Path) -> None:
    first = "".join(points(1).splitlines(keepends=True)[:2])
    fail(make(tmp_path / "ewc-0", first, done=False))
    why = f"the run failed ({FAILURE}) and no task has ended yet"
    assert open_run(tmp_path / "ewc-0").no_matrix == why
    assert why in refused("plot", "heatmaps", tmp_path / "ewc-0", "-o", tmp_path / "x.svg")


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_seed_with_fewer_tasks_does_not_shorten_the_curves_of_its_method(
    store: Path, tasks: int
) -> None:
    whole = figures.curves(open_methods([str(store)])[0])
    make(store / "gem-2", points(tasks), done=False, seed=2)
    methods, notes = open_methods([str(store)])
    assert notes == []
    with pytest.warns(LeftOutWarning, match=rf"gem-2: {tasks} task.* have 3; it is unfinished"):
        cut = figures.curves(methods)
    for one, other in zip(whole.axes, cut.axes, strict=True):
        for mine, theirs in zip(one.lines, other.lines, strict=True):
            np.testing.assert_array_equal(mine.get_data(), theirs.get_data())


def test_a_report_shows_runs_of_every_number_of_tasks(tmp_path: Path) -> None:
    for k, tasks in enumerate((3, 3, 2, 1)):
        make(tmp_path / f"a-{k}", points(tasks, 0.1 * k), seed=k)
    methods, _ = open_methods([f"mine={tmp_path}/a-*"])
    text = render_page(methods)
    assert result_rows(text) == [
        ("mine (3 tasks)", "2"),
        ("mine (2 tasks)", "1"),
        ("mine (1 task)", "1"),
    ]
    assert "no number says which is better across parts" in text
    assert "runs of mine have 1 or 2 or 3 tasks and are shown separately" in text
    for k in range(4):
        assert f"a-{k}" in text


def test_missing_costs_are_no_reason_to_leave_a_run_out(store: Path, tmp_path: Path) -> None:
    assert not list(store.rglob("costs.csv"))
    answer = run("report", store, "-o", tmp_path / "x.html")
    assert (answer.code, answer.err) == (0, "")


def test_a_study_names_what_failed(store: Path, tmp_path: Path) -> None:
    """Its failed runs are left out of a figure, and named."""
    from perdure.studies import read_study

    shutil.rmtree(store)
    file = tmp_path / "mine.toml"
    file.write_text('scenarios = ["split-digits"]\nstrategies = ["naive"]\nseeds = 4\n')
    study = read_study(file)
    good, bad, corrupt, _ = study.make_configs(study.cells[0], {})
    make(store / good.folder)
    fail(make(store / bad.folder, HEADER, done=False))
    make(store / corrupt.folder, HEADER + "1,a,a,probe,abc,1\n")
    answer = run("plot", "curves", file, "--store", store, "-o", tmp_path / "x.svg")
    assert answer.code == 0, answer.err
    assert f"left out: {store / bad.folder}: the run failed: {FAILURE}" in answer.err
    assert "line 2: score is 'abc'" in answer.err
    assert "1 runs of the study are not finished" in answer.err


def test_finished_leaves_the_others_out_and_says_so(store: Path, tmp_path: Path) -> None:
    make(store / "gem-2", points(2), done=False, seed=2)
    page = tmp_path / "report.html"
    whole = run("report", str(store), "-o", str(page))
    assert "gem (2 tasks)" in page.read_text()
    assert "option finished of perdure report leaves unfinished runs out" in page.read_text()
    finished = run("report", str(store), "--finished", "-o", str(page))
    assert "(2 tasks)" not in page.read_text()
    assert "--finished" in page.read_text()  # in the command that makes the page again
    assert "left out: 1 unfinished run: " in finished.err
    assert "gem-2" in finished.err
    assert "left out" not in whole.err
    only = make(tmp_path / "other" / "si-0", done=False)
    assert "drop --finished" in refused("report", str(only), "--finished", "-o", str(page))


def test_runs_left_out_for_one_reason_share_a_note() -> None:
    """A store of fifty runs without gradients is no reason for fifty lines."""
    one = ScoreInput(ScoreMatrix([[0.9]]))
    two = ScoreInput(ScoreMatrix([[0.9, 0.1], [0.6, 0.8]]))
    with pytest.warns(LeftOutWarning) as caught:
        kept = drop_other_task_counts({"er": [two] * 6 + [one] * 5}, together=True)
    assert len(kept["er"]) == 6
    assert [str(warning.message) for warning in caught] == [
        "left out: run 7 of er, run 8 of er, run 9 of er and 2 more: 1 task where most runs have 2"
    ]
