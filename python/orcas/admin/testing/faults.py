"""Faults that tests ask for: which requests they meet, and what becomes of those.

A fault replaces the answer, delays it, or changes it on its way out. What the operation does to the store is either all or
nothing, as without the fault. Must not know S3 documents, and of operations only their names.
"""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal

from orcas.http.extensions import RESPONSE, ConnectionDropped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import Message, Receive, Scope, Send

    from orcas.engine import Core, Description
    from orcas.http.extensions import ReadyResponse

    Dispatch = Callable[[Scope, Receive, Send], Awaitable[None]]

Kind = Literal["latency", "error", "disk-full", "drop-before", "drop-after", "slow", "truncate", "corrupt"]

_DISK_FULL: Final = (
    "The server's disk is full. Reads and, if there is room, deletions still work; no content is stored."
)
# Slices of a slow body in a second.
_SLICES: Final = 10
_ERROR: Final = 400
# The methods of an operation by the first word of its name. Others change something.
_METHODS: Final = {
    "Get": {"GET"}, "List": {"GET"}, "Head": {"HEAD"}, "Delete": {"DELETE", "POST"},
}  # fmt: skip
_CHANGING: Final = {"PUT", "POST", "DELETE"}
_STORING: Final = {"PUT", "POST"}


@dataclass(slots=True)
class Rule:
    """Which requests get a fault. Bucket and key are patterns with `*`, `?` and `[…]`; `None` fits everything."""

    id: int
    fault: Kind
    operations: list[str] | None = None
    bucket: str | None = None
    key: str | None = None
    # Only the nth request that fits, from 1 on.
    nth: int | None = None
    # So many requests at most.
    times: int | None = None
    # Of the requests that fit, from 0 to 1, at random.
    share: float = 1.0
    seed: int = 0
    seconds: float = 1.0
    code: str = "InternalError"
    bytes: int = 0
    bytes_per_second: int = 1024
    # Requests that fitted, and those that got the fault.
    fitted: int = 0
    applied: int = 0
    methods: set[str] = field(default_factory=set)
    random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.random.seed(self.seed)
        if self.operations is not None:
            for name in self.operations:
                self.methods |= next((found for word, found in _METHODS.items() if name.startswith(word)), _CHANGING)
        elif self.fault == "disk-full":
            self.methods = _STORING
        else:
            self.methods = {"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"}

    def takes(self, asked: Description) -> bool:
        """Whether a request gets the fault. Counts it."""
        fits = (
            (self.operations is None or asked["operation"] in self.operations)
            and _fits(self.bucket, asked["bucket"])
            and _fits(self.key, asked["key"])
        )
        if not fits:
            return False
        self.fitted += 1
        if self.nth is not None and self.fitted != self.nth:
            return False
        if self.times is not None and self.applied >= self.times:
            return False
        if self.share < 1 and self.random.random() >= self.share:
            return False
        self.applied += 1
        return True


def path_prefix(rule: Rule) -> bytes:
    """The first bytes of the path of every request that fits, unless its host names the bucket or the path is encoded."""
    bucket = _literal(rule.bucket)
    if bucket != rule.bucket or rule.key is None:
        return f"/{bucket}".encode()
    return f"/{bucket}/{_literal(rule.key)}".encode()


def _literal(pattern: str | None) -> str:
    """The beginning of a pattern, up to the first sign that stands for others."""
    return re.split(r"[*?[]", pattern or "", maxsplit=1)[0]


def _fits(pattern: str | None, name: str | None) -> bool:
    return pattern is None or (name is not None and fnmatchcase(name, pattern))


async def inject(rule: Rule, core: Core, dispatch: Dispatch, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request as the rule says.

    Raises:
        ConnectionDropped: the connection is to end without the rest of the response.
    """
    match rule.fault:
        case "latency":
            await asyncio.sleep(rule.seconds)
            await dispatch(scope, receive, send)
        case "error" | "disk-full":
            # A client that sends its body first would otherwise see a broken connection.
            while (message := await receive())["type"] == "http.request" and message["more_body"]:
                pass
            code, text = ("ServiceUnavailable", _DISK_FULL) if rule.fault == "disk-full" else (rule.code, None)
            await send({"type": RESPONSE, "response": core.refusal(scope["method"], scope["raw_path"], code, text)})
        case "drop-before":
            raise ConnectionDropped
        case "drop-after":
            await dispatch(scope, receive, _drop)
        case "slow" | "truncate" | "corrupt":
            await dispatch(scope, receive, _Altered(rule, send).send)


async def _drop(_: Message) -> None:
    raise ConnectionDropped


@dataclass(frozen=True, slots=True)
class _Ready:
    """A response that is sent in place of another one."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    closes: bool
    download: _Length
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class _Length:
    length: int


class _Altered:
    """Passes a response on with a body that is slow, cut short, or has a wrong byte. Errors stay as they are."""

    def __init__(self, rule: Rule, send: Send) -> None:
        self._rule = rule
        self._send = send
        self._left = rule.bytes
        self._is_intact = False

    async def send(self, message: Message) -> None:
        """As of ASGI, with `orcas.http.extensions`."""
        if message["type"] == RESPONSE:
            response: ReadyResponse = message["response"]
            self._is_intact = response.status >= _ERROR
            body = response.body
            if self._is_intact or response.download is not None or not body:
                await self._send(message)
            else:
                # As a body in pieces, of which there is one.
                ready = _Ready(response.status, response.headers, response.closes, _Length(len(body)))
                await self._send({"type": RESPONSE, "response": ready})
                await self._pass({"type": "http.response.body", "body": body, "more_body": False})
        elif message["type"] == "http.response.body" and not self._is_intact:
            await self._pass(message)
        else:
            await self._send(message)

    async def _pass(self, message: Message) -> None:
        body, more = message["body"], message.get("more_body", False)
        if self._rule.fault == "truncate":
            if self._left < len(body):
                await self._send({**message, "body": body[: self._left], "more_body": True})
                raise ConnectionDropped
            self._left -= len(body)
        elif self._rule.fault == "corrupt" and body:
            body = bytes([body[0] ^ 1, *bytes(body[1:])])
        elif self._rule.fault == "slow":
            step = max(1, self._rule.bytes_per_second // _SLICES)
            while len(body) > step:
                await self._send({**message, "body": body[:step], "more_body": True})
                await asyncio.sleep(step / self._rule.bytes_per_second)
                body = body[step:]
            await asyncio.sleep(len(body) / self._rule.bytes_per_second)
        await self._send({**message, "body": body, "more_body": more})
