"""The keys of providers: where the server connects to, how often, and what it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orcas.control.identities.failures import IamError
from orcas.iam.web import keys
from orcas.iam.web.keys import KeySets, fetch, is_public, parse_keys

URL = "https://issuer.example"
KEY = {"kid": "a", "kty": "RSA"}


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "::1", "::", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "ff02::1",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)  # fmt: skip
def test_discovery_url_to_private_addresses(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_public(address)
    connected: list[Any] = []
    found = [(0, 0, 0, "", ("93.184.216.34", 443)), (0, 0, 0, "", (address, 443))]
    monkeypatch.setattr(keys.socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(keys.socket, "create_connection", lambda *given: connected.append(given))
    with pytest.raises(IamError, match="not one of the public internet"):
        fetch(f"{URL}/.well-known/openid-configuration", anywhere=False)
    assert not connected


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700:4700::1111", "::ffff:93.184.216.34"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("url", ["http://issuer.example", "file:///etc/passwd", "https://a@b.example", "https://", "x"])
def test_only_https(url: str) -> None:
    for anywhere in (False, True):
        with pytest.raises(IamError, match="no https URL"):
            fetch(url, anywhere=anywhere)


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

    def get(self, url: str, *, anywhere: bool) -> Any:
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
    with pytest.raises(IamError, match="No such file"):
        await web.find("a", jwks_file=str(path))
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
