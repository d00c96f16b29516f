"""How a server with TLS starts: what it refuses, what it warns of, and a certificate that it makes itself."""

from __future__ import annotations

import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from tests.fixtures.commands import command
from tests.fixtures.events.certificates import certify
from tests.fixtures.serving import serving
from tests.fixtures.waiting import wait_until

import orcas
from orcas.errors import ConfigurationError
from orcas.serving import serve
from orcas.settings.config import Settings
from orcas.testing import Control


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"CERT": "certificate.pem"},
            "Set ORCAS_TLS_CERT_FILE and ORCAS_TLS_KEY_FILE together: each certificate needs",
        ),
        ({"KEY": "key.pem"}, "Set ORCAS_TLS_CERT_FILE and ORCAS_TLS_KEY_FILE together: each certificate needs"),
        ({"CERT": "certificate.pem", "KEY": "certificate.pem"}, "certificate.pem has no private key:"),
    ],
)
def test_what_cannot_work_is_said_before_there_is_a_store(tmp_path: Path, given: dict[str, str], says: str) -> None:
    certify(tmp_path)
    store = tmp_path / "store"
    files = {f"ORCAS_TLS_{name}_FILE": str(tmp_path / path) for name, path in given.items()}
    assert says in command("serve", "--data", store, "--port", "0", code=78, **files)
    assert not store.exists()


def test_settings_that_exclude_each_other(tmp_path: Path) -> None:
    certificate, key = certify(tmp_path)
    with pytest.raises(ConfigurationError, match="both set: set only one"):
        orcas.Server(memory=True, tls_self_signed=True, tls_cert_file=str(certificate), tls_key_file=str(key))
    # The child says the same of the files, and the reason is in the exception.
    (tmp_path / "other").mkdir()
    _, other = certify(tmp_path / "other")
    with pytest.raises(ConfigurationError, match=r"is not that of the certificate"):
        orcas.Server(memory=True, tls_cert_file=str(certificate), tls_key_file=str(other))


def test_only_a_certificate_that_is_generated_or_ordered_needs_another_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'orcas-s3\[tls\]'"):
        serve.given_certificates(Settings(tls_self_signed=True))
    with pytest.raises(ConfigurationError, match=r"--acme needs the package acme: pip install 'orcas-s3\[acme\]'"):
        serve.given_certificates(Settings(acme=("s3.test",)))
    certificate, key = certify(tmp_path)
    assert serve.given_certificates(Settings(tls_cert_file=(certificate,), tls_key_file=(key,))) is not None
    # Nothing else imports it.
    code = "import sys; sys.modules |= {'cryptography': None, 'acme': None}; import orcas.serving.serve, orcas.cli.commands"
    code += "; orcas.cli.commands.app_with_all()"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    with orcas.Server(memory=True, tls_self_signed=True, domains=["s3.test"]) as server:
        yield server


def test_clients_of_a_server_trust_its_ca(server: orcas.Server) -> None:
    assert server.endpoint.startswith("https://127.0.0.1:")
    assert server.ca is not None
    assert Path(server.ca).stat().st_mode & 0o777 == 0o600
    s3 = server.client()
    s3.create_bucket(Bucket="trusted")
    s3.put_object(Bucket="trusted", Key="k", Body=b"content")
    assert server.resource().Object("trusted", "k").get()["Body"].read() == b"content"
    port = urlsplit(server.endpoint).port
    context = ssl.create_default_context(cafile=server.ca)
    with urllib.request.urlopen(f"https://localhost:{port}/_orcas/health/live", context=context) as answer:
        assert answer.status == 200
    with Control(server) as control:
        control.record()
        s3.head_bucket(Bucket="trusted")
        assert [request.operation for request in control.requests()] == ["HeadBucket"]
    # What uses a boto3 client reaches the server as the client does.
    assert orcas.instant.upload(s3, "trusted", "again", b"content" * 20_000) is not None


def test_the_variables_of_a_server_name_its_ca(server: orcas.Server) -> None:
    with server.env() as variables:
        assert variables["AWS_CA_BUNDLE"] == server.ca
        s3: Any = boto3.client("s3")
        assert isinstance(s3.list_buckets()["Buckets"], list)
        command("stats", "--endpoint", server.endpoint, **variables)


def test_an_installed_ca_survives_a_start(tmp_path: Path) -> None:
    certificates = []
    for _ in range(2):
        with serving(tmp_path, "--tls-self-signed", level="info", form="human") as running:
            ca = tmp_path / "store" / "tls-ca.pem"
            certificates.append(ca.read_bytes())
            said = f"clients have to trust its CA, {ca}"
            assert wait_until(lambda running=running, said=said: said in running.text())  # type: ignore[misc]
            printed = command("env", "--data", tmp_path / "store")
            assert f"export AWS_CA_BUNDLE={ca}\n" in printed
            shell = f"{printed}\n env | grep ^AWS_CA_BUNDLE="
            done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
            assert done.stdout == f"AWS_CA_BUNDLE={ca}\n"
            assert "unencrypted" not in running.text()
            assert running.stop() == 0
    assert certificates[0] == certificates[1]


def test_what_is_unprotected_is_said(tmp_path: Path) -> None:
    with serving(tmp_path, "--memory", "--host", "0.0.0.0", level="info", form="human") as running:
        said = "Listening on 0.0.0.0 unencrypted: anyone who sees the traffic can read it"
        assert wait_until(lambda: said in running.text())
    with serving(tmp_path, "--memory", "--host", "0.0.0.0", "--tls-self-signed", level="info", form="human") as running:
        assert wait_until(lambda: "clients have to trust its CA" in running.text())
        assert "unencrypted" not in running.text()
