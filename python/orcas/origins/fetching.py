"""A fetch: an object of an origin, verified and stored, or the reason why not.

It is the copy of an import, so bytes count as right only if they match an MD5 or a checksum of the origin, and with a
condition, so it never replaces what came first. Blocks; for a thread.
"""

from __future__ import annotations

import http.client
import threading
from typing import Final

from orcas.control.origins import Origin
from orcas.errors import OrcasError
from orcas.origins.transport import OriginTransport, TooLargeError
from orcas.targets.addresses import NotPublicError
from orcas.tools.imports.requests import UNSAFE_KEY, BrokenOffError, ChangedError, ObjectError, StoppedError
from orcas.tools.imports.server import ServerSource
from orcas.tools.imports.target import Target
from orcas.tools.session import Session

# How often an object is read that is replaced meanwhile.
_ATTEMPTS: Final = 2
# Codes of errors of the store about bytes that are not those of the digest.
_WRONG: Final = frozenset({"BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch"})
# The answer to HEAD has no code.
_MISSING: Final = frozenset({"NoSuchKey", "status 404"})


class FetchError(Exception):
    """An object was not stored. `reason` is one of those that `orcas.origins.pulling` has an answer for."""

    def __init__(self, reason: str, cause: str) -> None:
        super().__init__(cause)
        self.reason = reason


def fetch(origin: Origin, key: str, transport: OriginTransport, store: Session, stop: threading.Event) -> int:
    """Store an object of an origin; the bytes that were stored, 0 if an object came first.

    Raises:
        FetchError: it was not stored.
    """
    keys = None if origin.access_key is None else (origin.access_key, origin.secret_key)
    source = ServerSource(Session(transport, keys, origin.region), transport.host)
    target = Target(store, origin.bucket, b"", stop, only_new=True)
    try:
        for left in reversed(range(_ATTEMPTS)):
            try:
                return source.copy(origin.source, source.find(origin.source, key.encode()), target).size
            except ChangedError:
                if not left:
                    raise
    except (ObjectError, OrcasError, TooLargeError, NotPublicError, StoppedError) as error:
        if isinstance(error, ObjectError) and error.at_target and error.status == http.client.PRECONDITION_FAILED:
            return 0
        stopped = ("store", "the server is stopping")
        raise FetchError(*(stopped if stop.is_set() else _why(error, origin, transport))) from error
    raise AssertionError("the last attempt returns or raises")


def _why(error: Exception, origin: Origin, transport: OriginTransport) -> tuple[str, str]:
    """Reason and cause of a failure."""
    # A head that was cut off reads like a short one.
    if transport.aborted or isinstance(error.__cause__, TimeoutError):
        return "slow", "nothing came in time"
    if isinstance(error, TooLargeError):
        return "too_large", f"it has more than {origin.object_bytes_max} bytes"
    if isinstance(error, NotPublicError):
        return "unreachable", f"{transport.host} has no public address, and the origin is not marked private"
    if isinstance(error, ObjectError):
        return _reason(error), str(error)
    return "truncated" if isinstance(error, BrokenOffError) else "unreachable", str(error)


def _reason(error: ObjectError) -> str:
    if isinstance(error, ChangedError):
        return "changed"
    if error.code == UNSAFE_KEY:
        return "unsafe_key"
    if error.code in _WRONG:
        return "wrong_bytes"
    if error.at_target:
        return "quota" if error.code == "QuotaExceeded" else "store"
    if error.status == http.client.NOT_FOUND and error.code in _MISSING:
        return "missing"
    return "unreachable" if error.is_busy else "refused"
