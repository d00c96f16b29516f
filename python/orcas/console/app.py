"""The application of the console: collects the pages and puts the guard before them.

Made when it is first asked for, so that a server whose console nobody opens pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from orcas.admin.guard import Gatekeeper, RootOnly
from orcas.console.calls import CallError
from orcas.console.guard import Guard, cookie_of, local_path, set_cookie
from orcas.console.pages import (
    access_lists,
    batches,
    buckets,
    changes,
    details,
    objects,
    publishing,
    removal,
    server,
    share,
    signing_in,
    sparklines,
    tables,
    transfers,
    versions,
)
from orcas.console.pages.settings import routes as settings
from orcas.console.pages.users import routes as users
from orcas.console.rendering import explained, page, serve_static, url
from orcas.console.sessions import Sessions
from orcas.control.root import Root
from orcas.http.signing import Keys
from orcas.settings.config import Settings

MOUNT: Final = "/_orcas/console"
# The order of the navigation is that of the modules.
MODULES: Final = (
    signing_in, buckets, sparklines, objects, batches, details, changes, publishing, access_lists, versions, tables,
    share, transfers, removal, settings,
    *server.MODULES, users,
)  # fmt: skip
# Refusals that say that the key of the session is no longer valid.
_ENDED: Final = frozenset(
    {"InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken", "ExpiredToken", "SignatureDoesNotMatch"}
)


def console_app(
    server: ASGIApp, settings: Settings, gatekeeper: Callable[[], Gatekeeper], root: Callable[[], Root]
) -> ASGIApp:
    """The application to be mounted at `MOUNT`.

    Args:
        server: the whole application, which pages call.
        settings: of the server.
        gatekeeper: verifies the signature of the command that asks for a link.
        root: whose keys a link signs in with.
    """
    sessions = Sessions()

    async def link(_: Request) -> Response:
        """A link for who has signed the request with the root key."""
        pair = root()
        code = sessions.link(Keys(pair.access_key, pair.secret_key))
        return JSONResponse({"path": f"{MOUNT}/link?code={code}"}, 201)

    routes = [
        Route("/links", link, methods=["POST"], middleware=[Middleware(RootOnly, gatekeeper)]),
        Route("/static/{hash}/{name}", serve_static),
        *(route for module in MODULES for route in module.ROUTES),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, server=server, sessions=sessions, region=settings.region)],
        exception_handlers={CallError: _refused, HTTPException: _lost},
    )
    app.router.redirect_slashes = False
    app.state.sessions, app.state.server, app.state.settings = sessions, server, settings
    app.state.places = [place for module in MODULES for place in getattr(module, "PLACES", ())]
    app.state.tabs = [tab for module in MODULES for tab in getattr(module, "TABS", ())]
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, CallError)
    if error.code in _ENDED:
        request.app.state.sessions.end(cookie_of(request.headers))
        response = RedirectResponse(url(request, "/sign-in", next=local_path(request.scope)), 303)
        set_cookie(response, request.scope, None)
        return response
    if "json" in request.headers.get("accept", ""):
        return JSONResponse({"error": {"code": error.code, "message": explained(error)}}, error.status)
    here = local_path(request.scope) + (f"?{request.url.query}" if request.url.query else "")
    # Who may not list a bucket may still list a folder of it.
    lists = error.code == "AccessDenied" and request.scope.get("endpoint") is objects.show
    return await page(
        request, "error.html", error.status, title=error.code, problem=explained(error), code=error.code, of_folder=lists,
        here=here,
    )  # fmt: skip


async def _lost(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    message = "There is no such page: choose one from the navigation." if error.status_code == 404 else f"{phrase}."
    return await page(
        request, "error.html", error.status_code, title=phrase, problem=message, code="", of_folder=False, here="/"
    )
