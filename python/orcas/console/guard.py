"""What every request to the console passes: security headers, the session, and the check that its own page sent it.

A request that is not GET or HEAD must say by Origin or Sec-Fetch-Site that it comes from this origin, and carry the token of
the session, as the form field `_csrf` or the header `x-csrf-token`. Its body is received here, and bounded. Without a
session, only sign-in, links and static files answer. Must not know what a page does.
"""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response

from orcas.console.calls import Visit
from orcas.console.sessions import COOKIE, Session, Sessions, is_token
from orcas.http.bodies import BodyError, collect, replayed

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Bytes of a form, with a session, and without: then a form that came after its session had ended is sent within another.
# And fields.
BODY_MAX: Final = 1024 * 1024
_SIGN_IN_MAX: Final = 128 * 1024
_FIELDS_MAX: Final = 2_000
_FORM: Final = "application/x-www-form-urlencoded"
_SAFE: Final = frozenset({"GET", "HEAD"})
# What answers without a session.
_OPEN: Final = ("/sign-in", "/link", "/links")
STATIC: Final = "/static/"
# The header of requests by which a page refreshes itself. They keep no session from ending without use.
REFRESH: Final = "x-orcas-refresh"
# Objects of strangers have the same origin, so scripts and styles need the nonce of their page.
_POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; media-src 'self'; "
    "frame-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    # Nothing reaches another origin. Under `no-referrer`, browsers would withhold the Origin of forms, which is checked.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """ASGI middleware: sets `state.visit` (None without a session), `state.form` and `state.nonce` of a request."""

    def __init__(self, app: ASGIApp, server: ASGIApp, sessions: Sessions, region: str) -> None:
        self._app = app
        self._server = server
        self._sessions = sessions
        self._region = region

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        nonce, headers = secrets.token_urlsafe(16), Headers(scope=scope)
        session = self._sessions.find(cookie_of(headers), by_itself=_is_by_itself(headers))
        visit = None if session is None else visit_of(scope, headers, session, self._server, self._region)
        scope["state"] = {**scope.get("state", {}), "visit": visit, "form": {}, "nonce": nonce}
        guarded = _secured(scope, send, nonce)
        try:
            refusal = await self._check(scope, headers, receive)
        except BodyError:
            # The client has left, or was ended.
            return
        if isinstance(refusal, Response):
            await refusal(scope, receive, guarded)
        else:
            await self._app(scope, refusal, guarded)

    async def _check(self, scope: Scope, headers: Headers, receive: Receive) -> Response | Receive:
        """A refusal, or what receives the body.

        Raises:
            BodyError: the client has left.
        """
        path, visit = local_path(scope), scope["state"]["visit"]
        is_open = path in _OPEN or path.startswith(STATIC)
        if path == "/links":
            # For commands, which sign. It uses no cookie.
            return receive
        has_ended = visit is None and not is_open
        if scope["method"] in _SAFE:
            return _to_sign_in(scope, headers, path) if has_ended else receive
        if not _is_own(headers):
            said = "This request does not come from a page of the console: open the console, and try there."
            return _refused(scope, headers, said)
        if has_ended and (not _is_form(headers) or "json" in headers.get("accept", "")):
            return _refused(scope, headers, "Your session has ended: open the page again, and sign in.")
        limit = _SIGN_IN_MAX if visit is None else BODY_MAX
        try:
            body = await collect(receive, limit)
        except BodyError as error:
            if error.is_cut_off:
                raise
            return Response(f"The form has more than {limit} bytes: send less.", 413, media_type="text/plain")
        form = _form(headers, body)
        if form is None:
            return Response(
                "The form cannot be read: send it from a page of the console.", 400, media_type="text/plain"
            )
        given = headers.get("x-csrf-token") or (form.get("_csrf") or [""])[0]
        if has_ended:
            # The page that signs in keeps what was typed.
            scope["path"] = scope.get("root_path", "") + "/sign-in"
            form = {"next": [_wanted(scope, path)], "form": [body.decode()]}
        elif not is_open and not is_token(visit.session, given):
            said = "This form is not of your session: go back, reload the page, and send it again."
            return _refused(scope, headers, said)
        scope["state"]["form"] = form
        return replayed(body, receive)


def visit_of(scope: Scope, headers: Headers, session: Session, server: ASGIApp, region: str) -> Visit:
    """The visit of a request, for calls."""
    client = scope.get("client")
    root = scope.get("root_path", "").rpartition("/_orcas/console")[0]
    return Visit(
        session, server, region, None if client is None else (client[0], client[1]), scope.get("scheme", "http"),
        headers.get("host", "localhost"), root, headers.get("user-agent", ""),
    )  # fmt: skip


def local_path(scope: Scope) -> str:
    """The path below the console."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def cookie_of(headers: Headers) -> str | None:
    """The value of the console's cookie."""
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(_cookie(headers))
    except CookieError:
        return None
    return None if morsel is None else morsel.value


