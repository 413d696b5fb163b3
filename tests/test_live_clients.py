"""The live page among clients who do not read, do not ask, or ask for more than there should be."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from perdure.metrics import Stream
from perdure.report.live import broadcaster as hub_module
from perdure.report.live import curves, server
from perdure.report.live import limits as patience
from perdure.report.live.broadcaster import Broadcaster, encode_changes
from perdure.report.live.curves import make_run_curves, to_curve_message
from perdure.report.live.store_watcher import StoreChanges, StoreWatcher

from .live_helpers import HEADER, Events, Live, append, make_run, new_points, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BIG = "/static/plot.js"  # more than a megabyte in tests with the fixture of this name


@pytest.fixture
def big(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a static file larger than all buffers on the way to a client."""
    file = server._compress(np.random.default_rng(0).bytes(1_200_000), "text/javascript")
    load = server._load
    monkeypatch.setattr(server, "_load", lambda name: file if name in BIG else load(name))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60  # only so that a fault does not hang the test
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def clients(live: Live, count: int, *said: bytes) -> Iterator[list[socket.socket]]:
    """Clients who say something each, and then neither read nor ask."""
    lines = []
    try:
        for k in range(count):
            lines.append(line := socket.socket())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(20)
            with suppress(ConnectionError):  # it may have to make room for the next ones
                line.connect(("127.0.0.1", live.port))
                line.sendall(said[k % len(said)])
        yield lines
    finally:
        for line in lines:
            line.close()


def asking(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def open_connections(live: Live) -> int:
    return len(live.server.server_state.connections)


def waiting_bytes(live: Live) -> int:
    """Everything that waits in connections to be read."""
    lines: list[Any] = list(live.server.server_state.connections)
    return sum(line.transport.get_write_buffer_size() for line in lines)


@pytest.mark.usefixtures("big")
def test_who_does_not_read_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "CLIENT_TIMEOUT", 1.0)
    with serving(tmp_path) as live, clients(live, 40, asking(BIG)):
        until(lambda: waiting_bytes(live) > 0)
        while open_connections(live):
            assert waiting_bytes(live) <= 40 * 4 * patience.CHUNK_BYTES
            assert live.ask("/")[0] == 200
            time.sleep(0.05)


@pytest.mark.usefixtures("big")
def test_who_reads_slowly_gets_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "CLIENT_TIMEOUT", 1.0)
    with serving(tmp_path) as live:
        whole = live.ask(BIG)[2]
        with clients(live, 1, asking(BIG)) as (line,):
            found, begin = b"", time.monotonic()
            while len(found) < len(whole):
                # Evenly over 2.5 s, which is longer than anybody may be silent.
                if time.monotonic() - begin < 2.5 * len(found) / len(whole):
                    time.sleep(0.01)
                part = line.recv(1 << 16)
                assert part
                found += part
    assert found.endswith(whole[: len(found)][-1000:])


def test_unread_answers_together_take_no_more_than_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = 1 << 20
    bodies = {f"r{k}": bytes([97 + k]) * one for k in range(12)}
    monkeypatch.setattr(patience, "MAX_UNSENT_BYTES", 3 * one)
    with serving(tmp_path) as live:
        monkeypatch.setattr(live.server.watcher, "curves", bodies.__getitem__)
        answers: Any = live.server.config.app
        with clients(live, 12, *(asking(f"/api/run/{name}") for name in bodies)):
            # The other nine are let go.
            tasks = live.server.server_state.tasks
            until(lambda: len(tasks) == 3 and answers.unsent_bytes() == 3 * one)
            for name, body in bodies.items():
                assert live.ask(f"/api/run/{name}")[2] == body
            assert answers.unsent_bytes() <= 3 * one
        with clients(live, 12, asking("/api/run/r0")):  # one answer to many is held once
            until(lambda: len(answers._unsent) == 12 and answers.unsent_bytes() == one)


