"""Many clients create the same key with `If-None-Match: *`: exactly one wins each round, and its content is stored.

They use one of the four conditional creates, or all four at once.

The last byte of every request is held back until all others have arrived, so that the requests complete together.
`RACE_ROUNDS=1000` runs more rounds.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from tests.fixtures.targets import KINDS, Target, content_of
from tests.fixtures.uploads import begin
from tests.fixtures.wire import Answer, Signer

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.parametrize("target", KINDS, indirect=True),
    pytest.mark.timeout(3600),
]

CLIENTS = 64
ROUNDS = int(os.environ.get("RACE_ROUNDS", "3"))
ABSENT = [("if-none-match", "*")]
# Bodies inside the version record, in a content record, and in chunks.
SIZES = (100, 3_000, 70_000)


def body_of(client: int) -> bytes:
    """What a client wants to store; no other client has the same."""
    return content_of(f"client {client}", SIZES[client % len(SIZES)])


class Racers(Protocol):
    """A way to create the key, with one request for each client."""

    def requests(self) -> list[bytes]:
        """A request of each client, for the next round."""

    def won(self, client: int) -> None:
        """Replace what the winner has used up."""


class Race:
    """A bucket and a connection for each client."""

    def __init__(self, target: Target, s3: Any, bucket: str) -> None:
        self.s3, self.bucket = s3, bucket
        self.signer = Signer.of(target.server)
        self._connections = [self.signer.connect(60) for _ in range(CLIENTS)]
        self._order = random.Random(1)

    def run(self, racers: Racers) -> None:
        """All rounds. The winner's object is deleted after each."""
        for round_number in range(ROUNDS):
            answers = self._together(racers.requests())
            winners = [client for client, answer in enumerate(answers) if answer.status == 200 and not answer.code]
            assert len(winners) == 1, (round_number, winners)
            others = {(answer.status, answer.code) for client, answer in enumerate(answers) if client != winners[0]}
            assert others == {(412, "PreconditionFailed")}, (round_number, others)
            stored = self.s3.get_object(Bucket=self.bucket, Key="key")["Body"].read()
            assert stored == body_of(winners[0]), (round_number, winners)
            self.s3.delete_object(Bucket=self.bucket, Key="key")
            racers.won(winners[0])

    def _together(self, requests: list[bytes]) -> list[Answer]:
        clients = list(range(CLIENTS))
        for client in clients:
            self._connections[client].send(requests[client][:-1])
        # The server refuses a request from its head alone if the key exists by then.
        time.sleep(0.01)
        self._order.shuffle(clients)
        for client in clients:
            self._connections[client].push(requests[client][-1:])
        answers = [connection.response("PUT") for connection in self._connections]
        for client, answer in enumerate(answers):
            if answer.closes:
                self._connections[client].sock.close()
                self._connections[client] = self.signer.connect(60)
        return answers

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.sock.close()


@pytest.fixture
def race(target: Target, s3: Any, bucket: str) -> Iterator[Race]:
    with contextlib.closing(Race(target, s3, bucket)) as made:
        yield made


class Puts:
    """PutObject. Signed once: the requests of all rounds are alike."""

    def __init__(self, race: Race) -> None:
        path = f"/{race.bucket}/key"
        self._requests = [race.signer.request("PUT", path, (), ABSENT, body_of(client)) for client in range(CLIENTS)]

    def requests(self) -> list[bytes]:
        return self._requests

    def won(self, client: int) -> None:
        """Nothing to replace: a PUT uses nothing up."""


class Copies(Puts):
    """CopyObject, each client from an object of its own."""

    def __init__(self, race: Race) -> None:
        self._requests = []
        for client in range(CLIENTS):
            race.s3.put_object(Bucket=race.bucket, Key=f"source-{client}", Body=body_of(client))
            source = ("x-amz-copy-source", f"/{race.bucket}/source-{client}")
            self._requests.append(race.signer.request("PUT", f"/{race.bucket}/key", (), [*ABSENT, source]))


class Renames:
    """RenameObject, each client of an object of its own."""

    def __init__(self, race: Race) -> None:
        self._race = race
        path, query = f"/{race.bucket}/key", [("renameObject", "")]
        self._requests = []
        for client in range(CLIENTS):
            self._store(client)
            headers = [*ABSENT, ("x-amz-rename-source", f"/source-{client}")]
            self._requests.append(race.signer.request("PUT", path, query, headers))

    def _store(self, client: int) -> None:
        self._race.s3.put_object(Bucket=self._race.bucket, Key=f"source-{client}", Body=body_of(client))

    def requests(self) -> list[bytes]:
        return self._requests

    def won(self, client: int) -> None:
        """The source is gone, and only the winner's."""
        listed = self._race.s3.list_objects_v2(Bucket=self._race.bucket, Prefix="source-")["Contents"]
        expected = {f"source-{other}" for other in range(CLIENTS) if other != client}
        assert {entry["Key"] for entry in listed} == expected
        self._store(client)


class Completions:
    """CompleteMultipartUpload, each client of an upload of its own."""

    def __init__(self, race: Race) -> None:
        self._race = race
        self._requests = [self._upload(client) for client in range(CLIENTS)]

    def _upload(self, client: int) -> bytes:
        upload = begin(self._race.s3, self._race.bucket, "key")
        tag = upload.put(1, body_of(client))
        document = (
            f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
            "</CompleteMultipartUpload>"
        )
        path, query = f"/{self._race.bucket}/key", [("uploadId", upload.id)]
        return self._race.signer.request("POST", path, query, ABSENT, document.encode())

    def requests(self) -> list[bytes]:
        return self._requests

    def won(self, client: int) -> None:
        """The upload has ended; those of the others go on."""
        self._requests[client] = self._upload(client)


class Mixed:
    """All four ways on one key: each client has one of them."""

    def __init__(self, race: Race) -> None:
        self._ways: list[Racers] = [Puts(race), Copies(race), Renames(race), Completions(race)]

    def _way(self, client: int) -> Racers:
        # Not the cycle of SIZES, so that each way has bodies of each size.
        return self._ways[client % len(self._ways)]

    def requests(self) -> list[bytes]:
        every = [way.requests() for way in self._ways]
        return [every[client % len(every)][client] for client in range(CLIENTS)]

    def won(self, client: int) -> None:
        """As for the way of the winner."""
        self._way(client).won(client)


@pytest.mark.parametrize("racers", [Puts, Copies, Renames, Completions, Mixed], ids=lambda kind: kind.__name__.lower())
def test_one_of_many_creates_the_key(race: Race, racers: Any) -> None:
    race.run(racers(race))
