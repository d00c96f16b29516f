"""The certificate in the data directory: when it is ordered and renewed, and what never takes its place."""

from __future__ import annotations

import datetime as dt
import logging
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from orcas.acme import keeper as module
from orcas.acme.ca import OrderError
from orcas.acme.keeper import ACCOUNT_NAME, CERTIFICATE_NAME, Keeper
from orcas.acme.selfsigned import new_key, pem_of
from orcas.engine import Front
from orcas.errors import UnavailableError
from orcas.http.certificate import read_certificate

MINUTE, HOUR, DAY = 60, 3600, 86_400


class FakeCa:
    """A CA that signs what it is asked for, unless it has been told otherwise."""

    host = "ca.test"

    def __init__(self, clock: Callable[[], float]) -> None:
        self.directory = "https://ca.test/directory"
        self.clock = clock
        self.days: float = 90
        self.names: list[str] | None = None
        self.refuses: str | None = None
        self.suggests: float | None = None
        self.wants_questions: float = DAY
        self.orders: list[float] = []
        self.accounts: set[bytes] = set()
        self.questions: list[float] = []

    def suggestion(self, chain: str) -> tuple[float | None, float]:
        assert "PRIVATE" not in chain.partition("-----BEGIN PRIVATE")[0]
        self.questions.append(self.clock())
        if self.refuses is not None:
            raise OrderError(self.refuses)
        return self.suggests, self.clock() + self.wants_questions

    def order(self, account: Any, names: Sequence[str], key: bytes, present: Callable[[list[Any]], None]) -> str:
        self.orders.append(self.clock())
        self.accounts.add(pem_of(account))
        if self.refuses is not None:
            raise OrderError(self.refuses)
        own = serialization.load_pem_private_key(key, None)
        begins = dt.datetime.fromtimestamp(self.clock(), dt.UTC)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
        hosts = [x509.DNSName(host) for host in (self.names or names)]
        signed = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(own.public_key())  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(begins + dt.timedelta(days=self.days))
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(own, hashes.SHA256())  # type: ignore[arg-type]
        )
        return signed.public_bytes(serialization.Encoding.PEM).decode()


class World:
    """A data directory, a clock that only the test moves, a CA, and who looks after the certificate."""

    def __init__(self, directory: Path) -> None:
        self.now = float(int(time.time()))
        self.directory = directory
        self.names = ["s3.test", "other.test"]
        self.ca = FakeCa(lambda: self.now)
        self.start()

    def start(self) -> None:
        ca: Any = self.ca
        self.keeper = Keeper(self.directory, self.names, ca, Front.check_tls, lambda: self.now, lambda: 0.0)

    @property
    def file(self) -> Path:
        return self.directory / CERTIFICATE_NAME

    def ends(self) -> float:
        return read_certificate(self.file, self.file, self.now).ends

    def live(self, seconds: float) -> None:
        """Let the time pass, and the keeper do what it does meanwhile."""
        until = self.now + seconds
        while True:
            wait = self.keeper.look()
            if self.now + wait >= until:
                self.now = until
                return
            self.now += wait


