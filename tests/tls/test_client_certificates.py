"""Certificates of clients: whom they are about, which ones are refused, and what ends the access that they give."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import ssl
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.fixtures.commands import command
from tests.fixtures.events.certificates import Authority, certify
from tests.fixtures.serving import Running, serving
from tests.fixtures.targets import refusal
from tests.fixtures.waiting import wait_until

import orcas
from orcas.testing import Control

BUCKET: Final = "by-certificate"
ASSUME: Final = "/?Action=AssumeRoleWithCertificate&Version=2011-06-15"
FULL: Final = "arn:aws:iam::aws:policy/AmazonS3FullAccess"
# An address of this machine that is that of a trusted proxy.
PROXY: Final = "127.0.0.2"


@dataclass
class Place:
    """A server whose clients may show certificates of a CA, with the users alice, bob and Ann."""

    running: Running
    own: Path
    ca: Path
    authority: Authority

    def context(self, certificate: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.own)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def ask(
        self, certificate: Path | None, target: str = ASSUME, headers: dict[str, str] | None = None,
        source: str = "127.0.0.1",
    ) -> tuple[int, dict[str, str]]:  # fmt: skip
        """Status, and the texts of the elements of the answer."""
        url = urlsplit(self.running.url)
        connection = HTTPSConnection(
            url.hostname or "", url.port, context=self.context(certificate), source_address=(source, 0), timeout=60
        )
        with contextlib.closing(connection):
            connection.request("POST", target, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, texts(answer.read())

    def client(self, service: str, found: dict[str, str] | None = None) -> Any:
        given = found or {}
        keys = {
            "aws_access_key_id": given.get("AccessKeyId"), "aws_secret_access_key": given.get("SecretAccessKey"),
            "aws_session_token": given.get("SessionToken"),
        }  # fmt: skip
        return self.running.client(service, verify=str(self.own), **{name: key for name, key in keys.items() if key})

    def arn(self, found: dict[str, str]) -> str:
        return str(self.client("sts", found).get_caller_identity()["Arn"])


def texts(document: bytes) -> dict[str, str]:
    return {element.tag.rpartition("}")[2]: element.text or "" for element in ET.fromstring(document).iter()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("clients")
    authority, (own, key) = Authority(directory), certify(directory, ends=90)
    ca = shutil.copy(authority.file, directory / "ca.pem")
    settings = {
        "ORCAS_TLS_CERT_FILE": str(own), "ORCAS_TLS_KEY_FILE": str(key),
        "ORCAS_TLS_CLIENT_CA_FILE": str(ca), "ORCAS_TRUSTED_PROXIES": PROXY,
    }  # fmt: skip
    with serving(directory, level="info", form="json", **settings) as running:
        place = Place(running, own, ca, authority)
        iam = place.client("iam")
        for name in ("alice", "bob", "Ann"):
            iam.create_user(UserName=name)
        iam.attach_user_policy(UserName="alice", PolicyArn=FULL)
        place.client("s3").create_bucket(Bucket=BUCKET)
        yield place


@pytest.fixture(scope="module")
def alice(place: Place) -> Path:
    return place.authority.certify("alice", ends=0.02)


def test_a_client_gets_credentials_of_the_user_that_its_certificate_names(place: Place, alice: Path) -> None:
    status, found = place.ask(alice)
    assert status == 200, found
    assert found["AccessKeyId"].startswith("ASIA")
    # Not for an hour: the certificate ends before.
    ends = dt.datetime.fromisoformat(found["Expiration"])
    assert ends < dt.datetime.now(dt.UTC) + dt.timedelta(days=0.02)
    s3 = place.client("s3", found)
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"content")
    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"content"
    assert place.arn(found).endswith(":user/alice")
    # As on AWS without MFA; and a session cannot make itself longer.
    assert refusal(place.client("iam", found).list_users)[1] == "InvalidClientTokenId"
    assert refusal(place.client("sts", found).get_session_token)[1] == "AccessDenied"
    _, found = place.ask(place.authority.certify("bob"), f"{ASSUME}&DurationSeconds=900")
    assert dt.datetime.fromisoformat(found["Expiration"]) < dt.datetime.now(dt.UTC) + dt.timedelta(seconds=901)
    assert refusal(place.client("s3", found).get_object, Bucket=BUCKET, Key="k")[1] == "AccessDenied"
    # Such a certificate does not do what a signature does.
    assert place.ask(alice, f"/{BUCKET}?delete")[0] == 403
    assert place.ask(alice, "/?Action=ListUsers&Version=2010-05-08")[1]["Code"] == "MissingAuthenticationToken"


def test_over_http_2(place: Place, alice: Path) -> None:
    with httpx.Client(http1=False, http2=True, verify=place.context(alice), trust_env=False) as client:
        for _ in range(2):
            answer = client.post(f"{place.running.url}{ASSUME}")
            assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
            assert place.arn(texts(answer.content)).endswith(":user/alice")


def test_a_client_without_a_certificate_is_served(place: Place) -> None:
    place.client("s3").head_bucket(Bucket=BUCKET)
    status, found = place.ask(None)
    assert (status, found["Code"]) == (403, "AccessDenied")
    assert found["Message"] == "The client has shown no certificate."


def refused(place: Place, certificate: Path) -> bool:
    """Whether the connection ends with the handshake."""
    try:
        place.ask(certificate)
    except (ssl.SSLError, ConnectionError):
        return True
    return False


def test_certificates_that_are_refused_in_the_handshake(place: Place, tmp_path: Path) -> None:
    own, key = certify(tmp_path)
    own.write_bytes(own.read_bytes() + key.read_bytes())
    certificates = [
        place.authority.certify("alice", begins=-3, ends=-0.1), place.authority.certify("alice", begins=0.1),
        place.authority.certify("alice", purpose=ExtendedKeyUsageOID.SERVER_AUTH),
        # Another CA with the same name, and none.
        Authority(tmp_path).certify("alice"), Authority(tmp_path, "Others").certify("alice"), own,
    ]  # fmt: skip
    assert [refused(place, certificate) for certificate in certificates] == [True] * len(certificates)

    def said() -> str:
        lines = place.running.lines()
        return "\n".join(str(line["cause"]) for line in lines if line["message"] == "A TLS handshake failed")

    causes = ("certificate expired", "certificate not valid yet", "UnknownIssuer")
    assert wait_until(lambda: all(cause in said() for cause in causes)), said()


@pytest.mark.parametrize("names", [["carol"], ["Alice"], ["ann"], ["alice", "bob"], [], ["alice\x00"], ["root"]])
def test_certificates_that_name_no_user(place: Place, names: list[str]) -> None:
    status, found = place.ask(place.authority.certify(*names))
    assert (status, found["Code"]) == (403, "AccessDenied")
    assert found["Message"] == "The certificate of the client names no user."


def test_nobody_can_say_that_it_has_shown_a_certificate(place: Place, alice: Path) -> None:
    forged = {
        "Orcas-Front-Certificate": ssl.PEM_cert_to_DER_cert(alice.read_text().partition("-----BEGIN PR")[0]).hex()
    }
    assert place.ask(None, headers=forged)[1]["Message"] == "The client has shown no certificate."
    status, found = place.ask(place.authority.certify("bob"), headers=forged)
    assert status == 200
    assert place.arn(found).endswith(":user/bob")


def test_the_certificate_of_a_proxy_is_not_that_of_its_clients(place: Place, alice: Path) -> None:
    status, found = place.ask(alice, source=PROXY)
    assert (status, found["Message"]) == (403, "The client has shown no certificate.")


def test_a_user_that_is_deleted_has_no_access_any_more(place: Place) -> None:
    iam, certificate = place.client("iam"), place.authority.certify("gone")
    iam.create_user(UserName="gone")
    iam.attach_user_policy(UserName="gone", PolicyArn=FULL)
    s3 = place.client("s3", place.ask(certificate)[1])
    s3.head_bucket(Bucket=BUCKET)
    iam.detach_user_policy(UserName="gone", PolicyArn=FULL)
    iam.delete_user(UserName="gone")
    assert refusal(s3.list_objects_v2, Bucket=BUCKET)[1] == "InvalidToken"
    assert place.ask(certificate)[0] == 403
    # Credentials of the one before are not those of the next one with this name.
    iam.create_user(UserName="gone")
    iam.attach_user_policy(UserName="gone", PolicyArn=FULL)
    assert refusal(s3.list_objects_v2, Bucket=BUCKET)[1] == "InvalidToken"


def test_a_connection_that_outlives_its_certificate(tmp_path: Path) -> None:
    """The listener looks at the time in the handshake alone."""
    authority = Authority(tmp_path)
    settings = {"tls_self_signed": True, "tls_client_ca_file": str(authority.file)}
    with orcas.Server(memory=True, **settings) as server, Control(server) as control:
        server.client("iam").create_user(UserName="alice")
        context = ssl.create_default_context(cafile=server.ca)
        context.load_cert_chain(authority.certify("alice"))
        url = urlsplit(server.endpoint)
        with contextlib.closing(HTTPSConnection(url.hostname or "", url.port, context=context)) as connection:

            def asked() -> tuple[int, str | None]:
                connection.request("POST", ASSUME)
                answer = connection.getresponse()
                return answer.status, texts(answer.read()).get("Message")

            assert asked() == (200, None)
            before = connection.sock
            control.advance(dt.timedelta(days=2))
            assert asked() == (403, "The certificate of the client has expired.")
            assert connection.sock is before


def test_cas_of_clients_are_read_again(place: Place, alice: Path, tmp_path: Path) -> None:
    other = Authority(tmp_path, "Next")
    certificate = other.certify("bob")
    assert refused(place, certificate)
    before = place.ca.read_bytes()
    place.ca.write_text("nothing")
    failed = "The CA of clients in use stays: "
    assert wait_until(lambda: any(str(line["message"]).startswith(failed) for line in place.running.lines()))
    assert place.ask(alice)[0] == 200
    shutil.copy(other.file, place.ca)
    assert wait_until(lambda: not refused(place, certificate))
    assert refused(place, alice)
    place.ca.write_bytes(before)
    assert wait_until(lambda: not refused(place, alice))


def test_what_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    own, key = certify(tmp_path)
    tls = {"ORCAS_TLS_CERT_FILE": str(own), "ORCAS_TLS_KEY_FILE": str(key)}
    start = ("serve", "--data", tmp_path / "store", "--port", "0")
    cut = tmp_path / "cut.pem"
    cut.write_bytes(own.read_bytes()[:200] + b"\n-----END CERTIFICATE-----\n")
    for settings, says in (
        ({}, "ORCAS_TLS_CLIENT_CA_FILE needs TLS"),
        ({**tls, "ORCAS_TLS_CLIENT_CA_FILE": str(key)}, f"{key} has no certificate: name a PEM file."),
        ({**tls, "ORCAS_TLS_CLIENT_CA_FILE": str(cut)}, f"{cut} cannot be used: "),
    ):
        settings = {"ORCAS_TLS_CLIENT_CA_FILE": str(own), **settings}
        assert says in command(*start, code=78, **settings)
    assert not (tmp_path / "store").exists()
