"""Concurrent clients change a small set of keys with every operation, and record each change in the ledger.

A worker stops as soon as the server dies; the request that it was waiting for stays unanswered in the ledger. Workers
also read, and check every answer against the ledger immediately.
"""

from __future__ import annotations

import base64
import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.fixtures.signing import Header
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Answer, Connection, EndOfConnectionError, Signer

from .ledger import ABSENT, Change, Ledger, Value

BUCKET = "crash"
# Few enough that workers use the same keys, and enough that a listing has several pages.
SHARED_KEYS = 40
PART_SIZE = 5 << 20
# Kept small, so that chunked objects of several chunks are cheap.
CHUNK_SIZE = 256 << 10


class WrongAnswerError(Exception):
    """An answer that no possible history explains."""


@dataclass
class Move:
    """An unanswered rename from a worker's own key to a shared one: `gone` and `came` both happened, or neither."""

    gone: Change
    came: Change


@dataclass
class Upload:
    """A multipart upload whose creation was acknowledged, and the parts that were."""

    key: str
    upload_id: str
    value: Value
    etags: dict[int, str] = field(default_factory=dict)
    # Set when its completion is requested.
    completion: Change | None = None


@dataclass
class Load:
    """What the workers share."""

    signer: Signer
    ledger: Ledger
    # Whether every acknowledgement promises durability, or only those of chunked objects.
    sync: bool
    round: str
    stopping: threading.Event = field(default_factory=threading.Event)
    moves: list[Move] = field(default_factory=list)
    uploads: list[Upload] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def read_value(response: Answer) -> Value | None:
    """The object in the answer to a GET, checked byte by byte.

    Raises:
        WrongAnswerError: the bytes do not match the object's name, or the metadata belongs to another object.
    """
    if response.status == 404 and response.code == "NoSuchKey":
        return ABSENT
    if response.status != 200:
        raise WrongAnswerError(f"GET answered {response.status} {response.code}")
    name = response.headers.get("x-amz-meta-value", "")
    size = len(response.body)
    etag = response.headers["etag"].strip('"')
    parts = int(etag.partition("-")[2] or 0)
    if response.body != content_of(name, size):
        raise WrongAnswerError(f"{size} bytes called {name} are not its content")
    if etag != etag_of(Value(name, size, parts)):
        raise WrongAnswerError(f"ETag {etag} is not that of {name}")
    return Value(name, size, parts)


def etag_of(value: Value) -> str:
    """The ETag that S3 gives an object."""
    body = content_of(value.name, value.size)
    if not value.parts:
        return hashlib.md5(body, usedforsecurity=False).hexdigest()
    pieces = [body[at : at + PART_SIZE] for at in range(0, len(body), PART_SIZE)]
    digests = b"".join(hashlib.md5(piece, usedforsecurity=False).digest() for piece in pieces)
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(pieces)}"


