"""The live page's server: who may ask, what is answered, and how many may look at once."""

from __future__ import annotations

import gzip
import hmac
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from perdure.record import InputError
from perdure.report.live import broadcaster as hub_module
from perdure.report.live import open_port
from perdure.report.live.broadcaster import Broadcaster, encode_changes
from perdure.report.live.store_watcher import StoreChanges

from .cli_helpers import refused
from .live_helpers import Events, Live, append, make_run, new_points, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORD = "a-word-that-is-long"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    for name, strategy in (("one", "naive"), ("two", "gem"), ("<b>,&#?", "ewc")):
        make_run(folder / name, strategy=strategy)
    make_run(folder / "shelf" / "three", strategy="replay")
    (folder / "secret.txt").write_text("nobody asks for this")
    return folder


@pytest.fixture(scope="module")
def live(store: Path) -> Iterator[Live]:
    with serving(store) as found:
        yield found


@pytest.fixture(scope="module")
def locked(store: Path) -> Iterator[Live]:
    with serving(store, token=WORD) as found:
        yield found


def test_what_is_there_is_listed_and_drawn(live: Live) -> None:
    assert live.rows().keys() == {"one", "two", "<b>,&#?", "shelf/three"}
    for path in ("one", "%3Cb%3E%2C%26%23%3F", "shelf/three", "shelf%2Fthree"):
        found = live.json(f"/api/run/{path}")
        assert [task["name"] for task in found["tasks"]] == ["a", "b"]
        assert dict(found["details"])["strategy"] in ("naive", "ewc", "replay")


def test_runs_beside_each_other_have_the_colours_of_their_strategies(live: Live) -> None:
    found = live.json("/api/styles?run=one&run=two&run=nobody")
    assert found.keys() == {"one", "two"}
    assert (found["one"]["colour"], found["two"]["colour"]) == ("#6b6b6b", "#d55e00")


def test_runs_of_one_strategy_keep_its_colour_beside_others(tmp_path: Path) -> None:
    for name, strategy in (("a", "naive"), ("b", "naive"), ("c", "gem"), ("d", "")):
        make_run(tmp_path / name, strategy=strategy)
    with serving(tmp_path) as live:
        found = live.json("/api/styles?run=a&run=b&run=c&run=d")
        same = live.json("/api/styles?run=a&run=b")
    assert [found[name]["colour"] for name in "abc"] == ["#6b6b6b", "#6b6b6b", "#d55e00"]
    assert found["d"]["colour"] not in ("#6b6b6b", "#d55e00")
    assert [found[name]["dash"] for name in "abc"] == ["solid", "dashed", "solid"]
    assert same["a"]["colour"] != same["b"]["colour"]


@pytest.mark.parametrize("path", ["/", "/static/live.js", "/api/runs", "/nothing", "/api/run/x"])
def test_every_answer_tells_the_browser_what_to_allow(live: Live, path: str) -> None:
    _, headers, _ = live.ask(path)
    policy = headers["content-security-policy"]
    scripts = re.search(r"script-src ([^;]*)", policy)
    assert scripts is not None
    assert scripts[1] == "'self'"
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for part in ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"):
        assert part in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


