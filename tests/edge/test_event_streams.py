"""Streams of events of a running server: what clients get, after whatever happened to them or to the server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.fixtures.serving import Running, serving
from tests.fixtures.signing import signed_headers
from tests.fixtures.wire import Connection, Wire, request_head

TOKEN = "a-token-for-browsers"
PATH = "/_orcas/events"
DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"
CREATED = quote("s3:ObjectCreated:*", safe="")
NOTHING = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]})


@dataclass(frozen=True)
class Event:
    id: str
    kind: str
    data: dict[str, Any]

    @property
    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = self.data["Records"][0]
        return record

    @property
    def said(self) -> tuple[str, str, str]:
        s3 = self.record["s3"]
        return self.record["eventName"], s3["bucket"]["name"], s3["object"]["key"]


OPEN: list[Stream] = []


class Stream:
    """One stream as a client reads it, line by line."""

    def __init__(self, server: Running, query: str = "", last: str = "", headers: dict[str, str] | None = None) -> None:
        wire = server.wire
        target = f"{PATH}?{query}" if query else PATH
        named = {"host": wire.netloc, **(headers or {})}
        if headers is None:
            named = signed_headers(wire.identity, "GET", server.url + target, named)
        if last:
            named["last-event-id"] = last
        self.connection = wire.connect()
        self.connection.send(request_head("GET", target, named))
        self.response, pieces = self.connection.stream()
        self._lines = lines_of(pieces)
        OPEN.append(self)

    def events(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        for line in self._lines:
            name, _, value = line.decode().partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                yield Event(fields["id"], fields["event"], json.loads(fields["data"]))
                fields = {}

    def take(self, count: int) -> list[Event]:
        events = self.events()
        return [next(events) for _ in range(count)]

    def close(self) -> None:
        self.connection.sock.close()


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """No stream outlives its test."""
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = {"ORCAS_EVENTS_TOKEN": TOKEN, "ORCAS_EVENTS_LISTENERS_MAX": "4"}
    with serving(tmp_path_factory.mktemp("events"), level="info", form="json", **settings) as running:
        yield running


def test_changes_arrive_in_order_and_as_s3_writes_them(server: Running) -> None:
    s3 = server.client()
    stream = Stream(server, "bucket=first")
    s3.create_bucket(Bucket="first")
    s3.create_bucket(Bucket="other")
    s3.put_object(Bucket="first", Key="dir/a b", Body=b"content")
    s3.put_object(Bucket="other", Key="not asked for", Body=b"")
    s3.copy_object(Bucket="first", Key="copy", CopySource="first/dir/a b")
    s3.put_object_tagging(Bucket="first", Key="copy", Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
    upload = s3.create_multipart_upload(Bucket="first", Key="large")["UploadId"]
    part = s3.upload_part(Bucket="first", Key="large", UploadId=upload, PartNumber=1, Body=b"p" * 100_000)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket="first", Key="large", UploadId=upload, MultipartUpload=parts)
    s3.delete_objects(Bucket="first", Delete={"Objects": [{"Key": "copy"}, {"Key": "missing"}, {"Key": "large"}]})
    s3.put_bucket_versioning(Bucket="first", VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(Bucket="first", Key="v", Body=b"1")["VersionId"]
    marker = s3.delete_object(Bucket="first", Key="v")["VersionId"]
    events = stream.take(9)
    assert [event.said for event in events] == [
        ("BucketCreated:*", "first", ""),
        ("ObjectCreated:Put", "first", "dir/a+b"),
        ("ObjectCreated:Copy", "first", "copy"),
        ("ObjectTagging:Put", "first", "copy"),
        ("ObjectCreated:CompleteMultipartUpload", "first", "large"),
        ("ObjectRemoved:Delete", "first", "copy"),
        ("ObjectRemoved:Delete", "first", "large"),
        ("ObjectCreated:Put", "first", "v"),
        ("ObjectRemoved:DeleteMarkerCreated", "first", "v"),
    ]
    assert [event.kind for event in events] == ["s3"] * 9
    put = events[1].record
    assert (put["s3"]["object"]["size"], put["s3"]["object"]["eTag"]) == (7, "9a0364b9e99bb480dd25e1f0284c8555")
    assert [events[at].record["s3"]["object"]["versionId"] for at in (7, 8)] == [version, marker]
    sequencers = [event.record["s3"]["object"]["sequencer"] for event in events]
    assert sequencers == sorted(sequencers)
    assert len(put["responseElements"]["x-amz-request-id"]) == 16


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_command_of_the_document(server: Running) -> None:
    (command,) = re.findall(r"^\$ (curl .*)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    server.client().create_bucket(Bucket="commands")
    identity = server.wire.identity
    variables = {
        "PATH": os.environ["PATH"], "AWS_ACCESS_KEY_ID": identity.access_key,
        "AWS_SECRET_ACCESS_KEY": identity.secret_key, "AWS_ENDPOINT_URL_S3": server.url,
    }  # fmt: skip
    process = subprocess.Popen(["bash", "-c", f"exec {command}"], env=variables, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        # The stream does not end; a refusal does.
        assert any(line.startswith("data: ") for line in process.stdout)
    finally:
        process.kill()
        process.communicate()


def test_filters(server: Running) -> None:
    s3 = server.client()
    s3.create_bucket(Bucket="filtered")
    query = f"event={CREATED}&event=s3%3AObjectRemoved%3ADelete&prefix={quote('in/ä', safe='')}&suffix=.txt"
    stream = Stream(server, query)
    for key in ("out/ä.txt", "in/ä.jpg", "in/ä.txt", "in/ä/2.txt"):
        s3.put_object(Bucket="filtered", Key=key, Body=b"")
    s3.put_object_tagging(Bucket="filtered", Key="in/ä.txt", Tagging={"TagSet": []})
    s3.delete_object(Bucket="filtered", Key="in/ä.txt")
    expected = [("ObjectCreated:Put", "in/%C3%A4.txt"), ("ObjectCreated:Put", "in/%C3%A4/2.txt")]
    expected.append(("ObjectRemoved:Delete", "in/%C3%A4.txt"))
    assert [(event.said[0], event.said[2]) for event in stream.take(3)] == expected


def test_a_client_that_comes_back_misses_nothing(server: Running) -> None:
    s3 = server.client()
    s3.create_bucket(Bucket="resumed")
    stream = Stream(server, "bucket=resumed")
    s3.put_object(Bucket="resumed", Key="0", Body=b"")
    last = stream.take(1)[0].id
    stream.close()
    for n in range(1, 300):
        s3.put_object(Bucket="resumed", Key=str(n), Body=b"")
    stream = Stream(server, "bucket=resumed", last=last)
    s3.put_object(Bucket="resumed", Key="300", Body=b"")
    assert [event.said[2] for event in stream.take(300)] == [str(n) for n in range(1, 301)]
    stream.close()
    stream = Stream(server, f"bucket=resumed&event={CREATED}&start=oldest")
    assert [event.said[2] for event in stream.take(301)] == [str(n) for n in range(301)]
    stream.close()


def test_a_stream_begins_at_a_time(server: Running) -> None:
    s3 = server.client()
    s3.create_bucket(Bucket="timed")
    s3.put_object(Bucket="timed", Key="before", Body=b"")
    time.sleep(0.05)
    began = time.time()
    s3.put_object(Bucket="timed", Key="after", Body=b"")
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(began)) + f".{int(began * 1000) % 1000:03}Z"
    stream = Stream(server, f"bucket=timed&start={quote(moment, safe='')}")
    assert stream.take(1)[0].said == ("ObjectCreated:Put", "timed", "after")
    stream.close()


@pytest.mark.parametrize("last", ["0123456789ABCDEF-00000000000000010000", "FFFFFFFFFFFFFF000000"])
def test_who_comes_with_the_place_of_another_journal_is_told(server: Running, last: str) -> None:
    server.client().create_bucket(Bucket="told-" + last[:2].lower())
    stream = Stream(server, last=last)
    first, second = stream.take(2)
    stream.close()
    assert (first.kind, second.kind) == ("gap", "s3")
    assert first.id == first.data["continuesAfter"] < second.id


def refusal(server: Running, query: str = "", headers: dict[str, str] | None = None) -> tuple[int, str]:
    stream = Stream(server, query, headers=headers)
    body = json.loads(stream.response.body)
    stream.close()
    return stream.response.status, body["error"]["code"]


def test_refusals(server: Running) -> None:
    assert refusal(server, headers={}) == (403, "AccessDenied")
    assert refusal(server, headers={"authorization": "Bearer " + TOKEN[:-1]})[0] == 403
    assert refusal(server, "event=s3%3AObjectEaten%3A%2A") == (400, "InvalidArgument")
    assert refusal(server, "start=yesterday") == (400, "InvalidArgument")
    assert refusal(server, "start=") == (400, "InvalidArgument")
    assert refusal(server, "color=red") == (400, "InvalidArgument")
    token = {"authorization": f"Bearer {TOKEN}"}
    assert refusal(server, "prefix=a&prefix=b", headers=token) == (400, "InvalidArgument")


def test_the_token_of_browsers(server: Running) -> None:
    stream = Stream(server, headers={"authorization": f"Bearer {TOKEN}", "origin": "https://example.com"})
    assert stream.response.status == 200
    assert stream.response.headers["access-control-allow-origin"] == "*"
    assert stream.response.headers["content-type"] == "text/event-stream"
    stream.close()


def test_pages_can_read_why_they_are_refused(server: Running) -> None:
    for token, query, status, word in (
        ("wrong" * 4, "", 403, "bearer token"), (TOKEN, "start=yesterday", 400, "start is now, oldest"),
    ):  # fmt: skip
        stream = Stream(server, query, headers={"authorization": f"Bearer {token}", "origin": "https://example.com"})
        assert (stream.response.status, stream.response.headers["access-control-allow-origin"]) == (status, "*")
        assert word in json.loads(stream.response.body)["error"]["message"]
        stream.close()


def when_there_is_room(server: Running, query: str = "") -> Stream:
    deadline = time.monotonic() + 20
    while (stream := Stream(server, query)).response.status != 200:
        stream.close()
        assert time.monotonic() < deadline, "the place of a client that is gone stays taken"
        time.sleep(0.05)
    return stream


def test_listeners_are_bounded_and_leave_when_they_are_gone(server: Running) -> None:
    # Also the clients of earlier tests.
    streams = [when_there_is_room(server) for _ in range(4)]
    assert refusal(server) == (503, "ServiceUnavailable")
    streams.pop().close()
    when_there_is_room(server)


def test_streams_end_with_the_server_and_go_on_with_the_next_one(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json") as running:
        s3 = running.client()
        s3.create_bucket(Bucket="bucket")
        stream = Stream(running)
        s3.put_object(Bucket="bucket", Key="first", Body=b"")
        last = stream.take(1)[0].id
        s3.put_object(Bucket="bucket", Key="second", Body=b"")
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began < 10, "a stream must not use up the drain time"
        assert [event.said[2] for event in stream.events()] == ["second"]
    with serving(tmp_path, level="info", form="json") as running:
        running.client().put_object(Bucket="bucket", Key="third", Body=b"")
        assert [event.said[2] for event in Stream(running, last=last).take(2)] == ["second", "third"]
        running.client().put_object(Bucket="bucket", Key="fourth", Body=b"")
        running.process.kill()
        running.process.wait()
    with serving(tmp_path, level="info", form="json") as running:
        assert [event.said[2] for event in Stream(running, last=last).take(3)] == ["second", "third", "fourth"]


def test_a_journal_that_was_removed_costs_old_events_only(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json") as running:
        stream = Stream(running)
        running.client().create_bucket(Bucket="bucket")
        last = stream.take(1)[0].id
    for segment in (tmp_path / "store" / "events").iterdir():
        segment.unlink()
    with serving(tmp_path, level="info", form="json") as running:
        stream = Stream(running, last=last)
        running.client().put_object(Bucket="bucket", Key="new", Body=b"")
        gap, event = stream.take(2)
        assert gap.kind == "gap"
        assert event.said == ("ObjectCreated:Put", "bucket", "new")


def test_without_events(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_EVENTS_ENABLED="false") as running:
        running.client().create_bucket(Bucket="bucket")
        assert refusal(running) == (501, "NotImplemented")
        assert not (tmp_path / "store" / "events").exists()


def cause_many_events(running: Running) -> None:
    """Delete markers, with names that are long in events: more than the buffers of a connection hold."""
    s3 = running.client()
    s3.create_bucket(Bucket="bucket")
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    for batch in range(4):
        names = [f"{batch}/{number:03}/" + "ä" * 500 for number in range(1000)]
        s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": name} for name in names], "Quiet": True})


def ask(running: Running, target: str, receive_bytes: int) -> Connection:
    """Ask for something, and read only the head of the answer. The system holds little of the rest for the client."""
    wire = running.wire
    sock = socket.socket()
    sock.settimeout(30)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    host, _, port = wire.netloc.rpartition(":")
    sock.connect((host, int(port)))
    signed = signed_headers(wire.identity, "GET", running.url + target, {"host": wire.netloc})
    sock.sendall(request_head("GET", target, signed))
    assert sock.recv(12) == b"HTTP/1.1 200"
    return Connection(sock)


def test_clients_that_read_nothing_do_not_delay_the_end_of_the_server(tmp_path: Path) -> None:
    # It would wait for them for longer than the test.
    with (
        serving(tmp_path, level="info", form="json", ORCAS_DRAIN_TIMEOUT_SEC="3600") as running,
        contextlib.ExitStack() as held,
    ):
        s3 = running.client()
        s3.create_bucket(Bucket="bucket")
        s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
        # They get between 20 and 400 events of 1.9 KB: what the system holds, what the server holds, and more than both.
        for batch in range(20):
            for target in (PATH, f"/bucket?events={quote('s3:ObjectRemoved:*', safe='')}"):
                held.enter_context(ask(running, target, 2048))
            names = [f"{batch}/{number:03}/" + "ä" * 220 for number in range(20)]
            s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": name} for name in names], "Quiet": True})
        held.enter_context(ask(running, f"{PATH}?start=oldest", 2048))
        assert running.stop() == 0
        assert "cut off" not in running.text()


def test_a_stop_says_that_clients_have_not_read_their_responses(tmp_path: Path) -> None:
    with (
        serving(tmp_path, level="info", form="json", ORCAS_DRAIN_TIMEOUT_SEC="4") as running,
        contextlib.ExitStack() as held,
    ):
        s3 = running.client()
        s3.create_bucket(Bucket="bucket")
        # How much the system takes varies, so one of these is complete for the server but not for its connection.
        for size in range(50_000, 1_000_000, 50_000):
            s3.put_object(Bucket="bucket", Key=str(size), Body=bytes(size))
            held.enter_context(ask(running, f"/bucket/{size}", 2048))
        assert running.stop() == 0
        lines = {line["message"]: line for line in running.lines()}
    waiting = lines["Waiting for requests in progress, and for clients to read their responses"]
    assert waiting["unread_responses"] > 0
    cut = lines["Responses that their clients had not read were cut off"]
    assert cut["responses"] == waiting["unread_responses"]


def test_minio_listeners_get_lines_that_are_messages(server: Running) -> None:
    server.client().create_bucket(Bucket="minio")
    names = "&".join(f"events={quote(name, safe='')}" for name in ("s3:ObjectCreated:*", "s3:ObjectRemoved:*"))
    target = f"/minio?{names}&ping=1&prefix=&suffix=.txt"
    wire = server.wire
    with wire.connect() as connection:
        headers = signed_headers(wire.identity, "GET", server.url + target, {"host": wire.netloc})
        connection.send(request_head("GET", target, headers))
        # The head comes at once, and nothing else before a message is due.
        response, pieces = connection.stream()
        assert response.status == 200
        assert next(pieces) == b'{"Records":null}\n'
        server.client().put_object(Bucket="minio", Key="a.txt", Body=b"1")
        lines = (json.loads(line) for line in lines_of(pieces))
        message = next(line for line in lines if line["Records"])
    record = message["Records"][0]
    assert (record["eventName"], record["s3"]["object"]["key"]) == ("s3:ObjectCreated:Put", "a.txt")
    for ping in ("0", "-1", "x", "3601", "0000003601", "1" * 5000):
        answer = wire("GET", "/minio", f"events=s3:ObjectCreated:*&ping={ping}")
        assert (answer.status, answer.code) == (400, "InvalidArgument")


@dataclass(frozen=True)
class Listener:
    """A user who may do everything with some buckets, and listens as MinIO's clients do."""

    server: Running
    name: str
    key: dict[str, str]

    @classmethod
    def made(cls, server: Running, name: str) -> Listener:
        iam = server.client("iam")
        iam.create_user(UserName=name)
        return cls(server, name, iam.create_access_key(UserName=name)["AccessKey"])

    @property
    def wire(self) -> Wire:
        return self.server.wire.using(access_key=self.key["AccessKeyId"], secret_key=self.key["SecretAccessKey"])

    def allow(self, *buckets: str) -> None:
        arns = [f"arn:aws:s3:::{bucket}" for bucket in buckets]
        statement = {"Effect": "Allow", "Action": "s3:*", "Resource": arns}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.server.client("iam").put_user_policy(UserName=self.name, PolicyName="own", PolicyDocument=policy)

    @contextlib.contextmanager
    def hearing(self, bucket: str, query: str = "") -> Iterator[tuple[int, Iterator[bytes]]]:
        """The status, and the pieces as they come."""
        wire = self.wire
        with wire.connect() as connection:
            target = f"/{bucket}?events={CREATED}&ping=1{query}"
            headers = signed_headers(wire.identity, "GET", self.server.url + target, {"host": wire.netloc})
            connection.send(request_head("GET", target, headers))
            response, pieces = connection.stream()
            yield response.status, pieces

    def hears(self, bucket: str) -> int:
        with self.hearing(bucket) as (status, _):
            return status


