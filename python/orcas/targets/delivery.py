"""The delivery of events to targets: they are taken from the journal, delivered, retried, or become dead letters.

A thread for each target takes a few events at a time. Events of one key go through one sender, one after the other;
senders are parallel. The place in the journal is kept in a file, and moves on only when everything before it was
delivered or is a durable dead letter. So every event is delivered at least once, and in order for a key. Must not know
notifications, nor how a target is reached.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypedDict

from orcas.control.files import read_secret_file, write_secret_file
from orcas.process.backoff import backoff
from orcas.targets.dead import DeadLetters, Letter
from orcas.targets.kinds import Format, Target
from orcas.targets.senders import open_senders
from orcas.targets.sending import Failure, Message, Sender

# Where places and dead letters are, in the data directory.
DIRECTORY: Final = "webhooks"
_SENDERS: Final = 4
_WAIT_MS: Final = 500
# Without deliveries, the place is written this often: what is looked at again after a restart is bounded.
_SAVE_SEC: Final = 60.0
_RETRY_SEC: Final = 1.0
_RETRY_SEC_MAX: Final = 300.0
_PAUSE_SEC: Final = 5.0
# When the server stops: what is under way may be confirmed, and what was given up may end.
_FINISH_SEC: Final = 2.0
_END_SEC: Final = 3.0

log = logging.getLogger("orcas.targets")


class Delivery(TypedDict):
    """An event that a notification sends to a target. `message`: in S3's structure.

    `is_test`: it is no event, but tells that a notification names the target. `time_ms`: when it happened, since 1970.
    """

    id: str
    time_ms: int
    bucket: str
    key: str
    message: bytes
    is_test: bool


class TargetCounts(TypedDict):
    """What a target has, and what it has not.

    `after`: the place behind everything that was delivered or is a dead letter; None before the first look. `since_ms`: no
    event that it lacks is older. `ok`, `retried`, `dead`: attempts by result. `waiting`: dead letters now.
    """

    name: str
    after: str | None
    since_ms: int
    ok: int
    retried: int
    dead: int
    waiting: int
    gaps: int


class Reader(Protocol):
    """The journal behind a place."""

    def after(self) -> str | None:
        """The place behind everything that was returned. None: the store is closed."""

    def next(self, wait_ms: int, /) -> tuple[Sequence[Delivery], str, bool] | None:
        """Some events, the place behind them, and whether events before them are gone. None: the store is closed.

        Waits for events if there are none.
        """


class Source(Protocol):
    """The journal of events."""

    def deliveries(self, target: str, after: str | None, /) -> Reader | None:
        """The events for a target behind a place, or behind that of now."""


class Deliveries:
    """The targets of a server, and what is under way to them."""

    def __init__(self, source: Source, targets: Mapping[str, Target], data: Path) -> None:
        directory = data / DIRECTORY
        if targets:
            directory.mkdir(mode=0o700, exist_ok=True)
        self._workers = {name: _Worker(source, target, directory) for name, target in targets.items()}

    def start(self) -> None:
        """Begin to deliver."""
        for worker in self._workers.values():
            worker.start()

    def close(self) -> None:
        """End deliveries. What was not confirmed is delivered again by the next server. Blocks for a short time."""
        for worker in self._workers.values():
            worker.stop.set()
        self._join(_FINISH_SEC)
        for worker in self._workers.values():
            worker.end()
        self._join(_END_SEC)

    def _join(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for worker in self._workers.values():
            if worker.is_alive():
                worker.join(max(0.0, until - time.monotonic()))

    def describe(self) -> list[dict[str, Any]]:
        """The targets and how they are."""
        return [worker.describe() for worker in self._workers.values()]

    def counts(self) -> list[TargetCounts]:
        """The metrics of each target."""
        return [worker.counts() for worker in self._workers.values()]

    def dead(self, name: str) -> DeadLetters:
        """The dead letters of a target.

        Raises:
            KeyError: there is no such target.
        """
        return self._workers[name].dead

    def test(self, name: str) -> Failure | None:
        """Send a test message to a target now, once, over a connection of its own. Why it was not taken. Blocks.

        Raises:
            KeyError: there is no such target.
        """
        return self._workers[name].test()

    def resend(self, name: str) -> int:
        """Try the dead letters of a target once more, soon, and return how many there are.

        Raises:
            KeyError: there is no such target.
        """
        worker = self._workers[name]
        worker.resend.set()
        return len(worker.dead)


@dataclass(slots=True)
class _Counts:
    delivered: int = 0
    retried: int = 0
    dead: int = 0
    gaps: int = 0


class _Stopped(Exception):  # noqa: N818 - a signal
    """The server is stopping."""


class _Worker(threading.Thread):
    def __init__(self, source: Source, target: Target, directory: Path) -> None:
        super().__init__(name=f"orcas-target-{target.name}", daemon=True)
        self._source = source
        self._target = target
        self._place = directory / f"{target.name}.json"
        self.dead = DeadLetters(directory / f"{target.name}.dead")
        self.stop = threading.Event()
        self.resend = threading.Event()
        self._senders = open_senders(target, _SENDERS)
        self._lock = threading.Lock()
        self._counts = _Counts()
        self._failing: str | None = None
        self._after: str | None = None
        self._since_ms = _now_ms()

    def end(self) -> None:
        """Give up what is under way. The next server delivers it again."""
        self.stop.set()
        for sender in self._senders:
            sender.close()

    def describe(self) -> dict[str, Any]:
        """How the target is. `failing`: why the last attempt failed, if it did."""
        with self._lock:
            return {
                "name": self._target.name, "type": self._target.kind, "address": self._target.address,
                "destination": self._target.destination, "format": self._target.format,
                "delivered": self._counts.delivered, "failed_attempts": self._counts.retried + self._counts.dead,
                "gaps": self._counts.gaps, "dead": len(self.dead), "full": self.dead.is_full, "failing": self._failing,
            }  # fmt: skip

    def test(self) -> Failure | None:
        """Send a test message past the queue. Nothing is counted."""
        sender = open_senders(self._target, 1)[0]
        try:
            return sender.send(_test_message(self._target.format))
        finally:
            sender.close()

    def counts(self) -> TargetCounts:
        """The metrics of the target."""
        with self._lock:
            counts = self._counts
            return {
                "name": self._target.name, "after": self._after, "since_ms": self._since_ms, "ok": counts.delivered,
                "retried": counts.retried, "dead": counts.dead, "waiting": len(self.dead), "gaps": counts.gaps,
            }  # fmt: skip

    def run(self) -> None:
        """Deliver until the server stops."""
        with ThreadPoolExecutor(_SENDERS + 1, thread_name_prefix=self.name) as threads:
            threads.submit(self._probe)
            while not self.stop.is_set():
                try:
                    self._follow(threads)
                    break
                except _Stopped:
                    break
                except Exception as error:  # noqa: BLE001 - logged; what was not delivered is read again
                    if not self.stop.is_set():
                        log.error("Deliveries to the target %s cannot go on: %s", self._target.name, error)
                        self.stop.wait(_PAUSE_SEC)
        self.end()

    def _probe(self) -> None:
        """Say at the start what is known of a target only when the first event comes otherwise."""
        failure = self._senders[0].probe()
        if failure is not None and not self.stop.is_set():
            log.warning(
                "The target %s cannot be reached, and its events wait: %s. `orcas events targets` shows how it is",
                self._target.name, failure.reason,
            )  # fmt: skip

    def _follow(self, threads: ThreadPoolExecutor) -> None:
        """Deliver what comes behind the place in the file, until the server stops or the store is closed.

        Raises:
            _Stopped: the server stops while something is under way.
        """
        place = self._read_place()
        reader = self._source.deliveries(self._target.destination, place)
        if reader is None:
            return
        if place is None:
            # Where a new target begins is kept before its first event is tried.
            self._write_place(reader.after())
        self._note_place(place or reader.after(), _now_ms())
        saved = time.monotonic()
        while not self.stop.is_set():
            if self.resend.is_set():
                self.resend.clear()
                self._resend()
            self._wait_for_room()
            if self.resend.is_set():
                continue
            read = reader.next(_WAIT_MS)
            if read is None:
                return
            found, place, lost = read
            if lost:
                self._note_gap()
            events = [delivery["time_ms"] for delivery in found if not delivery["is_test"]]
            if events:
                self._note_place(self._after, min(events))
            self._deliver(found, threads)
            # What comes behind an event is not older; if there was none, everything is there up to now.
            self._note_place(place, max(events) if events else _now_ms())
            if found or time.monotonic() - saved > _SAVE_SEC:
                self._write_place(place)
                saved = time.monotonic()
        self._write_place(place)

    def _wait_for_room(self) -> None:
        """Returns when there is room for another dead letter, or when they are to be sent again."""
        if self.dead.is_full:
            log.error("The dead letters of the target %s are at their limit: it gets no events", self._target.name)
        while self.dead.is_full and not self.resend.is_set():
            self._pause(_PAUSE_SEC / 10)

    def _deliver(self, found: Sequence[Delivery], threads: ThreadPoolExecutor) -> None:
        """Returns when each has been delivered or is a dead letter.

        Raises:
            _Stopped: the server stops before that.
        """
        parts: list[list[Delivery]] = [[] for _ in self._senders]
        for delivery in found:
            parts[zlib.crc32(f"{delivery['bucket']}/{delivery['key']}".encode()) % _SENDERS].append(delivery)
        shares = zip(self._senders, parts, strict=True)
        running = [threads.submit(self._send_part, sender, part) for sender, part in shares if part]
        # None goes on when this returns, also if one of them has failed.
        wait(running)
        for sending in running:
            sending.result()

    def _send_part(self, sender: Sender, part: list[Delivery]) -> None:
        for delivery in part:
            if delivery["is_test"]:
                self._test(sender, delivery)
                continue
            failure, attempts = self._try(sender, delivery)
            if failure is not None:
                self._dead_letter(delivery, failure, attempts)

    def _test(self, sender: Sender, delivery: Delivery) -> None:
        """Send a test message once: a receiver that does not know them must not hold up events."""
        if self._target.format == "s3":
            failure = self._send(sender, message_of("s3", delivery))
            if failure is not None:
                reason = failure.reason
                log.warning("The target %s did not take the test message of a bucket: %s", self._target.name, reason)

    def _try(self, sender: Sender, delivery: Delivery) -> tuple[Failure | None, int]:
        """Deliver, with as many attempts as the target allows. The last failure, and how many there were."""
        message = message_of(self._target.format, delivery)
        attempts = 0
        while True:
            failure = self._send(sender, message)
            attempts += 1
            is_last = failure is None or failure.final or attempts >= self._target.attempts
            self._note(failure, is_last=is_last)
            if is_last or failure is None:
                return failure, attempts
            self._pause(max(failure.retry_after_sec, backoff(attempts, _RETRY_SEC, _RETRY_SEC_MAX)))

    def _send(self, sender: Sender, message: Message) -> Failure | None:
        """One attempt.

        Raises:
            _Stopped: it failed, and the server stops: that may be why.
        """
        failure = sender.send(message)
        if failure is not None and self.stop.is_set():
            raise _Stopped
        return failure

    def _dead_letter(self, delivery: Delivery, failure: Failure, attempts: int) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        log.warning("An event for the target %s became a dead letter: %s", self._target.name, failure.reason)
        letter = Letter(
            id=delivery["id"], bucket=delivery["bucket"], key=delivery["key"], time=now, attempts=attempts,
            reason=failure.reason, message=delivery["message"].decode(),
        )  # fmt: skip
        self.dead.add(letter)

    def _resend(self) -> None:
        """Try each dead letter once, until one fails.

        Raises:
            _Stopped: the server stops.
        """
        sent: set[str] = set()
        try:
            for letter in self.dead.list():
                if self.stop.is_set():
                    raise _Stopped
                delivery: Delivery = {
                    "id": letter.id, "time_ms": 0, "bucket": letter.bucket, "key": letter.key,
                    "message": letter.message.encode(), "is_test": False,
                }  # fmt: skip
                failure = self._send(self._senders[0], message_of(self._target.format, delivery))
                self._note(failure, is_last=True)
                if failure is not None:
                    return
                sent.add(letter.id)
        finally:
            # Once: the file is written anew.
            self.dead.remove(lambda letter: letter.id in sent)

    def _note(self, failure: Failure | None, *, is_last: bool) -> None:
        with self._lock:
            before, self._failing = self._failing, None if failure is None else failure.reason
            if failure is None:
                self._counts.delivered += 1
            elif is_last:
                self._counts.dead += 1
            else:
                self._counts.retried += 1
        if failure is not None and before is None:
            log.warning("The target %s does not take events: %s", self._target.name, failure.reason)
        elif failure is None and before is not None:
            log.info("The target %s takes events again", self._target.name)

    def _note_gap(self) -> None:
        with self._lock:
            self._counts.gaps += 1
        log.error("Events for the target %s are gone: the journal did not keep them for long enough", self._target.name)

    def _note_place(self, after: str | None, since_ms: int) -> None:
        with self._lock:
            self._after, self._since_ms = after, since_ms

    def _pause(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise _Stopped

    def _read_place(self) -> str | None:
        content = read_secret_file(self._place)
        if content is None:
            log.info("The target %s has no place in the journal yet: it begins with new events", self._target.name)
            return None
        try:
            return str(json.loads(content)["after"])
        except (ValueError, KeyError, TypeError):
            log.error("The place of the target %s cannot be read: it begins with new events", self._target.name)
            return None

    def _write_place(self, cursor: str | None) -> None:
        if cursor is not None:
            write_secret_file(self._place, json.dumps({"after": cursor}).encode())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def message_of(form: Format, delivery: Delivery) -> Message:
    """The event in S3's structure, as CloudEvents 1.0 or EventBridge have it, or as MinIO sends it."""
    body, content_type = delivery["message"], "application/json"
    if form == "cloudevents":
        body, content_type = _cloud_event(delivery), "application/cloudevents+json"
    elif form == "minio":
        body = _event_of_minio(delivery)
    elif form == "eventbridge":
        body = _event_of_bus(delivery)
    return Message(delivery["id"], delivery["bucket"], delivery["key"], body, content_type)


