"""A server with TLS: raw connections, boto3, certificates that change, and its end."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import re
import shutil
import signal
import socket
import ssl
import threading
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.events.certificates import certify
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.serving import Running, serving
from tests.fixtures.targets import MIB, content, read
from tests.fixtures.waiting import wait_until

import orcas

HEAD_SECONDS: Final = 2
BUCKET: Final = "over-tls"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificate and the key of the server."""
    return certify(tmp_path_factory.mktemp("certificate"), ends=90)


@pytest.fixture(scope="module")
def served(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = {"ORCAS_TLS_CERT_FILE": str(files[0]), "ORCAS_TLS_KEY_FILE": str(files[1])}
    settings |= {
        "ORCAS_MASTER_KEY": MASTER_KEY,
        "ORCAS_HEAD_TIMEOUT_SEC": str(HEAD_SECONDS),
        "ORCAS_ACCESS_LOG": "access.log",
    }
    with serving(tmp_path_factory.mktemp("tls"), level="info", form="json", **settings) as running:
        assert running.url.startswith("https://127.0.0.1:")
        yield running


@pytest.fixture(scope="module")
def s3(served: Running, files: tuple[Path, Path]) -> Iterator[Any]:
    client = served.client(verify=str(files[0]))
    client.create_bucket(Bucket=BUCKET)
    yield client
    client.close()


def plain(running: Running) -> socket.socket:
    parts = urlsplit(running.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def connected(running: Running, trusted: Path, **versions: ssl.TLSVersion) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=trusted)
    context.set_alpn_protocols(["h2", "http/1.1"])
    for name, version in versions.items():
        setattr(context, name, version)
    return context.wrap_socket(plain(running), server_hostname="localhost")


def connections(running: Running, trusted: Path) -> float:
    """How many there are besides the one that asks."""
    context = ssl.create_default_context(cafile=trusted)
    with urllib.request.urlopen(f"{running.url}/_orcas/metrics", context=context) as answer:
        page = answer.read().decode()
    (line,) = [line for line in page.splitlines() if line.startswith("orcas_connections ")]
    return float(line.split()[1]) - 1


def failures(running: Running) -> list[str]:
    return [line["cause"] for line in running.lines() if line["message"] == "A TLS handshake failed"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_and_ciphers(served: Running, files: tuple[Path, Path], version: ssl.TLSVersion) -> None:
    with connected(served, files[0], minimum_version=version, maximum_version=version) as client:
        assert client.version() == version.name.replace("_", ".")
        assert client.selected_alpn_protocol() == "http/1.1"
        cipher = (client.cipher() or ("", "", 0))[0]
        assert "GCM" in cipher or "CHACHA20" in cipher
        client.sendall(b"GET /_orcas/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_older_versions_and_ciphers_without_forward_secrecy_are_refused(served: Running) -> None:
    for version, ciphers in (
        (ssl.TLSVersion.TLSv1_1, "ALL:@SECLEVEL=0"), (ssl.TLSVersion.TLSv1_2, "AES128-GCM-SHA256"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA256"),
    ):  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers(ciphers)
        with warnings.catch_warnings(action="ignore"):
            context.minimum_version = context.maximum_version = version
        with plain(served) as client, pytest.raises(ssl.SSLError):
            context.wrap_socket(client)
    openssl = {"UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER"}
    # The version, and both ciphers.
    lacking = ("SignatureAlgorithmsExtensionRequired", "NoKxGroupsInCommon", "NoCipherSuitesInCommon")
    rustls = {f"peer is incompatible: {what}" for what in lacking}
    assert wait_until(lambda: any(names <= set(failures(served)) for names in (openssl, rustls)))


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1", b"PUT /b/k HTTP/1.1", b"DELETE /b HTTP/1.1"])
def test_plain_http_is_told_to_use_tls(served: Running, request_line: bytes) -> None:
    with plain(served) as client:
        client.sendall(request_line + b"\r\nHost: localhost\r\n\r\n")
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"This port speaks TLS" in answer

    def said() -> list[object]:
        return [line["message"] for line in served.lines() if "This port speaks TLS" in str(line.get("cause"))]

    assert wait_until(lambda: said()[-1:] == ["Request refused"])


def test_handshakes_that_do_not_end_are_ended(served: Running) -> None:
    hello = bytes.fromhex("16030100c8010000c40303")
    began = time.monotonic()
    with plain(served) as silent, plain(served) as half, plain(served) as one:
        half.sendall(hello)
        one.sendall(hello[:1])
        for client in (silent, half, one):
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
    assert time.monotonic() - began >= HEAD_SECONDS - 1
    assert wait_until(lambda: failures(served).count(f"it took more than {HEAD_SECONDS} s") >= 3)


def test_clients_that_leave_or_do_not_trust(served: Running) -> None:
    before = len(failures(served))
    # Checks of load balancers.
    plain(served).close()
    with plain(served) as client, pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(client, server_hostname="localhost")
    assert wait_until(lambda: any("UNKNOWN_CA" in cause or "UnknownCA" in cause for cause in failures(served)[before:]))
    assert len(failures(served)) == before + 1


def test_a_connection_that_ends_is_forgotten(served: Running, files: tuple[Path, Path], s3: Any) -> None:
    assert wait_until(lambda: connections(served, files[0]) <= 1)
    before = connections(served, files[0])
    head = b"PUT /b/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    for request in (b"", b"GET /", head + b"\r\n", head + b"Expect: 100-continue\r\n\r\n"):
        # The end said within TLS and not only there, and none said at all.
        client = connected(served, files[0])
        client.sendall(request)
        with contextlib.suppress(OSError):
            client.unwrap()
        client.close()
        client = connected(served, files[0])
        client.sendall(request)
        half = socket.socket(fileno=os.dup(client.fileno()))
        half.shutdown(socket.SHUT_WR)
        # Nothing is answered: the rest could have been cut off on the way.
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            while client.recv(65536):
                pass
        half.close()
        client.close()
        connected(served, files[0]).close()
    assert wait_until(lambda: connections(served, files[0]) <= before)


def test_connections_are_kept(served: Running, s3: Any, files: tuple[Path, Path]) -> None:
    s3.put_object(Bucket=BUCKET, Key="kept", Body=b"kept")
    url = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "kept"}))
    target = f"{url.path}?{url.query}"
    context = ssl.create_default_context(cafile=files[0])
    connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context)
    connection.connect()
    used = connection.sock
    for _ in range(20):
        connection.request("GET", target)
        assert connection.getresponse().read() == b"kept"
    assert connection.sock is used
    # A pipeline.
    used.sendall(f"GET {target} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode() * 30)
    received = b""
    while received.count(b"\r\n\r\nkept") < 30:
        received += used.recv(65536)
    connection.close()


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_bodies_of_any_size_both_ways(served: Running, s3: Any, files: tuple[Path, Path], version: str) -> None:
    number = ssl.TLSVersion[version]
    context = ssl.create_default_context(cafile=files[0])
    context.minimum_version = context.maximum_version = number
    for size in (0, 1, 1000, 16_384, 65_537, 300_000, 9 * MIB + 1):
        body = content(size)
        name = {"Bucket": BUCKET, "Key": f"size-{size}"}
        put = urllib.request.Request(s3.generate_presigned_url("put_object", Params=name), body, method="PUT")
        with urllib.request.urlopen(put, context=context):
            pass
        with urllib.request.urlopen(s3.generate_presigned_url("get_object", Params=name), context=context) as answer:
            assert answer.read() == body
    assert read(s3, BUCKET, f"size-{9 * MIB + 1}", Range="bytes=1000000-8999999") == body[1_000_000:9_000_000]


def test_chunks_with_an_unsigned_trailer(s3: Any) -> None:
    """What boto3 sends over TLS, and only there."""
    sent: list[str] = []

    def note(request: Any, **_: object) -> None:
        names = ("x-amz-content-sha256", "x-amz-trailer")
        sent.append(" ".join(str(request.headers[name]).removeprefix("b'").rstrip("'") for name in names))

    s3.meta.events.register("before-send.s3.PutObject", note)
    for algorithm, size in (("CRC32", 20 * MIB), ("SHA256", 100), ("SHA1", 70_000)):
        body = random.Random(size).randbytes(size)
        s3.put_object(Bucket=BUCKET, Key="chunks", Body=body, ChecksumAlgorithm=algorithm)
        assert sent.pop() == f"STREAMING-UNSIGNED-PAYLOAD-TRAILER x-amz-checksum-{algorithm.lower()}"
        found = s3.get_object(Bucket=BUCKET, Key="chunks", ChecksumMode="ENABLED")
        assert found["Body"].read() == body
        assert found[f"Checksum{algorithm}"]
    s3.meta.events.unregister("before-send.s3.PutObject", note)


def test_keys_of_customers_and_parts(s3: Any) -> None:
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"k" * 32}
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts", **key)["UploadId"]
    pieces = [content(5 * MIB, 1), b"end"]
    parts = []
    for number, piece in enumerate(pieces, 1):
        given = {"Bucket": BUCKET, "Key": "parts", "UploadId": upload, "PartNumber": number}
        parts.append({"PartNumber": number, "ETag": s3.upload_part(**given, Body=piece, **key)["ETag"]})
    listed = {"Parts": parts}
    done = s3.complete_multipart_upload(Bucket=BUCKET, Key="parts", UploadId=upload, MultipartUpload=listed)
    assert done["Location"] == f"{s3.meta.endpoint_url}/{BUCKET}/parts"
    assert read(s3, BUCKET, "parts", **key) == b"".join(pieces)


