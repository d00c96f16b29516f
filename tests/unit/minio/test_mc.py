"""`orcas mc`: which server the alias `local` is, and what is said of a bucket that is not there."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.fixtures.commands import command
from tests.fixtures.events.certificates import certify


class _Ready(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(404)
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/_orcas/health/ready" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextlib.contextmanager
def ready(certificates: Path | None = None) -> Iterator[int]:
    """The port of a server that is ready, with TLS if it has certificates."""
    with HTTPServer(("127.0.0.1", 0), _Ready) as server:
        if certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates / "public.crt", certificates / "private.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the aliases that MinIO's client makes by itself."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".mc").mkdir()
    made = {"url": "http://localhost:9000", "accessKey": "", "secretKey": "", "api": "S3v4", "path": "auto"}
    (tmp_path / ".mc" / "config.json").write_text(json.dumps({"version": "10", "aliases": {"local": made}}))


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_local_is_the_server_at_the_address_of_the_variables(host: str) -> None:
    with ready() as port:
        found = command("mc", "ready", "local", MINIO_ADDRESS=f"{host}:{port}")
    assert found == f"The cluster 'http://{host or 'localhost'}:{port}' is ready\n"


def test_local_speaks_tls_when_there_are_certificates(tmp_path: Path) -> None:
    certificates = tmp_path / ".minio" / "certs"
    certificates.mkdir(parents=True)
    certificate, key = certify(certificates)
    certificate.rename(certificates / "public.crt")
    key.rename(certificates / "private.key")
    with ready(certificates) as port:
        found = command("mc", "ready", "local", MINIO_ADDRESS=f":{port}", AWS_CA_BUNDLE="")
    assert found == f"The cluster 'https://localhost:{port}' is ready\n"


def test_an_alias_with_keys_counts_more_than_the_variables() -> None:
    with ready() as port:
        found = command("mc", "ready", "local", MC_HOST_local=f"http://a:b@127.0.0.1:{port}", MINIO_ADDRESS=":1")
    assert found == f"The cluster 'http://127.0.0.1:{port}' is ready\n"


def test_a_bucket_that_is_not_there_is_named() -> None:
    with ready() as port:
        said = command("mc", "stat", "s/photos", code=1, MC_HOST_s=f"http://a:b@127.0.0.1:{port}")
    assert said == "orcas: There is no bucket photos: name another one."
