"""A live page that really serves, and plain ways to ask it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from perdure.report.live import LiveServer, open_port, run_entry, store_watcher
from perdure.report.live.broadcaster import KEEPALIVE_SECONDS, CurvePoints, NewPoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER = "step,trained,tested,kind,score,n\n"
PATIENCE = 120.0  # seconds: a busy machine is slow, and only a fault waits so long
SMALL = HEADER + "1,a,a,probe,0.5,10\n2,a,a,probe,0.9,10\n3,b,a,probe,0.3,10\n3,b,b,probe,0.6,10\n"


@pytest.fixture
def unlimited_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every poll read all that is new: on a busy machine any read may take long."""
    monkeypatch.setattr(run_entry, "SLOW_READ", float("inf"))
    monkeypatch.setattr(store_watcher, "READ_SECONDS", float("inf"))


def make_run(folder: Path, points: str = SMALL, *, done: bool = True, **described: Any) -> Path:
    """Make a run folder with these points, and return it."""
    folder.mkdir(parents=True)
    what = {"scenario": "split-x", "strategy": "naive", "seed": 0, "tasks": ["a", "b"], **described}
    (folder / "run.json").write_text(json.dumps({"config": what}))
    (folder / "points.csv").write_text(points)
    if done:
        (folder / "done.json").write_text("{}")
    return folder


def append(folder: Path, *lines: str) -> None:
    with (folder / "points.csv").open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def new_points(rows: int, count: int = 0) -> NewPoints:
    """Return a message about so many new points."""
    return NewPoints(1, 0, rows, {}, CurvePoints([], [0.5] * count), [], {})


class Live:
    """A server in a thread, and what it answers."""

    def __init__(self, server: LiveServer) -> None:
        self.server, self.address = server, server.address
        self.port: int = server._port.getsockname()[1]

    def ask(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            line.request(method, path, headers=named)
            answer = line.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            line.close()

    def json(self, path: str) -> Any:
        status, _, body = self.ask(path)
        assert status == 200, (path, status)
        return json.loads(body)

    def raw(self, data: bytes) -> bytes:
        """Send bytes as they are, and return the answer up to the end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as line:
            parts = []
            with suppress(ConnectionError):
                line.sendall(data)
                while part := line.recv(65536):
                    parts.append(part)
        return b"".join(parts)

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.json("/api/runs")["runs"]}


class Events:
    """One who listens: `until` reads events up to one that fits."""

    def __init__(self, port: int, query: str = "") -> None:
        self._line = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._line.sendall(f"GET /events?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self._file = self._line.makefile("rb")

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        kind, comments = "", 0
        for line in self._file:
            if line.startswith(b"event: "):
                kind = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                yield kind, json.loads(line[6:])
            comments += line.startswith(b":")
            assert comments * KEEPALIVE_SECONDS < PATIENCE, "nothing was said for long"

    def until(self, wanted: str) -> Any:
        for kind, said in self:
            if kind == wanted:
                return said
        raise AssertionError(f"the connection ended before {wanted}")

    def close(self) -> None:
        self._file.close()
        self._line.close()


@contextmanager
def serving(
    store: Path, *, every: float = 0.05, token: str | None = None, port: int = 0
) -> Iterator[Live]:
    """A live page on a free port of this machine."""
    opened = open_port("127.0.0.1", port)
    server = LiveServer(store, opened, "127.0.0.1", token=token, every=every)
    thread = threading.Thread(target=server.serve_here)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield Live(server)
    finally:
        server.end()
        thread.join(PATIENCE)
        opened.close()
        assert not thread.is_alive()
