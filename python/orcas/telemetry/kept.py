"""The newest lines of the log in memory, for the console: as they are on stderr, so secrets are struck out.

Bounded in lines and bytes; a long line loses its middle. Thread-safe. Must not know where lines come from.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import Any, Final

from orcas.telemetry.watching import Ring, newest_of

LINES_MAX: Final = 2000
BYTES_MAX: Final = 1 << 20
# Characters of a line, and of a value of a longer one.
LINE_MAX: Final = 16 * 1024
_VALUE_MAX: Final = 4 * 1024
_UNSEARCHED: Final = frozenset({"time", "level"})


class KeptLines:
    """The newest lines, each a JSON object."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ring = Ring(LINES_MAX, BYTES_MAX)
        self._number = 0

    def take(self, line: str) -> None:
        """Keep a line."""
        if len(line) > LINE_MAX:
            line = json.dumps({name: _short(value) for name, value in json.loads(line).items()})
        with self._lock:
            self._number += 1
            self._ring.add(self._number, line.encode())

    def newest(self, limit: int, after: int = 0, level: str = "", search: str = "") -> tuple[list[dict[str, Any]], int]:
        """The newest lines first, at most `limit`, whose numbers are above `after`; and the newest number.

        `level`: the lowest level; `search`: a text that one of the values must have, in whatever case.
        """
        with self._lock:
            lines, number = list(self._ring.lines), self._number
        lowest, wanted = _severity(level), search.casefold()

        def fits(entry: dict[str, Any]) -> bool:
            if _severity(entry["level"]) < lowest:
                return False
            found = (str(value).casefold() for name, value in entry.items() if name not in _UNSEARCHED)
            return not wanted or any(wanted in text for text in found)

        found = newest_of(lines, limit, after, fits)
        return [{name: _encodable(value) for name, value in entry.items()} for entry in found], number


def _severity(level: str) -> int:
    """The number of a level; 0 for one without a name."""
    return logging.getLevelNamesMapping().get(level.upper(), 0)


def _short(value: object) -> object:
    text = value if isinstance(value, str) else json.dumps(value)
    half = _VALUE_MAX // 2
    return f"{text[:half]} … {text[-half:]}" if len(text) > _VALUE_MAX else value


def _encodable(value: object) -> object:
    """A text without lone surrogates, which names of files may have."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
