"""`orcas.testing`: faults, a clock, a record of requests, and a fresh store for each test, of a server in memory.

    import orcas

    with orcas.Server(memory=True) as server, orcas.testing.Control(server) as control:
        s3 = server.client()
        with control.fault("error", operation="CreateBucket", code="SlowDown", times=2):
            s3.create_bucket(Bucket="photos")  # boto3 tries again
        control.advance(days=31)
        control.reset()

The pytest plugin has this as the fixture `orcas_control`; unittest and other frameworks use it as above. Must not import
boto3, pytest or the server.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import mimetypes
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import quote

from orcas.errors import OrcasError

if TYPE_CHECKING:
    from orcas.server import Server

FaultKind = Literal["latency", "error", "disk-full", "drop-before", "drop-after", "slow", "truncate", "corrupt"]


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """An S3 request that the server has answered, or broken off.

    `status` and `code` are those of the response, `None` without one; `fault` is the kind of the fault that it got, if
    any. `headers` are in lower case and without the signature.
    """

    operation: str | None
    bucket: str | None
    key: str | None
    method: str
    path: str
    query: str
    headers: dict[str, str]
    status: int | None
    code: str | None
    fault: str | None
    seconds: float


def settings_for_tests(settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings of a server for tests: in memory, with a master key, so that uploads may ask for encryption."""
    import base64

    found = {"memory": True, **(settings or {})}
    if not {"master_key", "master_passphrase"} & set(found):
        found["master_key"] = base64.b64encode(os.urandom(32)).decode()
    return found


