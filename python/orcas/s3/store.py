"""The engine as coroutines of one event loop: operations, bodies and downloads.

Rust knows a waiting coroutine by the number of its slot. The thread of the loop owns slots and futures; a descriptor
becomes readable when there are completions. The slot of a cancelled coroutine stays taken until its completion has arrived,
so no completion can reach another coroutine. One of the importers of `_core`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from orcas._core import (
    FLOW_STOP,
    FLOW_WAIT,
    INCOMPLETE_SHARE,
    PLAN_RUN,
    PLAN_STREAM,
    STRANGERS_SHARE,
    IncompleteBodies,
    Postponed,
    Response,
)  # fmt: skip
from orcas.http.extensions import MORE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Message, Receive

    from orcas._core import BodySink, Core, Download, EventListener, Form, IncompleteBody, Request
    from orcas.http.extensions import Sender


class ClientDisconnectedError(Exception):
    """The client disconnected before its body was complete. Nothing was stored."""


class DamagedObjectError(Exception):
    """Stored bytes are damaged, so the rest of a response cannot be sent."""


async def disconnected(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Store:
    """Made on the event loop that it serves."""

    def __init__(self, core: Core, body_budget: int) -> None:
        self._core = core
        self._incomplete = IncompleteBodies(body_budget // INCOMPLETE_SHARE)
        # Bodies that arrive before it is known who sends them, on any path: they take nothing from those above.
        self.incomplete = IncompleteBodies(body_budget // STRANGERS_SHARE)
        self._loop = asyncio.get_running_loop()
        # By slot: the future that waits, or None.
        self._waiting: list[asyncio.Future[Any] | None] = []
        self._free: list[int] = []
        self._loop.add_reader(core.fileno(), self._drain)

    def close(self) -> None:
        """Stop listening for completions."""
        self._loop.remove_reader(self._core.fileno())

    async def accepted(self, postponed: Postponed) -> Request | Response:
        """The result of a request that a worker accepts. None of its body is received before."""
        slot = self._take_slot()
        postponed.begin(slot)
        await self._completion(slot)
        return postponed.take()

    def execute(self, request: Request, receive: Receive) -> Awaitable[Response]:
        """Execute a request, and receive its body as it plans to.

        Raises:
            ClientDisconnectedError: the client disconnected; nothing was stored.
        """
        plan = request.plan
        if plan == PLAN_RUN:
            return self.run(request)
        if plan > 0:
            return self.run_collected(request, receive)
        return self.store_body(request, receive) if plan == PLAN_STREAM else self.run_in_pieces(request, receive)

    async def run(self, request: Request, body: bytes = b"") -> Response:
        """Execute a request, with its complete body if it has one."""
        slot = self._take_slot()
        response = self._core.start(request, body, slot)
        if response is None:
            # As in `_completion`, without the cost of another coroutine.
            future: asyncio.Future[Response] = self._loop.create_future()
            self._waiting[slot] = future
            return await future
        self._free.append(slot)
        return response

    async def run_in_pieces(self, request: Request, receive: Receive) -> Response:
        """Execute a request without a body that may take long, and give it up when nobody waits for its response.

        Raises:
            ClientDisconnectedError: the client disconnected.
        """
        gone = asyncio.ensure_future(disconnected(receive))
        gone.add_done_callback(lambda watch: None if watch.cancelled() else request.abandon())
        try:
            response = await self.run(request)
        except asyncio.CancelledError:
            request.abandon()
            raise
        finally:
            gone.cancel()
        if gone.done() and not gone.cancelled():
            raise ClientDisconnectedError
        return response

    async def run_collected(self, request: Request, receive: Receive) -> Response:
        """Receive a small body completely, and execute the request. Bytes beyond its limit are not read.

        Raises:
            ClientDisconnectedError: the client disconnected.
        """
        message = await receive()
        if message["type"] == "http.request" and not message["more_body"]:
            request.body_read()
            body: bytes = message["body"]
        else:
            body = await self._gather(request, message, receive)
        # Memory of the budget is taken only now, so an incomplete body keeps none from others.
        slot = self._take_slot()
        if request.admit(slot):
            self._free.append(slot)
        else:
            await self._completion(slot)
        return await self.run(request, body)

    async def _gather(self, request: Request, message: Message, receive: Receive) -> bytes:
        """Receive what follows `message`."""
        pieces: list[bytes] = []
        room = request.plan
        sender: Sender | None = message.get(MORE)
        counted = None if sender is None else self._incomplete.body(sender.client, sender.shed)
        try:
            while True:
                if message["type"] != "http.request":
                    raise ClientDisconnectedError
                piece = message["body"]
                pieces.append(piece)
                room -= len(piece)
                if not message["more_body"]:
                    request.body_read()
                    break
                if room < 0:
                    break
                if counted is not None:
                    counted.grow(len(piece))
                message = await receive()
        finally:
            if counted is not None:
                counted.forget()
        return b"".join(pieces)

    async def store_body(self, request: Request, receive: Receive) -> Response:
        """Receive a large body piece by piece, and execute the request.

        Raises:
            ClientDisconnectedError: the client disconnected; nothing was stored.
        """
        message = await receive()
        sender: Sender | None = message.get(MORE)
        sink = request.open_body("" if sender is None else sender.client)
        try:
            if await self._stream_body(sink, message, receive):
                request.body_read()
        except ConnectionError:
            sink.abort()
            raise ClientDisconnectedError from None
        except BaseException:
            sink.abort()
            raise
        slot = self._take_slot()
        sink.finish(slot)
        response: Response = await self._completion(slot)
        return response

    async def wait_for_events(self, listener: EventListener) -> None:
        """Wait until there is more for a stream of events, or a heartbeat is due."""
        slot = self._take_slot()
        if listener.wait(slot):
            await self._completion(slot)
        else:
            self._free.append(slot)

    async def submit_form(self, form: Form, receive: Receive, execute: Callable[..., Awaitable[Response]]) -> Response:
        """Receive a form, and execute the request that its fields make with the file as the body.

        Args:
            form: its head.
            receive: returns the next message of the body.
            execute: executes a request; its arguments are the request and `receive`, by name.

        Raises:
            ClientDisconnectedError: the client disconnected; nothing was stored.
        """
        read, begun = await self._read_fields(form, receive)
        admission = await self.accepted(read) if isinstance(read, Postponed) else read
        if isinstance(admission, Response):
            return admission
        rest: Message | None = begun

        async def receive_file() -> Message:
            nonlocal rest
            if rest is None:
                return await receive()
            message, rest = rest, None
            return message

        return await execute(admission, receive=receive_file)

    async def _read_fields(self, form: Form, receive: Receive) -> tuple[Postponed | Response, Message]:
        """Receive what comes before the file. Returns what follows, and a message with what has arrived of the file."""
        counted: IncompleteBody | None = None
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientDisconnectedError
                piece = message["body"]
                read = form.push(piece, not message["more_body"])
                if read is not None:
                    postponed, taken = read
                    return postponed, {**message, "body": piece[taken:]}
                sender: Sender | None = message.get(MORE)
                if sender is not None:
                    counted = counted or self.incomplete.body(sender.client, sender.shed)
                    counted.grow(len(piece))
        finally:
            if counted is not None:
                counted.forget()

    async def _stream_body(self, sink: BodySink, message: Message, receive: Receive) -> bool:
        """Pass the body to `sink`, from `message` on. False: the body has been refused.

        A piece waits for memory after it has arrived; no memory is reserved before, so a stalled client holds none.
        """
        while True:
            if message["type"] != "http.request":
                raise ClientDisconnectedError
            if not await self._admitted(sink):
                return False
            sink.push(message["body"])
            if not message["more_body"]:
                return True
            message = await receive()

    async def _admitted(self, sink: BodySink) -> bool:
        """Wait until the sink accepts more. False: the body has been refused."""
        while True:
            slot = self._take_slot()
            flow = sink.admit(slot)
            if flow != FLOW_WAIT:
                self._free.append(slot)
                return flow != FLOW_STOP
            await self._completion(slot)

    async def next_piece(self, download: Download) -> memoryview:
        """The next piece of a large body.

        Raises:
            DamagedObjectError: the piece is damaged; it and everything after it cannot be sent.
        """
        slot = self._take_slot()
        piece = download.next(slot)
        if piece is None:
            piece = await self._completion(slot)
        else:
            self._free.append(slot)
        if isinstance(piece, str):
            raise DamagedObjectError(piece)
        return piece

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._waiting.append(None)
        return len(self._waiting) - 1

    async def _completion(self, slot: int) -> Any:
        future = self._loop.create_future()
        self._waiting[slot] = future
        return await future

    def _drain(self) -> None:
        for slot, value in self._core.drain():
            future = self._waiting[slot]
            self._waiting[slot] = None
            self._free.append(slot)
            # A cancelled future is done: nobody waits for its value.
            if future is not None and not future.done():
                future.set_result(value)