def _test_message(form: Format) -> Message:
    """What tells that a target is reached, as S3 says it of a notification, but of no bucket."""
    now, name = datetime.now(UTC), str(uuid.uuid4())
    said = {"Service": "Orcas", "Event": "s3:TestEvent", "Time": now.isoformat(timespec="milliseconds"), "Bucket": ""}
    body: dict[str, Any] = said
    if form == "cloudevents":
        body = {
            "specversion": "1.0", "id": name, "source": "orcas", "type": "com.amazonaws.s3.TestEvent",
            "time": said["Time"], "datacontenttype": "application/json", "data": said,
        }  # fmt: skip
    elif form == "eventbridge":
        body = {"Time": int(now.timestamp()), "Resources": [], "DetailType": "Test Event", "Detail": json.dumps(said)}
    content_type = "application/cloudevents+json" if form == "cloudevents" else "application/json"
    return Message(name, "", "", json.dumps(body).encode(), content_type)


def _event_of_minio(delivery: Delivery) -> bytes:
    (record,) = json.loads(delivery["message"])["Records"]
    name = f"s3:{record['eventName']}"
    event = {
        "EventName": name,
        "Key": f"{delivery['bucket']}/{delivery['key']}",
        "Records": [{**record, "eventName": name}],
    }
    return json.dumps(event).encode()


