"""Challenges of ACME at the listener (TLS-ALPN-01): who gets their certificates, and that nothing else comes of it."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from tests.fixtures.servers.connections import Running, read_all
from tests.fixtures.waiting import wait_until

from orcas.acme.selfsigned import challenge

CHALLENGE = "acme-tls/1"
GET = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
BOTH = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
ANSWERED: list[str] = []


async def application(scope: Any, receive: Any, send: Any) -> None:
    ANSWERED.append(scope["raw_path"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    server = Running(application, tls=True)
    yield server
    server.close()


@pytest.fixture
def server(running: Running) -> Iterator[Running]:
    """With challenges for two names."""
    running.front.use_challenges([(*challenge(name, f"token-{name}"), [name]) for name in ("s3.test", "other.test")])
    ANSWERED.clear()
    yield running
    running.front.use_challenges([])


@contextlib.contextmanager
def connected(
    server: Running, protocols: list[str], name: str | None, version: ssl.TLSVersion | None = None
) -> Iterator[ssl.SSLSocket]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    with server.connect_plain() as plain, context.wrap_socket(plain, server_hostname=name) as client:
        yield client


def shown(client: ssl.SSLSocket) -> x509.Certificate:
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


def names(certificate: x509.Certificate) -> list[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return found.value.get_values_for_type(x509.DNSName)


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("name", ["s3.test", "other.test", "S3.Test"])
def test_a_ca_sees_the_certificate_of_its_challenge_and_then_the_end(
    server: Running, name: str, version: ssl.TLSVersion
) -> None:
    with connected(server, [CHALLENGE], name, version) as client:
        assert client.selected_alpn_protocol() == CHALLENGE
        certificate = shown(client)
        assert names(certificate) == [name.lower()]
        # RFC 8737: an OCTET STRING with the digest of the key authorization, in a critical extension.
        extension = certificate.extensions.get_extension_for_oid(x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31"))
        digest = hashlib.sha256(f"token-{name.lower()}".encode()).digest()
        assert extension.critical
        assert extension.value.value == b"\x04\x20" + digest
        assert read_all(client) == b""
    assert wait_until(lambda: server.connections() == 0)


@pytest.mark.parametrize("version", BOTH)
def test_nothing_becomes_a_request(server: Running, version: ssl.TLSVersion) -> None:
    with connected(server, [CHALLENGE], "s3.test", version) as client, contextlib.suppress(OSError):
        client.sendall(GET)
        assert read_all(client) == b""
    assert wait_until(lambda: server.connections() == 0)
    assert ANSWERED == []


@pytest.mark.parametrize("protocols", [[CHALLENGE, "http/1.1"], ["http/1.1", CHALLENGE], ["http/1.1"]])
def test_clients_of_http_get_the_certificate_of_the_server(server: Running, protocols: list[str]) -> None:
    for name in ("s3.test", "localhost"):
        with connected(server, protocols, name) as client:
            assert client.selected_alpn_protocol() == "http/1.1"
            assert names(shown(client)) == ["localhost"]
            client.sendall(GET)
            assert read_all(client).endswith(b"ok")


@pytest.mark.parametrize(
    ("protocols", "name"),
    [
        ([CHALLENGE], "localhost"), ([CHALLENGE], "a.s3.test"), ([CHALLENGE], None), ([CHALLENGE, "other"], "s3.test"),
        (["other", CHALLENGE], "s3.test"), ([CHALLENGE, CHALLENGE], "s3.test"), (["acme-tls/2"], "s3.test"),
    ],
)  # fmt: skip
def test_others_get_no_certificate(server: Running, protocols: list[str], name: str | None) -> None:
    with pytest.raises((ssl.SSLError, ConnectionResetError)), connected(server, protocols, name):
        pass
    assert server.exchange(GET).endswith(b"ok")


def test_challenges_end(server: Running) -> None:
    server.front.use_challenges([(*challenge("s3.test", "another"), ["s3.test"])])
    with connected(server, [CHALLENGE], "s3.test"):
        pass
    with pytest.raises(ssl.SSLError), connected(server, [CHALLENGE], "other.test"):
        pass
    server.front.use_challenges([])
    with pytest.raises(ssl.SSLError), connected(server, [CHALLENGE], "s3.test"):
        pass
    assert server.exchange(GET).endswith(b"ok")


def test_what_cannot_be_used_changes_nothing(server: Running) -> None:
    certificate, _ = challenge("s3.test", "another")
    for wrong in (("", ""), (certificate, certificate)):
        with pytest.raises(ValueError, match=r"."):
            server.front.use_challenges([(*wrong, ["s3.test"])])
    with connected(server, [CHALLENGE], "other.test") as client:
        assert names(shown(client)) == ["other.test"]
