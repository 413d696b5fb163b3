"""Access control: which requests are allowed, and which headers every response carries."""

from __future__ import annotations

import hmac
import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["AuthMiddleware", "is_loopback"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)  # plotly writes inline styles
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
    """Passes permitted requests on to `app` and adds security headers to every response.

    Args:
        app: the application to protect.
        token: the secret that a client must present; None if only this machine can connect.
        loopback: refuse requests under other host names, which a foreign page could make point
            to this machine. (Starlette's TrustedHostMiddleware cannot parse [::1]:8765.)
        cookie: name of the cookie in which a browser keeps the token.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, loopback: bool, cookie: str) -> None:
        self._app, self._token, self._loopback, self._cookie = app, token, loopback, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request, or let the application respond."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        response = self._refuse(scope) or self._app
        await response(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        """Return the response to a request that is not permitted, None if it is."""
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page is read-only", 405, {"Allow": "GET, HEAD"})
        host = Headers(scope=scope).get("host", "")
        if self._loopback and not is_loopback(_host_name(host)):
            return PlainTextResponse("unknown host name", 400)
        return None if self._token is None else self._check_token(scope, self._token)

    def _check_token(self, scope: Scope, token: str) -> Response | None:
        """Return the response to a client without the token in its cookie, None if it has it."""
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=40)
            given = query.get("token", [""])[-1]
        except ValueError:
            given = ""
        if not _is_equal(given, token):
            # Browsers send the cookies of every port, so those of other programs may be malformed.
            if _is_equal(HTTPConnection(scope).cookies.get(self._cookie, ""), token):
                return None
            return PlainTextResponse("token required: open the address that perdure printed", 401)
        # Removes the token from the address, where histories and screenshots would keep it.
        response = RedirectResponse("/", 303)
        # Not "strict", which would refuse "/" to whoever follows a link from a mail or a chat.
        response.set_cookie(self._cookie, token, httponly=True, samesite="lax")
        return response


def _host_name(host: str) -> str:
    """Return a Host header without its port."""
    match = re.fullmatch(r"(?:\[([^\]]*:[^\]]*)\]|([^:\[\]]*))(?::\d*)?", host.lower())
    return (match[1] or match[2]) if match else ""


def _is_equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
