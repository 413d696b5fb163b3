"""The live page's application: the page, the list of runs, the curves of a run, and events."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ..charts import MODULES, STYLE, read_file
from ..colours import colour_on_dark
from .broadcaster import Hello, TooManyViewersError, encode_changes, encode_event
from .curves import choose_run_styles
from .limits import AuthMiddleware, ChunkedResponses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from .broadcaster import Broadcaster
    from .list_row import ListRow, StudyProgress
    from .store_watcher import StoreWatcher

__all__ = ["make_app"]

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
FILES = ("index.html", "live.css", "live.js", "chart.js", "groups.js", "list.js", "theme.js")
CHARTS = (*MODULES, STYLE)  # shared with the report
MAX_COMPARED_RUNS = 24  # per viewer
MAX_PARALLEL_READS = 4  # runs that are read at the same time on request


class RunList(msgspec.Struct):
    """The whole list: the server, the revision of the list, its runs and the studies."""

    store: str
    id: str
    rev: int
    runs: list[ListRow]
    studies: list[StudyProgress]


class RunStyle(msgspec.Struct):
    """How a run is drawn next to others: its colour on light and dark ground, and its dashes."""

    colour: str
    dark: str
    dash: str


def make_app(
    watcher: StoreWatcher,
    broadcaster: Broadcaster,
    *,
    token: str | None = None,
    loopback: bool = True,
    cookie: str = "perdure",
    every: float = 0.5,
) -> ChunkedResponses:
    """Return the ASGI application that shows a store.

    Args:
        watcher: the store.
        broadcaster: the open pages, which are sent changes.
        token: the secret that a client must present; None for none.
        loopback: refuse requests under host names other than this machine's own.
        cookie: name of the cookie in which a browser keeps the token.
        every: seconds between two polls of the disk.
    """
    endpoints = _Endpoints(watcher, broadcaster)

    @asynccontextmanager
    async def poll_while_serving(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(_poll(watcher, broadcaster, every))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    routes = [
        Route("/", endpoints.get_page),
        Route("/static/{name}", endpoints.get_static),
        Route("/api/runs", endpoints.list_runs),
        Route("/api/run/{name:path}", endpoints.get_run),
        Route("/api/styles", endpoints.get_styles),
        Route("/events", endpoints.stream_events),
    ]
    app = Starlette(routes=routes, lifespan=poll_while_serving)
    app.router.redirect_slashes = False
    # Around everything, so that a response to an internal error has the headers too.
    return ChunkedResponses(AuthMiddleware(app, token=token, loopback=loopback, cookie=cookie))


async def _poll(watcher: StoreWatcher, broadcaster: Broadcaster, every: float) -> None:
    """Poll the disk on behalf of all viewers, for ever."""
    while True:
        try:
            changes = await run_in_threadpool(watcher.poll, broadcaster.viewed_runs())
            broadcaster.send(await run_in_threadpool(encode_changes, changes))
        except Exception:  # whatever the store contains, the page must keep running
            logging.getLogger(__name__).exception("cannot read the store")
        await asyncio.sleep(every)


class _Endpoints:
    def __init__(self, watcher: StoreWatcher, broadcaster: Broadcaster) -> None:
        self._watcher, self._broadcaster = watcher, broadcaster
        self._list: tuple[tuple[int, list[StudyProgress]], _CachedFile] | None = None
        # Requests wait here and not in a thread: there are few threads, and others need them.
        self._encoding, self._reading = asyncio.Lock(), asyncio.Semaphore(MAX_PARALLEL_READS)

    async def get_page(self, request: Request) -> Response:
        return _respond(request, _load("index.html"))

    async def get_static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in (*FILES, *CHARTS):
            return PlainTextResponse("no such file", 404)
        async with self._encoding:
            return _respond(request, await run_in_threadpool(_load, name))

    async def list_runs(self, request: Request) -> Response:
        async with self._encoding:
            return _respond(request, await run_in_threadpool(self._encode_list))

    def _encode_list(self) -> _CachedFile:
        """Return the whole list, encoded once for all requests."""
        watcher = self._watcher
        key = (watcher.rev, watcher.studies)
        if self._list is None or self._list[0] != key:
            rows, store = list(watcher.listing.values()), Path(watcher.store).name
            contents = RunList(store, self._broadcaster.id, key[0], rows, key[1])
            self._list = (key, _compress(msgspec.json.encode(contents), "application/json"))
        return self._list[1]

    async def get_run(self, request: Request) -> Response:
        async with self._reading:
            if await request.is_disconnected():
                return Response(status_code=503)  # nobody receives it
            curves = await run_in_threadpool(self._watcher.curves, request.path_params["name"])
        if curves is None:
            return PlainTextResponse("no such run", 404)
        return Response(curves, media_type="application/json")

    async def get_styles(self, request: Request) -> Response:
        """Return the style of each run in a comparison."""
        listing = self._watcher.listing
        rows = {name: listing.get(name) for name in _requested_runs(request)}
        strategies = {name: row.strategy for name, row in rows.items() if row is not None}
        styles = {
            name: RunStyle(style.colour, colour_on_dark(style.colour), style.dashes)
            for name, style in choose_run_styles(strategies).items()
        }
        return Response(msgspec.json.encode(styles), media_type="application/json")

    async def stream_events(self, request: Request) -> Response:
        """Stream changes for as long as the client listens."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        try:
            viewer = self._broadcaster.join(frozenset(_requested_runs(request)))
        except TooManyViewersError:
            return PlainTextResponse("too many viewers", 503)

        async def events() -> AsyncIterator[bytes]:
            try:
                hello = Hello(self._broadcaster.id, self._watcher.rev)
                yield b"retry: 1000\n" + encode_event(hello)
                async for event in viewer.events():
                    yield event
            finally:
                self._broadcaster.leave(viewer)

        return StreamingResponse(events(), media_type="text/event-stream")


def _requested_runs(request: Request) -> list[str]:
    return list(dict.fromkeys(request.query_params.getlist("run")))[:MAX_COMPARED_RUNS]


# Starlette's StaticFiles and GZipMiddleware are not used: the middleware would compress the
# list of runs (megabytes) again for every client, in the event loop. Here each is compressed
# once, in a thread, and a list of names is all that can be asked for.


class _CachedFile(NamedTuple):
    plain: bytes
    compressed: bytes
    etag: str
    media_type: str


def _compress(data: bytes, media_type: str) -> _CachedFile:
    etag = f'"{hashlib.sha256(data).hexdigest()[:24]}"'
    return _CachedFile(data, gzip.compress(data, 5, mtime=0), etag, media_type)


@cache
def _load(name: str) -> _CachedFile:
    """Return a static file of this page, or of the charts."""
    text = read_file(name) if name in CHARTS else (STATIC / name).read_text("utf-8")
    return _compress(text.encode(), MEDIA_TYPES[Path(name).suffix])


def _respond(request: Request, file: _CachedFile) -> Response:
    headers = {"ETag": file.etag, "Vary": "Accept-Encoding", "Cache-Control": "no-cache"}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body = file.plain
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"], body = "gzip", file.compressed
    return Response(body, headers=headers, media_type=file.media_type)