@pytest.fixture
def world(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> World:
    caplog.set_level(logging.INFO)
    # Each look takes milliseconds, and months pass.
    monkeypatch.setattr(module, "_LOOK_SECONDS_MAX", DAY)
    return World(tmp_path)


def test_the_first_certificate_comes_at_once_and_only_its_owner_can_read_it(world: World) -> None:
    world.live(DAY)
    assert world.ca.orders == [world.now - DAY]
    found = read_certificate(world.file, world.file, world.now)
    assert found.names == ["s3.test", "other.test"]
    assert found.files[0].startswith("# https://ca.test/directory\n-----BEGIN CERTIFICATE-----\n")
    assert sorted(path.name for path in world.directory.iterdir()) == [ACCOUNT_NAME, CERTIFICATE_NAME]
    for path in world.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_is_renewed_at_a_third_of_its_life_for_ever(world: World) -> None:
    start = world.now
    world.live(365 * DAY)
    assert [round((order - start) / DAY) for order in world.ca.orders] == [0, 60, 120, 180, 240, 300, 360]
    assert len(world.ca.accounts) == 1
    assert world.ends() > world.now
    # Not more often than the CA wants it.
    assert len(world.ca.questions) <= 365 + 7


def test_the_ca_may_want_it_earlier(world: World) -> None:
    world.ca.wants_questions = 6 * HOUR
    world.live(HOUR)
    start, first = world.now, world.ends()
    world.ca.suggests = world.now - DAY
    world.live(7 * HOUR)
    assert len(world.ca.orders) >= 2
    assert world.ca.orders[1] <= start + 6 * HOUR
    assert world.ends() > first


def test_a_ca_that_always_wants_it_causes_no_storm(world: World) -> None:
    world.ca.suggests = 0.0
    world.live(DAY)
    assert len(world.ca.orders) == 4


@pytest.mark.parametrize("days", [1, 6])
def test_short_lives(world: World, days: int) -> None:
    world.ca.days = days
    start = world.now
    world.live(4 * days * DAY)
    assert [round((order - start) / HOUR) for order in world.ca.orders] == [24 * days * 2 * n // 3 for n in range(6)]


def test_failures_are_said_and_make_no_storm(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.ca.refuses = "it says no"
    start = world.now
    world.live(DAY)
    assert [round((order - start) / MINUTE) for order in world.ca.orders] == [0, 1, 5, 21, 85, 341, 701, 1061, 1421]
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(said) == 9
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(start + MINUTE))
    assert said[0] == f"No certificate from ca.test: it says no. The next attempt is at {when}"
    assert world.keeper.fails
    assert not world.file.exists()
    world.ca.refuses = None
    world.live(6 * HOUR)
    assert world.file.exists()
    assert not world.keeper.fails


def test_a_failed_renewal_leaves_what_works(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.live(HOUR)
    before = world.file.read_bytes()
    world.ca.refuses = "it says no"
    world.live(70 * DAY)
    assert world.file.read_bytes() == before
    assert {record.levelname for record in caplog.records if "No certificate" in record.message} == {"WARNING"}
    assert len(world.ca.orders) < 60
    world.ca.refuses = None
    world.live(6 * HOUR)
    assert world.file.read_bytes() != before


def test_a_server_that_starts_again_and_again_makes_no_storm(world: World) -> None:
    world.ca.refuses = "it says no"
    start = world.now
    for _ in range(60):
        world.start()
        world.keeper.look()
        world.now += 10
    assert [order - start for order in world.ca.orders] == [n * MINUTE for n in range(10)]


def test_a_start_with_a_valid_certificate_orders_none(world: World) -> None:
    world.live(HOUR)
    world.start()
    world.live(DAY)
    assert len(world.ca.orders) == 1


@pytest.mark.parametrize("change", ["name", "directory", "expired", "damaged", "key"])
def test_what_does_not_fit_any_more_is_replaced_at_once(world: World, change: str) -> None:
    world.live(HOUR)
    before = world.file.read_text()
    if change == "name":
        world.names.append("third.test")
    elif change == "directory":
        world.ca.directory = "https://ca.test/production"
    elif change == "expired":
        world.now += 91 * DAY
    elif change == "damaged":
        world.file.write_text(before[:200])
    else:
        world.file.write_text(before.partition("-----BEGIN PRIVATE")[0] + pem_of(new_key()).decode())
    world.start()
    world.keeper.look()
    assert len(world.ca.orders) == 2
    assert read_certificate(world.file, world.file, world.now).names == world.names


def test_fewer_names_need_no_other_certificate(world: World) -> None:
    world.live(HOUR)
    world.names.pop()
    world.start()
    world.live(HOUR)
    assert len(world.ca.orders) == 1


@pytest.mark.parametrize(
    ("days", "names", "says"),
    [
        (0, None, "has expired on"), (1, None, "earlier than what is in use"),
        (90, ["s3.test"], "what has come is not for other.test"),
    ],
)  # fmt: skip
def test_a_worse_certificate_never_takes_its_place(
    world: World, caplog: pytest.LogCaptureFixture, days: float, names: list[str] | None, says: str
) -> None:
    world.live(HOUR)
    before = world.file.read_bytes()
    world.ca.days, world.ca.names = days, names
    world.live(60 * DAY + 10 * HOUR)
    assert world.file.read_bytes() == before
    assert len(world.ca.orders) > 2
    assert any(says in record.message for record in caplog.records)
    assert sorted(path.name for path in world.directory.iterdir()) == [ACCOUNT_NAME, CERTIFICATE_NAME]


def test_what_cannot_be_written_is_not_ordered_again(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = module.write_secret_file

    def full(path: Path, content: bytes) -> None:
        if path.name != ACCOUNT_NAME:
            raise UnavailableError(f"{path} cannot be written: no space.")
        write(path, content)

    monkeypatch.setattr(module, "write_secret_file", full)
    world.live(HOUR)
    assert len(world.ca.orders) == 1
    assert [record for record in caplog.records if "no space. The next attempt" in record.message]
    monkeypatch.setattr(module, "write_secret_file", write)
    world.live(6 * HOUR)
    assert len(world.ca.orders) == 1
    assert world.ends() > world.now


def test_a_damaged_account_key_is_replaced(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.live(HOUR)
    account = world.directory / ACCOUNT_NAME
    account.write_bytes(account.read_bytes()[:80])
    world.live(61 * DAY)
    assert len(world.ca.accounts) == 2
    assert [record.message for record in caplog.records if "is damaged" in record.message] == [
        f"{account} is damaged: a new account is made"
    ]


def test_a_lost_account_key_or_certificate_is_made_anew(world: World) -> None:
    world.live(HOUR)
    (world.directory / ACCOUNT_NAME).unlink()
    world.start()
    world.live(HOUR)
    assert len(world.ca.orders) == 1, "the certificate is valid without it"
    world.file.unlink()
    world.start()
    world.live(HOUR)
    assert (len(world.ca.orders), len(world.ca.accounts)) == (2, 2)
    assert world.ends() > world.now


def test_a_clock_that_was_wrong_delays_nothing(world: World) -> None:
    world.live(HOUR)
    world.file.unlink()
    later = world.now + 1000 * DAY
    os.utime(world.directory / ACCOUNT_NAME, (later, later))
    world.start()
    world.live(2 * MINUTE)
    assert len(world.ca.orders) == 2


def test_a_clock_that_is_set_back_delays_little(world: World) -> None:
    world.ca.refuses = "it says no"
    world.now += 1000 * DAY
    world.live(10 * MINUTE)
    world.now -= 1000 * DAY
    before = len(world.ca.orders)
    world.live(8 * HOUR)
    assert len(world.ca.orders) > before


def test_a_stop_ends_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.ca.refuses = "it says no"
    shown: list[Any] = []
    world.keeper.start(shown.append)
    deadline = time.monotonic() + 60
    while not world.ca.orders and time.monotonic() < deadline:
        time.sleep(0.01)
    world.keeper.stop()
    world.keeper._thread.join(60)
    assert not world.keeper._thread.is_alive()
    assert caplog.records[0].message.startswith("There is no certificate for s3.test, other.test yet")
