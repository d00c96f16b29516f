"""Checks of what an S3 store does with conditional writes, and of whether reads see writes: for `orcas probe`.

All objects are below a folder with a random name, and are removed in the end. Invariants: a promise counts as kept only if
every answer says so, and an answer that says nothing about it, such as 503, is no proof against it either; writes are sent
once, because one that is repeated may be refused by what it has stored itself. Must not know whose store it is.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple
from urllib.parse import quote

from orcas.errors import OrcasError, UnavailableError
from orcas.tools.imports.pool import each
from orcas.tools.imports.requests import path_of
from orcas.tools.objects import listed, refusal
from orcas.tools.session import Body, HttpTransport, RefusedError, Response, Session
from orcas.tools.transfers.places import Place
from orcas.tools.transfers.removal import below

HOLDS, BROKEN, OPEN = "holds", "does not hold", "could not be told"
WRITERS: Final = 16
_ROUNDS: Final = 4
_REQUESTS_MAX: Final = 1_500
_SECONDS_MAX: Final = 300
_CLEANING_SECONDS_MAX: Final = 60
_SILENCE_SECONDS_MAX: Final = 30

_CREATE: Final = (b"if-none-match", b"*")
# What a ranged read asks for.
_PART: Final = slice(8, 24)
# What says nothing about a condition: no answer, redirections, missing rights, a server that is busy or broken.
_TELLS_NOTHING: Final = frozenset({0, 401, 403, 408, 429, *range(300, 400), 500, *range(502, 600)})
_TRY_AGAIN: Final = 409
# Of each check: its name, what it means that it does not hold, and what S3 promises.
_PROMISES: Final = (
    ("create-existing", "who comes second replaces what is there, or does not learn that it lost",
     "`If-None-Match: *` on an existing name is refused with 412 and changes nothing, so who comes second learns it"),
    ("create-new", "no name can be taken on condition that it is free",
     "`If-None-Match: *` on a new name succeeds and what it wrote is read back, so a free name can be taken"),
    ("swap", "an update can be lost, or cannot be made on condition",
     "`If-Match` takes the current ETag alone, and no missing name, so an update that rests on an old state fails"),
    ("create-race", "several writers, or none, take themselves for the owner of a name",
     f"of {WRITERS} writers that create one name at once exactly one wins and is read, so a name has one owner"),
    ("swap-race", "updates that were acknowledged are lost",
     f"of {WRITERS} writers that replace the same ETag at once exactly one wins and is read, so no update is lost"),
    ("read-after-write", "readers act on an old state",
     "reads and ranged reads through every endpoint see a write or a deletion at once, so they give the current state"),
    ("list-after-write", "nothing follows from what a list has or lacks",
     "lists through every endpoint see a write or a deletion at once, so what is not listed does not exist"),
    ("create-after-delete", "unlike on S3, a name cannot be used again",
     "a deleted name can be created again, also behind a delete marker, so only what is never deleted stays taken"),
    ("etags", "`If-Match` takes one state for another",
     "different contents have different ETags, so an ETag says which state is meant"),
)  # fmt: skip


class Answer(NamedTuple):
    """An answer. `status` is 200 for every write and deletion that succeeded, and 0, with a reason as its body, for none."""

    status: int
    headers: dict[str, str]
    body: bytes

    def __str__(self) -> str:
        return f"status {self.status}" if self.status else f"nothing ({self.body.decode().rstrip('.')})"


class FoundError(Exception):
    """The end of a check before all of it holds: the verdict, and what was seen."""


class Probe:
    """Checks of one place in a store, which `sessions` reach. After `run`, whatever came of it, `clean` is due."""

    def __init__(self, sessions: list[Session], place: Place) -> None:
        self.place = place.folder.below(b"orcas-probe-%s/" % secrets.token_hex(8).encode())
        self.requests = 0
        self._limit, self._until = _REQUESTS_MAX, math.inf
        self._sessions, self._every = sessions, range(len(sessions))
        self._lock, self._threads = threading.Lock(), ThreadPoolExecutor(WRITERS, thread_name_prefix="orcas-probe")
        # Keys, keys with their versions in a bucket that has some, and contents by their ETags.
        self._written: set[bytes] = set()
        self._versions: set[tuple[bytes, str]] = set()
        self._contents: dict[str, set[bytes]] = {}
        for session in sessions:
            if isinstance(session.transport, HttpTransport):
                session.transport.silence_seconds_max = _SILENCE_SECONDS_MAX

    def run(self, advance: Callable[[str], None], only: frozenset[str] | None = None) -> list[dict[str, str]]:
        """Name, verdict and meaning of each check, or of these; `advance` is told of each name before.

        Raises:
            UnavailableError: an endpoint cannot be reached.
            RefusedError: nothing can be written there.
        """
        self._begin()
        self._until = time.monotonic() + _SECONDS_MAX
        checks: tuple[Callable[[], None], ...] = (
            lambda: self._creates("taken"), lambda: self._creates("free"), self._swaps,
            lambda: self._races("created", swap=False), lambda: self._races("swapped", swap=True),
            lambda: self._visible(self._reads), lambda: self._visible(self._list), lambda: self._creates("deleted"),
            self._etags,
        )  # fmt: skip
        findings = []
        for (name, broken, promise), check in zip(_PROMISES, checks, strict=True):
            if only is not None and name not in only:
                continue
            advance(name)
            verdict, meaning = HOLDS, f"{promise}."
            try:
                check()
            except FoundError as found:
                verdict, seen = found.args
                meaning = f"{seen}: {broken if verdict == BROKEN else f'nobody knows whether {promise}'}."
            findings.append({"check": name, "verdict": verdict, "meaning": meaning[0].upper() + meaning[1:]})
        return findings

    def clean(self) -> None:
        """Remove everything that was written.

        Raises:
            OrcasError: something could not be removed.
        """
        # Nothing is written any more.
        self._threads.shutdown(cancel_futures=True)
        self._limit, self._until = self.requests + _REQUESTS_MAX, time.monotonic() + _CLEANING_SECONDS_MAX
        left = self._versions or {(key, "") for key in self._written}
        if self._versions:
            # Also versions whose answers were lost.
            with contextlib.suppress(OrcasError):
                left = {*left, *below(self._sessions[0], self.place, all_versions=True)}
        with contextlib.suppress(FoundError):
            for key, version in sorted(left):
                if self._ask("DELETE", key.removeprefix(self.place.key), of=version).status in (200, 404):
                    left.remove((key, version))
        if left:
            raise OrcasError(
                f"Objects that could not be removed: {len(left)}: run `orcas rm -r --all-versions {self.place}`."
            )

    def _begin(self) -> None:
        for at, session in enumerate(self._sessions):
            _, answer = self._put(name := b"through-%d" % at, at=at)
            if answer.status == 200:
                continue
            # If it is there nevertheless. The reason is what must be said, and not that it cannot be removed.
            self._ask("DELETE", name, at=at)
            self._written.discard(self.place.key + name)
            if answer.status == 0:
                raise UnavailableError(answer.body.decode())
            code, message = refusal(Response(answer.status, answer.headers, iter([answer.body])))
            raise RefusedError(
                answer.status,
                f"{self.place} cannot be written through {session.transport.host} ({message}): name another place, or give "
                "a key that may.",
                code,
            )

    def _creates(self, state: str) -> None:
        for at in self._every:
            name = f"{state}-{at}".encode()
            before = self._stored(name)[0] if state != "free" else None
            if state == "deleted":
                self._delete(name)
            body, answer = self._put(name, _CREATE, at=at)
            _expect(answer, f"`If-None-Match: *` on a {state} name", 412 if state == "taken" else 200)
            self._see(name, before if state == "taken" else body, "after that")

    def _swaps(self) -> None:
        for at in self._every:
            _, older = self._stored(b"swap")
            before, current = self._stored(b"swap")
            _expect(self._put(b"swap", older, at=at)[1], "`If-Match` with an older ETag", 412)
            self._see(b"swap", before, "after that")
            body, answer = self._put(b"swap", current, at=at)
            _expect(answer, "`If-Match` with the current ETag", 200)
            self._see(b"swap", body, "after that")
            _expect(self._put(b"missing", current, at=at)[1], "`If-Match` for a missing name", 404, 412)
            self._see(b"missing", None, "after that")

    def _races(self, kind: str, *, swap: bool) -> None:
        for number in range(_ROUNDS):
            name = f"{kind}-{number}".encode()
            self._race(name, self._stored(name)[1] if swap else _CREATE)

    def _race(self, name: bytes, condition: tuple[bytes, bytes]) -> None:
        start = threading.Barrier(WRITERS)

        def write(number: int) -> tuple[bytes, Answer]:
            at = number % len(self._sessions)
            try:
                # As writers do that look first; and all of them are connected then.
                self._ask("GET", name, at=at)
            except FoundError:
                start.abort()
                raise
            with contextlib.suppress(threading.BrokenBarrierError):
                start.wait(2 * _SILENCE_SECONDS_MAX)
            return self._put(name, condition, at=at)

        written = each(self._threads, write, range(WRITERS))
        judge(written, self._ask("GET", name))

    def _visible(self, look: Callable[[bytes, bytes | None, str, int], None]) -> None:
        """What the first and the last endpoint are told must be there for `look` through every endpoint."""
        for writer in {0, self._every[-1]}:
            for after in ("a write", "a second write", "a deletion"):
                body: bytes | None = None
                if after == "a deletion":
                    self._delete(b"seen", writer)
                else:
                    body, _ = self._stored(b"seen", writer)
                for at in self._every:
                    look(b"seen", body, f"after {after}", at)

    def _reads(self, name: bytes, body: bytes | None, after: str, at: int) -> None:
        for part in (None, _PART):
            self._see(name, body, after, at, part)

    def _see(self, name: bytes, body: bytes | None, after: str, at: int = 0, part: slice | None = None) -> None:
        """Read an object, or a part of it, which must be this; None: there must be none."""
        given = [] if part is None else [(b"range", b"bytes=%d-%d" % (part.start, part.stop - 1))]
        answer = self._ask("GET", name, None, *given, at=at)
        what = f"a {'ranged ' if part else ''}read through {self._sessions[at].transport.host} {after}"
        _expect(answer, what, 404 if body is None else 206 if part else 200)
        if body is not None and answer.body != (body[part] if part else body):
            raise FoundError(BROKEN, f"{what} gave other content")

    def _list(self, name: bytes, body: bytes | None, after: str, at: int) -> None:
        self._count()
        what = f"a list through {self._sessions[at].transport.host} {after}"
        try:
            keys = {entry.key for entry in listed(self._sessions[at], self.place.bucket, self.place.key)}
        except OrcasError as error:
            raise FoundError(OPEN, f"{what} failed ({str(error).rstrip('.')})") from None
        if (self.place.key + name in keys) is not (body is not None):
            raise FoundError(BROKEN, f"{what} {'still has the object' if body is None else 'lacks the object'}")

    def _etags(self) -> None:
        for etag, contents in self._contents.items():
            if len(contents) > 1:
                raise FoundError(BROKEN, f"{len(contents)} contents have the ETag {etag}")

    def _delete(self, name: bytes, at: int = 0) -> None:
        if (answer := self._ask("DELETE", name, at=at)).status != 200:
            raise FoundError(OPEN, f"a deletion was answered with {answer}")

    def _stored(self, name: bytes, at: int = 0) -> tuple[bytes, tuple[bytes, bytes]]:
        """Write without a condition: the content, and the condition that it is still there."""
        body, answer = self._put(name, at=at)
        if answer.status != 200:
            raise FoundError(OPEN, f"a write was answered with {answer}")
        return body, (b"if-match", answer.headers.get("etag", "").encode("latin-1"))

    def _put(self, name: bytes, *headers: tuple[bytes, bytes], at: int = 0) -> tuple[bytes, Answer]:
        """Write a content that no other write has, but as many bytes."""
        body = secrets.token_hex(16).encode()
        answer = self._ask("PUT", name, body, *headers, at=at)
        if answer.status == 200:
            self._contents.setdefault(answer.headers.get("etag", ""), set()).add(body)
        return body, answer

    def _ask(
        self, method: str, name: bytes, body: bytes | None = None, *headers: tuple[bytes, bytes], at: int = 0,
        of: str = "",
    ) -> Answer:  # fmt: skip
        """One request, whatever its answer is; `of` a version, if that is meant."""
        self._count()
        key = self.place.key + name
        if method == "PUT":
            self._written.add(key)
        # The client sends what comes in pieces only once.
        sent = b"" if body is None else Body(len(body), iter([body]))
        query, path = f"versionId={quote(of, safe='')}" if of else "", path_of(self.place.bucket, key)
        try:
            with self._sessions[at].request(method, path, query, sent, list(headers)) as got:
                content = got.read(1 << 20)
        except UnavailableError as error:
            return Answer(0, {}, str(error).encode())
        if method != "GET" and (made := got.headers.get("x-amz-version-id")):
            self._versions.add((key, made))
        return Answer(200 if method != "GET" and 200 <= got.status < 300 else got.status, got.headers, content)

    def _count(self) -> None:
        """Count one more request, if there may be one."""
        with self._lock:
            self.requests += 1
            if self.requests > self._limit or time.monotonic() > self._until:
                raise FoundError(OPEN, f"the limit of {_REQUESTS_MAX} requests and {_SECONDS_MAX} seconds was reached")


def judge(written: list[tuple[bytes, Answer]], read: Answer) -> None:
    """Whether exactly one of the writers won, and what is read afterwards is the content of that one.

    Raises:
        FoundError: it is not so, or cannot be told.
    """
    winners = [body for body, answer in written if answer.status == 200]
    refused = {body: answer for body, answer in written if answer.status not in {200, *_TELLS_NOTHING}}
    doubts = _TELLS_NOTHING if winners else {*_TELLS_NOTHING, _TRY_AGAIN}
    unclear = [answer for _, answer in written if answer.status in doubts]
    if len(winners) > 1:
        raise FoundError(BROKEN, f"{len(winners)} of {WRITERS} writers at once were told that they won")
    if read.body in refused:
        raise FoundError(BROKEN, f"what is read is of a writer that was refused with {refused[read.body]}")
    if read.status in _TELLS_NOTHING:
        raise FoundError(OPEN, f"a read after the writers was answered with {read}")
    if winners and read.body != winners[0]:
        raise FoundError(BROKEN, "what is read is not of the writer that was told that it won")
    if unclear:
        raise FoundError(OPEN, f"{len(unclear)} of {WRITERS} writers at once were answered with {unclear[0]}")
    if not winners:
        raise FoundError(BROKEN, f"all {WRITERS} writers were refused, such as with {written[0][1]}")


def _expect(answer: Answer, what: str, *statuses: int) -> None:
    """An answer must have one of these statuses."""
    if answer.status in _TELLS_NOTHING:
        raise FoundError(OPEN, f"{what} was answered with {answer}")
    if answer.status not in statuses:
        raise FoundError(BROKEN, f"{what} was answered with {answer} instead of {' or '.join(map(str, statuses))}")
