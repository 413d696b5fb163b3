"""The live page's answers: a page, a list, the curves of a run, and what changes."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from .auth import AuthMiddleware
from .broadcaster import TooManyViewersError, encode_changes, encode_event
from .curves import choose_run_styles, lighten_for_dark
from .limits import ChunkedResponses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from .broadcaster import Broadcaster
    from .store_watcher import StoreWatcher

__all__ = ["make_app"]

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
FILES = ("index.html", "live.css", "live.js", "chart.js", "list.js")
PLOTLY = "plotly.min.js"
MAX_COMPARED_RUNS = 24  # that one viewer looks at
MAX_PARALLEL_READS = 4  # runs that are read at once for those who ask


def make_app(
    watching: StoreWatcher,
    hub: Broadcaster,
    *,
    token: str | None = None,
    loopback: bool = True,
    cookie: str = "perdure",
    every: float = 0.5,
) -> ChunkedResponses:
    """Return the application that shows a store.

    Args:
        watching: the store.
        hub: those who look; told of changes.
        token: the word that must be known; None for none.
        loopback: refuse to be called by other names than this machine's own.
        cookie: the name under which a browser keeps the word.
        every: seconds between two looks at the disk.
    """
    pages = _Answers(watching, hub)

    @asynccontextmanager
    async def polling(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(_poll(watching, hub, every))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    routes = [
        Route("/", pages.page),
        Route("/static/{name}", pages.static),
        Route("/api/runs", pages.runs),
        Route("/api/run/{name:path}", pages.run),
        Route("/api/looks", pages.looks),
        Route("/events", pages.events),
    ]
    app = Starlette(routes=routes, lifespan=polling)
    app.router.redirect_slashes = False
    # Around everything, so that an answer to a fault of ours has its headers too.
    return ChunkedResponses(AuthMiddleware(app, token=token, loopback=loopback, cookie=cookie))


async def _poll(watching: StoreWatcher, hub: Broadcaster, every: float) -> None:
    """Look at the disk for everybody, again and again."""
    while True:
        try:
            changes = await run_in_threadpool(watching.poll, hub.viewed())
            hub.tell(await run_in_threadpool(encode_changes, changes))
        except Exception:  # whatever is in the store, the page goes on
            logging.getLogger(__name__).exception("the store could not be looked at")
        await asyncio.sleep(every)


class _Answers:
    def __init__(self, watching: StoreWatcher, hub: Broadcaster) -> None:
        self._watching, self._hub = watching, hub
        self._list: tuple[Any, _Kept] | None = None
        # Who waits for these has no thread: there are few, and the others need them.
        self._writing, self._reading = asyncio.Lock(), asyncio.Semaphore(MAX_PARALLEL_READS)

    async def page(self, request: Request) -> Response:
        return _answer(request, _kept("index.html"))

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in (*FILES, PLOTLY):
            return PlainTextResponse("no such file", 404)
        async with self._writing:
            return _answer(request, await run_in_threadpool(_kept, name))

    async def runs(self, request: Request) -> Response:
        async with self._writing:
            return _answer(request, await run_in_threadpool(self._all_runs))

    def _all_runs(self) -> _Kept:
        """Return the whole list, written once for everybody who asks."""
        now = self._watching
        key = (now.rev, now.studies)
        if self._list is None or self._list[0] != key:
            said = {
                "store": Path(now.store).name,
                **self._where(),
                "runs": list(now.listing.values()),
                "studies": now.studies,
            }
            self._list = (key, _packed(msgspec.json.encode(said), "application/json"))
        return self._list[1]

    def _where(self) -> dict[str, Any]:
        return {"id": self._hub.id, "rev": self._watching.rev}

    async def run(self, request: Request) -> Response:
        async with self._reading:
            if await request.is_disconnected():
                return Response(status_code=503)  # nobody is there any more
            found = await run_in_threadpool(self._watching.curves, request.path_params["name"])
        if found is None:
            return PlainTextResponse("no such run", 404)
        return Response(found, media_type="application/json")

    async def looks(self, request: Request) -> Response:
        """Answer with how each of the runs is drawn beside the others."""
        listing = self._watching.listing
        rows = {name: listing.get(name) for name in _asked(request)}
        strategies = {name: row.strategy for name, row in rows.items() if row is not None}
        found = {
            name: {
                "colour": look.colour,
                "dark": lighten_for_dark(look.colour),
                "dash": look.plotly,
            }
            for name, look in choose_run_styles(strategies).items()
        }
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def events(self, request: Request) -> Response:
        """Answer with what changes, for as long as somebody listens."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        try:
            viewer = self._hub.join(frozenset(_asked(request)))
        except TooManyViewersError:
            return PlainTextResponse("too many look already", 503)

        async def lines() -> AsyncIterator[bytes]:
            try:
                yield b"retry: 1000\n" + encode_event("hello", self._where())
                async for said in viewer.messages():
                    yield said
            finally:
                self._hub.leave(viewer)

        return StreamingResponse(lines(), media_type="text/event-stream")


def _asked(request: Request) -> list[str]:
    return list(dict.fromkeys(request.query_params.getlist("run")))[:MAX_COMPARED_RUNS]


class _Kept(NamedTuple):
    plain: bytes
    packed: bytes
    tag: str
    type: str


def _packed(data: bytes, type_: str) -> _Kept:
    tag = hashlib.sha256(data).hexdigest()[:24]
    return _Kept(data, gzip.compress(data, 5, mtime=0), f'"{tag}"', type_)


@cache
def _kept(name: str) -> _Kept:
    """Return one of our own files."""
    return _packed(_path(name).read_bytes(), TYPES[Path(name).suffix])


def _path(name: str) -> Path:
    if name != PLOTLY:
        return STATIC / name
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "package_data" / PLOTLY


def _answer(request: Request, kept: _Kept) -> Response:
    headers = {"ETag": kept.tag, "Vary": "Accept-Encoding", "Cache-Control": "no-cache"}
    if kept.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body = kept.plain
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"], body = "gzip", kept.packed
    return Response(body, headers=headers, media_type=kept.type)