def test_who_listens_and_does_not_read_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "one", done=False)
    monkeypatch.setattr(patience, "CLIENT_TIMEOUT", 0.5)
    monkeypatch.setattr(hub_module, "KEEPALIVE_SECONDS", 0.01)
    with serving(tmp_path, every=0.01) as live:
        deaf = clients(live, 5, asking("/events?run=one"))
        reader = Events(live.port)
        with deaf:
            until(lambda: len(live.server._broadcaster._viewers) == 6)
            step = 10
            deadline = time.monotonic() + 60  # only so that a fault does not hang the test
            while len(live.server._broadcaster._viewers) > 1:
                assert time.monotonic() < deadline
                names = [f"{'x' * 150}{step}-{k}" for k in range(50)]
                for name in names:
                    make_run(tmp_path / name)
                append(run, *(f"{step + k},b,b,probe,0.75,10" for k in range(100)))
                step += 100
                time.sleep(0.05)
        assert len(live.server._broadcaster._viewers) == 1
        reader.close()


def test_what_waits_for_a_viewer_is_bounded_in_bytes() -> None:
    hub = Broadcaster()
    slow = hub.join(frozenset(["r"]))
    for k in range(200):
        hub.send(encode_changes(StoreChanges(points={"r": new_points(k, 80_000)})))
        waiting = list(slow._pending._queue)  # type: ignore[attr-defined]
        assert (
            sum(map(len, waiting))
            < hub_module.MAX_PENDING_BYTES + hub_module.MAX_POINTS_BYTES + 100
        )
    huge = encode_changes(StoreChanges(points={"r": new_points(1, hub_module.MAX_POINTS_BYTES)}))
    assert huge.by_run["r"] == hub_module.encode_event(hub_module.CurvesChanged("r"))


def asked_again(live: Live, path: str) -> tuple[int, dict[str, str], bytes]:
    """Return an answer as a browser gets it: those who come after may close a first connection."""
    end = time.monotonic() + 60  # only so that a fault does not hang the test
    while time.monotonic() < end:
        with suppress(ConnectionError):
            return live.ask(path)
        time.sleep(0.05)
    return live.ask(path)


@pytest.mark.usefixtures("big")
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: loc",
        b"GET / HTTP/1.1\r\nX: x\r\n",
        asking("/"),
        asking(BIG),
    ],
)
def test_who_neither_asks_nor_reads_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(patience, "MAX_CONNECTIONS", 20)
    with serving(tmp_path) as live:
        viewer = Events(live.port)
        viewer.until("hello")
        with clients(live, 100, said):
            lines: Any = live.server.server_state.connections
            until(
                lambda: sum(not line.is_waiting() for line in list(lines)) <= 1
            )  # all but the viewer
            for _ in range(5):
                assert asked_again(live, "/api/runs")[0] == 200
                assert open_connections(live) <= 21
            make_run(tmp_path / "new")
            assert viewer.until("rows")["rows"][0]["name"] == "new"  # who listens stays
        viewer.close()


def test_a_body_without_end_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "CLIENT_TIMEOUT", 0.3)
    endless = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 9999
    )
    with serving(tmp_path) as live, clients(live, 10, endless):
        assert asked_again(live, "/")[0] == 200  # whoever came before has been let in by now
        until(lambda: open_connections(live) == 0)


@pytest.mark.usefixtures("big")
def test_runs_that_take_long_to_read_do_not_stop_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "one")
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def slowly(_: str) -> bytes:
        begun.release()
        assert go_on.wait(60)
        return b"{}"

    with serving(tmp_path) as live, ThreadPoolExecutor(60) as many:
        monkeypatch.setattr(live.server.watcher, "curves", slowly)
        asked = [many.submit(live.ask, "/api/run/one") for _ in range(60)]
        begun.acquire()
        until(lambda: len(live.server.server_state.tasks) >= 60)
        for path in ("/", "/api/runs", "/static/live.js", BIG):
            assert live.ask(path)[0] == 200
        go_on.set()
        assert {each.result()[0] for each in asked} == {200}