class Worker(threading.Thread):
    """One client on one connection."""

    def __init__(self, load: Load, number: int, seed: str) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.load = load
        self.number = number
        self.random = random.Random(f"{seed}/{number}")
        self.serial = 0
        self.connection: Connection | None = None

    def run(self) -> None:
        steps: Sequence[tuple[int, Callable[[], None]]] = (
            (34, self.put), (8, self.put_chunked), (10, self.put_if_absent), (8, self.put_if_match), (12, self.delete),
            (4, self.delete_many), (8, self.rename), (4, self.copy), (10, self.get), (2, self.multipart),
        )  # fmt: skip
        weights = [weight for weight, _ in steps]
        try:
            while not self.load.stopping.is_set():
                step = self.random.choices(steps, weights)[0][1]
                step()
                self.load.counts[step.__name__] += 1
        except (OSError, EndOfConnectionError) as error:
            if not self.load.stopping.is_set():
                self.load.problems.append(f"{self.name}: the server broke off before it was killed: {error!r}")
        except WrongAnswerError as error:
            self.load.problems.append(f"{self.name}: {error}")
        finally:
            if self.connection is not None:
                self.connection.sock.close()

    # One request.

    def ask(self, method: str, key: str, query: Sequence[Header] = (), headers: Sequence[Header] = (), body: bytes = b"",
            payload: str | bytes | None = None) -> Answer:  # fmt: skip
        if self.connection is None:
            self.connection = self.load.signer.connect()
        path = f"/{BUCKET}/{key}" if key else f"/{BUCKET}"
        self.connection.send(self.load.signer.request(method, path, query, headers, body, payload))
        response = self.connection.response(method)
        if response.closes:
            # As after a refusal that left the body unread.
            self.connection.sock.close()
            self.connection = None
        return response

    def settle(self, response: Answer, *changes: Change, refusals: Sequence[int] = ()) -> bool:
        if response.status in (200, 204):
            self.load.ledger.acknowledge(*changes)
            return True
        self.load.ledger.refuse(*changes)
        if response.status not in refusals:
            raise WrongAnswerError(f"{changes[0].key}: {response.status} {response.body[:300]!r}")
        return False

    def shared(self) -> str:
        # Some keys are requested more often than others.
        return f"shared/{int(SHARED_KEYS * self.random.random() ** 2):03}"

    def new_value(self, size: int, parts: int = 0) -> Value:
        self.serial += 1
        return Value(f"{self.load.round}.{self.number}.{self.serial}", size, parts)

    def write(self, key: str, value: Value, headers: Sequence[Header] = (), refusals: Sequence[int] = ()) -> bool:
        durable = self.load.sync or value.size > 64 << 10
        change = self.load.ledger.begin(key, value, durable=durable)
        body = content_of(value.name, value.size)
        # Half of the bodies are signed, as boto3 does over plain HTTP.
        payload = None if self.serial % 2 else "UNSIGNED-PAYLOAD"
        response = self.ask("PUT", key, (), [("x-amz-meta-value", value.name), *headers], body, payload)
        return self.settle(response, change, refusals=refusals)

    # Steps.

    def put(self) -> None:
        self.write(self.shared(), self.new_value(self.random.choice((0, 1, 100, 300, 1000, 4000, 20_000, 65_536))))

    def put_chunked(self) -> None:
        size = self.random.choice((65_537, 200_000, CHUNK_SIZE, CHUNK_SIZE + 1, 1_000_000))
        self.write(self.shared(), self.new_value(size))

    def put_if_absent(self) -> None:
        self.write(self.shared(), self.new_value(500), [("if-none-match", "*")], refusals=(412,))

    def put_if_match(self) -> None:
        key = self.shared()
        head = self.ask("HEAD", key)
        if head.status == 200:
            # 404: it was deleted in between.
            self.write(key, self.new_value(600), [("if-match", head.headers["etag"])], refusals=(412, 404))

    def delete(self) -> None:
        key = self.shared()
        change = self.load.ledger.begin(key, ABSENT, durable=self.load.sync)
        self.settle(self.ask("DELETE", key), change)

    def delete_many(self) -> None:
        keys = sorted({self.shared() for _ in range(4)})
        changes = [self.load.ledger.begin(key, ABSENT, durable=self.load.sync) for key in keys]
        entries = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
        document = f"<Delete><Quiet>true</Quiet>{entries}</Delete>".encode()
        digest = hashlib.md5(document, usedforsecurity=False).digest()
        headers = [("content-md5", base64.b64encode(digest).decode())]
        response = self.ask("POST", "", [("delete", "")], headers, document)
        if b"<Error>" in response.body:
            raise WrongAnswerError(f"DeleteObjects: {response.body[:300]!r}")
        self.settle(response, *changes)

    def rename(self) -> None:
        # From the worker's own key, so that it is known what is renamed.
        source, value = f"own/{self.number}", self.new_value(self.random.choice((10, 2000, 100_000)))
        self.write(source, value)
        key = self.shared()
        move = Move(
            self.load.ledger.begin(source, ABSENT, durable=self.load.sync),
            self.load.ledger.begin(key, value, durable=self.load.sync),
        )
        self.load.moves.append(move)
        headers = [("x-amz-rename-source", f"/{BUCKET}/{source}")]
        self.settle(self.ask("PUT", key, [("renameObject", "")], headers), move.gone, move.came)
        self.load.moves.remove(move)

    def copy(self) -> None:
        source, value = f"own/{self.number}.copied", self.new_value(self.random.choice((10, 2000, 300_000)))
        self.write(source, value)
        key = self.shared()
        change = self.load.ledger.begin(key, value, durable=self.load.sync)
        self.settle(self.ask("PUT", key, (), [("x-amz-copy-source", f"/{BUCKET}/{source}")]), change)

    def get(self) -> None:
        key = self.shared()
        began = time.monotonic()
        value = read_value(self.ask("GET", key))
        if self.load.ledger.find(key, value, began=began, ended=time.monotonic()) is None:
            raise WrongAnswerError(f"{key} was read as {value}, which it could not be then")

    def multipart(self) -> None:
        key, value = self.shared(), self.new_value(PART_SIZE + self.random.randrange(1, 100_000), 2)
        created = self.ask("POST", key, [("uploads", "")], [("x-amz-meta-value", value.name)])
        if created.status != 200:
            raise WrongAnswerError(f"CreateMultipartUpload: {created.status} {created.body[:300]!r}")
        upload = Upload(key, created.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode(), value)
        self.load.uploads.append(upload)
        body = content_of(value.name, value.size)
        for number, piece in enumerate((body[:PART_SIZE], body[PART_SIZE:]), 1):
            query = [("partNumber", str(number)), ("uploadId", upload.upload_id)]
            part = self.ask("PUT", key, query, (), piece, "UNSIGNED-PAYLOAD")
            if part.status != 200:
                raise WrongAnswerError(f"UploadPart: {part.status} {part.body[:300]!r}")
            upload.etags[number] = part.headers["etag"]
            if self.random.random() < 0.15:
                return  # left open: parts that were acknowledged are there after a crash
        upload.completion = self.load.ledger.begin(key, value, durable=self.load.sync)
        response = self.ask("POST", key, [("uploadId", upload.upload_id)], (), completion_document(upload))
        if self.settle(response, upload.completion):
            self.load.uploads.remove(upload)


def completion_document(upload: Upload) -> bytes:
    """The document that completes an upload of the parts that were acknowledged."""
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
        for number, etag in sorted(upload.etags.items())
    )
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
