"""The file with the address of a store's server."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from orcas.control.files import address
from orcas.control.files.address import Address, read_address, remove_address, write_address
from orcas.errors import UnavailableError


@pytest.mark.parametrize(
    ("url", "reached"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("http://0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("https://0.0.0.0:9000", "https://127.0.0.1:9000"),
    ],
)
def test_it_names_an_address_that_this_machine_reaches(tmp_path: Path, url: str, reached: str) -> None:
    write_address(tmp_path, Address(url, "eu-north-1"))
    assert read_address(tmp_path) == Address(reached, "eu-north-1")
    assert (tmp_path / "server.json").stat().st_mode & 0o777 == 0o600
    remove_address(tmp_path)
    remove_address(tmp_path)
    assert read_address(tmp_path) is None


@pytest.mark.parametrize(("has_address", "host"), [(True, "[::1]"), (False, "127.0.0.1")])
def test_a_server_on_all_addresses_is_reached_without_ipv6_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_address: bool, host: str
) -> None:
    class Probe(socket.socket):
        def bind(self, address: object) -> None:
            # Containers may have the protocol, and no address.
            if not has_address:
                raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    monkeypatch.setattr(address.socket, "socket", Probe)
    write_address(tmp_path, Address("http://[::]:9000", "us-east-1"))
    assert read_address(tmp_path) == Address(f"http://{host}:9000", "us-east-1")


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"url": 5}', '{"url": "file:///etc", "region": "a"}', '{"url": "http://a:1"}']
)
def test_what_cannot_be_read_names_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "server.json").write_text(content)
    assert read_address(tmp_path) is None


def test_on_a_full_disk_the_file_of_before_is_written_over_or_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _: bytes) -> None:
        raise UnavailableError(f"{path} cannot be written: No space left on device.")

    write_address(tmp_path, Address("http://127.0.0.1:9000/and-more-that-is-left-of-a-longer-one", "us-east-1"))
    monkeypatch.setattr(address, "write_secret_file", full)
    write_address(tmp_path, Address("http://127.0.0.1:7", "us-east-1"))
    assert read_address(tmp_path) == Address("http://127.0.0.1:7", "us-east-1")
    remove_address(tmp_path)
    with pytest.raises(UnavailableError, match="No space"):
        write_address(tmp_path, Address("http://127.0.0.1:9000", "us-east-1"))
    # It does not remove the address of another server.
    assert read_address(tmp_path) is None


def test_with_tls_it_names_the_certificate_and_the_ca(tmp_path: Path) -> None:
    address = Address("https://127.0.0.1:9000", "us-east-1", "ab" * 32, "/srv/orcas/tls-ca.pem")
    write_address(tmp_path, address)
    assert read_address(tmp_path) == address
