"""The certificate of the server: read, checked, and read again when its files change.

What cannot be used never replaces what is in use. Must not know settings, connections or who issues certificates.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from orcas.errors import ConfigurationError, because

# For TLS 1.2: forward secrecy, and encryption that authenticates. Those of TLS 1.3 are all of this kind.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which Python has no name.
_NO_CHECK_TIME: Final = 0x200000
# The end of a certificate is reported when a quarter of its life is left, and at most this long before: those who renew
# certificates do so earlier. Once a day from then on.
_DAY_SECONDS: Final = 86_400
_WARNING_SECONDS: Final = 14 * _DAY_SECONDS

log = logging.getLogger("orcas")

# What tells whether a file has changed; None if it is not there.
_State = tuple[tuple[int, int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its key, for connections; its time in seconds since 1970, and the SHA-256 of its bytes."""

    context: ssl.SSLContext = field(repr=False)
    # The files, as PEM: for the listener in Rust.
    files: tuple[str, str] = field(repr=False)
    begins: float
    ends: float
    digest: str


def read_certificate(certificate: Path, key: Path, now: float) -> Certificate:
    """Read the files and check that clients can accept what they have. Blocks.

    Raises:
        ConfigurationError: a server cannot use them.
    """
    chain, text = _read(certificate), _read(key)
    if "-----BEGIN CERTIFICATE-----" not in chain:
        raise ConfigurationError(f"{certificate} has no certificate: name a PEM file.")
    if "PRIVATE KEY-----" not in text:
        raise ConfigurationError(f"{key} has no private key: name a PEM file.")
    if "ENCRYPTED" in text:
        raise ConfigurationError(
            f"The private key in {key} is encrypted: decrypt it with `openssl pkey`, and let only the server read it."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
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
    return Certificate(context, (chain, text), begins, ends, hashlib.sha256(own).hexdigest())


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


class Certificates:
    """The certificate in use. Any thread may call `check`, one at a time."""

    def __init__(self, certificate: Path, key: Path, clock: Callable[[], float] = time.time) -> None:
        """Read the files. Blocks.

        Raises:
            ConfigurationError: they cannot be used.
        """
        self._files = certificate, key
        self._clock = clock
        # Before the files, so that a change in between is noticed.
        self._seen = self._used = self._state()
        self.current = read_certificate(certificate, key, clock())
        # Why the files as they are now are not in use.
        self.failure: str | None = None
        # What was said of its end last, and when.
        self._reminded: tuple[bool, float] | None = None

    def check(self) -> bool:
        """Read the files again if they have changed. Whether there is a new certificate. Blocks."""
        now = self._clock()
        seen, self._seen = self._seen, self._state()
        # Files that changed a moment ago may be incomplete: certificate and key are two.
        changed = self._seen != self._used and self._seen == seen
        if changed:
            try:
                self.current, self._used, self.failure = read_certificate(*self._files, now), self._seen, None
            except ConfigurationError as error:
                changed = False
                if self.failure != str(error):
                    self.failure = str(error)
                    log.error("The certificate in use stays: %s", error)
            else:
                self._reminded = None
                log.info("A new certificate is in use", extra={"orcas": {"ends": _date(self.current.ends)}})
        elif self._seen == self._used:
            self.failure = None
        self._remind(now)
        return changed

    def _remind(self, now: float) -> None:
        """Say in the log that the certificate ends."""
        current = self.current
        left = current.ends - now
        if left > min(_WARNING_SECONDS, (current.ends - current.begins) / 4):
            return
        expired = left <= 0
        if self._reminded is not None and self._reminded[0] == expired and now - self._reminded[1] < _DAY_SECONDS:
            return
        self._reminded = expired, now
        if not expired:
            log.warning("The certificate expires on %s: renew %s", _date(current.ends), self._files[0])
        else:
            log.error("The certificate has expired on %s: clients refuse it", _date(current.ends))

    def _state(self) -> _State:
        return tuple(_state_of(path) for path in self._files)


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