def test_the_page_has_no_script_of_its_own_and_asks_nobody_else(live: Live) -> None:
    body = live.ask("/")[2].decode()
    assert re.findall(r"<script[^>]*>([^<]+)</script>", body) == []
    assert not re.search(r"\son\w+=|style=|https?:", body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"])
@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/run/one", "/static/live.js", "/events"])
def test_nothing_but_reading(live: Live, method: str, path: str) -> None:
    status, headers, _ = live.ask(path, method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/run/one", "/events", "/static/live.css"])
def test_head_has_no_body(live: Live, path: str) -> None:
    status, _, body = live.ask(path, "HEAD")
    assert (status, body) == (200, b"")


OUTSIDE = [
    "/static/../server.py",
    "/static/%2e%2e/server.py",
    "/static/..%2fserver.py",
    "/static/%2e%2e%2fserver.py",
    "/static/..%5cserver.py",
    "/static//etc/passwd",
    "/static/%2fetc%2fpasswd",
    "/static/live.js%00.css",
    "/static/",
    "/api/run/../secret.txt",
    "/api/run/secret.txt",
    "/api/run/%2e%2e",
    "/api/run/one/../../secret.txt",
    "/api/run/one%2f..%2f..%2fsecret.txt",
    "/api/run/one/points.csv",
    "/api/run//etc",
    "/api/run/%2fetc%2fpasswd",
    "/api/run/",
    "/api/run/.",
    "/api/run/%ff%fe",
    "/secret.txt",
    "/../secret.txt",
    "//secret.txt",
    "/%2e%2e/secret.txt",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out(live: Live, path: str) -> None:
    line = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = live.raw(line.encode("latin-1"))
    assert answer.split(b" ")[1] in (b"404", b"400"), answer[:200]
    assert b"nobody asks" not in answer
    assert b"root:" not in answer


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("127.0.0.1", 200), ("[::1]", 200), ("LOCALHOST:80", 200),
        ("127.0.0.1:8765", 200), ("[::1]:8765", 200),
        ("evil.example", 400), ("localhost.evil.example", 400), ("127.0.0.1.evil.example:80", 400),
        ("[::1].evil.example", 400), ("", 400), ("[::2]:80", 400), ("evil.example:127.0.0.1", 400),
    ],
)  # fmt: skip
def test_other_names_for_this_machine_are_refused(live: Live, host: str, status: int) -> None:
    assert live.ask("/api/runs", Host=host)[0] == status


@pytest.mark.parametrize("path", ["/", "/static/live.js", "/api/runs", "/api/run/one", "/events"])
@pytest.mark.parametrize(
    "given",
    ["", "?token=", "?token=wrong", f"?token={WORD}x", f"?token={WORD[:-1]}", "?token=%00%ff"],
)
def test_without_the_word_nothing_is_said(locked: Live, path: str, given: str) -> None:
    status, headers, body = locked.ask(path + given)
    assert status == 401
    assert "set-cookie" not in headers
    assert b"one" not in body.replace(b"one\x00", b"")
    assert "content-security-policy" in headers


@pytest.mark.parametrize("cookie", ["", "wrong", f"{WORD}x", 'a"b', "\xff", "=;=;" * 50])
def test_a_wrong_cookie_is_none(locked: Live, cookie: str) -> None:
    assert locked.ask("/api/runs", Cookie=f"perdure-{locked.port}={cookie}")[0] == 401


def test_the_word_becomes_a_cookie_and_leaves_the_address(locked: Live) -> None:
    assert locked.address.endswith(f"/?token={WORD}")
    status, headers, body = locked.ask(f"/?token={WORD}")
    assert (status, headers["location"], body) == (303, "/", b"")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert locked.ask("/api/runs", Cookie=cookie.split(";")[0])[0] == 200
    # Nor can the way back be chosen by whoever made the link.
    assert locked.ask(f"//evil.example/?token={WORD}")[1]["location"] == "/"


def test_the_word_is_compared_in_constant_time(
    locked: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    plain = hmac.compare_digest

    def noted(given: bytes, wanted: bytes) -> bool:
        seen.append(given)
        return plain(given, wanted)

    monkeypatch.setattr(hmac, "compare_digest", noted)
    assert locked.ask("/?token=guess")[0] == 401
    assert b"guess" in seen


def test_big_answers_are_packed_and_asked_for_once(live: Live) -> None:
    for path in ("/static/plot.js", "/api/runs", "/"):
        status, headers, body = live.ask(path, Accept_Encoding="gzip")
        assert (status, headers["content-encoding"]) == (200, "gzip")
        assert gzip.decompress(body) == live.ask(path)[2]
        again = live.ask(path, If_None_Match=headers["etag"])
        assert (again[0], again[2]) == (304, b"")


def test_what_is_appended_is_told_to_those_who_look(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "one", done=False), make_run(tmp_path / "two", done=False)
    with serving(tmp_path) as live:
        both, other = Events(live.port, "run=one&run=two"), Events(live.port, "run=two")
        assert both.until("hello")["rev"] >= 2
        assert other.until("hello")["id"] == live.json("/api/runs")["id"]
        both.until("redraw")
        both.until("redraw")
        append(one, "4,b,b,probe,0.75,10")
        said = both.until("points")
        assert (said["name"], said["points"]["curves"]) == (
            "one",
            {"1": {"steps": [4], "scores": [0.75]}},
        )
        append(two, "4,b,b,probe,0.25,10")
        assert other.until("points")["name"] == "two"
        both.close()
        other.close()


def test_a_new_and_a_deleted_run_are_told_to_all(tmp_path: Path) -> None:
    with serving(tmp_path) as live:
        viewer = Events(live.port)
        viewer.until("hello")
        run = make_run(tmp_path / "new")
        said = viewer.until("rows")
        assert [row["name"] for row in said["rows"]] == ["new"]
        for path in run.iterdir():
            path.unlink()
        run.rmdir()
        while "new" not in (said := viewer.until("rows"))["gone"]:
            assert said["rows"]
        assert live.rows() == {}
        viewer.close()


def test_a_hundred_look_at_once_and_all_are_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", done=False)
    with serving(tmp_path) as live:
        first = Events(live.port, "run=one")
        first.until("redraw")  # from here on it is told what is new
        viewers = [first, *(Events(live.port, "run=one") for _ in range(99))]
        for viewer in viewers[1:]:
            viewer.until("hello")
        append(run, "4,b,b,probe,0.75,10")
        for viewer in viewers:
            wanted = viewer.until("points")["points"]
            assert wanted["curves"] == {"1": {"steps": [4], "scores": [0.75]}}
        assert live.ask("/api/runs")[0] == 200
        for viewer in viewers:
            viewer.close()
        deadline = time.monotonic() + 60  # only so that a fault does not hang the test
        while live.server._broadcaster._viewers and time.monotonic() < deadline:
            append(run, f"{time.monotonic_ns()},b,b,probe,0.75,10")
            time.sleep(0.05)
        assert not live.server._broadcaster._viewers  # who left is forgotten


def test_who_does_not_keep_up_is_told_to_look_anew() -> None:
    hub = Broadcaster()
    slow = hub.join(frozenset(["r"]))
    for k in range(10_000):
        hub.send(encode_changes(StoreChanges(points={"r": new_points(k)})))
    assert slow._pending.qsize() <= hub_module.MAX_PENDING
    waiting = [slow._pending.get_nowait() for _ in range(slow._pending.qsize())]
    assert waiting[0] == hub_module.encode_event(hub_module.EventsDropped())
    assert b'"rows":9999' in (waiting[-1] or b"")


def test_there_is_an_end_to_how_many_may_look(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "MAX_VIEWERS", 0)
    assert live.ask("/events")[0] == 503


def test_a_deleted_store_leaves_an_empty_list(tmp_path: Path) -> None:
    run = make_run(tmp_path / "store" / "one")
    with serving(tmp_path / "store") as live:
        assert "one" in live.rows()
        for path in run.iterdir():
            path.unlink()
        run.rmdir()
        run.parent.rmdir()
        viewer = Events(live.port)
        viewer.until("hello")
        gone: list[str] = []
        while live.rows():  # a scan between two files finds that the run has changed
            gone += viewer.until("rows")["gone"]
        assert gone in ([], ["one"])
        make_run(tmp_path / "store" / "two")
        while "two" not in live.rows():
            viewer.until("rows")
        viewer.close()


def test_nonsense_is_refused_and_the_next_is_served(live: Live) -> None:
    live.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20)
    live.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 300_000 + b"\r\n\r\n")
    many = b"GET /api/styles?" + b"run=x&" * 3000 + b" HTTP/1.1\r\nHost: localhost\r\n"
    assert live.raw(many + b"Connection: close\r\n\r\n").endswith(b"\r\n\r\n{}")
    assert live.ask("/")[0] == 200


