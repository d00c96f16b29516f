"""Bodies that arrive before it is known who sends them: on no path do they take what others need."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.edge.test_stalls import silent
from tests.fixtures.wire import Connection, Signer

import orcas
from orcas.tables import MOUNT

pytestmark = pytest.mark.conformance

KIB = 1 << 10
MIB = 1 << 20
# The minimum for a server. Bodies of strangers may hold an eighth of it.
BUDGET = 8 * MIB
FORM = "application/x-www-form-urlencoded"
SIGNED = (
    "authorization: AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0"
)
TABLES = SIGNED.replace("/iam/", "/s3tables/")
OWN = "sec-fetch-site: same-origin"
BOUNDARY = 'multipart/form-data; boundary="b"'


def head(path: str, kind: str, length: int, *lines: str) -> bytes:
    given = "".join(f"{line}\r\n" for line in lines)
    return (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{given}\r\n"
    ).encode()


# By path: a head, and what of the body is sent, all but its end.
SLOW = {
    "sign-in": (head("/_orcas/console/sign-in", FORM, 32 * KIB, OWN), b"access_key=" + b"x" * 31 * KIB),
    "IAM": (head("/", FORM, 250 * KIB, SIGNED), b"Action=CreateUser&UserName=" + b"x" * 240 * KIB),
    "STS": (head("/", FORM, 64 * KIB), b"Action=AssumeRoleWithWebIdentity&WebIdentityToken=" + b"x" * 60 * KIB),
    "form": (
        head("/strangers", BOUNDARY, MIB),
        b'--b\r\ncontent-disposition: form-data; name="key"\r\n\r\n' + b"x" * 19 * KIB,
    ),
    "catalog": (head(f"{MOUNT}/v1/namespaces", "application/json", 600 * KIB, TABLES), b"[" + b" " * 500 * KIB),
    "tokens": (head(f"{MOUNT}/v1/oauth/tokens", FORM, 64 * KIB), b"grant_type=" + b"x" * 60 * KIB),
}
# Without pyiceberg, the catalog of tables reads no body: it says what is missing.
has_catalog = pytest.mark.skipif(not find_spec("pyiceberg"), reason="pyiceberg is not installed")
PATHS = [pytest.param(path, marks=has_catalog) if path in ("catalog", "tokens") else path for path in SLOW]
PROMISED = " ".join((Path(__file__).parents[3] / "SECURITY.md").read_text().split())
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 10)]


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    """A server whose body timeout is longer than these tests take."""
    with orcas.Server(memory=True, body_budget=BUDGET, body_timeout_sec=300) as running:
        signer = Signer.of(running)
        assert signer.roundtrip(signer.request("PUT", "/strangers")).status == 200
        # The console is made when it is first asked for.
        check_others(running)
        yield running


def begin(stack: contextlib.ExitStack, server: orcas.Server, path: str, source: str) -> Connection:
    signer = Signer.of(server)
    address = (signer.host, signer.port)
    connection = Connection(socket.create_connection(address, 10, source_address=(source, 0)))
    stack.callback(connection.sock.close)
    # Sent apart from the head, as a client that stalls does. The server may have ended the connection meanwhile.
    with contextlib.suppress(ConnectionError):
        connection.send(SLOW[path][0])
        connection.send(SLOW[path][1])
    return connection


def check_others(server: orcas.Server) -> None:
    """Who has a key, and who signs in, are served."""
    signer = Signer.of(server)
    assert server.client("iam").list_users()["Users"] == []
    assert server.client("sts").get_caller_identity()["Arn"].endswith(":root")
    body = f"access_key={server.access_key}&secret_key={server.secret_key}".encode()
    answer = signer.roundtrip(head("/_orcas/console/sign-in", FORM, len(body), OWN) + body)
    assert answer.status == 303
    form = server.client("s3").generate_presigned_post("strangers", "form")["fields"]
    parts = [f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{form[name]}\r\n' for name in form]
    data = ("".join(parts) + '--b\r\ncontent-disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n').encode()
    assert signer.roundtrip(head("/strangers", BOUNDARY, len(data)) + data).status == 204
    # The catalog, too, is made when it is first asked for.
    keys = f"grant_type=client_credentials&client_id={server.access_key}&client_secret={server.secret_key}".encode()
    answer = signer.roundtrip(head(f"{MOUNT}/v1/oauth/tokens", FORM, len(keys)) + keys)
    assert answer.status == (200 if find_spec("pyiceberg") else 501)
    # What stalls takes nothing from those whose head is signed.
    assert signer.roundtrip(signer.request("PUT", "/strangers/key", body=b"x" * 60 * KIB)).status == 200


@pytest.mark.parametrize("path", PATHS)
def test_slow_bodies_of_many_addresses_stop_nobody(server: orcas.Server, path: str) -> None:
    """They hold their share together. What is more is ended."""
    with contextlib.ExitStack() as stack:
        slow = [begin(stack, server, path, source) for source in ADDRESSES for _ in range(16)]
        check_others(server)
        ended = [connection for connection in slow if not silent(connection)]
        assert 0 < len(slow) - len(ended) <= BUDGET // 8 // len(SLOW[path][1])
        answer = ended[0].response()
        assert (answer.status, answer.code) == (503, "SlowDown")


def test_a_body_is_no_longer_than_its_path_needs(server: orcas.Server) -> None:
    """Before it is known who sends it: with a session, a form of the console may be larger."""
    signer = Signer.of(server)
    for sent, limit in (
        (head("/_orcas/console/sign-in", FORM, 128 * KIB + 1, OWN) + b"x" * (128 * KIB + 1), 128 * KIB),
        (head("/", FORM, 64 * KIB + 1) + b"x" * (64 * KIB + 1), 64 * KIB),
        (head("/", FORM, 256 * KIB + 1, SIGNED) + b"x" * (256 * KIB + 1), 256 * KIB),
    ):
        answer = signer.roundtrip(sent)
        assert (answer.status, f" {limit} bytes".encode() in answer.body) == (413, True)
        # The threat model has the same number.
        assert f"at most {limit // KIB} KiB" in PROMISED or f"or {limit // KIB} KiB" in PROMISED


@has_catalog
def test_of_a_body_that_the_catalog_needs_to_know_its_sender_it_takes_8_mib() -> None:
    """Of an order for a token it takes less."""
    with orcas.Server(memory=True, body_budget=256 * MIB) as server:
        for limit, first in (
            (8 * MIB, head(f"{MOUNT}/v1/namespaces", "application/json", 8 * MIB + 1, TABLES)),
            (64 * KIB, head(f"{MOUNT}/v1/oauth/tokens", FORM, 64 * KIB + 1)),
        ):
            answer = Signer.of(server).roundtrip(first + b" " * (limit + 1))
            assert (answer.status, f"at most {limit} bytes".encode() in answer.body) == (413, True)
    assert "no hash of the body, 8 MiB" in PROMISED


def _private(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) * KIB


@pytest.mark.full
@pytest.mark.parametrize("path", [*PATHS, pytest.param("all", marks=has_catalog)])
def test_a_thousand_bodies_of_strangers_take_64_mib(path: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with orcas.Server(memory=True, body_timeout_sec=300) as server, contextlib.ExitStack() as stack:
            server.client("s3").create_bucket(Bucket="strangers")
            check_others(server)
            before = _private(server.pid)
            paths = list(SLOW) if path == "all" else [path]
            for number in range(1_000):
                begin(stack, server, paths[number % len(paths)], ADDRESSES[number // len(paths) % len(ADDRESSES)])
            check_others(server)
            assert _private(server.pid) - before <= 64 * MIB
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
