"""Watching a store: read as it grows, and whatever stands in it, it goes on."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from perdure.record import (
    IncrementalPoints,
    RunFolder,
    RunWriter,
    open_run,
    read_points,
    run_folder,
)
from perdure.record.io.folder import read_range
from perdure.report.live import run_entry as entry_module
from perdure.report.live.broadcaster import CurvePoints
from perdure.report.live.list_row import StudyProgress
from perdure.report.live.store_watcher import StoreWatcher
from perdure.studies import make_study, run_study

from .live_helpers import HEADER, SMALL, append, make_run, unlimited_reads
from .report_helpers import store as real_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perdure.execution.jobs import Job

__all__ = ["unlimited_reads"]  # a fixture

pytestmark = pytest.mark.usefixtures("unlimited_reads")


def drawn(watching: StoreWatcher, name: str) -> dict[str, Any]:
    said = watching.curves(name)
    assert said is not None
    found: dict[str, Any] = json.loads(said)
    return found


def settle(watching: StoreWatcher, viewed: tuple[str, ...] = ()) -> None:
    """Poll until everybody was asked."""
    for _ in range(25):
        watching.poll(viewed)


def test_a_real_store_shows_what_reading_the_runs_whole_gives() -> None:
    store = real_store(("naive", "gem"), 1)
    watching = StoreWatcher(store)
    settle(watching)
    assert len(watching.listing) == 2
    for name, row in watching.listing.items():
        run = open_run(store / name)
        assert run.stream is not None
        found = run.summary().metrics
        assert row.acc == pytest.approx(found["acc"], abs=1e-6)
        assert row.min_acc == pytest.approx(found["min_acc"], abs=1e-6)
        assert (row.state, row.tasks, row.of, row.strategy) == (
            "finished", 5, 5, name.split("-")[2],
        )  # fmt: skip
        curves = drawn(watching, name)
        for task in curves["tasks"]:
            steps, scores = run.stream.tasks[task["name"]]
            assert task["steps"] == steps.tolist()
            assert task["scores"] == pytest.approx(scores, abs=1e-6)
        assert [last for _, _, last in curves["spans"]] == [v.last for v in run.stream.spans]
        assert len(curves["costs"]) == 5


def test_numbers_by_hand(tmp_path: Path) -> None:
    make_run(tmp_path / "r")
    watching = StoreWatcher(tmp_path)
    settle(watching)
    row = watching.listing["r"]
    assert (row.acc, row.min_acc, row.step, row.tasks) == (0.45, 0.3, 3, 1)
    curves = drawn(watching, "r")
    assert curves["worst"] == {"0": [3, 0.3, 0.9]}
    assert curves["spans"] == [[0, 1, 2], [1, 3, 3]]
    assert curves["mean"] == {"steps": [1, 2, 3], "scores": [0.5, 0.9, 0.45]}


def test_the_lowest_point_is_drawn_of_a_long_run(tmp_path: Path) -> None:
    scores = [0.9] * 30_000
    scores[17_777] = 0.123
    lines = "".join(f"{k + 1},a,a,probe,{score},10\n" for k, score in enumerate(scores))
    make_run(tmp_path / "r", HEADER + lines)
    (task,) = drawn(StoreWatcher(tmp_path), "r")["tasks"]
    assert len(task["steps"]) <= 2000
    assert task["scores"][task["steps"].index(17_778)] == 0.123


def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "r", SMALL + "".join(f"{k},b,b,probe,0.5,9\n" for k in range(4, 900)))
    watching = StoreWatcher(tmp_path)
    watching.poll({"r"})
    read: list[int] = []
    plain = read_range

    def counted(folder: int, name: str, start: int, most: int) -> bytes:
        data = plain(folder, name, start, most)
        if name == "points.csv":
            read.append(len(data))
        return data

    monkeypatch.setattr(run_folder, "read_range", counted)
    assert not watching.poll({"r"}).points
    assert not read
    append(run, "900,b,a,probe,0.25,9")
    said = watching.poll({"r"}).points["r"]
    assert said.curves == {0: CurvePoints([900], [0.25])}
    assert said.rows == said.since + 1
    assert sum(read) < 200  # the new line, and a few bytes before it


def test_a_torn_line_waits_for_its_end(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", SMALL + "4,b,b,pro", done=False)
    watching = StoreWatcher(tmp_path)
    watching.poll({"r"})
    assert watching.listing["r"].step == 3
    assert watching.listing["r"].problem == ""
    append(run, "be,0.75,10")
    said = watching.poll({"r"}).points["r"]
    assert said.curves == {1: CurvePoints([4], [0.75])}


def test_a_letter_cut_in_two_waits_for_its_end(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", HEADER + "1,é,é,probe,0.5,1\n", done=False)
    watching = StoreWatcher(tmp_path)
    watching.poll({"r"})
    line = "2,é,é,probe,0.75,1\n".encode()
    for piece in (line[:3], line[3:]):
        with (run / "points.csv").open("ab") as file:
            file.write(piece)
        changes = watching.poll({"r"})
    assert changes.points["r"].curves == {0: CurvePoints([2], [0.75])}


@pytest.mark.parametrize(
    "how", ["cut", "cut and grown", "replaced", "replaced, same end", "rewritten in place"]
)
def test_a_file_that_is_not_just_longer_is_read_anew(tmp_path: Path, how: str) -> None:
    long = SMALL + "".join(f"{k},b,a,probe,0.7,10\n" for k in range(4, 9))
    long += "4,b,b,probe,0.7,10\n5,b,b,probe,0.8,10\n"
    other = SMALL + "4,b,b,probe,0.1,10\n"
    run = make_run(tmp_path / "r", long, done=False)
    watching = StoreWatcher(tmp_path)
    watching.poll({"r"})
    path = run / "points.csv"
    if how.startswith("replaced"):
        path.rename(run / "before")  # so that the new one is another file
        same_end = long.replace("3,b,b,probe,0.6", "3,b,b,probe,0.2")
        path.write_text(other if how == "replaced" else same_end + "6,b,b,probe,0.9,10\n")
    elif how == "rewritten in place":
        path.write_text(long.replace("5,b,b,probe,0.8", "5,b,b,probe,0.1") + "6,b,b,probe,0.1,10\n")
    else:
        os.truncate(path, len(SMALL))
        if how == "cut and grown":  # as a run does that goes on from its checkpoint
            append(run, "4,b,b,probe,0.2,10", "5,b,b,probe,0.2,10", "6,b,b,probe,0.2,10")
    changes = watching.poll({"r"})
    assert changes.redraw == ["r"]
    assert not changes.points
    expected = read_points(path.read_text(), "p").stream().tasks["b"]
    b = drawn(watching, "r")["tasks"][1]
    assert b["steps"] == expected[0].tolist()
    assert b["scores"] == expected[1].tolist()


def test_runs_come_go_and_come_again(tmp_path: Path) -> None:
    watching = StoreWatcher(tmp_path)
    run = make_run(tmp_path / "r")
    assert list(watching.poll().rows) == ["r"]
    shutil.rmtree(run)
    assert watching.poll().gone == ["r"]
    assert watching.curves("r") is None
    make_run(tmp_path / "r", done=False)
    changes = watching.poll()
    assert list(changes.rows) == ["r"]
    assert watching.listing["r"].state == "interrupted"


def test_a_run_made_in_the_same_moment_as_the_list_is_found(tmp_path: Path) -> None:
    moment = (
        time.time_ns() + 10**12,
    ) * 2  # a clock so coarse that it does not say that something changed
    os.utime(tmp_path, ns=moment)
    watching = StoreWatcher(tmp_path)
    make_run(tmp_path / "r")
    os.utime(tmp_path, ns=moment)
    assert list(watching.poll().rows) == ["r"]


def test_a_folder_that_is_emptied_or_begun_is_followed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    (tmp_path / "empty").mkdir()
    watching = StoreWatcher(tmp_path)
    assert list(watching.listing) == ["r"]
    for file in run.iterdir():
        file.unlink()
    make_run(tmp_path / "empty" / "later")
    settle(watching, ("r",))
    assert list(watching.listing) == ["empty/later"]


def test_a_run_that_is_locked_runs_and_then_ends(tmp_path: Path) -> None:
    watching = StoreWatcher(tmp_path)
    with RunWriter(tmp_path / "r", {"config": {"strategy": "gem"}}) as writer:
        assert RunFolder(tmp_path / "r").is_locked()
        writer.append_points(["1,a,a,probe,0.5,2"])
        watching.poll()
        assert watching.listing["r"].state == "running"
        assert watching.listing["r"].acc == 0.5
        writer.append_points(["2,a,a,probe,0.75,2"])
        watching.poll()  # nobody looks at it, but it runs
        assert watching.listing["r"].acc == 0.75
        writer.finish()
    watching.poll()
    assert watching.listing["r"].state == "finished"


def test_a_run_whose_process_died_is_interrupted_and_one_that_failed_says_why(
    tmp_path: Path,
) -> None:
    dead = make_run(tmp_path / "dead", done=False)
    (dead / "lock").write_text(json.dumps({"pid": 2**22 + 1, "host": os.uname().nodename}))
    failed = make_run(tmp_path / "failed", done=False)
    (failed / "failed.json").write_text(json.dumps({"error": "loss is nan <b>"}))
    listing = StoreWatcher(tmp_path).listing
    assert listing["dead"].state == "interrupted"
    assert (listing["failed"].state, listing["failed"].problem) == ("failed", "loss is nan <b>")


BAD_JSON = {
    "torn": b'{"config": {"strat',
    "deep": b"[" * 100_000,
    "deep inside": b'{"config": {"strategy": ' + b"[" * 100_000,
    "not text": b"\xff\xfe\x00",
    "list": b"[1, 2]",
    "wrong kinds": b'{"config": {"strategy": {"a": 1}, "seed": "x", "tasks": 7, "scenario": 5},'
    b' "scale": {"low": "a"}, "setting": [1], "versions": 3, "created": {}}',
    "describe is text": b'{"config": "<script>"}',
    "huge number": b'{"config": {"seed": ' + b"9" * 400 + b"}}",
    "huge": b'{"config": {"strategy": "' + b"x" * (5 << 20) + b'"}}',
    "long": b'{"config": {"strategy": "' + b"x" * 100_000 + b'"}}',
    "empty": b"",
}


def test_whatever_run_json_says_the_scores_are_shown(tmp_path: Path) -> None:
    for name, data in BAD_JSON.items():
        (make_run(tmp_path / name) / "run.json").write_bytes(data)
    watching = StoreWatcher(tmp_path)
    settle(watching)
    assert watching.listing.keys() == BAD_JSON.keys()
    for name, row in watching.listing.items():
        assert row.acc == 0.45, name
        assert len(row.strategy) <= 200
        assert len(row.problem) <= 300
        assert len(drawn(watching, name)["tasks"]) == 2
    for name in ("torn", "deep", "not text", "list", "huge", "empty"):
        assert "run.json cannot be read" in watching.listing[name].problem, name


BAD_POINTS: dict[str, str | bytes] = {
    "no number": SMALL + "4,b,b,probe,x,10\n",
    "header": "what,is,this\n1,2,3\n",
    "fields": SMALL + "4,b\n",
    "not utf-8": SMALL.encode() + b"4,b,\xff\xff,probe,0.5,1\n",
    "NUL": SMALL + "4,b,\0,probe,0.5,1\n",
    "out of range": SMALL + "4,b,b,probe,7,1\n",
    "twice": SMALL + "3,b,b,probe,0.6,10\n",
    "quotes": SMALL + '4,"b' + "\n" * 10,
    "binary": bytes(range(256)) * 20,
    "empty": "",
}


def test_whatever_points_say_the_others_are_shown(tmp_path: Path) -> None:
    for name, data in BAD_POINTS.items():
        path = make_run(tmp_path / name) / "points.csv"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    make_run(tmp_path / "good")
    watching = StoreWatcher(tmp_path)
    settle(watching, ("quotes", "binary"))
    assert watching.listing["good"].acc == 0.45
    for name in BAD_POINTS.keys() - {"quotes", "empty"}:  # these two may still be written
        assert "cannot be read: points.csv" in watching.listing[name].problem, name
        drawn(watching, name)
    assert "points.csv line 6: score is 'x'" in watching.listing["no number"].problem


def test_a_broken_line_is_named_by_its_place_in_the_file() -> None:
    mine = IncrementalPoints("points.csv")
    for piece in (SMALL, "4,b,b,probe,0.5,1\n"):
        mine.add(piece.encode())
    with pytest.raises(ValueError, match=r"points.csv line 8: score is 'x'"):
        mine.add(b"5,b,b,probe,0.5,1\n6,b,b,probe,x,1\n")


def test_in_pieces_or_at_once_the_points_are_the_same() -> None:
    text = SMALL + '4,"b, ""c""\nd",a,full,0.25,3\n5,b,a,initial,0.5,\n'
    whole = read_points(text, "p")
    for size in (1, 7, 64):
        mine, waiting = IncrementalPoints("p"), b""
        for start in range(0, len(text), size):
            waiting += text[start : start + size].encode()
            waiting = waiting[mine.add(waiting) :]
        found = mine.points()
        assert found.names == whole.names
        for column in ("step", "trained", "tested", "kind", "score", "n"):
            assert (getattr(found, column) == getattr(whole, column)).all()


def test_links_out_of_the_store_are_not_followed(tmp_path: Path) -> None:
    secret = make_run(tmp_path / "outside" / "secret", strategy="secret-strategy")
    store = tmp_path / "store"
    run = make_run(store / "r")
    (store / "link").symlink_to(secret)
    (store / "shelf").mkdir()
    (store / "shelf" / "link").symlink_to(secret)
    for name in ("points.csv", "run.json", "costs.csv", "failed.json"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(secret / ("run.json" if name == "run.json" else "points.csv"))
    (store / "s.study.json").symlink_to(secret / "run.json")
    watching = StoreWatcher(store)
    settle(watching, ("r", "link"))
    assert set(watching.listing) == {"r", "link", "shelf/link"}
    assert watching.listing["link"].problem == "a link, which is not followed"
    for name in watching.listing:
        row, *rest = drawn(watching, name).values()
        assert {key for key in row if row[key]} <= {"name", "state", "changed", "problem", "score"}
        assert row["score"] in ("", "accuracy")  # what scores are called that say nothing
        assert rest == [[], []]  # nothing about the run, and no costs: no curves either


def test_pipes_and_folders_in_place_of_files_do_not_stop_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    for name in ("points.csv", "run.json", "costs.csv"):
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)
    (run / "failed.json").mkdir()
    os.mkfifo(make_run(tmp_path / "lock is a pipe", done=False) / "lock")
    other = make_run(tmp_path / "big lock", done=False)
    (other / "lock").write_bytes(b"[" * 100_000)
    watching = StoreWatcher(tmp_path)
    settle(watching, ("r", "big lock"))
    for name in ("big lock", "lock is a pipe"):
        assert watching.listing[name].state == "interrupted"
    assert "tasks" not in drawn(watching, "r")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    names = [b"caf\xe9", b"a\nb", b"<img src=x onerror=alert(1)>", "日本".encode(), b"a\\nb"]
    for name in names:
        make_run(tmp_path / os.fsdecode(name))
    watching = StoreWatcher(tmp_path)
    found = set(watching.listing)
    assert {"<img src=x onerror=alert(1)>", "日本", "caf\\udce9", "a\\nb"} <= found
    json.loads(watching.curves("caf\\udce9") or b"")


def test_a_run_itself_can_be_watched(tmp_path: Path) -> None:
    make_run(tmp_path / "mine")
    assert list(StoreWatcher(tmp_path / "mine").listing) == ["mine"]


def test_what_nobody_looks_at_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "r")
    watching = StoreWatcher(tmp_path)
    watching.poll({"r"})
    entry = watching._entries["r"]
    assert entry.run_curves is not None
    monkeypatch.setattr(entry_module, "KEEP_SECONDS", -1.0)
    settle(watching)
    assert entry.run_curves is None
    assert watching.listing["r"].acc == 0.45
    append(run, "4,b,b,probe,0.8,10")
    assert watching.poll({"r"}).redraw == ["r"]  # whoever looks again starts anew


def test_a_study_is_counted_by_its_runs(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    run = make_run(tmp_path / "b", done=False)
    said = {"study": {"name": "s"}, "runs": ["a", "b", "c", "a"], "later": 5}
    (tmp_path / "s.study.json").write_text(json.dumps(said))
    (tmp_path / "old.study.json").write_text('{"study": {}, "selections": []}')
    (tmp_path / "bad.study.json").write_text('{"runs": {"x": 1}}')
    watching = StoreWatcher(tmp_path)
    (study,) = watching.studies
    assert (study.name, study.done, study.running, study.failed, study.waiting) == ("s", 1, 0, 0, 7)
    (run / "failed.json").write_text('{"error": "no"}')
    settle(watching)
    assert (watching.studies[0].failed, watching.studies[0].waiting) == (1, 6)


def test_a_study_says_what_is_to_come_before_it_comes(tmp_path: Path) -> None:
    plain = {
        "scenarios": ["split-digits"], "strategies": ["naive", "ewc"], "seeds": 3,
        "strategy": {"ewc": {"grid": {"strength": [1, 10]}}},
    }  # fmt: skip
    seen = []

    def execute(jobs: Sequence[Job], told: object) -> None:
        seen.append(StoreWatcher(tmp_path).studies)

    run_study(make_study(plain, "mine"), tmp_path, execute, lambda job, message: None)
    # Three of naive and two of the search of ewc are known, three of ewc follow.
    assert seen == [[StudyProgress("mine", done=0, running=0, failed=0, waiting=8)]]


def test_ten_thousand_runs_are_listed_and_cost_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_run(tmp_path / "one")
    for k in range(10_000):
        folder = tmp_path / "store" / f"run-{k:05}"
        folder.mkdir(parents=True)
        for name in ("run.json", "points.csv", "done.json"):
            os.link(one / name, folder / name)
    asked: list[str] = []
    plain = entry_module.RunEntry._refresh

    def counted(self: entry_module.RunEntry, run: RunFolder) -> None:
        asked.append(self.name)
        plain(self, run)

    monkeypatch.setattr(entry_module.RunEntry, "_refresh", counted)
    watching = StoreWatcher(tmp_path / "store")
    assert len(watching.listing) == 10_000
    assert len(asked) == 10_000
    asked.clear()
    for _ in range(20):
        watching.poll(read_others=False)
    assert not asked  # a stat or two a run is enough where nothing has changed
    assert list(watching.poll().rows)  # and the numbers come by and by
    assert {name for name, row in watching.listing.items() if row.acc == 0.45} != set()
