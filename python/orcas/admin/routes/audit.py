"""The audit log over the admin API: its lines, the newest first, and whether it is whole."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query

from orcas.control.audit import verify
from orcas.control.files.audit import Read, is_about, is_action, newest_audit, unreadable
from orcas.engine import Refusal
from orcas.errors import OrcasError, UnavailableError

# Lines of one answer, and how many are looked at for it.
_LIMIT_MAX: Final = 1_000
_LOOKED_MAX: Final = 50_000
_TEXT_MAX: Final = 128
_SEQUENCE_MAX: Final = (1 << 63) - 1

Text = Annotated[str | None, Query(max_length=_TEXT_MAX)]


def add_audit(app: FastAPI, data: Callable[[], Path | None]) -> None:
    """Add these paths to the application. Not coroutines: the log is in files."""

    def directory() -> Path:
        found = data()
        if found is None:
            raise Refusal(409, "NoAudit", "The audit log of a store that is open for salvage is not shown.")
        return found

    @app.get("/audit", responses={409: {"description": "The store is open for salvage"}})
    def lines(
        since: Annotated[dt.date | None, Query()] = None,
        user: Text = None,
        action: Text = None,
        before: Annotated[int | None, Query(ge=1, le=_SEQUENCE_MAX)] = None,
        limit: Annotated[int, Query(ge=1, le=_LIMIT_MAX)] = 100,
    ) -> dict[str, Any]:
        """Lines of the audit log, the newest first. `next`: where the next answer begins, as `before`; null at the end."""
        return _selected(newest_audit(directory(), before), since, user, action, limit)

    @app.get("/audit/verify", responses={409: {"description": "The log is damaged, or the store is open for salvage"}})
    def check() -> dict[str, Any]:
        """Check that no line was changed, added or removed. The numbers of the lines, and the SHA-256 of the last one."""
        try:
            first, last = verify(directory())
        except UnavailableError:
            raise
        except OrcasError as error:
            raise Refusal(409, "AuditDamaged", str(error)) from None
        return {"first": first.sequence, "last": last.sequence, "digest": last.digest}


def _selected(
    found: Iterator[Read], since: dt.date | None, user: str | None, action: str | None, limit: int
) -> dict[str, Any]:
    shown: list[dict[str, Any]] = []
    begin = None if since is None else dt.datetime.combine(since, dt.time(), dt.UTC)
    for looked, read in enumerate(found, 1):
        line = read.content
        if line is None:
            raise Refusal(409, "AuditDamaged", str(unreadable(read)))
        if begin is not None and dt.datetime.fromisoformat(line["time"]) < begin:
            break
        if (user is None or is_about(line, user)) and is_action(line, action):
            shown.append(line)
        if len(shown) == limit or looked == _LOOKED_MAX:
            return {"lines": shown, "next": line["sequence"] if line["sequence"] > 1 else None}
    return {"lines": shown, "next": None}
