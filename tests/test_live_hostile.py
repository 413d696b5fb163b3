"""The live page among hostile files, odd addresses, and viewers who come and do nothing."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from perdure.record import read_points
from perdure.report.live import LiveServer, open_port, run_entry
from perdure.report.live import limits as patience
from perdure.report.live import server as server_module
from perdure.report.live.curves import RunCurves, find_new_points, make_run_curves
from perdure.report.live.store_watcher import StoreWatcher

from .live_helpers import HEADER, SMALL, Events, append, make_run, serving, unlimited_reads

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["unlimited_reads"]  # a fixture

pytestmark = pytest.mark.usefixtures("unlimited_reads")
WORD = "a-word-that-is-long"


def test_a_link_to_itself_hides_no_run(tmp_path: Path) -> None:
    make_run(tmp_path / "good")
    (tmp_path / "loop").symlink_to("loop")
    assert StoreWatcher(tmp_path).listing.keys() == {"good"}


def test_scores_of_any_size(tmp_path: Path) -> None:
    points = "1,a,a,probe,1e308,1\n2,b,a,probe,1e308,1\n2,b,b,probe,1e308,1\n"
    run = make_run(tmp_path / "r", HEADER + points)
    (run / "run.json").write_text('{"scale": {"low": null, "high": null}}')
    watching = StoreWatcher(tmp_path)
    watching.poll()
    assert watching.listing["r"].problem == ""
    assert json.loads(watching.curves("r") or b"")["worst"]["0"][0] == 2


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("run.json", '{"scale": {"low": -1' + "0" * 400 + ', "high": null}}'),
        ("lock", "[" * 4000),
    ],
)
def test_one_odd_file_hides_no_run(tmp_path: Path, file: str, says: str) -> None:
    make_run(tmp_path / "good")
    (make_run(tmp_path / "odd", done=False) / file).write_text(says)
    watching = StoreWatcher(tmp_path)
    assert watching.listing["good"].acc is None or watching.listing["good"].acc > 0
    assert watching.listing["odd"].state == "interrupted"
    assert json.loads(watching.curves("odd") or b"")["row"]["acc"] == 0.45


def test_a_fault_of_ours_in_one_run_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        make_run(tmp_path / name, strategy=name)

    def faulty(*said: object) -> dict[str, object]:
        raise ZeroDivisionError("never thought of")

    monkeypatch.setattr("perdure.report.live.run_entry.summarize_points", faulty)
    watching = StoreWatcher(tmp_path)
    watching.poll()
    assert watching.listing.keys() == {"bad", "good"}
    assert "never thought of" in watching.listing["bad"].problem


def test_a_store_that_is_a_link_is_followed_like_any_other(tmp_path: Path) -> None:
    real = tmp_path / "disk" / "real"
    make_run(real / "old")
    (real / "s.study.json").write_text('{"runs": ["old"], "later": 1}')
    (tmp_path / "runs").symlink_to(real)
    watching = StoreWatcher(tmp_path / "runs")
    assert [study.done for study in watching.studies] == [1]
    time.sleep(0.15)  # past the moment in which a folder may change without a new time
    watching.poll()
    make_run(real / "new")
    assert "new" in watching.poll().rows


def test_a_folder_replaced_by_a_link_shows_nothing_from_there(tmp_path: Path) -> None:
    make_run(tmp_path / "outside" / "mine", strategy="secret")
    store = tmp_path / "store"
    make_run(store / "shelf" / "mine", strategy="open")
    watching = StoreWatcher(store)
    assert watching.listing["shelf/mine"].strategy == "open"
    (store / "shelf").rename(tmp_path / "away")
    (store / "shelf").symlink_to(tmp_path / "outside")
    assert b"secret" not in (watching.curves("shelf/mine") or b"")
    for _ in range(3):
        assert "secret" not in repr(watching.poll())
        assert b"secret" not in (watching.curves("shelf/mine") or b"")
    store.rename(tmp_path / "store-away")
    store.symlink_to(tmp_path / "outside")
    for _ in range(3):
        assert "secret" not in repr(watching.poll())


def test_long_points_are_read_to_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_entry, "PIECE_BYTES", 4096)
    long = HEADER + "".join(f"{k},a,a,probe,0.5,10\n" for k in range(1, 5001))
    make_run(tmp_path / "long", long)
    watching = StoreWatcher(tmp_path)
    for _ in range(20):
        watching.poll()
    assert watching.listing["long"].step == 5000
    (entry,) = watching._entries.values()
    assert not entry.unread


def test_a_great_leap_is_fetched_and_not_told() -> None:
    def view(rows: int) -> RunCurves:
        text = HEADER + "".join(f"{k},a,a,probe,0.5,1\n" for k in range(1, rows + 1))
        return make_run_curves(read_points(text, "points.csv").stream(), rows, 1)

    assert find_new_points(view(10), view(900)) is not None
    assert find_new_points(view(10), view(9000)) is None


def test_a_time_to_come_is_no_sign_of_life(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    (log / "points.csv").write_text(SMALL)
    assert StoreWatcher(tmp_path).listing["log"].state == "running"
    os.utime(log / "points.csv", (time.time() + 86400,) * 2)
    assert StoreWatcher(tmp_path).listing["log"].state == "interrupted"


# At the door.


@pytest.mark.parametrize("host", ["127.0.0.2", "::1", "localhost"])
def test_every_address_of_this_machine_only_answers_to_its_name(tmp_path: Path, host: str) -> None:
    try:
        opened = open_port(host, 0)
    except ValueError:
        pytest.skip(f"no {host} here")
    with opened:
        server = LiveServer(tmp_path, opened, host)
    with serving(tmp_path) as live:
        assert live.ask("/", Host=server.address.split("/")[2])[0] == 200
        assert live.ask("/", Host="127.0.0.2.evil.example")[0] == 400
        assert live.ask("/", Host="[127.0.0.1]")[0] == 400
        assert live.ask("/", Host="10.0.0.1")[0] == 400


@pytest.mark.parametrize(
    "before", ['a={"x": 1, "y": [2]}; ', "a b; ", "@=1; ", "é=ü; ", "perdure=x; ", ";;; "]
)
def test_cookies_of_others_do_not_lock_out(tmp_path: Path, before: str) -> None:
    with serving(tmp_path, token=WORD) as live:
        assert live.ask("/", Cookie=f"{before}perdure-{live.port}={WORD}")[0] == 200
        assert live.ask("/", Cookie=f"{before}perdure-{live.port}={WORD[:-1]}")[0] == 401


def test_the_word_leaves_the_address_though_it_is_known_already(tmp_path: Path) -> None:
    with serving(tmp_path, token=WORD) as live:
        cookie = f"perdure-{live.port}={WORD}"
        status, headers, _ = live.ask(f"/?token={WORD}", Cookie=cookie)
        assert (status, headers["location"]) == (303, "/")
        assert live.ask("/?token=old", Cookie=cookie)[0] == 200


def test_a_fault_is_answered_with_the_policy_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "one")
    with serving(tmp_path) as live:

        def faulty(name: str) -> bytes:
            raise ZeroDivisionError(name)

        monkeypatch.setattr(live.server.watcher, "curves", faulty)
        status, headers, body = live.ask("/api/run/one")
        assert status == 500
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert b"ZeroDivision" not in body


def test_no_other_page_is_let_in(tmp_path: Path) -> None:
    with serving(tmp_path) as live:
        for path in ("/", "/api/runs", "/events", "/nothing"):
            method = "HEAD" if path == "/events" else "GET"
            _, headers, _ = live.ask(path, method, Origin="http://evil.example")
            assert not [name for name in headers if name.startswith("access-control")]
            assert headers["x-frame-options"] == "DENY"
            assert headers["cross-origin-resource-policy"] == "same-origin"


# Viewers who come and do nothing.


def test_who_asks_nothing_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "CLIENT_TIMEOUT", 0.2)
    run = make_run(tmp_path / "one", done=False)
    with serving(tmp_path) as live:
        viewer = Events(live.port, "run=one")
        viewer.until("redraw")
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: loc", b"GET / HTTP/1.1\r\nX: x\r\n"):
            assert live.raw(begun) == b""
        again = live.raw(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\nGET")
        assert again.startswith(b"HTTP/1.1 404")
        append(run, "4,b,b,probe,0.75,10")  # who listens may do so for as long as they like
        assert viewer.until("points")["points"]["rows"] == 5
        viewer.close()


def test_a_hundred_who_ask_at_once_get_one_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "one")
    plain, written = server_module._compress, []

    def slowly(data: bytes, type_: str) -> object:
        written.append(type_)
        time.sleep(0.1)
        return plain(data, type_)

    with serving(tmp_path, every=1000) as live, ThreadPoolExecutor(20) as many:
        while live.rows()["one"]["acc"] is None:  # until the only poll is over
            time.sleep(0.01)
        live.server.watcher.rev += 1
        monkeypatch.setattr(server_module, "_compress", slowly)
        assert set(many.map(lambda _: live.ask("/api/runs")[0], range(20))) == {200}
    assert len(written) == 1
