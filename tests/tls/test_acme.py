"""`orcas serve --acme` with a CA, Pebble: first certificates, renewals, failures, and clients of S3 meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from tests.fixtures.events.brokers import free_port
from tests.fixtures.servers.pebble import BLOCKED, Pebble, pebble
from tests.fixtures.serving import Running, serving
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.conformance, pytest.mark.full]

NAME, OTHER = "s3.orcas.test", "backup.orcas.test"
MONTH = 30 * 86_400


@pytest.fixture(autouse=True)
def resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of tests are this machine, for clients in this process."""
    known: Callable[..., Any] = socket.getaddrinfo

    def found(host: Any, *arguments: Any, **options: Any) -> Any:
        return known("127.0.0.1" if str(host).endswith(".orcas.test") else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", found)


@pytest.fixture
def ca(tmp_path: Path) -> Iterator[Pebble]:
    with pebble(tmp_path / "ca") as running:
        yield running


@contextlib.contextmanager
def served(directory: Path, ca: Pebble, *names: str, **settings: str) -> Iterator[Running]:
    """A server at the port to which the CA connects."""
    arguments = ("--port", str(ca.tls_port), *(word for name in names or (NAME,) for word in ("--acme", name)))
    with serving(directory, *arguments, level="info", form="json", **(ca.settings | settings)) as running:
        running.url = f"https://{(names or (NAME,))[0]}:{ca.tls_port}"
        yield running


def certificate(running: Running, name: str = NAME) -> x509.Certificate:
    """What a client gets that trusts nobody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = int(running.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname=name) as client,
    ):
        return x509.load_der_x509_certificate(client.getpeercert(binary_form=True) or b"")


def is_self_signed(found: x509.Certificate) -> bool:
    return found.issuer == found.subject


def trusted(running: Running, root: Path, name: str = NAME) -> bool:
    """Whether a client that trusts the CA trusts the server, which answers it."""
    port = running.url.rpartition(":")[2]
    context = ssl.create_default_context(cafile=root)
    try:
        with urllib.request.urlopen(
            f"https://{name}:{port}/_orcas/health/ready", context=context, timeout=60
        ) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def lines(running: Running, beginning: str) -> list[dict[str, Any]]:
    return [line for line in running.lines() if line["message"].startswith(beginning)]


def failures(running: Running) -> list[str]:
    return [line["message"] for line in lines(running, "No certificate from")]


def metrics(running: Running) -> dict[str, float]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = running.url.rpartition(":")[2]
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/_orcas/metrics", context=context) as answer:
        page = answer.read().decode()
    return {
        name: float(value)
        for name, value in (line.split() for line in page.splitlines() if line.startswith("orcas_tls_certificate_"))
    }


class Traffic:
    """Clients of S3 that go on and on. `stop` returns how many requests they have made, of which none may fail."""

    def __init__(self, *clients: Any) -> None:
        self._ending = threading.Event()
        self._failures: list[BaseException] = []
        self.done = 0
        self._threads = [threading.Thread(target=self._work, args=(client,)) for client in clients]
        for thread in self._threads:
            thread.start()

    def _work(self, client: Any) -> None:
        number = 0
        try:
            while not self._ending.is_set():
                key, body = f"key-{number % 20}", os.urandom(2000)
                client.put_object(Bucket="traffic", Key=key, Body=body)
                client.get_object(Bucket="traffic", Key=key)["Body"].read()
                number += 1
                self.done += 2
                # New connections, which get the newest certificate.
                if number % 10 == 0:
                    client.close()
        except BaseException as error:  # noqa: BLE001 - a thread cannot raise it
            self._failures.append(error)

    def stop(self) -> int:
        self._ending.set()
        for thread in self._threads:
            thread.join(60)
        assert self._failures == []
        return self.done


def test_the_first_certificate(ca: Pebble, tmp_path: Path) -> None:
    with served(tmp_path, ca) as running:
        assert wait_until(lambda: trusted(running, ca.root))
        found = certificate(running)
        assert found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
            x509.DNSName
        ) == [NAME]
        s3 = running.client(verify=str(ca.root))
        s3.create_bucket(Bucket="photos")
        s3.put_object(Bucket="photos", Key="k", Body=b"content")
        assert s3.get_object(Bucket="photos", Key="k")["Body"].read() == b"content"
        assert [line["message"] for line in lines(running, "A certificate for")] == [
            f"A certificate for {NAME} is ordered from 127.0.0.1:{ca.port}",
            f"A certificate for {NAME} has come from 127.0.0.1:{ca.port}",
        ]
        assert lines(running, "There is no certificate for")
        assert len(lines(running, "The certificate of a challenge was shown")) >= 1
        assert wait_until(lambda: metrics(running)["orcas_tls_certificate_reload_failed"] == 0)
        ends = metrics(running)["orcas_tls_certificate_expiry_timestamp_seconds"]
        assert ends == found.not_valid_after_utc.timestamp()
        for name in ("acme.pem", "acme-account.key"):
            assert (tmp_path / "store" / name).stat().st_mode & 0o777 == 0o600
        assert running.stop() == 0
    # The next start has it at once.
    with served(tmp_path, ca) as again:
        assert certificate(again) == found
        assert not lines(again, "A certificate for")
    assert ca.said("Issued certificate serial") == 1


def test_before_the_first_certificate_clients_get_one_that_they_do_not_trust(ca: Pebble, tmp_path: Path) -> None:
    ca.stop()
    with served(tmp_path, ca) as running:
        assert is_self_signed(certificate(running))
        assert wait_until(lambda: len(failures(running)) == 1)
        assert f"No certificate from 127.0.0.1:{ca.port}: it cannot be reached (" in failures(running)[0]
        assert "Connection refused" in failures(running)[0]
        assert metrics(running)["orcas_tls_certificate_reload_failed"] == 1
        # The server is whole otherwise, and goes on by itself when the CA is back.
        ca.start()
        assert wait_until(lambda: trusted(running, ca.root), 120)
        assert len(failures(running)) == 1


def test_several_names_are_in_one_certificate(ca: Pebble, tmp_path: Path) -> None:
    with served(tmp_path, ca, NAME, OTHER) as running:
        assert wait_until(lambda: trusted(running, ca.root))
        assert trusted(running, ca.root, OTHER)
        assert not trusted(running, ca.root, "third.orcas.test")
        assert certificate(running) == certificate(running, OTHER)
    # Another name needs another certificate, until which that of before is used.
    aged(tmp_path)
    with served(tmp_path, ca, NAME, OTHER, "third.orcas.test") as more:
        assert wait_until(lambda: trusted(more, ca.root, "third.orcas.test"))
        assert trusted(more, ca.root)
    assert ca.said("Issued certificate serial") == 2


def aged(directory: Path) -> None:
    """As if the last attempt had been long ago."""
    os.utime(directory / "store" / "acme-account.key", (0, 0))


def test_a_renewal_without_one_failed_request(tmp_path: Path) -> None:
    with pebble(tmp_path / "ca", validity_sec=75) as ca, served(tmp_path, ca) as running:
        assert wait_until(lambda: trusted(running, ca.root))
        first = certificate(running)
        running.client(verify=str(ca.root)).create_bucket(Bucket="traffic")
        traffic = Traffic(*(running.client(verify=str(ca.root)) for _ in range(3)))
        try:
            assert wait_until(lambda: certificate(running) != first, 150)
        finally:
            done = traffic.stop()
        assert done > 0
        assert trusted(running, ca.root)
        assert certificate(running).public_key() != first.public_key()
        assert failures(running) == []


def test_the_ca_says_when_to_renew(ca: Pebble, tmp_path: Path) -> None:
    with served(tmp_path, ca) as running:
        assert wait_until(lambda: trusted(running, ca.root))
        first = certificate(running)
    pem = (tmp_path / "store" / "acme.pem").read_text()
    long_ago = {"suggestedWindow": {"start": "2021-01-01T00:00:00Z", "end": "2021-01-02T00:00:00Z"}}
    chain = pem[pem.index("-----BEGIN") : pem.index("-----BEGIN PRIVATE")]
    ca.manage("set-renewal-info/", {"certificate": chain, "ariResponse": json.dumps(long_ago)})
    aged(tmp_path)
    with served(tmp_path, ca) as again:
        assert wait_until(lambda: certificate(again) != first)
        assert trusted(again, ca.root)


def test_a_ca_that_refuses(ca: Pebble, tmp_path: Path) -> None:
    with served(tmp_path, ca, BLOCKED) as running:
        assert wait_until(lambda: len(failures(running)) == 1)
        assert "it says rejectedIdentifier: " in failures(running)[0]
        assert "The next attempt is at" in failures(running)[0]
        assert is_self_signed(certificate(running))
        # Again in a minute, and not at once.
        time.sleep(3)
        assert len(failures(running)) == 1


def test_another_server_at_the_name(ca: Pebble, tmp_path: Path) -> None:
    """As with a proxy that ends TLS, or a port that is not forwarded."""
    port = ca.tls_port
    ca.stop()
    ca.tls_port = free_port()
    ca.start()
    ca.tls_port, unreachable = port, ca.tls_port
    assert unreachable != port
    with served(tmp_path, ca) as running:
        assert wait_until(lambda: len(failures(running)) == 1)
        said = failures(running)[0]
        assert f"it refuses {NAME}, and says " in said
        assert "port 443 of the name must lead to this server" in said


def test_terms_must_be_accepted(ca: Pebble, tmp_path: Path) -> None:
    with served(tmp_path, ca, ORCAS_ACME_ACCEPT_TERMS="false") as running:
        assert wait_until(lambda: len(failures(running)) == 1)
        assert "it has terms of service: read data:text/plain" in failures(running)[0]
        assert "accept them with ORCAS_ACME_ACCEPT_TERMS=true" in failures(running)[0]
        assert ca.said("There are now 1 accounts") == 0


def test_external_accounts_are_refused(tmp_path: Path) -> None:
    with pebble(tmp_path / "ca", external=True) as ca, served(tmp_path, ca) as running:
        assert wait_until(lambda: len(failures(running)) == 1)
        assert "it wants an external account; use another ACME client" in failures(running)[0]


def test_the_certificate_of_the_ca_itself_is_verified(ca: Pebble, tmp_path: Path) -> None:
    with served(tmp_path, ca, ORCAS_ACME_CA_FILE=str(ca.root)) as running:
        assert wait_until(lambda: len(failures(running)) == 1)
        assert "its own certificate is refused" in failures(running)[0]
        assert "ORCAS_ACME_CA_FILE" in failures(running)[0]


def test_an_address_for_the_ca_may_be_given_later_and_change(ca: Pebble, tmp_path: Path) -> None:
    for number, email in enumerate((None, "one@orcas.test", "two@orcas.test")):
        settings = {} if email is None else {"ORCAS_ACME_EMAIL": email}
        with served(tmp_path, ca, **settings) as running:
            assert wait_until(lambda: ca.said("Issued certificate serial") == number + 1)  # noqa: B023
            assert wait_until(lambda: trusted(running, ca.root))
            assert failures(running) == []
            assert running.stop() == 0
        (tmp_path / "store" / "acme.pem").unlink()
        aged(tmp_path)
    assert ca.said("There are now 1 accounts") == 1
    assert ca.said("There are now 2 accounts") == 0


def test_valid_authorizations_need_no_challenge(tmp_path: Path) -> None:
    with pebble(tmp_path / "ca", variables={"PEBBLE_AUTHZREUSE": "100"}) as ca:
        for number in (1, 2):
            with served(tmp_path, ca) as running:
                assert wait_until(lambda: trusted(running, ca.root))
                shown = lines(running, "The certificate of a challenge was shown")
                assert bool(shown) == (number == 1)
            (tmp_path / "store" / "acme.pem").unlink()
            aged(tmp_path)


def greeted(ca: Pebble, protocols: list[str], name: str) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    plain = socket.create_connection(("127.0.0.1", ca.tls_port), timeout=60)
    return context.wrap_socket(plain, server_hostname=name)


def test_hostile_clients_and_a_kill_during_an_order(tmp_path: Path) -> None:
    """The CA takes so long that the order is under way while all this happens."""
    with pebble(tmp_path / "ca", variables={"PEBBLE_VA_NOSLEEP": "0", "PEBBLE_VA_SLEEPTIME": "8"}) as ca:
        with served(tmp_path, ca) as running:
            # Nobody knows when the CA comes, so until then its part is played here.
            assert wait_until(lambda: is_challenged(ca))
            for protocols, name in (
                (["acme-tls/1"], OTHER), (["acme-tls/1", "other"], NAME), (["other", "acme-tls/1"], NAME),
            ):  # fmt: skip
                with pytest.raises((ssl.SSLError, ConnectionResetError)):
                    greeted(ca, protocols, name)
            with greeted(ca, ["acme-tls/1", "http/1.1"], NAME) as client:
                assert client.selected_alpn_protocol() == "http/1.1"
                client.sendall(b"GET /_orcas/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
            running.process.kill()
            running.process.wait()
        assert not (tmp_path / "store" / "acme.pem").exists()
        aged(tmp_path)
        with served(tmp_path, ca) as again:
            assert wait_until(lambda: trusted(again, ca.root), 120)
            assert not is_challenged(ca)
            assert failures(again) == []
        assert ca.said("There are now 2 accounts") == 0


def is_challenged(ca: Pebble) -> bool:
    try:
        greeted(ca, ["acme-tls/1"], NAME).close()
    except (ssl.SSLError, ConnectionResetError):
        return False
    return True


def test_a_stop_during_an_order_waits_for_nobody(tmp_path: Path) -> None:
    with (
        pebble(tmp_path / "ca", variables={"PEBBLE_VA_NOSLEEP": "0", "PEBBLE_VA_SLEEPTIME": "60"}) as ca,
        served(tmp_path, ca) as running,
    ):
        assert wait_until(lambda: is_challenged(ca))
        assert running.stop() == 0
        assert failures(running) == []
        assert running.lines()[-1]["message"] == "Stopped"


def test_a_salvage_server_uses_what_there_is_and_orders_nothing(ca: Pebble, tmp_path: Path) -> None:
    with served(tmp_path, ca) as running:
        assert wait_until(lambda: trusted(running, ca.root))
        running.client(verify=str(ca.root)).create_bucket(Bucket="photos")
        assert running.stop() == 0
    arguments = ("--port", str(ca.tls_port), "--acme", NAME, "--salvage")
    before = (tmp_path / "store" / "acme.pem").read_bytes()
    with serving(tmp_path, *arguments, level="info", form="json", **ca.settings) as salvaging:
        assert trusted(salvaging, ca.root)
        assert not lines(salvaging, "A certificate for")
    assert (tmp_path / "store" / "acme.pem").read_bytes() == before
