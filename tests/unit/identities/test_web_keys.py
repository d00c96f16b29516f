"""The keys of providers: where the server connects to, how often, and what it takes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.events.certificates import certify
from tests.fixtures.servers.answering import answering

from orcas.control.identities.failures import IamError
from orcas.iam.web import keys
from orcas.iam.web.keys import KeySets, fetch, parse_keys

URL = "https://issuer.example"
KEY = {"kid": "a", "kty": "RSA"}


def asked(url: str, *, anywhere: bool = False, seconds: float = 30) -> Any:
    return fetch(url, anywhere=anywhere, until=time.monotonic() + seconds)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "fec0::1", "::7f00:1", "192.88.99.1"]
)
def test_discovery_url_to_private_addresses(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `orcas.targets.addresses` tells public ones, for all that the server connects to by a name from others."""
    connected: list[Any] = []
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket.socket, "connect", lambda *given: connected.append(given))
    with pytest.raises(IamError) as refused:
        asked(f"{URL}/.well-known/openid-configuration")
    assert refused.value.private == f"{URL}/.well-known/openid-configuration: it has no address of the public internet"
    assert not connected


@pytest.mark.parametrize("url", ["http://issuer.example", "file:///etc/passwd", "https://a@b.example", "https://", "x"])
def test_only_https(url: str) -> None:
    for anywhere in (False, True):
        with pytest.raises(IamError) as refused:
            asked(url, anywhere=anywhere)
        assert refused.value.private == f"{url}: it is no https URL"


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What a server of this test speaks TLS with; clients of it trust its certificate."""
    certificate, key = certify(tmp_path)
    default = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: default(cafile=str(certificate)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@pytest.mark.parametrize("head", ["connection: close\r\n\r\n", "content-length: 100000\r\n\r\n", "x: "])
def test_an_answer_that_never_ends_is_cut_off(secure: ssl.SSLContext, head: str) -> None:
    """Each byte is in time, and the whole is not. An answer whose end is that of the connection is no exception."""

    def drip(connection: socket.socket) -> None:
        with secure.wrap_socket(connection, server_side=True) as dripping:
            dripping.recv(10_000)
            dripping.sendall(b"HTTP/1.1 200 OK\r\n" + head.encode())
            with contextlib.suppress(OSError):
                while True:
                    dripping.sendall(b" ")
                    time.sleep(0.05)

    with answering(drip) as port, pytest.raises(IamError):
        asked(f"https://localhost:{port}/keys", anywhere=True, seconds=1)


def test_no_redirection_is_followed(secure: ssl.SSLContext) -> None:
    came: list[bytes] = []

    def redirect(connection: socket.socket) -> None:
        with secure.wrap_socket(connection, server_side=True) as redirecting:
            came.append(redirecting.recv(10_000).split()[1])
            redirecting.sendall(b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")

    with answering(redirect) as port, pytest.raises(IamError) as refused:
        asked(f"https://localhost:{port}/keys", anywhere=True, seconds=10)
    assert came == [b"/keys"]
    # Where it is, and what it answers, is for the log.
    assert "302" not in str(refused.value)


class Web:
    """Answers by URL, and what was asked."""

    def __init__(self, **changed: Any) -> None:
        self.asked: list[tuple[str, bool]] = []
        described = {"issuer": URL, "jwks_uri": f"{URL}/keys", **changed}
        self.pages: dict[str, Any] = {
            f"{URL}/.well-known/openid-configuration": described, f"{URL}/keys": {"keys": [KEY]},
            "https://private.example/keys": {"keys": [KEY]},
        }  # fmt: skip
        self.now = 0.0
        self.sets = KeySets(self.get, lambda: self.now)

    def get(self, url: str, *, anywhere: bool, until: float) -> Any:
        self.asked.append((url, anywhere))
        if url not in self.pages:
            raise IamError("IDPCommunicationError", "there is nothing")
        return self.pages[url]

    async def find(self, kid: str, **details: Any) -> Any:
        return await self.sets.find("id", {"url": URL, **details}, kid)


async def test_keys_are_asked_for_once_an_hour_and_for_an_unknown_one_once_a_minute() -> None:
    web = Web()
    assert await web.find("a") == KEY
    for _ in range(100):
        assert await web.find("a") == KEY
        assert await web.find("b") is None
    assert web.asked == [(f"{URL}/.well-known/openid-configuration", False), (f"{URL}/keys", False)]
    web.now = 61
    assert await web.find("b") is None
    assert len(web.asked) == 4
    web.now = 3700
    assert await web.find("a") == KEY
    assert len(web.asked) == 6


async def test_a_provider_that_does_not_answer_is_not_asked_again_at_once() -> None:
    web = Web()
    del web.pages[f"{URL}/keys"]
    for _ in range(3):
        with pytest.raises(IamError):
            await web.find("a")
    assert len(web.asked) == 2


async def test_a_slow_provider_is_waited_for_by_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it hold up threads that others use, and who names it waits for a bounded time."""
    monkeypatch.setattr(keys, "_SECONDS_MAX", 0.2)
    released, began = threading.Event(), []

    def get(url: str, **_: Any) -> Any:
        if url.startswith("https://slow"):
            began.append(url)
            released.wait(30)
        return {"keys": [KEY]}

    sets = KeySets(get)

    def find(name: str) -> Any:
        return sets.find(name, {"url": f"https://{name}", "jwks_url": f"https://{name}/keys"}, "a")

    slow = [asyncio.ensure_future(find(f"slow-{number % 40}")) for number in range(200)]
    try:
        for number in range(20):
            assert await find(f"fast-{number}") == KEY
        assert not any(each.done() for each in slow)
        assert await asyncio.to_thread(len, began) == 40, "each is asked once"
        for each in slow:
            with pytest.raises(IamError, match="cannot be read"):
                await each
        with pytest.raises(IamError, match="cannot be read"):
            await find("slow-0")
        assert len(began) == 40, "and is not asked again at once"
    finally:
        released.set()


