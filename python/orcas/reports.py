"""The log line of a request that was refused or failed: one for each answer from 400 on, whoever gave it.

What is asked as a matter of course (404 and 412 of objects) has none. What a client chose (keys, paths, its access key)
is bounded here and escaped by `orcas.logs`. Nothing here is reached by a request that succeeds.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Final

from orcas.logs import clip

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Message, Scope, Send

# Characters of a value that a client chose; the longest key has as many.
_VALUE_LENGTH_MAX: Final = 1024
# Where an application of the control plane leaves (code, message) of its refusal: a list in the scope, so that copies of
# the scope share it.
CAUSES: Final = "orcas.causes"


def new_request_id() -> str:
    """An id in the form that S3 gives its requests: 16 upper-case hexadecimal digits."""
    return os.urandom(8).hex().upper()


def address(client: object) -> str | None:
    """A client as the log names it, from (host, port)."""
    if not isinstance(client, (tuple, list)) or len(client) != 2:
        return None
    host, port = client
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
    """Log one answer. `at_fault`: the server is. `fields` are asked for if the line is written; None is not known."""
    level = logging.INFO if not at_fault else logging.ERROR if status == 500 else logging.WARNING

    def shown() -> dict[str, object]:
        known = {"status": status, "code": code, **fields()}
        return {name: bounded(value) for name, value in known.items() if value is not None}

    # A flood of one code hides no other.
    extra = {"kind": code or str(status), "orcas": shown}
    log.log(level, "Request failed" if at_fault else "Request refused", exc_info=error, extra=extra)


def bounded(value: object) -> object:
    """A field that a client chose."""
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return clip(value, _VALUE_LENGTH_MAX) if isinstance(value, str) else value


def reporting(log: logging.Logger, scope: Scope, send: Send) -> Send:
    """`send` of a request to the control plane: refusals get an id and a line."""
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
    """Say why the request of `scope` is refused, for its line."""
    causes = scope.get(CAUSES)
    if causes is not None:
        causes.append((code, message))
