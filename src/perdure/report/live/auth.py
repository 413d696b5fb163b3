"""At the door: who may come in, what may be asked, and what the browser is told to allow."""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["AuthMiddleware", "is_loopback"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)  # plotly writes styles into its drawings
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AuthMiddleware:
    """Lets requests through to `app` that may read, and adds headers to every answer.

    Args:
        app: what is guarded.
        token: the word that must be known; None where only this machine can ask.
        loopback: refuse other names for this machine: a page of somebody else could have one
            point here. (Starlette's own check cannot read [::1]:8765.)
        cookie: the name under which a browser keeps the word.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, loopback: bool, cookie: str) -> None:
        self._app, self._token, self._loopback, self._cookie = app, token, loopback, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app do so."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(sent: Message) -> None:
            if sent["type"] == "http.response.start":
                headers = MutableHeaders(scope=sent)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(sent)

        answer = self._refused(scope) or self._app
        await answer(scope, receive, with_headers)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page only reads", 405, {"Allow": "GET, HEAD"})
        if self._loopback and not is_loopback(_name(headers.get("host", ""))):
            return PlainTextResponse("no such host here", 400)
        if self._token is None:
            return None
        return self._without_token(scope["query_string"], headers, self._token)

    def _without_token(self, query: bytes, headers: Headers, token: str) -> Response | None:
        """Return what somebody gets who does not show the word yet, None for who does."""
        try:
            given = parse_qs(query.decode("latin-1"), max_num_fields=40).get("token", [""])[-1]
        except ValueError:
            given = ""
        if not _same(given, token):
            # Browsers send the cookies of every port: those of other programs may be odd.
            if _same(cookie_parser(headers.get("cookie", "")).get(self._cookie, ""), token):
                return None
            return PlainTextResponse(
                "a token is needed: open the address that perdure printed", 401
            )
        # Out of the address, where histories and screenshots would keep it.
        found = RedirectResponse("/", 303)
        # Not "strict": who follows the address from a mail or a chat would be refused at "/".
        found.set_cookie(self._cookie, token, httponly=True, samesite="lax")
        return found


def _name(host: str) -> str:
    """Return a Host header without its port."""
    found = re.fullmatch(r"(?:\[([^\]]*:[^\]]*)\]|([^:\[\]]*))(?::\d*)?", host.lower())
    return (found[1] or found[2]) if found else ""


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
