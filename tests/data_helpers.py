"""Packs made by hand, real packs where they are, and a hub on this machine."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import duckdb
import numpy as np
import pytest
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
TOKEN = "hf_this_must_never_be_printed"
DIGITS = tuple("0123456789")


def mirror() -> Path:
    """Return the folder of real packs, or skip the test."""
    folder = os.environ.get("PERDURE_DATA")
    path = Path(folder) if folder else Path(__file__).parents[2] / "shared" / "data"
    if not (path / "mnist" / "train.parquet").is_file():
        pytest.skip("needs the real packs: set PERDURE_DATA to their folder")
    return path


def picture(pixels: NDArray[np.uint8], kind: str = "PNG") -> bytes:
    """Return the file of an image."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def grey(n: int, seed: int = 0, size: tuple[int, int] = (28, 28)) -> NDArray[np.uint8]:
    """Return random grey images."""
    return np.random.default_rng(seed).integers(0, 256, (n, *size), dtype=np.uint8)


def write_parquet(
    path: Path,
    files: Sequence[bytes | None],
    labels: Sequence[int | None],
    *,
    names: Sequence[str] | None = DIGITS,
    image: str = "image",
    label: str = "label",
) -> Path:
    """Write images and labels the way the hub keeps them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    features = {image: {"_type": "Image"}, label: {"names": names, "_type": "ClassLabel"}}
    said = json.dumps({"info": {"features": features if names is not None else {}}})
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE rows (k INTEGER, data BLOB, label BIGINT)")
        rows = [[k, *row] for k, row in enumerate(zip(files, labels, strict=True))]
        if rows:
            connection.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)
        escaped = said.replace("'", "''")
        connection.execute(
            f"COPY (SELECT {{'bytes': data, 'path': 'k' || k}} AS \"{image}\", label AS \"{label}\""
            f" FROM rows ORDER BY k) TO '{path}' (FORMAT parquet, KV_METADATA "
            f"{{huggingface: '{escaped}'}})"
        )
    return path


def write_pack(
    folder: Path, train: int = 30, test: int = 10, seed: int = 0
) -> dict[str, NDArray[np.uint8]]:
    """Write a small pack of grey images labelled 0, 1, …, 9, 0, …, and return the images."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, n, k in (("train", train, seed), ("test", test, seed + 1)):
        (folder / f"{split}.parquet").write_bytes(_packed(n, k))
    return {"train": grey(train, seed), "test": grey(test, seed + 1)}


@cache
def _packed(n: int, seed: int) -> bytes:
    files = [picture(one) for one in grey(n, seed)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pack.parquet"
        return write_parquet(path, files, [k % 10 for k in range(n)]).read_bytes()


def tree(folder: Path) -> dict[str, str]:
    """Return path -> SHA-256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Hub:
    """A hub that serves one repository, redirects to another port for bytes, and can misbehave."""

    def __init__(self, repository: str, files: dict[str, bytes]) -> None:
        self.repository, self.files, self.commit = repository, files, COMMIT
        self.seen: list[tuple[str, dict[str, str]]] = []  # path, headers of each request
        self.cut: dict[str, list[int]] = {}  # file -> bytes after which the next answers break off
        self.served: dict[str, bytes] = {}  # file -> what is sent instead
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}  # prefix -> answer
        self.ranges = True
        self.stall: threading.Event | None = None  # sends half of a file, then waits for this
        self.stalled = threading.Event()
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), self._handler()) for _ in range(2)]
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.url, self._bytes = (f"http://127.0.0.1:{s.server_address[1]}" for s in self._servers)

    def close(self) -> None:
        if self.stall is not None:
            self.stall.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def asked(self, part: str) -> list[dict[str, str]]:
        """Return the headers of all requests with `part` in their path."""
        return [headers for path, headers in self.seen if part in path]

    def description(self) -> dict[str, Any]:
        siblings = [
            {
                "rfilename": path, "size": len(data), "blobId": "0" * 40,
                "lfs": {
                    "size": len(data), "pointerSize": 130,
                    "sha256": hashlib.sha256(data).hexdigest(),
                },
            }
            for path, data in self.files.items()
        ]  # fmt: skip
        return {
            "id": self.repository, "sha": self.commit, "siblings": siblings, "private": False,
            "disabled": False, "gated": False, "downloads": 0, "likes": 0, "tags": [],
        }  # fmt: skip

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

            def do_GET(self) -> None:
                with suppress(ConnectionError):
                    hub._answer(self, unquote(urlsplit(self.path).path))

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler, path: str) -> None:
        self.seen.append((path, {key.lower(): value for key, value in request.headers.items()}))
        for prefix, answer in self.answers.items():
            if path.startswith(prefix):
                return self._send(request, *answer)
        api, resolve = f"/api/datasets/{self.repository}", f"/datasets/{self.repository}/resolve/"
        if path in (api, f"{api}/revision/main", f"{api}/revision/{self.commit}"):
            return self._send(request, 200, {}, json.dumps(self.description()).encode())
        if path.startswith(f"{api}/revision/"):
            return self._send(request, 404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
        if path.startswith("/api/"):
            return self._send(request, 401, {"X-Error-Message": "Invalid username"}, b"{}")
        if path.startswith(resolve + self.commit + "/"):
            to = self._bytes + "/bytes/" + path.removeprefix(resolve + self.commit + "/")
            return self._send(request, 302, {"Location": to}, b"")
        name = path.removeprefix("/bytes/")
        return self._send_file(request, name, self.served.get(name, self.files.get(name, b"")))

    def _send_file(self, request: BaseHTTPRequestHandler, name: str, data: bytes) -> None:
        first, asked = 0, request.headers.get("Range")
        if asked and self.ranges:
            first = int(asked.removeprefix("bytes=").split("-")[0])
            if first >= len(data):
                return self._send(request, 416, {"Content-Range": f"bytes */{len(data)}"}, b"")
        body, cut = data[first:], self.cut.get(name, [])
        request.send_response(206 if first else 200)
        request.send_header("Content-Length", str(len(body)))
        if first:
            request.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        request.end_headers()
        if self.stall is not None:
            request.wfile.write(body[: len(body) // 2])
            request.wfile.flush()
            self.stalled.set()
            self.stall.wait(60)
            body = body[len(body) // 2 :]
        if cut:
            body = body[: cut.pop(0)]
            request.close_connection = True
        request.wfile.write(body)
        return None

    def _send(
        self, request: BaseHTTPRequestHandler, code: int, headers: dict[str, str], body: bytes
    ) -> None:
        request.send_response(code)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.write(body)
