"""The certificate in the data directory, which a thread of its own orders and renews.

The thread waits for the CA and the disk, so neither the event loop nor a stop waits for it: what it leaves behind is
whole at any time. A certificate that is worse than the one in the file never replaces it. Must not know ACME.
"""

from __future__ import annotations

import logging
import math
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from orcas.acme import schedule
from orcas.acme.ca import Ca, OrderError, Present
from orcas.acme.selfsigned import new_key, pem_of
from orcas.control.files import read_secret_file, sync_directory, write_secret_file
from orcas.errors import ConfigurationError, UnavailableError, because
from orcas.http.certificate import Certificate, Certificates, Tls, read_certificate

# The certificate, those between it and a root, and its key. The first line names the directory of the CA.
CERTIFICATE_NAME: Final = "acme.pem"
# Its modification time is that of the last attempt, so that a server that starts again and again does not ask again and
# again.
ACCOUNT_NAME: Final = "acme-account.key"
# Clocks are set, and machines sleep.
_LOOK_SECONDS_MAX: Final = 3600.0
_LOOK_SECONDS_MIN: Final = 1.0

log = logging.getLogger("orcas.acme")


class Keeper:
    """Keeps a certificate for `names` from `ca` in `directory`."""

    def __init__(
        self, directory: Path, names: Sequence[str], ca: Ca, usable: Callable[[Tls], None],
        clock: Callable[[], float] = time.time, luck: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        """Does nothing yet.

        Args:
            directory: the data directory.
            names: of hosts, all in one certificate.
            ca: who gives it.
            usable: raises ValueError for what connections cannot use.
            clock: seconds since 1970.
            luck: a random number from 0 to 1.
        """
        self._file, self._account = directory / CERTIFICATE_NAME, directory / ACCOUNT_NAME
        self._names, self._ca, self._usable, self._clock, self._luck = tuple(names), ca, usable, clock, luck
        self._present: Present = lambda _: None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="orcas-acme", daemon=True)
        self._failures = 0
        # No attempt before this time.
        self._earliest = 0.0
        # The certificate that the rest is about, what the CA suggests for it, when it is asked again, and its luck.
        self._known: tuple[str, float | None, float, float] = ("", None, 0.0, 0.0)
        # A certificate that could not be written, which the CA need not make again.
        self._unwritten: str | None = None

    @property
    def fails(self) -> bool:
        """Whether the last attempt has failed."""
        return self._failures > 0

    def start(self, present: Present) -> None:
        """Begin, now that the listener can answer challenges."""
        self._present = present
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more. What is under way is given up when the process ends."""
        self._stopping.set()

    def look(self) -> float:
        """Order a certificate if it is time to. Returns after how many seconds to look again. Blocks."""
        now, found = self._clock(), self._found()
        # The clock may have been set back.
        self._earliest = min(self._earliest, now + schedule.PAUSE_MAX)
        due = 0.0 if found is None else self._due(found, now)
        due = max(due, self._earliest, self._last_attempt(now) + schedule.PAUSE_MIN)
        if now >= due:
            self._attempt(found)
            return _LOOK_SECONDS_MIN
        questions = [] if found is None else [self._known[2]]
        return max(_LOOK_SECONDS_MIN, min(due - now, _LOOK_SECONDS_MAX, *(again - now for again in questions)))

    def _keep(self) -> None:
        if self._found() is None:
            log.info(
                "There is no certificate for %s yet: until there is, clients get one that they do not trust",
                ", ".join(self._names),
            )
        wait = 0.0
        while not self._stopping.wait(wait):
            try:
                wait = self.look()
            except Exception:
                log.exception("The certificate could not be looked after")
                self._failures += 1
                wait = _LOOK_SECONDS_MAX

    def _found(self) -> Certificate | None:
        """The certificate in the file, if it is valid, from this CA and for all names."""
        try:
            found = read_certificate(self._file, self._file, self._clock())
        except ConfigurationError:
            return None
        fits = found.files[0].startswith(self._first_line()) and set(self._names) <= set(found.names)
        return found if fits else None

    def _first_line(self) -> str:
        return f"# {self._ca.directory}\n"

    def _last_attempt(self, now: float) -> float:
        try:
            last = self._account.stat().st_mtime
        except OSError:
            return -math.inf
        # The clock was wrong if it is in the future.
        return last if last <= now else -math.inf

    def _due(self, found: Certificate, now: float) -> float:
        """When to renew it."""
        digest, suggested, again, luck = self._known
        if digest != found.digest:
            digest, suggested, again, luck = found.digest, None, 0.0, self._luck()
        again = min(again, now + schedule.ASK_MAX)
        if now >= again:
            try:
                suggested, wished = self._ca.suggestion(found.files[0])
                again = schedule.next_question(now, wished)
            except OrderError as error:
                again = schedule.next_question(now, math.inf)
                log.info("%s does not say when to renew the certificate: %s", self._ca.host, error)
        self._known = digest, suggested, again, luck
        return schedule.renewal(found.begins, found.ends, suggested, luck)

    def _attempt(self, found: Certificate | None) -> None:
        names, host = ", ".join(self._names), self._ca.host
        log.info("A certificate for %s is ordered from %s", names, host)
        try:
            account = self._account_key()
            if self._unwritten is None:
                key = pem_of(new_key())
                chain = self._ca.order(account, self._names, key, self._present)
                self._unwritten = f"{self._first_line()}{chain.rstrip()}\n{key.decode()}"
            new = self._write(self._unwritten, found)
        except (OrderError, UnavailableError) as error:
            self._fail(found, str(error).rstrip("."))
            return
        self._unwritten, self._failures = None, 0
        self._earliest = self._clock() + schedule.rest(new.ends - new.begins)
        log.info("A certificate for %s has come from %s", names, host, extra={"orcas": {"ends": _time(new.ends)}})

    def _fail(self, found: Certificate | None, reason: str) -> None:
        if self._stopping.is_set():
            return
        self._failures += 1
        life = math.inf if found is None else found.ends - found.begins
        self._earliest = self._clock() + schedule.pause(self._failures, life, self._luck())
        level = logging.ERROR if found is None else logging.WARNING
        log.log(
            level, "No certificate from %s: %s. The next attempt is at %s",
            self._ca.host, reason, _time(self._earliest),
        )  # fmt: skip

    def _write(self, pem: str, found: Certificate | None) -> Certificate:
        """Let a new certificate take the place of `found`, if it is better.

        Raises:
            OrderError: it is not.
            UnavailableError: it cannot be written.
        """
        draft = self._file.with_name(f"{CERTIFICATE_NAME}.draft")
        write_secret_file(draft, pem.encode())
        try:
            new = Certificates([(draft, draft)], None, self._usable, self._clock).current
            missing = sorted(set(self._names) - set(new.names))
            if missing:
                raise OrderError(f"what has come is not for {missing[0]}")
            if found is not None and new.ends < found.ends:
                raise OrderError(f"what has come ends on {_time(new.ends)}, earlier than what is in use")
            draft.replace(self._file)
            sync_directory(self._file.parent)
        except (ConfigurationError, OrderError) as error:
            self._unwritten = None
            draft.unlink(missing_ok=True)
            raise OrderError(str(error)) from None
        except OSError as error:
            raise UnavailableError(f"{self._file} cannot be written: {because(error)}.") from None
        return new

    def _account_key(self) -> ec.EllipticCurvePrivateKey:
        """The key of the account, whose file notes the attempt.

        Raises:
            UnavailableError: it cannot be read or written.
        """
        pem = read_secret_file(self._account)
        key = None if pem is None else _intact(pem)
        if key is None:
            if pem is not None:
                log.warning("%s is damaged: a new account is made", self._account)
            key = new_key()
            write_secret_file(self._account, pem_of(key))
        now = self._clock()
        try:
            os.utime(self._account, (now, now))
        except OSError as error:
            raise UnavailableError(f"{self._account} cannot be written: {because(error)}.") from None
        return key


def _intact(pem: bytes) -> ec.EllipticCurvePrivateKey | None:
    """The private key, unless it is damaged."""
    try:
        key = load_pem_private_key(pem, None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            # Its public half may be the only one that is intact.
            algorithm = ec.ECDSA(hashes.SHA256())
            key.public_key().verify(key.sign(b"", algorithm), b"", algorithm)
            return key
    except (ValueError, TypeError, InvalidSignature):
        pass
    return None


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
