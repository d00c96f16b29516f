"""Bodies of requests that are collected in memory before somebody looks at them. Must not know what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from orcas.http.extensions import COUNTED, MORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from orcas.http.extensions import Sender


class CountedBody(Protocol):
    """An incomplete body."""

    def grow(self, count: int, /) -> None:
        """`count` more bytes have arrived. This may end bodies, this one included."""

    def forget(self) -> None:
        """Forget a body that is complete or was ended."""


class CountedBodies(Protocol):
    """Limits the memory of incomplete bodies, by ending some of them."""

    def body(self, client: str, shed: Callable[[], None], /) -> CountedBody:
        """A body of `client` that nothing has arrived of. `shed` is called if it is to end."""


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


async def run_counted(app: ASGIApp, scope: Scope, receive: Receive, send: Send, bodies: CountedBodies) -> None:
    """Run `app`, and count what it receives of an incomplete body in `bodies`, which may end it.

    The listener has counted what it passes on.
    """
    if COUNTED in scope:
        await app(scope, receive, send)
        return
    counted: CountedBody | None = None

    async def counting() -> Message:
        nonlocal counted
        message = await receive()
        sender: Sender | None = message.get(MORE)
        if sender is not None:
            counted = counted or bodies.body(sender.client, sender.shed)
            counted.grow(len(message["body"]))
        elif counted is not None:
            counted.forget()
        return message

    try:
        await app(scope, counting, send)
    finally:
        if counted is not None:
            counted.forget()


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body that was collected, and then what `receive` has."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