def test_events_arrive(s3: Any) -> None:
    with orcas.events.listen(s3, buckets=[BUCKET], prefix="event", start="oldest") as events:
        for number in range(3):
            s3.put_object(Bucket=BUCKET, Key=f"event-{number}", Body=b"x")
            assert next(events).key == f"event-{number}"


def test_a_slow_reader_gets_everything_though_the_connection_closes(
    served: Running, s3: Any, files: tuple[Path, Path]
) -> None:
    body = content(3 * MIB)
    s3.put_object(Bucket=BUCKET, Key="slow", Body=body)
    url = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "slow"}))
    with plain(served) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        context = ssl.create_default_context(cafile=files[0])
        with context.wrap_socket(sock, server_hostname="localhost") as client:
            head = f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n"
            client.sendall(head.encode())
            received = b""
            while piece := client.recv(100_000):
                received += piece
                time.sleep(0.002)
            # The end is said within TLS, so that nobody can cut the response off unnoticed.
            with contextlib.suppress(OSError):
                client.unwrap()
    assert received.endswith(body)


def test_commands_reach_the_server_whatever_its_name(served: Running, s3: Any, files: tuple[Path, Path]) -> None:
    store = served.stderr.parent / "store"
    assert BUCKET in {
        entry["name"] for entry in document("stats", "--data", store, ORCAS_MASTER_KEY=MASTER_KEY)["buckets"]
    }
    assert (
        command("env", "--data", store, ORCAS_MASTER_KEY=MASTER_KEY).splitlines()[0]
        == f"export AWS_ENDPOINT_URL_S3={served.url}"
    )
    command("top", "--data", store, "--once", "--interval", "0.1", ORCAS_MASTER_KEY=MASTER_KEY)
    keys = {"AWS_ACCESS_KEY_ID": served.keys[0], "AWS_SECRET_ACCESS_KEY": served.keys[1]}
    command("stats", "--endpoint", served.url, AWS_CA_BUNDLE=str(files[0]), **keys)
    refused = command("stats", "--endpoint", served.url, code=69, **keys)
    assert "name its CA with AWS_CA_BUNDLE" in refused
    wrong = command("stats", "--endpoint", served.url, code=78, AWS_CA_BUNDLE="/nonexistent", **keys)
    assert "AWS_CA_BUNDLE" in wrong


