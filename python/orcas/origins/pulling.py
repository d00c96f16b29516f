"""Pulls: which buckets have an origin, and fetches under way, of which there are few and each serves all who wait.

A request waits for a bounded time; the fetch goes on for later ones. Every fetch ends: an origin that is silent, or so
slow that a piece takes too long, is given up. Must not know requests; the dispatcher sends them again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from orcas.control.origins import Origin
from orcas.control.root import Root
from orcas.engine import Core

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from orcas.iam.directory import Directory
    from orcas.origins.transport import OriginTransport
    from orcas.settings.config import Settings

# Buckets that have an origin.
ORIGINS_MAX: Final = 100
# Fetches at a time, in all and from one origin, so that a slow one leaves threads to the others.
_FETCHES_MAX: Final = 64
_FETCHES_OF_ORIGIN_MAX: Final = 16
# Times the limit of silence: what a request waits for, and what a piece of 1 MiB may take.
_WAITS: Final = 2
_PIECE_WAITS: Final = 4
# Characters of a cause that are kept.
_CAUSE_MAX: Final = 300
# Seconds between two looks at a fetch.
_LOOK_SECONDS: Final = 1.0

_STORED: Final = "stored"
_MISSING: Final = "missing"
_DAMAGED: Final = "damaged"
# Code and message of the answer, by the reason why there is no object.
ANSWERS: Final[dict[str, tuple[str, str]]] = {
    "unreachable": ("ServiceUnavailable", "The origin of this bucket cannot be reached, or has failed."),
    "slow": ("ServiceUnavailable", "The origin of this bucket did not send the object in time."),
    "refused": ("ServiceUnavailable", "The origin of this bucket refused to send the object."),
    "truncated": ("ServiceUnavailable", "The origin of this bucket broke off in the middle of the object."),
    "wrong_bytes": ("ServiceUnavailable", "The origin of this bucket sent bytes that do not match their digest."),
    "changed": ("ServiceUnavailable", "The object was replaced in the origin of this bucket while it was read."),
    "too_large": ("EntityTooLarge", "The object in the origin of this bucket is larger than the bucket fetches."),
    "unsafe_key": ("InvalidArgument", 'The origin of this bucket is asked for no key with a part "." or "..".'),
    "quota": ("QuotaExceeded", "The object in the origin of this bucket would exceed a quota."),
    "damaged": ("ServiceUnavailable", "What this store knows of the origin of this bucket is damaged."),
    "store": ("ServiceUnavailable", "The object from the origin of this bucket could not be stored."),
}
_BUSY: Final = ("SlowDown", "The object is being fetched from the origin of this bucket. Ask again later.")

log = logging.getLogger("orcas.origins")


@dataclass(slots=True)
class _Use:
    """An origin, its fetches under way and the connections that are kept for others, and what has become of fetches."""

    origin: Origin
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_FETCHES_OF_ORIGIN_MAX))
    kept: list[OriginTransport] = field(default_factory=list)
    context: ssl.SSLContext | None = None
    results: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    failure: str | None = None

    def close(self) -> None:
        """End the connections that are kept."""
        while self.kept:
            self.kept.pop().close()


def _use_of(origin: Origin) -> _Use:
    if origin.damage is None:
        return _Use(origin)
    fields = {"bucket": origin.bucket, "cause": origin.damage}
    log.error("The origin of a bucket is damaged", extra={"orcas": fields, "kind": origin.bucket})
    return _Use(origin, failure=f"{_DAMAGED}: {origin.damage}")


class Pulls:
    """Fetches what buckets lack; made on the event loop that it serves. `app` takes the requests that store objects."""

    def __init__(self, core: Core, app: ASGIApp, root: Root, region: str) -> None:
        self._core = core
        self._app = app
        self._root = root
        self._region = region
        self._loop = asyncio.get_running_loop()
        self._uses: dict[str, _Use] = {}
        # Learns which buckets have an origin.
        self.replaced: Callable[[list[str]], None] = lambda _: None
        self._under_way: dict[tuple[str, str], asyncio.Task[str]] = {}
        self._fetching: set[OriginTransport] = set()
        self._room = asyncio.Semaphore(_FETCHES_MAX)
        # A fetch takes one thread, and another one while a body is read.
        self._threads = ThreadPoolExecutor(2 * _FETCHES_MAX, "orcas-pull")
        self._stop = threading.Event()

    @property
    def buckets(self) -> dict[str, _Use]:
        """The names of buckets that have an origin, as keys."""
        return self._uses

    def replace(self, origins: dict[str, Origin]) -> None:
        """Use these origins from now on. Fetches under way go on."""
        former = self._uses
        self._uses = {
            bucket: use if (use := former.pop(bucket, None)) is not None and use.origin == origin else _use_of(origin)
            for bucket, origin in origins.items()
        }
        for use in former.values():
            use.close()
        self.replaced(list(self._uses))

    def describe(self) -> list[dict[str, Any]]:
        """All origins, without secrets, with what has become of fetches since the start."""
        return [
            {**use.origin.shown(), "fetches": dict(use.results), "bytes": use.bytes, "last_failure": use.failure}
            for _, use in sorted(self._uses.items())
        ]

    def counts(self) -> list[tuple[str, dict[str, int], int]]:
        """Bucket, fetches by result, and bytes that were stored."""
        return [(bucket, dict(use.results), use.bytes) for bucket, use in sorted(self._uses.items())]

    async def pull(self, bucket: str, key: str) -> tuple[str, str] | bool:
        """Fetch an object. True: it may be here now; False: there is none; otherwise code and message of an answer."""
        use = self._uses.get(bucket)
        if use is None:
            return False
        if self._stop.is_set():
            return ANSWERS["store"]
        task = self._under_way.get((bucket, key))
        if task is None:
            task = self._loop.create_task(self._fetch(use, key))
            self._under_way[bucket, key] = task
            task.add_done_callback(lambda _: self._under_way.pop((bucket, key), None))
        try:
            async with asyncio.timeout(_WAITS * use.origin.timeout_sec):
                result = await asyncio.shield(task)
        except TimeoutError:
            return _BUSY
        if result in (_STORED, _MISSING):
            return result == _STORED
        return ANSWERS.get(result, _BUSY)

    async def close(self) -> None:
        """End what is under way. Objects are whole or absent."""
        self._stop.set()
        for transport in self._fetching:
            transport.abort()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        for use in self._uses.values():
            use.close()
        await asyncio.to_thread(self._threads.shutdown)

    async def _fetch(self, use: _Use, key: str) -> str:
        """The result of a fetch; empty if it did not begin in time."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_WAITS * use.origin.timeout_sec):
                    await stack.enter_async_context(use.room)
                    await stack.enter_async_context(self._room)
            except TimeoutError:
                return ""
            if self._stop.is_set():
                return ""
            if use.origin.damage is not None:
                use.results[_DAMAGED] += 1
                return _DAMAGED
            if self._core.bucket_id(use.origin.bucket) != use.origin.bucket_id:
                log.info("Bucket %s is not the one whose origin was set, so it has none", use.origin.bucket)
                return _MISSING
            result = await self._fetched(use, key)
        use.results[result] += 1
        return result

    async def _fetched(self, use: _Use, key: str) -> str:
        # Made when it is first needed: a start without origins does not import the client.
        from orcas.origins.fetching import FetchError, fetch

        transport = await self._transport(use)
        self._fetching.add(transport)
        work = asyncio.ensure_future(self._run(fetch, use.origin, key, transport, self._session(), self._stop))
        try:
            while not (await asyncio.wait({work}, timeout=_LOOK_SECONDS))[0]:
                if time.monotonic() - transport.moved > _PIECE_WAITS * use.origin.timeout_sec or self._stop.is_set():
                    transport.abort()
            use.bytes += work.result()
            use.kept.append(transport)
            return _STORED
        except FetchError as error:
            if error.reason == _MISSING:
                use.kept.append(transport)
                return _MISSING
            transport.close()
            # The origin may say anything.
            cause = str(error)[:_CAUSE_MAX]
            use.failure = f"{error.reason}: {cause}"
            fields = {"bucket": use.origin.bucket, "reason": error.reason, "cause": cause}
            log.warning("An object could not be fetched from an origin", extra={"orcas": fields, "kind": error.reason})
            return error.reason
        except BaseException:
            transport.close()
            raise
        finally:
            self._fetching.discard(transport)

    async def _transport(self, use: _Use) -> OriginTransport:
        from orcas.origins.transport import OriginTransport

        if use.kept:
            transport = use.kept.pop()
            transport.begin()
            return transport
        if use.context is None and use.origin.url.startswith("https:"):
            # Reads the certificates of all CAs.
            use.context = await asyncio.to_thread(ssl.create_default_context)
        return OriginTransport(use.origin, use.context)

    def _session(self) -> Any:
        from orcas.tools.inside import LocalTransport
        from orcas.tools.session import Session

        keys = self._root.access_key, self._root.secret_key
        return Session(LocalTransport(self._app, self._loop, self._threads), keys, self._region)

    def _run(self, work: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        return self._loop.run_in_executor(self._threads, work, *arguments)


async def pulls_of(
    core: Core, app: ASGIApp, root: Root, settings: Settings, directory: Directory | None, *, serves: bool
) -> Pulls:
    """The pulls of a store. A command has none, nor does a store that is open for salvage.

    Raises:
        UnavailableError: they cannot be read.
    """
    pulls = Pulls(core, app, root, settings.region)
    if serves and directory is not None:
        pulls.replace(await directory.servers(Origin))
    return pulls
