"""How a response begins: its status line and the Date header, made once a second. Must not know requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final


class _StartLines(dict[int, bytes]):
    """The lines by status. Those of a status are made when it is first asked for after a change of the date."""

    date = b""

    def __missing__(self, status: int) -> bytes:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = ""
        lines = self[status] = b"HTTP/1.1 %d %b\r\n%b" % (status, phrase.encode(), self.date)
        return lines


START_LINES: Final = _StartLines()


def set_date(date: bytes) -> None:
    """Set the value of Date in all responses that follow. Until the first call, they have none."""
    START_LINES.date = b"date: %b\r\n" % date
    START_LINES.clear()
