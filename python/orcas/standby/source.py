"""The server that a standby follows, by its admin API: rounds, and the bytes of their files."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from orcas.control.copied import ControlFile
from orcas.errors import ConfigurationError, OrcasError, UnavailableError
from orcas.standby.mark import Mark
from orcas.tools.session import RefusedError, Session

RENEW_SECONDS: Final = 15.0
_PREFIX: Final = "/_orcas/admin"


@dataclass
class Round:
    """The files of one moment, which stay while the round lasts. `asked`: when it was asked for, on the monotonic clock."""

    id: str
    store: str
    sequence: int
    files: dict[str, int]
    control: list[ControlFile]
    control_digest: str
    asked: float
    renewed: float = field(default_factory=time.monotonic)


class Source:
    """A server with a store in use."""

    def __init__(self, session: Session, url: str) -> None:
        self._session = session
        self.url = url

    def begin(self, has: Mark, wait: float) -> Round | None:
        """A round with what is newer than what the standby has; None if there is nothing for so many seconds.

        Raises:
            UnavailableError: the server cannot be reached.
            ConfigurationError: its log does not continue that of the standby.
            RefusedError: it refuses the key, or has no standbys.
        """
        asked = time.monotonic()
        after = has.sequence if has.is_complete else 0
        query = f"standby={has.name}&after={after}&position={has.position}&control={has.control}&wait={wait:g}"
        try:
            taken = self._order("POST", "standby/rounds", query)
        except RefusedError as error:
            if error.code != "OtherLog":
                raise
            raise ConfigurationError(
                f"{self.url} cannot be followed. {error} Start a standby of it in an empty directory; promote this one "
                "instead, if it is the newer."
            ) from None
        if taken is None:
            return None
        files = {str(file["name"]): int(file["length"]) for file in taken["files"]}
        small = [ControlFile(**file) for file in taken["control"]]
        return Round(taken["id"], taken["store"], taken["sequence"], files, small, taken["control_digest"], asked)

    def read(self, found: Round, name: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of a file, piece by piece.

        Raises:
            UnavailableError: they cannot be had: the server is gone, or the round is over.
        """
        query = f"start={start}" if end is None else f"start={start}&end={end}"
        folder, _, file = name.rpartition("/")
        path = f"{_PREFIX}/standby/rounds/{found.id}/files/{folder or 'store'}/{quote(file)}"
        with self._session.request("GET", path, query) as answer:
            if answer.status != 200:
                raise UnavailableError(f"{self.url} does not give {name} ({answer.status}): it is asked for again.")
            for piece in answer.pieces:
                yield piece
                self.renew(found)

    def renew(self, found: Round) -> None:
        """Keep the files for longer, if it is time for that.

        Raises:
            UnavailableError: the round is over.
        """
        if time.monotonic() - found.renewed > RENEW_SECONDS:
            self._session.admin("PUT", f"backup-pins/{found.id}")
            found.renewed = time.monotonic()

    def end(self, found: Round) -> None:
        """Let the files go."""
        with contextlib.suppress(OrcasError):
            self._session.admin("DELETE", f"backup-pins/{found.id}")

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _order(self, method: str, path: str, query: str) -> dict[str, Any] | None:
        nonce = [(b"x-amz-orcas-nonce", secrets.token_hex(16).encode())]
        with self._session.request(method, f"{_PREFIX}/{path}", query, b"", nonce) as answer:
            if answer.status == 204:
                return None
            return self._session.document(answer.status, answer.read())
