"""The one way to change identities: a change is in the audit log before it is committed, and both are before it is answered.

Used from one event loop, by one change at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiosqlite

from orcas.control.files import DATABASE_NAME
from orcas.control.files.audit import NOT_IN_EFFECT, START, AuditFiles, ChainHead, Entry, verify_audit
from orcas.control.identities.names import root_arn
from orcas.control.identities.service import transaction
from orcas.errors import UnavailableError

_HEAD: Final = "SELECT sequence, digest FROM audit"

log = logging.getLogger("orcas")


def utc_now() -> dt.datetime:
    """The time of lines."""
    return dt.datetime.now(dt.UTC)


class Audit:
    """The audit log of an open control store."""

    def __init__(
        self, connection: aiosqlite.Connection, directory: Path, number: str, now: Callable[[], dt.datetime] = utc_now
    ) -> None:
        self._connection = connection
        self._files = AuditFiles(directory)
        # Of the first account, whose root says that changes are not in effect.
        self._number = number
        self._now = now
        # The line whose change is committed, and lines that are still to be written.
        self._head = START
        self._owed: list[Entry] = []

    async def open(self, is_done: Callable[[Mapping[str, Any]], bool]) -> None:
        """Find the end of the log. `is_done`: whether a change was made although it is not committed, by its line.

        Raises:
            UnavailableError: a file cannot be read.
        """
        rows = await self._connection.execute_fetchall(_HEAD)
        self._head = next((ChainHead(*row) for row in rows), START)
        await self._find_end(is_done)
        if self._owed:
            try:
                async with self.change():
                    await self.write([])
            except (UnavailableError, sqlite3.Error) as error:
                log.warning("The audit log does not say yet that a crash prevented a change: %s", error)

    async def _find_end(self, is_done: Callable[[Mapping[str, Any]], bool]) -> None:
        last = await asyncio.to_thread(self._files.open, self._head)
        if last.head.sequence > self._head.sequence and not is_done(last.content or {}):
            self._owe(last.head)

    def _owe(self, last: ChainHead) -> None:
        """Lines after the chain head, up to this one, are about changes that are not in effect."""
        self._owe_lines(self._head.sequence + 1, last.sequence)

    def owe(self, number: int) -> None:
        """The change of this line, which is committed, is not in effect, and that could not be written."""
        self._owe_lines(number, number)

    def _owe_lines(self, first: int, last: int) -> None:
        entry = Entry(root_arn(self._number), NOT_IN_EFFECT, {"From": first, "To": last}, self._number)
        self._owed.append(entry)

    @asynccontextmanager
    async def change(self) -> AsyncIterator[None]:
        """A transaction of the database, in which the change and its lines are written. Rolled back if the block raises."""
        last = self._head
        try:
            async with transaction(self._connection):
                yield
                last = self._files.last
        except BaseException:
            if self._files.last.sequence > self._head.sequence:
                self._owe(self._files.last)
            raise
        self._head = last

    async def write(self, entries: Sequence[Entry]) -> int:
        """Write lines, within `change`. They are on the disk when this returns. The number of the last one.

        Raises:
            UnavailableError: they cannot be written.
        """
        if not self._files.is_open:
            # It could not be written before, and may have the beginning of a line.
            await self._find_end(lambda _: False)
        time = self._now().isoformat(timespec="milliseconds")
        head = await asyncio.to_thread(self._files.append, [*self._owed, *entries], time)
        self._owed = []
        await self._connection.execute("INSERT OR REPLACE INTO audit VALUES (1, ?, ?)", head)
        return head.sequence

    def done(self) -> None:
        """The change that was written last is made, although it could not be committed."""
        self._owed = []


def verify(directory: Path) -> tuple[ChainHead, ChainHead]:
    """The first and the last line of the audit log of a store, which may be open. Both have number 0 if there is none.

    Raises:
        OrcasError: a line was changed, or lines are missing.
        UnavailableError: it cannot be read.
    """
    path, head = directory / DATABASE_NAME, START
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            head = next((ChainHead(*row) for row in connection.execute(_HEAD)), START)
    except sqlite3.Error as error:
        # One of an earlier version has no such table.
        if "no such table" not in str(error):
            raise UnavailableError(
                f"{path} cannot be read: {error}; check the file and its disk, and try again."
            ) from error
    return verify_audit(directory, head)
