"""What the protocols of the catalog share: who has sent a request, its body as a document, and how errors become answers.

The caller is found before a path is looked at. Must not know paths, or how a protocol says what is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastapi import FastAPI, Request
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from orcas.engine import Refusal, StoreError
from orcas.errors import UnavailableError
from orcas.http.bodies import BodyError, collect
from orcas.tables import metadata as of_tables
from orcas.tables.callers import Caller, Callers, Question, TokenError, is_known_by_body
from orcas.tables.catalog import Catalog
from orcas.tables.failures import TableError, invalid
from orcas.telemetry.reports import note_cause

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

# Bytes of a request.
BODY_MAX: Final = 8 * 1024 * 1024
_FORM_MAX: Final = 64 * 1024
# In the scope of a request: who calls, and what they have sent.
_CALL: Final = "orcas.tables"
_KINDS: Final = {404: "NotFoundException", 405: "UnsupportedOperationException"}

# The answer to a request that is refused, as a protocol says it.
Refusing = Callable[["Scope", TableError], Response]
Model = TypeVar("Model", bound=BaseModel)


class Catalogued:
    """ASGI middleware: passes on requests with their caller and their body, and answers those for tokens.

    `tokens`: the end of their path, if the protocol has any.
    """

    def __init__(self, app: ASGIApp, callers: Callers, refusing: Refusing, tokens: str | None = None) -> None:
        self._app, self._callers, self._refusing, self._tokens = app, callers, refusing, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # The names in it are decoded one by one.
        scope["path"] = scope["raw_path"].decode("latin-1")
        is_token = self._tokens is not None and scope["path"].endswith(self._tokens)
        try:
            try:
                if is_token:
                    await self._token(scope, await collect(receive, _FORM_MAX), receive, send)
                    return
                first = await collect(receive, BODY_MAX) if is_known_by_body(scope) else None
                caller = await self._callers.known(scope, first)
                body = await collect(receive, BODY_MAX) if first is None else first
                caller.check(body)
                scope[_CALL] = caller, body
            except BodyError as error:
                if error.is_cut_off:
                    return
                limit = _FORM_MAX if is_token else BODY_MAX
                raise TableError(413, "BadRequestException", f"A request has at most {limit} bytes.") from None
        except (TableError, UnavailableError) as error:
            await self._refusing(scope, _table_error(error))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _token(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        response: Response
        try:
            if scope["method"] != "POST":
                raise TokenError(405, "invalid_request", "Tokens are asked for by POST.")
            response = JSONResponse(await self._callers.token(scope, body), headers={"cache-control": "no-store"})
        except TokenError as error:
            note_cause(scope, error.code, error.message)
            response = JSONResponse({"error": error.code, "error_description": error.message}, error.status)
        await response(scope, receive, send)


def add_errors(app: FastAPI, refusing: Refusing) -> None:
    """Answer what the routes of an application raise."""

    async def refused(request: Request, error: Exception) -> Response:
        return refusing(request.scope, _table_error(error))

    for kind in (TableError, UnavailableError, Refusal, StoreError, HTTPException):
        app.add_exception_handler(kind, refused)


def _table_error(error: Exception) -> TableError:
    match error:
        case TableError():
            return error
        case Refusal():
            return TableError(*error.args)
        case StoreError():
            return TableError(503, "StoreError", f"{error}.")
        case HTTPException():
            kind = _KINDS.get(error.status_code, "BadRequestException")
            return TableError(error.status_code, kind, f"{error.detail}.")
    return TableError(503, "ServiceUnavailableException", str(error))


def caller_of(request: Request) -> Caller:
    """Who has sent a request."""
    found: Caller = request.scope[_CALL][0]
    return found


async def admit(request: Request, catalog: Catalog, bucket: str, *asked: Question) -> None:
    """What a request asks for must be allowed. Only then it is looked whether the bucket is a warehouse.

    Raises:
        TableError: it is not allowed, or there is no such warehouse.
    """
    await caller_of(request).require(*asked)
    await catalog.check_warehouse(bucket)


def body_of(request: Request, model: type[Model], **defaults: Any) -> Model:
    """What a request says. `defaults`: what pyiceberg's clients always send, and others may leave out.

    Raises:
        TableError: it says something else.
    """
    try:
        told = json.loads(request.scope[_CALL][1] or b"{}")
    except RecursionError:
        raise invalid("The body is nested too deeply.") from None
    except ValueError as error:
        raise invalid(f"The body cannot be read: {str(error)[:500]}.") from None
    if not isinstance(told, dict):
        raise invalid("The body is no object of JSON.")
    return validated(model, {**defaults, **told})


def validated(model: type[Model], told: dict[str, Any]) -> Model:
    """A document as a model.

    Raises:
        TableError: it is another one.
    """
    try:
        return model.model_validate(told)
    except ValidationError as error:
        raise invalid(of_tables.told(error)) from None
    except RecursionError:
        raise invalid("The body is nested too deeply.") from None
    # pyiceberg raises others, about schemas.
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise invalid(f"The body cannot be read: {str(error)[:500]}.") from None