class Fault:
    """A fault that the server has. As a context manager, it ends with the block."""

    def __init__(self, control: Control, number: int) -> None:
        self._control = control
        self._number = number

    @property
    def applied(self) -> int:
        """How many requests have got it; 0 if it has been deleted."""
        found = self._control._ask("GET", "faults")["faults"]
        return next((fault["applied"] for fault in found if fault["id"] == self._number), 0)

    def delete(self) -> None:
        """Delete it."""
        self._control._ask("DELETE", f"faults/{self._number}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete()


@dataclass(frozen=True, slots=True)
class State:
    """The buckets and objects at one moment, and how far the clock was ahead, in milliseconds."""

    buckets: tuple[str, ...]
    snapshot: str
    ahead_ms: int


class Control:
    """What a test may ask of a server in memory.

    Args:
        server: an `orcas.Server` with `memory=True`.

    Every method raises `OrcasError` if the server cannot be reached, or refuses; one that has its store on disk does.
    """

    def __init__(self, server: Server) -> None:
        import ssl

        from orcas.tools.session import HttpTransport, Session

        keys = server.access_key, server.secret_key
        context = None if server.ca is None else ssl.create_default_context(cafile=server.ca)
        self._session = Session(HttpTransport(server.endpoint, context=context), keys, server.region, "of the server")

    def close(self) -> None:
        """Close the connection. The server stays as it is."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reset(self, to: State | None = None) -> None:
        """Delete all buckets, faults and the record, and let the clock show the time of the machine.

        With `to`, buckets and clock become as they were then, as with `restore`. What cannot come back is left out:
        buckets with Object Lock keep what they have, and those that were deleted meanwhile stay deleted.
        """
        if to is None:
            self._ask("POST", "reset")
            return
        self.clear_faults()
        self._ask("DELETE", "requests")
        self._ask("PUT", "clock", {"ahead_ms": to.ahead_ms, "lifecycle": False})
        self._restore(to, unless=("InvalidBucketState", "NoSuchBucket", "NoSuchSnapshot"))

    def create_bucket(self, bucket: str, versioning: str = "unversioned") -> None:
        """Create a bucket whose versioning is `unversioned`, `enabled` or `suspended`. One that exists is taken as it is."""
        root = f"/{quote(bucket, safe='')}"
        self._put(root, b"", (200, 409))
        if versioning != "unversioned":
            status = f"<Status>{versioning.capitalize()}</Status>"
            body = f"<VersioningConfiguration>{status}</VersioningConfiguration>".encode()
            self._put(root, body, (200,), query="versioning=")

    def buckets(self) -> list[str]:
        """The names of all buckets, whatever faults there are."""
        return [entry["name"] for entry in self._session.admin("GET", "stats")["buckets"]]

    def drop_bucket(self, bucket: str) -> None:
        """Delete a bucket with all objects, versions, uploads and snapshots, locked or not."""
        self._ask("DELETE", f"buckets/{quote(bucket, safe='')}")

    def fault(
        self,
        kind: FaultKind,
        *,
        operation: str | Iterable[str] | None = None,
        bucket: str | None = None,
        key: str | None = None,
        nth: int | None = None,
        times: int | None = None,
        share: float = 1.0,
        seed: int = 0,
        seconds: float = 1.0,
        code: str = "InternalError",
        bytes: int = 0,  # noqa: A002 - the name in the admin API
        bytes_per_second: int = 1024,
    ) -> Fault:
        """Let requests fail from now on. Of several faults, the first that fits a request counts.

        Args:
            kind: `latency`: the request waits for `seconds`. `error`: it is answered with `code`, an error code of S3,
                and changes nothing. `disk-full`: as if the disk were full; if no `operation` is given, requests that
                change something. `drop-before`, `drop-after`: the connection ends without a response, before or after
                the operation. `slow`: the body of the response comes at `bytes_per_second`. `truncate`: the connection
                ends after so many `bytes` of the body. `corrupt`: a byte of the body is wrong.
            operation: names of S3 operations, such as `PutObject`.
            bucket: a pattern with `*`, `?` and `[…]`, as of `fnmatch`.
            key: a pattern.
            nth: only this request of those that fit, counted from 1.
            times: so many requests at most.
            share: so many of the requests that fit, from 0 to 1, at random; the same ones for the same `seed`.
        """
        order = {
            "fault": kind, "bucket": bucket, "key": key, "nth": nth, "times": times, "share": float(share),
            "seed": seed, "seconds": float(seconds), "code": code, "bytes": bytes, "bytes_per_second": bytes_per_second,
            "operations": [operation] if isinstance(operation, str) else None if operation is None else list(operation),
        }  # fmt: skip
        return Fault(self, self._ask("POST", "faults", order)["id"])

    def clear_faults(self) -> None:
        """Delete all faults."""
        self._ask("DELETE", "faults")

    def advance(self, duration: dt.timedelta | None = None, *, lifecycle: bool = True, **units: float) -> None:
        """Set the clock of the server ahead, by a duration or its `days`, `hours`, `minutes` and `seconds`.

        A negative duration sets it back. Presigned URLs and retentions end, and lifecycle rules remove what has expired,
        before this returns; `lifecycle` false leaves it to be removed later. Signatures of clients, which do not know this
        clock, stay valid.
        """
        try:
            by = duration if duration is not None else dt.timedelta(**units)
        except TypeError:
            given = ", ".join(units)
            raise TypeError(f"advance takes a timedelta, or days, hours, minutes and seconds, not {given}") from None
        ahead_ms = self._ask("GET", "clock")["ahead_ms"] + by // dt.timedelta(milliseconds=1)
        self._ask("PUT", "clock", {"ahead_ms": ahead_ms, "lifecycle": lifecycle})

    def set_clock(self, time: dt.datetime | None, *, lifecycle: bool = True) -> None:
        """Let the clock of the server go on from this time, in the past or in the future; None: that of the machine.

        Otherwise as `advance`. The time has a time zone, as that of `datetime.now(UTC)` has.
        """
        order: dict[str, Any] = {"ahead_ms": 0} if time is None else {"now_ms": _unix_ms(time)}
        self._ask("PUT", "clock", order | {"lifecycle": lifecycle})

    def record(self) -> None:
        """Begin an empty record of requests."""
        self._ask("POST", "requests")

    def requests(self, operation: str | None = None) -> list[RecordedRequest]:
        """The S3 requests since `record`, at most the newest 10,000; with `operation`, only those."""
        found = [RecordedRequest(**entry) for entry in self._ask("GET", "requests")["requests"]]
        return [request for request in found if operation is None or request.operation == operation]

    def seed(self, directory: str | Path, bucket: str, prefix: str = "") -> int:
        """Put all files below a directory into a bucket, which is created if it does not exist. Returns how many.

        A key is the prefix and the path within the directory, with `/`. The content type follows from the name.
        """
        place = Path(directory)
        if not place.is_dir():
            raise OrcasError(f"{place} is not a directory: name one.")
        self.create_bucket(bucket)
        root = f"/{quote(bucket, safe='')}"
        count = 0
        for path in sorted(place.rglob("*")):
            if path.is_file():
                key = f"{prefix}{path.relative_to(place).as_posix()}"
                kind = mimetypes.guess_type(path.name)[0] or "binary/octet-stream"
                self._put(f"{root}/{quote(os.fsencode(key), safe='/~')}", path.read_bytes(), (200,), kind)
                count += 1
        return count

    def snapshot(self) -> State:
        """Keep all buckets as they are now, for `restore`. Takes the same time for any number of objects."""
        name = f"test-{secrets.token_hex(8)}"
        buckets = tuple(self.buckets())
        for bucket in buckets:
            self._session.admin("POST", f"buckets/{quote(bucket, safe='')}/snapshots", {"name": name})
        return State(buckets, name, self._ask("GET", "clock")["ahead_ms"])

    def restore(self, state: State) -> None:
        """Give all buckets their objects of that moment, and delete buckets that are newer. May be repeated.

        Buckets that a state has cannot be deleted until `forget` or `reset`. One with Object Lock cannot be restored.
        """
        self._restore(state, unless=())

    def forget(self, state: State) -> None:
        """Keep a state no longer: its buckets can be deleted again."""
        for bucket in state.buckets:
            with _unless("NoSuchBucket", "NoSuchSnapshot"):
                self._session.admin("DELETE", f"buckets/{quote(bucket, safe='')}/snapshots/{state.snapshot}")

    def _restore(self, state: State, unless: tuple[str, ...]) -> None:
        for bucket in self.buckets():
            if bucket not in state.buckets:
                self.drop_bucket(bucket)
        for bucket in state.buckets:
            with _unless(*unless):
                self._session.admin("POST", f"buckets/{quote(bucket, safe='')}/restore", {"snapshot": state.snapshot})

    def _ask(self, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._session.admin(method, f"test/{path}", order)

    def _put(self, raw_path: str, body: bytes, good: tuple[int, ...], kind: str = "", query: str = "") -> None:
        from orcas.tools.objects import refusal
        from orcas.tools.session import RefusedError

        extra = [(b"content-type", kind.encode())] if kind else []
        with self._session.request("PUT", raw_path, query, body, extra) as answer:
            if answer.status not in good:
                code, message = refusal(answer)
                raise RefusedError(answer.status, f"PUT {raw_path} was refused ({message}): correct the request.", code)
            answer.read()


@contextlib.contextmanager
def _unless(*codes: str) -> Iterator[None]:
    """Pass over errors of the admin API with these codes."""
    from orcas.tools.session import RefusedError

    try:
        yield
    except RefusedError as error:
        if error.code not in codes:
            raise


def _unix_ms(time: dt.datetime) -> int:
    if time.tzinfo is None:
        raise ValueError("set_clock takes a time with a time zone, such as datetime.now(UTC), not a naive one")
    return (time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)
