"""Signing in with an access key and its secret, or by a link of `orcas console`; and signing out.

The keys are tried by a request of theirs, so wrong ones count toward the lock-out of their address as those of any client.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from orcas.console.calls import CallError, caller
from orcas.console.guard import cookie_of, set_cookie, visit_of
from orcas.console.rendering import explained, field, page
from orcas.console.sessions import Session
from orcas.http.signing import Keys

# Characters of an access key, a secret and a token.
_KEY_MAX: Final = 256
_TOKEN_MAX: Final = 8192
_WRONG: Final = "The access key or the secret is wrong: check both, and try again."
_BUSY: Final = "There were too many wrong keys from your address: wait a minute, and try again."
_ENDED: Final = "Your session has ended. Sign in again: what you have typed is kept, and can be sent then."
_LINK_ENDED: Final = "This link was used, or has ended: run `orcas console` again, or sign in with a key."


async def sign_in(request: Request) -> Response:
    """Try the keys of the form. Without any, it is a form that came after its session had ended."""
    if field(request, "form") and not field(request, "access_key"):
        return await show(request, _ENDED, 403)
    keys = Keys(
        field(request, "access_key").strip(), field(request, "secret_key"), field(request, "token").strip() or None
    )
    if not _is_sendable(keys):
        return await show(request, _WRONG, 403)
    return await _enter(request, keys, field(request, "next"))


async def follow_link(request: Request) -> Response:
    """Sign in by the code of a link, once."""
    keys = request.app.state.sessions.redeem(request.query_params.get("code", ""))
    return await show(request, _LINK_ENDED, 403) if keys is None else await _enter(request, keys, "")


async def sign_out(request: Request) -> Response:
    """Revoke the session."""
    request.app.state.sessions.end(cookie_of(request.headers))
    response = RedirectResponse(request.scope["root_path"] + "/sign-in", 303)
    set_cookie(response, request.scope, None)
    return response


async def _enter(request: Request, keys: Keys, wanted: str) -> Response:
    state = request.app.state
    trial = Session(keys, "", "", 0, 0)
    try:
        arn = await caller(visit_of(request.scope, request.headers, trial, state.server, state.settings.region))
    except CallError as error:
        if error.status >= 500:
            return await show(request, explained(error), error.status)
        return await show(request, _BUSY if error.code in ("Throttling", "SlowDown") else _WRONG, 403)
    # What was signed in here before ends, so that nobody can prepare a session for somebody else.
    state.sessions.end(cookie_of(request.headers))
    value, session = state.sessions.begin(keys, arn)
    # Below the console, whatever it is.
    target = wanted if wanted.startswith("/") else "/"
    response: Response = RedirectResponse(request.scope["root_path"] + target, 303)
    if kept := field(request, "form"):
        request.state.visit = visit_of(request.scope, request.headers, session, state.server, state.settings.region)
        typed = [(name, text) for name, text in parse_qsl(kept, keep_blank_values=True) if name != "_csrf"]
        response = await page(request, "resume.html", action=request.scope["root_path"] + target, typed=typed)
    set_cookie(response, request.scope, value)
    return response


async def show(request: Request, problem: str = "", status: int = 200) -> Response:
    """The form."""
    wanted = field(request, "next") or request.query_params.get("next", "")
    key = field(request, "access_key")[:_KEY_MAX]
    return await page(
        request, "sign-in.html", status, problem=problem, next=wanted, access_key=key,
        form=field(request, "form"),
    )  # fmt: skip


def _is_sendable(keys: Keys) -> bool:
    parts = (keys.access_key, _KEY_MAX), (keys.secret_key, _KEY_MAX), (keys.token or "-", _TOKEN_MAX)
    return all(0 < len(text) <= limit and text.isascii() and text.isprintable() for text, limit in parts)


ROUTES = [
    Route("/sign-in", show, methods=["GET"]),
    Route("/sign-in", sign_in, methods=["POST"]),
    Route("/link", follow_link, methods=["GET"]),
    Route("/sign-out", sign_out, methods=["POST"]),
]