# The command.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-folder"], "no such folder"),
        ([".", "--host", "0.0.0.0"], "--token auto"),
        ([".", "--host", "::"], "--token auto"),
        ([".", "--host", "example.org"], "--token auto"),
        ([".", "--token", "short"], "at least 8"),
        ([".", "--token", "with blanks in it"], "letters or digits"),
        ([".", "--port", "70000"], "at most 65535"),
        ([".", "--port", "x"], "--port"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refused("watch", *arguments)


def test_a_port_that_is_taken() -> None:
    expected = pytest.raises(InputError, match="in use; choose another with `port=`")
    with open_port("127.0.0.1", 0) as taken, expected:
        open_port("127.0.0.1", taken.getsockname()[1])
    with open_port("127.0.0.1", None) as one, open_port("127.0.0.1", None) as two:
        assert one.getsockname()[1] < two.getsockname()[1]


def test_the_command_serves_and_ends_without_a_word(tmp_path: Path) -> None:
    make_run(tmp_path / "one")
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    arguments = [str(tmp_path), "--host", "0.0.0.0", "--port", "0", "--token", "auto"]
    program = subprocess.Popen(
        [sys.executable, "-m", "perdure", "watch", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert program.stdout is not None
    try:
        first, second = program.stdout.readline(), program.stdout.readline()
        found = re.search(r"1 run, shown at http://\S+:(\d+)/\?token=(\S{32})", first)
        assert found is not None, first
        port, token = int(found[1]), found[2]
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.sendall(
                f"GET /events?token={token} HTTP/1.1\r\nHost: any.example\r\n\r\n".encode()
            )
            cookie = re.search(rb"set-cookie: ([^;]+)", line.recv(4096))
        assert cookie is not None
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:  # one who listens
            asked = b"GET /events HTTP/1.1\r\nHost: any.example\r\nCookie: " + cookie[1]
            line.sendall(asked + b"\r\n\r\n")
            assert b"200 OK" in line.recv(4096)
            program.send_signal(signal.SIGINT)
            rest, errors = program.communicate(timeout=60)
    finally:
        program.kill()
        program.wait()
    assert (program.returncode, rest, errors) == (0, "", "")
    assert second == "Ctrl-C stops it\n"


def test_watching_needs_no_torch() -> None:
    code = "import sys, perdure.report.live; print('torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout.lower()) is False
