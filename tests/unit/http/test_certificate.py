"""What a certificate must be, when a new one takes its place, and what the log says of its end."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.events.certificates import certify

from orcas.acme.selfsigned import stand_in
from orcas.engine import Front
from orcas.errors import ConfigurationError
from orcas.http.certificate import Certificates, read_certificate

DAY = 86_400


def made(directory: Path, **options: float) -> tuple[Path, Path]:
    directory.mkdir()
    return certify(directory, **options)


def replaced(files: tuple[Path, Path], by: tuple[Path, Path]) -> None:
    """As those who renew certificates do it: complete files take the place of the old ones."""
    for old, new in zip(files, by, strict=True):
        copy = old.with_name("draft")
        shutil.copy(new, copy)
        copy.replace(old)


def in_use(*files: tuple[Path, Path], clock: Callable[[], float] = time.time) -> Certificates:
    return Certificates(files, None, Front.check_tls, clock)


def checked(certificates: Certificates) -> list[bool]:
    """What some calls return: a file that has just changed is read at the next one."""
    return [certificates.check() for _ in range(3)]


def refused(certificate: Path, key: Path) -> str:
    with pytest.raises(ConfigurationError) as refusal:
        read_certificate(certificate, key, time.time())
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    certificate, key = made(tmp_path / "good")
    assert read_certificate(certificate, key, time.time()).ends > time.time()
    other, other_key = made(tmp_path / "other")
    mismatch = f"The private key in {other_key} is not that of the certificate in {certificate}"
    assert refused(certificate, other_key) == f"{mismatch}: name those that belong together."
    absent = tmp_path / "absent"
    assert refused(absent, key) == f"{absent} cannot be read: No such file or directory; check the path."
    assert refused(certificate, absent) == f"{absent} cannot be read: No such file or directory; check the path."
    assert refused(key, key) == f"{key} has no certificate: name a PEM file."
    assert refused(certificate, other) == f"{other} has no private key: name a PEM file."
    cut = tmp_path / "cut.pem"
    cut.write_bytes(certificate.read_bytes()[:-40])
    assert refused(cut, key).startswith(f"{cut} and {key} cannot be used: ")
    cut.write_bytes(key.read_bytes().replace(b"M", b"N", 3))
    assert refused(certificate, cut).startswith(f"{certificate} and {cut} cannot be used: ")
    expired, expired_key = made(tmp_path / "expired", begins=-9, ends=-2)
    when = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 2 * DAY))
    assert refused(expired, expired_key).startswith(f"The certificate in {expired} has expired on {when} ")
    early, early_key = made(tmp_path / "early", begins=1, ends=2)
    assert refused(early, early_key).startswith(f"The certificate in {early} is not valid before ")
    (tmp_path / "locked").mkdir()
    locked, locked_key = certify(tmp_path / "locked", password=b"word")
    assert refused(locked, locked_key).startswith(f"The private key in {locked_key} is encrypted: ")


def test_both_may_be_in_one_file_and_a_chain_follows(tmp_path: Path) -> None:
    certificate, key = made(tmp_path / "one")
    other, _ = made(tmp_path / "two")
    both = tmp_path / "both.pem"
    both.write_bytes(key.read_bytes() + certificate.read_bytes() + other.read_bytes())
    assert read_certificate(both, both, time.time()).digest == read_certificate(certificate, key, time.time()).digest


def test_comments_may_have_any_characters(tmp_path: Path) -> None:
    certificate, key = made(tmp_path / "made")
    for comment in ("subject=O = Müller", "\ufeff"):
        for path in (certificate, key):
            path.write_bytes(f"{comment}\n".encode() + path.read_bytes())
        assert read_certificate(certificate, key, time.time()).ends > time.time()


def test_new_files_are_used_and_bad_ones_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    files = made(tmp_path / "used", ends=90)
    certificates = in_use(files)
    first = certificates.current
    assert checked(certificates) == [False, False, False]
    replaced(files, made(tmp_path / "new", ends=90))
    assert checked(certificates) == [False, True, False]
    second = certificates.current
    assert second.digest != first.digest
    assert [record.message for record in caplog.records] == ["A new certificate is in use"]
    caplog.clear()
    # Half a pair, as between two writes of somebody who is slow.
    third = made(tmp_path / "third", ends=90)
    replaced(files[:1] * 2, third[:1] * 2)
    assert checked(certificates) == [False, False, False]
    assert certificates.current is second
    assert certificates.failure is not None
    assert [record.levelname for record in caplog.records] == ["ERROR"], "it is said once"
    replaced(files, third)
    assert checked(certificates) == [False, True, False]
    assert certificates.failure is None
    files[0].unlink()
    assert checked(certificates) == [False, False, False]
    assert "cannot be read" in str(certificates.failure)
    replaced(files, third)
    assert checked(certificates) == [False, True, False]
    assert certificates.failure is None


def test_what_was_used_comes_back(tmp_path: Path) -> None:
    files = made(tmp_path / "used", ends=90)
    certificates = in_use(files)
    files[1].rename(tmp_path / "elsewhere")
    checked(certificates)
    assert certificates.failure is not None
    (tmp_path / "elsewhere").rename(files[1])
    assert checked(certificates) == [False, False, False]
    assert certificates.failure is None


def test_a_link_may_change_its_target(tmp_path: Path) -> None:
    """So secrets of Kubernetes change."""
    for name in ("one", "two"):
        made(tmp_path / name, ends=90)
    link = tmp_path / "data"
    link.symlink_to("one")
    certificates = in_use((link / "certificate.pem", link / "key.pem"))
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    assert checked(certificates) == [False, True, False]


def test_a_certificate_becomes_valid_while_the_server_waits(tmp_path: Path) -> None:
    now = time.time()
    files = made(tmp_path / "used", ends=90)
    certificates = in_use(files, clock=lambda: now)
    replaced(files, made(tmp_path / "early", begins=0.5, ends=90))
    assert checked(certificates) == [False, False, False]
    assert "not valid before" in str(certificates.failure)
    now += DAY
    assert checked(certificates) == [True, False, False]


@pytest.mark.parametrize(("ends", "warned"), [(365, 365 - 14), (6, 5.25 - 1)])
def test_the_end_is_announced_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ends: float, warned: float
) -> None:
    """`warned`: after so many days. A certificate for a week has a quarter of it left then."""
    start = now = time.time()
    certificates = in_use(made(tmp_path / "used", ends=ends), clock=lambda: now)
    now = start + warned * DAY - 60
    certificates.check()
    assert not caplog.records
    now = start + warned * DAY + 60
    assert not any(checked(certificates))
    (said,) = caplog.records
    assert said.levelname == "WARNING"
    assert said.message.startswith("The certificate expires on ")
    now += DAY
    certificates.check()
    assert len(caplog.records) == 2
    now = start + ends * DAY + 60
    assert not any(checked(certificates))
    assert [record.levelname for record in caplog.records[2:]] == ["ERROR"]
    assert caplog.records[2].message.startswith("The certificate has expired on ")


def test_the_end_of_each_is_announced_with_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    start = now = time.time()
    lives = {"first": 365, "second": 100, "third": 40}
    files = [made(tmp_path / name, ends=days) for name, days in lives.items()]
    certificates = in_use(*files, clock=lambda: now)
    assert abs(certificates.ends - start - 40 * DAY) < 60
    for days, name in ((31, "third"), (87, "second"), (352, "first")):
        caplog.clear()
        now = start + days * DAY
        certificates.check()
        warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert [said.partition("renew ")[2] for said in warnings] == [str(tmp_path / name / "certificate.pem")]
    ended = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert [said.partition("renew ")[2] for said in ended] == [str(pair[0]) for pair in files[1:]]
    replaced(files[2], made(tmp_path / "new", ends=400))
    assert checked(certificates) == [False, True, False]
    assert abs(certificates.ends - start - 100 * DAY) < 60


def test_something_stands_in_until_there_is_a_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = time.time()
    other = stand_in(["s3.test"])
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificates = Certificates([files], None, Front.check_tls, lambda: now, other)
    assert certificates.current is other
    assert certificates.failure is not None
    # Also when it ends itself.
    now += 40 * DAY
    assert checked(certificates) == [False, False, False]
    assert caplog.records == []
    Front.check_tls(certificates.tls())
    replaced(files, made(tmp_path / "first", ends=90))
    assert checked(certificates) == [False, True, False]
    assert certificates.failure is None
    assert [record.message for record in caplog.records] == ["A new certificate is in use"]
    assert Certificates([files], None, Front.check_tls, lambda: now, other).current is not other
    # The end is announced with who should have renewed it.
    now += 40 * DAY
    certificates.check()
    assert caplog.records[-1].message.endswith("the lines of orcas.acme say why it is not renewed")