@pytest.mark.parametrize("tasks", [6000, pytest.param(60_000, marks=pytest.mark.slow)])
def test_a_store_with_very_many_tasks_answers(tmp_path: Path, tasks: int) -> None:
    lines = [f"{k},t{k},t{k},probe,0.5,10\n" for k in range(1, tasks + 1)]
    lines += [f"{tasks},t{tasks},t{k},full,0.25,10\n" for k in range(1, tasks + 1)]
    names = [f"t{k}" for k in range(1, tasks + 1)]
    wide = make_run(tmp_path / "wide", HEADER + "".join(lines), tasks=names)
    (wide / "costs.csv").write_text("task,seconds_train\n" + "".join(f"{t},1\n" for t in names))
    (tmp_path / "s.study.json").write_text(json.dumps({"runs": names, "later": 1}))
    make_run(tmp_path / "small")
    with serving(tmp_path) as live:
        assert live.ask("/")[0] == 200
        until(lambda: all(row["acc"] is not None for row in live.rows().values()))
        row = live.rows()["wide"]
        assert (row["tasks"], row["of"], row["acc"], row["min_acc"]) == (
            tasks, tasks, pytest.approx(0.25, abs=1e-4), 0.25,
        )  # fmt: skip
        assert row["problem"] == ""
        body = live.ask("/api/run/wide")[2]
    found = json.loads(body)
    assert (len(found["tasks"]), found["tasks_left_out"]) == (200, tasks - 200)
    assert len(body) < 200_000


def test_the_largest_answer_is_bounded() -> None:
    rng = np.random.default_rng(0)
    steps = np.arange(5000)
    stream = Stream({f"t{k}": (steps, rng.random(5000)) for k in range(250)})
    found = to_curve_message(make_run_curves(stream, 1, 1))
    points = len(found.mean.steps) + sum(len(task.steps) for task in found.tasks)
    assert curves.MAX_TOTAL_POINTS / 2 < points <= curves.MAX_TOTAL_POINTS


def test_one_answer_for_all_who_ask(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", done=False)
    watching = StoreWatcher(tmp_path)
    first = watching.curves("one")
    assert watching.curves("one") is first
    append(run, "4,b,b,probe,0.75,10")
    assert json.loads(watching.curves("one") or b"")["rows"] == 5


def test_a_file_of_ours_is_packed_once_for_all_who_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, packed = server._compress, []

    def slowly(data: bytes, type_: str) -> object:
        packed.append(type_)
        time.sleep(0.1)
        return plain(data, type_)

    server._load.cache_clear()
    monkeypatch.setattr(server, "_compress", slowly)
    with serving(tmp_path, every=1000) as live, ThreadPoolExecutor(20) as many:
        assert set(many.map(lambda _: live.ask("/static/live.js")[0], range(20))) == {200}
    assert packed == ["text/javascript"]


def test_a_run_that_takes_long_rests_before_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "one", done=False)
    watching = StoreWatcher(tmp_path)
    watching.poll(["one"])
    monkeypatch.setattr("perdure.report.live.run_entry.SLOW_READ", -1.0)
    monkeypatch.setattr("perdure.report.live.run_entry.PAUSE_FACTOR", 1e9)
    append(run, "4,b,b,probe,0.75,10")
    watching.poll(["one"])
    append(run, "5,b,b,probe,0.75,10")
    assert not watching.poll(["one"]).points
    assert json.loads(watching.curves("one") or b"")["rows"] == 6  # unless somebody asks


def test_uvicorn_has_what_the_limits_of_connections_use() -> None:
    """`TimeLimitedConnection` rests on parts of uvicorn that are not documented."""
    config = uvicorn.Config(lambda: None, http=patience.TimeLimitedConnection)
    config.load()
    loop = asyncio.new_event_loop()
    try:
        line = patience.TimeLimitedConnection(config, ServerState(), {}, _loop=loop)
        assert line.loop is loop
        assert line.connections == set()
        assert line.is_waiting()  # there is no request yet
    finally:
        loop.close()
    assert "response_complete" in inspect.getsource(RequestResponseCycle.__init__)
    for name in ("connection_made", "on_response_complete", "pause_writing", "resume_writing"):
        assert callable(getattr(H11Protocol, name))
