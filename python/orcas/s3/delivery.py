"""Requests of the server itself: buckets that its start creates, and the logs of buckets (PutBucketLogging).

Records of requests that have waited long enough become objects. Each is stored by a request that root signs, so it is
treated like any other upload: encryption, versions, locks and durability are those of its bucket. Records that the server
cannot store are tried again; those that the target refuses are dropped, counted and logged. Must not know what a record
says.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import json
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

from orcas.engine import sign
from orcas.errors import ConfigurationError
from orcas.settings.config import MIB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from orcas.engine import Response
    from orcas.settings.config import Settings

    # Method, path, headers, content and query.
    Perform = Callable[[str, bytes, list[tuple[bytes, bytes]], bytes, bytes], Awaitable[Response]]

# Seconds between two looks at what is due.
_LOOK_SECONDS: Final = 1
# Bytes of objects that wait for another attempt.
_RETRIED_MAX: Final = 16 * MIB
# The path of a bucket, wherever the server listens.
_HOST: Final = "localhost"

# What everybody may do with a bucket and its objects, by the names of `mc anonymous set`.
_READ: Final = (("s3:GetBucketLocation", "s3:ListBucket"), ("s3:GetObject",))
_WRITE: Final = (
    ("s3:GetBucketLocation", "s3:ListBucketMultipartUploads"),
    ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListMultipartUploadParts", "s3:PutObject"),
)
ACCESS: Final = {
    "download": _READ, "upload": _WRITE,
    "public": (("s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"), (*_READ[1], *_WRITE[1])),
}  # fmt: skip

log = logging.getLogger("orcas.access")

LogObject = tuple[str, str, str, bytes]


class Logs(Protocol):
    """The source of log records."""

    def due_logs(self, age: float, size: int, /) -> list[LogObject]:
        """Source, bucket, key and content of what has waited for `age` seconds or has `size` bytes."""

    def drop_due_logs(self, records: int, /) -> None:
        """Count records that are lost."""


class Signing(Protocol):
    """The keys that sign."""

    @property
    def access_key(self) -> str:
        """The access key."""

    @property
    def secret_key(self) -> str:
        """The secret of the key."""


class LogDelivery:
    """Stores what is due; made on the event loop that it serves."""

    def __init__(self, logs: Logs, perform: Perform, settings: Settings, root: Signing) -> None:
        self._logs = logs
        self._perform = perform
        self._settings = settings
        self._root = root
        self._waiting: deque[LogObject] = deque()

    async def run(self) -> None:
        """Store what is due, until this is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._deliver(self._logs.due_logs(self._settings.log_delivery_sec, self._settings.log_delivery_size))

    async def deliver_all(self) -> None:
        """Store everything. What cannot be stored now is lost."""
        await self._deliver(self._logs.due_logs(0, 0))
        while self._waiting:
            self._drop(self._waiting.popleft(), "the server is stopping")

    async def _deliver(self, due: list[LogObject]) -> None:
        self._waiting.extend(due)
        for _ in range(len(self._waiting)):
            # It stays in the queue until it is stored, also if this is cancelled.
            each = self._waiting[0]
            response = await self._put(each)
            self._waiting.popleft()
            if response.status >= 500:
                self._waiting.append(each)
            elif response.status >= 300:
                self._drop(each, _code(response))
        while sum(len(content) for *_, content in self._waiting) > _RETRIED_MAX:
            self._drop(self._waiting.popleft(), "the store takes no writes")

    def _drop(self, lost: LogObject, why: str) -> None:
        source, target, _, content = lost
        self._logs.drop_due_logs(content.count(b"\n"))
        log.warning("Log records of bucket %s could not be delivered to %s: %s", source, target, why)

    async def _put(self, each: LogObject) -> Response:
        _, bucket, key, content = each
        path = f"/{bucket}/{quote(key, safe='/~')}"
        # In a thread: it may take milliseconds, in which nobody would be served.
        digest = await asyncio.to_thread(lambda: hashlib.md5(content, usedforsecurity=False).digest())
        md5 = base64.b64encode(digest)
        headers = [(b"content-md5", md5), (b"content-type", b"text/plain")]
        return await _signed(self._settings, self._root, self._perform, "PUT", path, headers, content=content)


async def create_buckets(settings: Settings, root: Signing, perform: Perform) -> None:
    """Create the buckets of `ORCAS_BUCKETS` that do not exist, with the policies that they ask for.

    Raises:
        ConfigurationError: one cannot be created.
    """
    ask = functools.partial(_signed, settings, root, perform)
    for entry in settings.buckets:
        name, _, access = entry.partition(":")
        path = f"/{quote(name, safe='')}"
        # In us-east-1, a bucket that exists can be created again.
        if (await ask("HEAD", path)).status < 300:
            continue
        response = await ask("PUT", path)
        if response.status < 300 and access:
            # A new bucket lets nobody in, whatever its policy says.
            response = await ask("DELETE", path, query="publicAccessBlock")
            if response.status < 300:
                response = await ask("PUT", path, query="policy", content=policy_for_everybody(name, access))
        if response.status >= 300:
            raise ConfigurationError(f"The bucket {name} of ORCAS_BUCKETS cannot be created: {_code(response)}.")


async def warn_of_hidden(settings: Settings, root: Signing, perform: Perform) -> None:
    """Say which bucket clients cannot reach by its path, because the server has other paths below its name."""
    # Names of buckets have no underscore, so the other paths of the server hide none.
    if settings.minio and (await _signed(settings, root, perform, "HEAD", "/minio")).status < 300:
        log.warning(
            "The bucket minio cannot be reached by its path, which has MinIO's own services: start the server without "
            "ORCAS_MINIO and copy it to another bucket, or reach it as a host (ORCAS_DOMAINS)"
        )


def policy_for_everybody(bucket: str, access: str) -> bytes:
    """The policy that lets everybody in, as `mc anonymous set` writes it."""
    of_bucket, of_objects = ACCESS[access]
    arn = f"arn:aws:s3:::{bucket}"
    statements = [
        {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": list(actions), "Resource": [resource]}
        for actions, resource in ((of_bucket, arn), (of_objects, f"{arn}/*"))
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}).encode()


async def _signed(
    settings: Settings,
    root: Signing,
    perform: Perform,
    method: str,
    path: str,
    headers: Sequence[tuple[bytes, bytes]] = (),
    *,
    query: str = "",
    content: bytes = b"",
) -> Response:
    sent = [(b"host", _HOST.encode()), (b"content-length", b"%d" % len(content)), *headers]
    keys = root.access_key, root.secret_key
    signed = sign(
        method, path.encode(), query.encode(), sent, "UNSIGNED-PAYLOAD", keys, settings.region, int(time.time())
    )
    sent += [(name.encode(), value.encode()) for name, value in signed]
    return await perform(method, path.encode(), sent, content, query.encode())


def _code(response: Response) -> str:
    return response.error.code if response.error is not None else f"status {response.status}"
