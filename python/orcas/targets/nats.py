"""Messages to a stream of NATS JetStream, sent with nats-py (the extra `nats`).

A message is delivered when a stream has confirmed that it keeps it. Its id is in the header by which a stream drops
duplicates. The library does not reconnect by itself: when a connection ends, everything in flight on it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from nats.aio.client import Client, RawCredentials
from nats.errors import MaxPayloadError, NoServersError
from nats.js.errors import APIError, NoStreamResponseError

from orcas.targets.broker import BrokerSender, RefusedError
from orcas.targets.kinds import NatsTarget
from orcas.targets.sending import Message

# JetStream's code of an error: the message is larger than the stream takes.
_MESSAGE_SIZE_EXCEEDED: Final = 10054


class NatsConnection:
    """A client, and what tells that its connection has ended."""

    def __init__(self) -> None:
        self.client = Client()
        self.ended = asyncio.Event()


class NatsSender(BrokerSender[NatsTarget, NatsConnection]):
    """A client of NATS."""

    async def connect(self) -> NatsConnection:
        """A client that is connected to one of the servers."""
        target, connection = self._target, NatsConnection()

        async def hear(error: Exception) -> None:
            self._loop.heard = str(error) or type(error).__name__

        async def note_end() -> None:
            connection.ended.set()

        try:
            await connection.client.connect(
                list(target.servers),
                name="orcas",
                error_cb=hear,
                closed_cb=note_end,
                # One look at each server: the next attempt is the caller's.
                allow_reconnect=False, max_reconnect_attempts=1, reconnect_time_wait=0,
                connect_timeout=target.timeout_sec,
                tls=None if target.tls is None else target.tls.context(),
                **self._credentials(connection.client),
            )  # fmt: skip
            if target.tls is not None:
                _check_tls(connection.client)
        except BaseException as error:
            with contextlib.suppress(Exception):
                await connection.client.close()
            if isinstance(error, NoServersError):
                raise RefusedError("no server can be reached") from None
            raise
        return connection

    async def publish(self, connection: NatsConnection, message: Message) -> None:
        """Returns when a stream has it."""
        target = self._target
        subject = target.subject.replace("{bucket}", message.bucket)
        publishing = asyncio.ensure_future(
            connection.client.jetstream().publish(
                subject,
                message.body,
                timeout=target.timeout_sec,
                stream=target.stream,
                headers={"Nats-Msg-Id": message.id, "content-type": message.content_type},
            )
        )
        # The library waits for an answer also when the connection has ended.
        ended = asyncio.ensure_future(connection.ended.wait())
        try:
            await asyncio.wait({publishing, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not publishing.done():
                raise RefusedError("the server closed the connection")
            acknowledged = publishing.result()
        except NoStreamResponseError:
            raise RefusedError(f"no stream takes the subject {subject}") from None
        finally:
            publishing.cancel()
            ended.cancel()
        if not acknowledged.stream:
            raise RefusedError("the answer is none of a stream")

    async def disconnect(self, connection: NatsConnection) -> None:
        """Close the client."""
        await connection.client.close()

    def is_usable(self, connection: NatsConnection) -> bool:
        """Whether the client is connected."""
        return bool(connection.client.is_connected)

    def is_final(self, error: Exception) -> bool:
        """Whether the message is too large for the server or the stream."""
        return isinstance(error, MaxPayloadError) or (
            isinstance(error, APIError) and error.err_code == _MESSAGE_SIZE_EXCEEDED
        )

    def _credentials(self, client: Client) -> dict[str, Any]:
        """As functions, which are asked when they are sent: a server that does not speak TLS then gets none."""
        target = self._target

        def safely(value: str) -> Callable[[], str]:
            def give() -> str:
                if target.tls is not None:
                    _check_tls(client)
                return value

            return give

        if target.credentials is not None:
            # What is sent of them is a signature.
            return {"user_credentials": RawCredentials(f"{target.credentials}\n")}
        if target.token is not None:
            return {"token": safely(target.token)}
        if target.user is not None and target.password is not None:
            return {"user": target.user, "password": safely(target.password)}
        return {}


def _check_tls(client: Client) -> None:
    """The library speaks TLS exactly if the server asks for it.

    Raises:
        RefusedError: the server does not.
    """
    if not client._server_info.get("tls_required"):
        raise RefusedError("the server does not ask for TLS, and nothing is sent in the clear")