def _cookie(headers: Headers) -> str:
    """The name of the cookie, with the port that the browser asks: it sends a cookie of one port to all others as well."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isascii() and port.isdecimal() else COOKIE


def set_cookie(response: Response, scope: Scope, value: str | None) -> None:
    """Set the console's cookie, or remove it."""
    response.set_cookie(
        _cookie(Headers(scope=scope)), value or "", max_age=None if value else 0, path=scope["root_path"] or "/",
        secure=scope.get("scheme") == "https", httponly=True, samesite="strict",
    )  # fmt: skip


def _to_sign_in(scope: Scope, headers: Headers, path: str) -> Response:
    base = scope["root_path"]
    if headers.get("sec-fetch-site") == "cross-site":
        # A link on another site: the browser withholds the cookie. The page opens itself again, now from this site.
        again = '<!DOCTYPE html><html lang="en"><title>Orcas</title><meta http-equiv="refresh" content="0"></html>'
        return Response(again, media_type="text/html", headers={"cache-control": "no-store"})
    wanted = _wanted(scope, path)
    suffix = "" if wanted == "/" else f"?next={quote(wanted, safe='')}"
    return RedirectResponse(f"{base}/sign-in{suffix}", 303, headers={"cache-control": "no-store"})


def _wanted(scope: Scope, path: str) -> str:
    query = scope["query_string"].decode("latin-1")
    return path + (f"?{query}" if query else "")


def _is_by_itself(headers: Headers) -> bool:
    """Whether a page asks without the person: it refreshes itself, or reads a stream, for which browsers send this type."""
    return REFRESH in headers or headers.get("accept") == "text/event-stream"


def _is_own(headers: Headers) -> bool:
    """Whether the browser says that a page of this origin sent the request."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None and origin is None:
        return False
    if site is not None and site != "same-origin":
        return False
    # A proxy may end TLS, so the scheme of the browser is not known here.
    return origin is None or urlsplit(origin).netloc == headers.get("host")


def _is_form(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM


def _form(headers: Headers, body: bytes) -> dict[str, list[str]] | None:
    if not _is_form(headers):
        return {}
    form: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX):
            form.setdefault(name, []).append(value)
    except ValueError:
        return None
    return form


def _refused(scope: Scope, headers: Headers, message: str) -> Response:
    """A sentence; for a person, with a way on."""
    if "text/html" not in headers.get("accept", ""):
        return Response(message, 403, media_type="text/plain", headers={"cache-control": "no-store"})
    text = (
        f'<!DOCTYPE html><html lang="en"><title>Orcas</title><h1>That did not work</h1><p>{message}</p>'
        f'<p><a href="{quote(scope["root_path"], safe="/%")}/">Open the console</a></p></html>'
    )
    return Response(text, 403, media_type="text/html", headers={"cache-control": "no-store"})


def _secured(scope: Scope, send: Send, nonce: str) -> Send:
    policy = _POLICY.format(nonce=nonce)
    static = local_path(scope).startswith(STATIC)

    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message["headers"]))
            given: dict[str, Any] = _HEADERS | {"content-security-policy": policy}
            if not static:
                headers["cache-control"] = "no-store"
            for name, value in given.items():
                # The frame of a preview has a policy of its own.
                headers.setdefault(name, value)
            message = {**message, "headers": headers.raw}
        await send(message)

    return secured
