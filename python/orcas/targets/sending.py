"""A target as deliveries see it: it takes one message at a time, or says why not. Nothing here retries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """An event, or a test message, in the format of the target. `id` is the same each time that it is sent."""

    id: str
    bucket: str
    key: str
    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a delivery failed. `retry_after_sec`: what the target asks for. `final`: it wants nothing more of this."""

    reason: str
    retry_after_sec: int = 0
    final: bool = False


class Sender(Protocol):
    """A way to a target. For one thread, whose messages come one after the other."""

    def send(self, message: Message) -> Failure | None:
        """Deliver one message. None if the target has it for good. Blocks, within the time limit of the target."""

    def probe(self) -> Failure | None:
        """Whether the target can be reached, if that shows without a message. Blocks as `send` does."""

    def close(self) -> None:
        """Give the connection up, also from another thread: a message that is under way fails. Does not wait."""