def test_the_access_log_is_written(served: Running, s3: Any) -> None:
    log = served.stderr.parent / "access.log"
    s3.head_bucket(Bucket=BUCKET)
    assert wait_until(lambda: "HeadBucket" in log.read_text())


def test_a_thousand_stalled_handshakes_hold_up_nobody(served: Running, files: tuple[Path, Path]) -> None:
    def failed() -> float:
        context = ssl.create_default_context(cafile=files[0])
        with urllib.request.urlopen(f"{served.url}/_orcas/metrics", context=context) as answer:
            found = re.search(rb'orcas_connection_refusals_total\{code="TLSHandshakeFailed"\} (\d+)', answer.read())
        return float(found[1]) if found else 0

    before, hello = failed(), bytes.fromhex("16030100c8010000c40303")
    with contextlib.ExitStack() as held:
        stalled = [held.enter_context(plain(served)) for _ in range(1000)]
        for client in stalled[::2]:
            client.sendall(hello)
        with connected(served, files[0]) as good:
            good.sendall(b"GET /_orcas/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert good.recv(1000).startswith(b"HTTP/1.1 200 ")
        # Nobody has to do anything for them to end.
        for client in stalled:
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
    assert wait_until(lambda: failed() == before + 1000)


# These change the certificate, so they come last.


class Load:
    """Requests over kept and over new connections. Every one must succeed."""

    def __init__(self, running: Running, s3: Any) -> None:
        self._running = running
        url = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "load"}))
        s3.put_object(Bucket=BUCKET, Key="load", Body=b"load")
        self._target = f"{url.path}?{url.query}"
        self._netloc = url.netloc
        self._end = threading.Event()
        self.errors: list[BaseException] = []
        self.answers = 0
        self.threads = [threading.Thread(target=self._run, args=(kept,)) for kept in (True, False, False)]

    def _run(self, kept: bool) -> None:
        # It trusts all: which certificate is shown is looked at elsewhere.
        context, connection = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), None
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        parts = urlsplit(self._running.url)
        try:
            while not self._end.is_set():
                connection = connection or http.client.HTTPSConnection(
                    parts.hostname or "", parts.port, context=context
                )
                connection.request("GET", self._target, headers={"Host": self._netloc})
                assert connection.getresponse().read() == b"load"
                self.answers += 1
                if not kept:
                    connection.close()
                    connection = None
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.errors.append(error)
        finally:
            if connection is not None:
                connection.close()

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self.threads:
            thread.join()