def test_whoever_may_listens_to_a_bucket_as_long_as_that_holds(server: Running) -> None:
    s3, iam, wire = server.client(), server.client("iam"), server.wire
    for name in ("heard", "unheard", "gone"):
        s3.create_bucket(Bucket=name)
    user = Listener.made(server, "listener")
    user.allow("heard", "gone", "never-was")
    assert (user.hears("heard"), user.hears("unheard"), user.hears("never-was")) == (200, 403, 404)
    # Those of all buckets, of whatever account, are root's.
    everything = user.wire("GET", "/", f"events={CREATED}")
    assert (everything.status, everything.code) == (403, "AccessDenied")
    assert wire.send("GET", f"/heard?events={CREATED}", {"host": wire.netloc}).status == 403
    for bucket, end in (
        ("heard", lambda: user.allow("gone")),
        ("gone", lambda: (s3.delete_bucket(Bucket="gone"), s3.create_bucket(Bucket="gone"))),
        ("gone", lambda: iam.delete_access_key(UserName="listener", AccessKeyId=user.key["AccessKeyId"])),
    ):
        with user.hearing(bucket) as (status, pieces):
            assert status == 200
            assert next(pieces) == b'{"Records":null}\n'
            end()
            s3.put_object(Bucket=bucket, Key="secret", Body=b"1")
            assert b"secret" not in b"".join(pieces)


