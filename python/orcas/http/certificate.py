"""The certificates of the server and the CAs of its clients: read, checked, and read again when their files change.

What cannot be used never replaces what is in use. Must not know settings, connections or who issues certificates.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypedDict, TypeVar

from orcas.errors import ConfigurationError, because

# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which Python has no name.
_NO_CHECK_TIME: Final = 0x200000
# The end of a certificate is reported when a quarter of its life is left, and at most this long before: those who renew
# certificates do so earlier. Once a day from then on.
_DAY_SECONDS: Final = 86_400
_WARNING_SECONDS: Final = 14 * _DAY_SECONDS

log = logging.getLogger("orcas")

_T = TypeVar("_T")

# What tells whether a file has changed; None if it is not there.
_State = tuple[tuple[int, int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its key; its time in seconds since 1970, and the SHA-256 of its bytes."""

    # As PEM.
    files: tuple[str, str] = field(repr=False)
    # The hosts that it is for, in lower case.
    names: list[str]
    begins: float
    ends: float
    digest: str


class Tls(TypedDict):
    """All that connections speak TLS with, as the listener takes it."""

    certificates: list[tuple[str, str, list[str]]]
    client_ca: str | None


def read_certificate(certificate: Path, key: Path, now: float) -> Certificate:
    """Read the files and check that clients can accept what they have. Blocks.

    Raises:
        ConfigurationError: a server cannot use them.
    """
    chain, text = _read(certificate), _read(key)
    _check_that_it_has_one(certificate, chain)
    if "PRIVATE KEY-----" not in text:
        raise ConfigurationError(f"{key} has no private key: name a PEM file.")
    if "ENCRYPTED" in text:
        raise ConfigurationError(
            f"The private key in {key} is encrypted: decrypt it with `openssl pkey`, and let only the server read it."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # With a password, it never asks for one on a terminal.
        context.load_cert_chain(certificate, key, password="")
        fields, own = _shown(context, chain)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigurationError(
                f"The private key in {key} is not that of the certificate in {certificate}: name those that belong together."
            ) from None
        reason = getattr(error, "verify_message", None) or error.reason or error
        raise ConfigurationError(
            f"{certificate} and {key} cannot be used: {reason}; name a certificate and its key."
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{certificate} and {key} cannot be read: {because(error)}.") from None
    begins, ends = (float(ssl.cert_time_to_seconds(fields[name])) for name in ("notBefore", "notAfter"))
    if now >= ends:
        raise ConfigurationError(f"The certificate in {certificate} has expired on {_date(ends)}: renew it.")
    if now < begins:
        raise ConfigurationError(
            f"The certificate in {certificate} is not valid before {_date(begins)}: check the clock."
        )
    names = [value.lower() for kind, value in fields.get("subjectAltName", ()) if kind == "DNS"]
    return Certificate((chain, text), names, begins, ends, hashlib.sha256(own).hexdigest())


def _shown(context: ssl.SSLContext, chain: str) -> tuple[dict[str, Any], bytes]:
    """What a client that trusts `chain` sees of a server with `context`, at any time: the fields of the certificate, and
    its bytes. Without a socket.

    Raises:
        SSLError: the client refuses the certificate.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    trusting.load_verify_locations(cadata=chain)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    # Each sends twice at most.
    for side in (client, server) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return dict(client.getpeercert() or {}), client.getpeercert(binary_form=True) or b""


class _Watched(Generic[_T]):
    """Files, and what was read of them that is in use."""

    def __init__(self, what: str, files: Sequence[Path], read: Callable[[], _T], stand_in: _T | None = None) -> None:
        self._what = what
        self._files = files
        self._read = read
        # Why the files as they are now are not in use.
        self.failure: str | None = None
        # Before the files, so that a change in between is noticed.
        self._seen = self._state()
        # None while something else stands in for them.
        self._used: _State | None = self._seen
        try:
            self.current = read()
        except ConfigurationError as error:
            if stand_in is None:
                raise
            self.current, self._used, self.failure = stand_in, None, str(error)

    def check(self) -> bool:
        """Read the files again if they have changed. Whether anything new is in use. Blocks."""
        seen, self._seen = self._seen, self._state()
        # Files that changed a moment ago may be incomplete: certificate and key are two.
        changed = self._seen != self._used and self._seen == seen
        if changed:
            try:
                self.current, self._used, self.failure = self._read(), self._seen, None
            except ConfigurationError as error:
                changed = False
                if self.failure != str(error):
                    self.failure = str(error)
                    log.error("The %s in use stays: %s", self._what, error)
        elif self._seen == self._used:
            self.failure = None
        return changed

    def _state(self) -> _State:
        return tuple(_state_of(path) for path in self._files)


class _Own(_Watched[Certificate]):
    """A certificate of the server."""

    def __init__(
        self, files: tuple[Path, Path], usable: Callable[[Tls], None], clock: Callable[[], float],
        stand_in: Certificate | None,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._advice = f"renew {files[0]}" if stand_in is None else "the lines of orcas.acme say why it is not renewed"
        # What was said of its end last, and when.
        self._reminded: tuple[bool, float] | None = None

        def read() -> Certificate:
            certificate = read_certificate(*files, clock())
            try:
                usable(_tls([certificate], None))
            except ValueError as error:
                raise ConfigurationError(
                    f"{files[0]} and {files[1]} cannot be used: {error}; name a certificate and its key."
                ) from None
            return certificate

        super().__init__("certificate", files, read, stand_in)

    def check(self) -> bool:
        """Check the certificate, and say in the log that it ends."""
        changed = super().check()
        if changed:
            self._reminded = None
            facts = {"file": str(self._files[0]), "ends": _date(self.current.ends)}
            log.info("A new certificate is in use", extra={"orcas": facts})
        self._remind(self._clock())
        return changed

    def _remind(self, now: float) -> None:
        current = self.current
        left = current.ends - now
        if self._used is None or left > min(_WARNING_SECONDS, (current.ends - current.begins) / 4):
            return
        expired = left <= 0
        if self._reminded is not None and self._reminded[0] == expired and now - self._reminded[1] < _DAY_SECONDS:
            return
        self._reminded = expired, now
        if not expired:
            log.warning("The certificate expires on %s: %s", _date(current.ends), self._advice)
        else:
            log.error("The certificate has expired on %s: clients refuse it; %s", _date(current.ends), self._advice)


class Certificates:
    """All certificates in use. Any thread may call `check`, one at a time."""

    def __init__(
        self, files: Sequence[tuple[Path, Path]], client_ca: Path | None, usable: Callable[[Tls], None],
        clock: Callable[[], float] = time.time, stand_in: Certificate | None = None,
    ) -> None:  # fmt: skip
        """Read the files. Blocks.

        Args:
            files: certificates with their keys. The first is for clients that name no host, or one that none is for.
            client_ca: the CAs of clients; without it, clients show no certificates.
            usable: raises ValueError for what connections cannot use.
            clock: seconds since 1970.
            stand_in: what is in use until the files can be.

        Raises:
            ConfigurationError: they cannot be used.
        """
        self._own = [_Own(pair, usable, clock, stand_in) for pair in files]
        for (path, _), own in [*zip(files, self._own, strict=True)][1:]:
            if not own.current.names:
                raise ConfigurationError(f"The certificate in {path} is for no host: name it first, or leave it out.")
        self._clients: list[_Watched[str]] = []
        if client_ca is not None:
            self._clients.append(
                _Watched("CA of clients", [client_ca], lambda: _read_client_ca(client_ca, self.current, usable))
            )

    @property
    def current(self) -> Certificate:
        """The first of the server."""
        return self._own[0].current

    @property
    def ends(self) -> float:
        """When the first of them ends."""
        return min(own.current.ends for own in self._own)

    @property
    def failure(self) -> str | None:
        """Why files as they are now are not in use."""
        return next((each.failure for each in self._watched() if each.failure is not None), None)

    def tls(self) -> Tls:
        """The certificates in use."""
        return _tls([own.current for own in self._own], next((each.current for each in self._clients), None))

    def check(self) -> bool:
        """Read files again that have changed. Whether anything new is in use. Blocks."""
        # Each of them, whether or not one before is new.
        changed = [each.check() for each in self._watched()]
        return any(changed)

    def _watched(self) -> list[_Watched[Any]]:
        return [*self._own, *self._clients]


def _tls(own: list[Certificate], client_ca: str | None) -> Tls:
    return {"certificates": [(*each.files, each.names) for each in own], "client_ca": client_ca}


def _read_client_ca(path: Path, certificate: Certificate, usable: Callable[[Tls], None]) -> str:
    text = _read(path)
    _check_that_it_has_one(path, text)
    try:
        usable(_tls([certificate], text))
    except ValueError as error:
        raise ConfigurationError(f"{path} cannot be used: {error}; name a file with certificates of CAs.") from None
    return text


def _check_that_it_has_one(path: Path, text: str) -> None:
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise ConfigurationError(f"{path} has no certificate: name a PEM file.")


def _state_of(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _read(path: Path) -> str:
    try:
        # What is encoded is ASCII; whatever stands around it, such as names in comments, does not matter.
        return path.read_text(encoding="ascii", errors="ignore")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {because(error)}.") from None