def _cloud_event(delivery: Delivery) -> bytes:
    (record,) = json.loads(delivery["message"])["Records"]
    event = {
        "specversion": "1.0",
        "id": delivery["id"],
        "source": f"aws:s3.{record['awsRegion']}.{delivery['bucket']}",
        "type": f"com.amazonaws.s3.{record['eventName']}",
        "subject": delivery["key"],
        "time": record["eventTime"],
        "datacontenttype": "application/json",
        "data": record,
    }
    return json.dumps(event).encode()


# What S3 calls an event at EventBridge, by its group, and what it gives as the reason.
_OF_BUS: Final = {
    "ObjectCreated": "Object Created", "ObjectRemoved": "Object Deleted", "LifecycleExpiration": "Object Deleted",
    "ObjectTagging": "Object Tags", "ObjectAcl": "Object ACL Updated",
}  # fmt: skip
_REASONS: Final = {
    "ObjectCreated:Put": "PutObject", "ObjectCreated:Post": "POST Object", "ObjectCreated:Copy": "CopyObject",
    "ObjectCreated:CompleteMultipartUpload": "CompleteMultipartUpload", "ObjectRemoved": "DeleteObject",
    "LifecycleExpiration": "Lifecycle Expiration",
}  # fmt: skip


def _event_of_bus(delivery: Delivery) -> bytes:
    """An event in the form in which S3 gives it to EventBridge, which adds the account and the region.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
    """
    (record,) = json.loads(delivery["message"])["Records"]
    group, _, what = record["eventName"].partition(":")
    kind, found = _OF_BUS.get(group, group), record["s3"]["object"]
    if group == "ObjectTagging":
        kind += " Added" if what == "Put" else " Deleted"
    names = {"size": "size", "eTag": "etag", "versionId": "version-id", "sequencer": "sequencer"}
    detail: dict[str, Any] = {
        "version": "0",
        "bucket": {"name": delivery["bucket"]},
        "object": {"key": delivery["key"], **{name: found[of_s3] for of_s3, name in names.items() if of_s3 in found}},
        "request-id": record["responseElements"]["x-amz-request-id"],
        "requester": record["userIdentity"]["principalId"],
        "source-ip-address": record["requestParameters"]["sourceIPAddress"],
    }
    if reason := _REASONS.get(record["eventName"]) or _REASONS.get(group):
        detail["reason"] = reason
    if kind == "Object Deleted":
        marked = what == "DeleteMarkerCreated"
        detail["deletion-type"] = "Delete Marker Created" if marked else "Permanently Deleted"
    event = {
        "Time": int(datetime.fromisoformat(record["eventTime"]).timestamp()),
        "Resources": [record["s3"]["bucket"]["arn"]],
        "DetailType": kind,
        "Detail": json.dumps(detail),
    }
    return json.dumps(event).encode()
