"""Bodies of requests that are collected in memory before somebody looks at them. Must not know what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcas.http.extensions import MORE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from orcas.http.extensions import Sender
    from orcas.http.incomplete import IncompleteBodies


class BodyError(Exception):
    """The body is not there as a whole. `is_cut_off`: the client has left; else, it is too long."""

    def __init__(self, *, is_cut_off: bool) -> None:
        super().__init__("the body was cut off" if is_cut_off else "the body is too long")
        self.is_cut_off = is_cut_off


async def collect(receive: Receive, bytes_max: int) -> bytes:
    """The whole body.

    Raises:
        BodyError: it has more than `bytes_max` bytes, or the client has left before its end.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BodyError(is_cut_off=True)
        body += message.get("body", b"")
        if len(body) > bytes_max:
            raise BodyError(is_cut_off=False)
        if not message.get("more_body", False):
            return bytes(body)


async def run_counted(app: ASGIApp, scope: Scope, receive: Receive, send: Send, bodies: IncompleteBodies) -> None:
    """Run `app`, and count what it receives of an incomplete body in `bodies`, which may end it."""
    sender: Sender | None = None

    async def counted() -> Message:
        nonlocal sender
        message = await receive()
        more: Sender | None = message.get(MORE)
        if more is not None:
            sender = more
            bodies.grow(more, len(message["body"]))
        elif sender is not None:
            bodies.forget(sender)
        return message

    try:
        await app(scope, counted, send)
    finally:
        if sender is not None:
            bodies.forget(sender)


def replayed(body: bytes, receive: Receive) -> Receive:
    """What receives a body that was collected, and then what `receive` has."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