def test_an_account_has_its_share_of_streams(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json") as server, contextlib.ExitStack() as held:
        server.client().create_bucket(Bucket="many")
        user = Listener.made(server, "many")
        user.allow("many")
        streams = [held.enter_context(user.hearing("many")) for _ in range(64)]
        assert {status for status, _ in streams} == {200}
        refused = user.wire("GET", "/many", f"events={CREATED}")
        assert (refused.status, refused.code) == (503, "SlowDown")
        # Those of root do not count.
        root = held.enter_context(
            Listener(server, "root", dict(zip(("AccessKeyId", "SecretAccessKey"), server.keys, strict=True))).hearing(
                "many"
            )
        )
        assert root[0] == 200
        server.client("iam").put_user_policy(UserName="many", PolicyName="own", PolicyDocument=NOTHING)
        for _, pieces in streams:
            assert b"ObjectCreated" not in b"".join(pieces)
        user.allow("many")
        assert user.hears("many") == 200


def test_streams_in_step_share_what_they_send(server: Running) -> None:
    s3 = server.client()
    s3.create_bucket(Bucket="shared")
    s3.put_bucket_versioning(Bucket="shared", VersioningConfiguration={"Status": "Enabled"})
    names = [f"{number:03}/" + "ä" * 300 for number in range(1000)]
    s3.delete_objects(Bucket="shared", Delete={"Objects": [{"Key": name} for name in names], "Quiet": True})
    # Two want the same, and one something else.
    same = "bucket=shared&start=oldest"
    asked = [(same, 1001), (same, 1001), (f"{same}&suffix={quote('ä')}&prefix=0", 100)]
    found: list[list[str]] = [[], [], []]

    def follow(at: int) -> None:
        query, count = asked[at]
        stream = when_there_is_room(server, query)
        found[at] = [event.said[2] for event in stream.take(count)]

    threads = [threading.Thread(target=follow, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [quote(name) for name in names]
    assert found == [["", *keys], ["", *keys], keys[:100]]


def test_a_client_that_reads_nothing_loses_its_connection(tmp_path: Path) -> None:
    settings = {"ORCAS_EVENTS_LISTENERS_MAX": "1", "ORCAS_BODY_TIMEOUT_SEC": "1"}
    with serving(tmp_path, level="info", form="json", **settings) as running:
        stream = Stream(running)
        assert stream.response.status == 200
        cause_many_events(running)
        when_there_is_room(running)
