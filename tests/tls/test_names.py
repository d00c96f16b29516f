"""Several certificates: which one a client gets, and how each of them is renewed."""

from __future__ import annotations

import shutil
import ssl
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.fixtures.commands import command
from tests.fixtures.events.certificates import certify
from tests.fixtures.serving import Running, serving
from tests.fixtures.waiting import wait_until
from tests.tls.test_tls import plain

DAY: Final = 86_400
# In the order in which the server has them.
HOSTS: Final = {
    "default": ["s3.test"], "wild": ["*.wild.test", "both.test"], "own": ["Own.test", "exact.wild.test", "both.test"],
}  # fmt: skip

Pair = tuple[Path, Path]


def settings(pairs: list[Pair]) -> dict[str, str]:
    names = ("ORCAS_TLS_CERT_FILE", "ORCAS_TLS_KEY_FILE")
    files = {name: ",".join(map(str, column)) for name, column in zip(names, zip(*pairs, strict=True), strict=True)}
    return {**files}


def made(directory: Path, hosts: list[str], days: float = 90) -> Pair:
    directory.mkdir()
    return certify(directory, hosts=hosts, ends=days)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    place = tmp_path_factory.mktemp("certificates")
    return {name: made(place / name, hosts, 80 + at) for at, (name, hosts) in enumerate(HOSTS.items())}


@pytest.fixture(scope="module")
def served(pairs: dict[str, Pair], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("names"), level="info", form="json", **settings([*pairs.values()])) as running:
        yield running


def credulous() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def shown(running: Running, host: str | None) -> bytes | None:
    """The certificate that a client gets that asks for this host."""
    with credulous().wrap_socket(plain(running), server_hostname=host) as client:
        return client.getpeercert(binary_form=True)


def content(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair[0].read_text())


def metrics(running: Running) -> dict[str, float]:
    with urllib.request.urlopen(f"{running.url}/_orcas/metrics", context=credulous()) as answer:
        lines = [line.split() for line in answer.read().decode().splitlines() if line.startswith("orcas_tls_")]
    return {name.removeprefix("orcas_tls_certificate_"): float(value) for name, value in lines}


def replaced(pair: Pair, by: Pair) -> None:
    for old, new in zip(pair, by, strict=True):
        shutil.copy(new, old.with_name("draft"))
        old.with_name("draft").replace(old)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (None, "default"), ("s3.test", "default"), ("unknown.test", "default"), ("test", "default"),
        ("own.test", "own"), ("OWN.test", "own"), ("under.own.test", "default"),
        ("a.wild.test", "wild"), ("a.b.wild.test", "default"), ("wild.test", "default"),
        ("exact.wild.test", "own"),  # although a wildcard before it matches
        ("both.test", "wild"),  # the first that has it
    ],
)  # fmt: skip
def test_the_name_that_a_client_asks_for(served: Running, pairs: dict[str, Pair], host: str | None, name: str) -> None:
    assert shown(served, host) == content(pairs[name])


def test_each_is_renewed_whatever_the_others_are(served: Running, pairs: dict[str, Pair], tmp_path: Path) -> None:
    assert abs(metrics(served)["expiry_timestamp_seconds"] - time.time() - 80 * DAY) < 3600
    old = {name: content(pair) for name, pair in pairs.items()}
    kept = pairs["wild"][1].read_bytes()
    shutil.copy(pairs["own"][1], pairs["wild"][1])
    assert wait_until(lambda: metrics(served)["reload_failed"] == 1)
    replaced(pairs["own"], made(tmp_path / "new", ["new.test"], 70))
    assert wait_until(lambda: shown(served, "new.test") == content(pairs["own"]))
    # It has other names now, and the one that cannot be read stays.
    assert shown(served, "own.test") == old["default"]
    assert shown(served, "exact.wild.test") == shown(served, "both.test") == old["wild"]
    found = metrics(served)
    assert found["reload_failed"] == 1
    assert abs(found["expiry_timestamp_seconds"] - time.time() - 70 * DAY) < 3600
    pairs["wild"][1].write_bytes(kept)
    assert wait_until(lambda: metrics(served)["reload_failed"] == 0)
    stays = [line["message"] for line in served.lines() if str(line["message"]).startswith("The certificate in use ")]
    assert len(stays) == 1
    assert str(pairs["wild"][1]) in stays[0]


def test_a_key_that_the_listener_cannot_use_never_replaces_one(
    served: Running, pairs: dict[str, Pair], tmp_path: Path
) -> None:
    """OpenSSL, which reads the files, can use it."""
    before = content(pairs["default"])
    shutil.copytree(pairs["default"][0].parent, tmp_path / "good")
    replaced(pairs["default"], certify(tmp_path, hosts=["s3.test"], curve=ec.SECP521R1(), ends=90))
    assert wait_until(lambda: metrics(served)["reload_failed"] == 1)
    assert shown(served, None) == before
    good = tmp_path / "good"
    replaced(pairs["default"], (good / "certificate.pem", good / "key.pem"))
    assert wait_until(lambda: metrics(served)["reload_failed"] == 0)


def test_what_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    good, other = made(tmp_path / "good", ["a.test"]), made(tmp_path / "other", [])
    (tmp_path / "odd").mkdir()
    odd = certify(tmp_path / "odd", curve=ec.SECP521R1())
    start = ("serve", "--data", tmp_path / "store", "--port", "0")
    said = command(*start, code=78, **settings([good, other]))
    assert f"The certificate in {other[0]} is for no host: name it first, or leave it out." in said
    said = command(*start, code=78, **settings([good, odd]))
    assert f"{odd[0]} and {odd[1]} cannot be used: " in said
    said = command(*start, code=78, **{**settings([good, good]), "ORCAS_TLS_KEY_FILE": str(good[1])})
    assert "each certificate needs its key" in said
    assert not (tmp_path / "store").exists()
