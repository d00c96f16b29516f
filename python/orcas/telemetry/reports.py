"""The log line of a request that was refused or failed: one for each response with a status of 400 or more.

Responses that are part of normal use (404 and 412 for objects) have none. Values that a client chose (keys, paths, its
access key) are truncated here and escaped by `orcas.telemetry.logs`. Requests that succeed do not use this module.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

from orcas.telemetry.logs import clip

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Message, Scope, Send

# Most characters of a value that a client chose; the longest key has as many.
_VALUE_LENGTH_MAX: Final = 1024
# The entry of the scope in which the control plane stores (code, message) of a refusal: a list, so that copies of the scope
# share it.
CAUSES: Final = "orcas.causes"


def new_request_id() -> str:
    """An id in the form that S3 gives its requests: 16 upper-case hexadecimal digits."""
    return os.urandom(8).hex().upper()


def address(client: object) -> str | None:
    """The client's (host, port) as text for the log; None if unknown. The port 0 stands for one that is not known."""
    if not isinstance(client, (tuple, list)) or len(client) != 2:
        return None
    host, port = client
    if not port:
        return str(host)
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def report(
    log: logging.Logger,
    status: int,
    code: str | None,
    fields: Callable[[], Mapping[str, object]],
    *,
    at_fault: bool = False,
    error: BaseException | None = None,
) -> None:
    """Log one response. `at_fault`: the server caused it. `fields` is called if the line is written; None is omitted."""
    level = logging.INFO if not at_fault else logging.ERROR if status == 500 else logging.WARNING

    def shown() -> dict[str, object]:
        known = {"status": status, "code": code, **fields()}
        return {name: bounded(value) for name, value in known.items() if value is not None}

    # Lines are rate-limited per kind, so many of one code do not hide others.
    extra = {"kind": code or str(status), "orcas": shown}
    log.log(level, "Request failed" if at_fault else "Request refused", exc_info=error, extra=extra)


def bounded(value: object) -> object:
    """The value of a field, truncated if it is text."""
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return clip(value, _VALUE_LENGTH_MAX) if isinstance(value, str) else value


def reporting(log: logging.Logger, scope: Scope, send: Send) -> Send:
    """Wrap `send` of a request to the control plane: refusals get a request id and a log line."""
    causes: list[tuple[str, str]] = []
    scope[CAUSES] = causes

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            request_id = new_request_id()
            message = {**message, "headers": [*message["headers"], (b"x-amz-request-id", request_id.encode())]}
            code, cause = causes[-1] if causes else (None, None)
            client = address(scope.get("client"))
            fields = {"method": scope["method"], "path": scope["raw_path"], "client": client}
            fields |= {"request_id": request_id, "cause": cause}
            report(log, message["status"], code, lambda: fields)
        await send(message)

    return watched


def note_cause(scope: Any, code: str, message: str) -> None:
    """Record why the request of `scope` is refused, for its log line."""
    causes = scope.get(CAUSES)
    if causes is not None:
        causes.append((code, message))