async def test_providers_that_are_asked_and_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_ASKED_MAX", 2)
    monkeypatch.setattr(keys, "_WAITING_MAX", 3)
    released = threading.Event()
    sets = KeySets(lambda *_, **__: released.wait(30) and {"keys": [KEY]})

    def find(name: str) -> Any:
        return asyncio.ensure_future(sets.find(name, {"url": URL, "jwks_url": f"https://{name}"}, "a"))

    waiting = [find("one") for _ in range(3)] + [find("two")]
    await asyncio.sleep(0)
    try:
        for name, why in (("one", "3 requests wait"), ("three", "2 other providers")):
            with pytest.raises(IamError) as refused:
                await find(name)
            assert why in str(refused.value.private)
    finally:
        released.set()
    assert await asyncio.gather(*waiting) == [KEY] * 4
    assert await find("three") == KEY


@pytest.mark.parametrize("changed", [{"issuer": "https://evil.example"}, {"jwks_uri": None}, {"issuer": URL + "/"}])
async def test_a_description_of_something_else(changed: dict[str, Any]) -> None:
    with pytest.raises(IamError):
        await Web(**changed).find("a")


async def test_only_the_operator_may_name_a_private_url() -> None:
    web = Web()
    assert await web.find("a", jwks_url="https://private.example/keys") == KEY
    assert web.asked == [("https://private.example/keys", True)]


async def test_a_file_of_keys(tmp_path: Path) -> None:
    path, web = tmp_path / "keys.json", Web()
    with pytest.raises(IamError) as refused:
        await web.find("a", jwks_file=str(path))
    assert refused.value.private is not None
    assert "No such file" in refused.value.private
    assert str(path) not in refused.value.message
    path.write_text(json.dumps({"keys": [KEY]}))
    assert await web.find("a", jwks_file=str(path)) == KEY
    path.write_text("[" * 100_000)
    with pytest.raises(IamError):
        await web.find("a", jwks_file=str(path))


@pytest.mark.parametrize(
    "document", [None, [], {}, {"keys": {}}, {"keys": [1, {}, {"kid": 1, "kty": "RSA"}, {"kid": "a", "kty": "oct"}]}]
)
def test_sets_without_keys_that_verify(document: Any) -> None:
    assert parse_keys(document) == {}
