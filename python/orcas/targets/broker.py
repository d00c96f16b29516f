"""A delivery to a broker, over an asyncio client library: within a time limit, and confirmed.

All senders share a connection. After a failure that may be due to the connection, it is given up with everything in flight
on it, and the next attempt opens another. So no message waits in a queue of the library and arrives after later ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar

from orcas.targets.kinds import KafkaTarget, NatsTarget
from orcas.targets.loop import ClientLoop, ClosedError
from orcas.targets.sending import Failure, Message

_DISCONNECT_SEC: Final = 2.0
# What a call waits for beyond the limit of the target: that the loop has cancelled the work.
_MARGIN_SEC: Final = 5.0
_REASON_LEN_MAX: Final = 400
_GIVEN_UP: Final = Failure("the connection was given up after another failure on it")


class RefusedError(Exception):
    """Why a delivery failed, as a part of a sentence."""


_T = TypeVar("_T", bound=KafkaTarget | NatsTarget)
# A connection.
_C = TypeVar("_C")


class BrokerSender(ABC, Generic[_T, _C]):
    """A connection to a broker, for any number of senders at a time."""

    def __init__(self, target: _T) -> None:
        self._target = target
        self._loop = ClientLoop(f"orcas-target-{target.name}", self._disconnect, private=target.private)
        self._connection: _C | None = None
        self._connecting = asyncio.Lock()

    def send(self, message: Message) -> Failure | None:
        """Deliver one message. None if the broker has confirmed it."""
        return self._attempt(message)

    def probe(self) -> Failure | None:
        """Connect."""
        return self._attempt(None)

    def close(self) -> None:
        """Give the connection up."""
        self._loop.close()

    @abstractmethod
    async def connect(self) -> _C:
        """A new connection. Leaves nothing behind if it fails or is cancelled."""

    @abstractmethod
    async def publish(self, connection: _C, message: Message) -> None:
        """Returns when the broker has confirmed the message; fails otherwise."""

    @abstractmethod
    async def disconnect(self, connection: _C) -> None:
        """Close a connection, which may have failed."""

    @abstractmethod
    def is_usable(self, connection: _C) -> bool:
        """Whether a connection is still open."""

    @abstractmethod
    def is_final(self, error: Exception) -> bool:
        """Whether the message fails by itself, and always will. The connection is kept then."""

    def _attempt(self, message: Message | None) -> Failure | None:
        try:
            return self._loop.run(lambda: self._within(message), self._target.timeout_sec + _MARGIN_SEC)
        except ClosedError:
            return Failure("the sender is closed")
        except TimeoutError:
            return self._timeout()

    async def _within(self, message: Message | None) -> Failure | None:
        connection: _C | None = None
        try:
            async with asyncio.timeout(self._target.timeout_sec):
                connection = await self._connected()
                if message is not None:
                    await self.publish(connection, message)
        except asyncio.CancelledError:
            return _GIVEN_UP
        except TimeoutError:
            failure = self._timeout()
        except Exception as error:  # noqa: BLE001 - whatever the library raises, it is why the delivery failed
            failure = Failure(self._reason(error), final=self.is_final(error))
        else:
            self._loop.heard = None
            return None
        # Another sender may have replaced it already.
        if not failure.final and connection is not None and connection is self._connection:
            await self._disconnect()
        return failure

    async def _connected(self) -> _C:
        async with self._connecting:
            if self._connection is not None and not self.is_usable(self._connection):
                await self._disconnect()
            if self._connection is None:
                self._connection = await self.connect()
            return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_DISCONNECT_SEC):
                    await self.disconnect(connection)

    def _timeout(self) -> Failure:
        return Failure(self._with_heard(f"no answer within {self._target.timeout_sec} s"))

    def _reason(self, error: Exception) -> str:
        name, text = type(error).__name__, str(error)
        if isinstance(error, RefusedError) or name in text:
            return self._with_heard(text)
        return self._with_heard(f"{name}: {text}" if text else name)

    def _with_heard(self, reason: str) -> str:
        heard = self._loop.heard
        return (f"{reason} ({heard})" if heard and heard not in reason else reason)[:_REASON_LEN_MAX]
