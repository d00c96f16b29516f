"""The CA of a development server, and the certificates that it signs."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from orcas.control.files.authority import certify
from orcas.http.certificate import read_certificate

NAMES = ["localhost", "127.0.0.1", "::1", "*.s3.test"]
FILES = ("tls-ca.pem", "tls-ca.key", "tls.pem")


def greet(certificate: Path, ca: Path, name: str) -> str | None:
    """The version of TLS that a strict client of this CA agrees on with a server of this name."""
    server, client = socket.socketpair()
    read_certificate(certificate, certificate, time.time())
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate)
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT

    def serve() -> None:
        with server, own.wrap_socket(server, server_side=True):
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client, context.wrap_socket(client, server_hostname=name) as connection:
            return connection.version()
    finally:
        thread.join()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "bucket.s3.test"])
def test_clients_that_trust_the_ca_accept_the_certificate(tmp_path: Path, name: str) -> None:
    assert greet(*certify(tmp_path, NAMES), name) == "TLSv1.3"


def test_files_are_for_their_owner_only_and_the_ca_stays(tmp_path: Path) -> None:
    certificate, ca = certify(tmp_path, NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    before = ca.read_bytes()
    # A name is added.
    certify(tmp_path, [*NAMES, "elsewhere.test"])
    assert ca.read_bytes() == before
    assert greet(certificate, ca, "elsewhere.test") == "TLSv1.3"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["missing", "empty", "cut", "flip", "other"])
def test_a_damaged_file_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, how: str) -> None:
    caplog.set_level(logging.INFO)
    _, ca = certify(tmp_path, NAMES)
    before = ca.read_bytes()
    path = tmp_path / name
    if how == "missing":
        path.unlink()
    elif how == "other":
        (tmp_path / "other").mkdir()
        certify(tmp_path / "other", NAMES)
        (tmp_path / "other" / name).replace(path)
    elif how == "flip":
        content = bytearray(path.read_bytes())
        # In the last third, where a certificate has its signature.
        at = len(content) * 2 // 3
        content[at] ^= 1
        path.write_bytes(content)
    else:
        os.truncate(path, 0 if how == "empty" else path.stat().st_size // 2)
    assert greet(*certify(tmp_path, NAMES), "localhost") == "TLSv1.3"
    if name == "tls.pem":
        assert ca.read_bytes() == before
        assert not caplog.records
    else:
        assert ca.read_bytes() != before
        assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_ca_that_expires_soon_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orcas.control.files.authority._AUTHORITY_DAYS", 30)
    _, ca = certify(tmp_path, NAMES)
    before = ca.read_bytes()
    monkeypatch.undo()
    certify(tmp_path, NAMES)
    assert ca.read_bytes() != before
    assert "expires soon" in caplog.text