def shown(running: Running) -> bytes | None:
    """The certificate that new connections get."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(plain(running)) as client:
        return client.getpeercert(binary_form=True)


def metrics(running: Running, trusted: Path) -> dict[str, float]:
    context = ssl.create_default_context(cafile=trusted)
    with urllib.request.urlopen(f"{running.url}/_orcas/metrics", context=context) as answer:
        lines = [line.split() for line in answer.read().decode().splitlines() if line.startswith("orcas_tls_")]
    return {name: float(value) for name, value in lines}


def test_a_new_certificate_costs_no_request(served: Running, files: tuple[Path, Path], s3: Any, tmp_path: Path) -> None:
    pairs = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        pairs.append(certify(tmp_path / str(number), ends=60 + number))
    old = tmp_path / "old.pem"
    shutil.copy(files[0], old)
    ends = metrics(served, old)["orcas_tls_certificate_expiry_timestamp_seconds"]
    assert abs(ends - time.time() - 90 * 86_400) < 3600
    with Load(served, s3) as load:
        for certificate, key in pairs:
            before, answers = shown(served), load.answers
            for new, used in ((key, files[1]), (certificate, files[0])):
                shutil.copy(new, used.with_name("draft"))
                used.with_name("draft").replace(used)
            assert wait_until(lambda before=before: shown(served) != before)  # type: ignore[misc]
            assert wait_until(lambda answers=answers: load.answers > answers + 20)  # type: ignore[misc]
    assert load.errors == []
    found = metrics(served, files[0])
    assert abs(found["orcas_tls_certificate_expiry_timestamp_seconds"] - time.time() - 62 * 86_400) < 3600
    assert found["orcas_tls_certificate_reload_failed"] == 0
    assert [line["message"] for line in served.lines()].count("A new certificate is in use") >= 3
    # Commands know the new one.
    document("stats", "--data", served.stderr.parent / "store", ORCAS_MASTER_KEY=MASTER_KEY)


def test_a_bad_certificate_does_not_replace_a_good_one(
    served: Running, files: tuple[Path, Path], s3: Any, tmp_path: Path
) -> None:
    good = tmp_path / "good.pem"
    shutil.copy(files[0], good)
    before = shown(served)
    certify(tmp_path)
    shutil.copy(tmp_path / "certificate.pem", files[0])
    failed = "orcas_tls_certificate_reload_failed"
    assert wait_until(lambda: metrics(served, good)[failed] == 1)
    assert shown(served) == before
    said = [line for line in served.lines() if line["message"].startswith("The certificate in use stays: ")]
    assert "is not that of the certificate" in said[-1]["message"]
    shutil.copy(good, files[0])
    assert wait_until(lambda: metrics(served, good)[failed] == 0)


def test_sigterm_ends_idle_connections_and_finishes_requests(
    served: Running, files: tuple[Path, Path], s3: Any
) -> None:
    idle = [connected(served, files[0]) for _ in range(5)]
    for client in idle:
        client.sendall(b"GET /_orcas/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):
            piece = client.recv(1000)
            assert piece
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200 ")
    with plain(served):
        name = {"Bucket": BUCKET, "Key": "last"}
        url = urlsplit(s3.generate_presigned_url("put_object", Params=name))
        upload = connected(served, files[0])
        head = f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: 200000\r\n"
        upload.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert upload.recv(1000).startswith(b"HTTP/1.1 100 ")
        served.process.send_signal(signal.SIGTERM)
        for client in idle:
            with contextlib.suppress(ConnectionError):
                assert client.recv(1000) == b""
        upload.sendall(bytes(200_000))
        assert upload.recv(1000).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        # Nobody has closed anything.
        assert served.process.wait(60) == 0
        assert time.monotonic() - began < 20, "it waited for clients"
    for client in (*idle, upload):
        client.close()
