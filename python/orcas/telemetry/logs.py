"""Logs on stderr: for people on a terminal, one JSON object a line elsewhere.

Fields given as `extra={"orcas": {…}}` (a request's id, for one) become members of the object; a function that makes them
is called only for a record that is written. Secrets are struck out here, as the last step, so that no caller can forget
to. So is whatever could forge a line or control a terminal, because clients choose keys. Every kind of message has a rate
(`RateLimit`): clients cause messages, and must not fill a disk with them.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, TextIO

from orcas.telemetry.kept import KeptLines

# Signatures and credentials as they stand in headers, presigned queries (encoded again too) and reprs of settings.
_SECRET: Final = re.compile(
    r"(?i)(signature(?:=|%(?:25)*3d)|x-amz-security-token(?:[=:]|%(?:25)*3d)\s*"
    r"|secret_(?:access_)?key['\"]?[=:]\s*['\"]?|customer-key[=:]\s*|cookie:\s*|authorization:\s*(?:basic|bearer)\s+)"
    r"[^\s&,;'\"]+"
)
# Characters of one field, and of a message: more than either needs.
_FIELD_LENGTH_MAX: Final = 16 * 1024
# Values that stand in a line for people as they are; others are quoted.
_PLAIN: Final = re.compile(r"[^\s\"'=\\]+")

# Lines of one kind at once, and then in a second: a fault shows every time it happens, a flood as a trickle that counts.
_BURST: Final = 50
_PER_SECOND: Final = 1.0
# Kinds that are told apart. More than the program has: a caller that names kinds after what clients send shares the last.
_KINDS_MAX: Final = 512
# A flood has ended when nothing of its kind has come for so long; then what was left out at its end is counted.
_QUIET_SECONDS: Final = 10.0


def redact(text: str) -> str:
    """`text` without what follows a signature's, a token's or a secret key's name."""
    return _SECRET.sub(r"\1***", text)


def clip(text: str, length: int = _FIELD_LENGTH_MAX) -> str:
    """`text`, or its beginning and how much is missing."""
    return text if len(text) <= length else f"{text[:length]}… ({len(text) - length} more)"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "orcas", None)
    if callable(fields):
        fields = record.orcas = fields()
    return fields if isinstance(fields, dict) else {}


def visible(text: str) -> str:
    """`text` with everything escaped that is no visible character: one record stays one line, and moves no cursor."""
    if text.isprintable():
        return text
    # JSON leaves DEL as it is.
    escaped = (letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
    return "".join(escaped).replace("\x7f", "\\u007f")


def quoted(value: object) -> str:
    """A field's value for people: as it is where that is clear, else as a JSON string."""
    text = clip(redact(str(value)))
    return text if text.isprintable() and _PLAIN.fullmatch(text) else visible(json.dumps(text, ensure_ascii=False))


class HumanFormatter(logging.Formatter):
    """`12:00:00 WARNING orcas.http: message request_id=…`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides the library's name
        """The line before any traceback."""
        line = visible(clip(redact(super().formatMessage(record))))
        return " ".join([line, *(f"{name}={quoted(value)}" for name, value in _fields(record).items())])

    def formatException(self, ei: Any) -> str:  # noqa: N802 - overrides the library's name
        """A traceback, indented: whatever an exception says, no line of it looks like a record."""
        lines = redact(super().formatException(ei)).split("\n")
        return "\n".join(f"  {visible(line)}" for line in lines)


class JsonFormatter(logging.Formatter):
    """Formats a record as one object: time (UTC, RFC 3339), level, logger, message, exception, and the record's own
    fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole line of a record."""
        line: dict[str, object] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clip(redact(record.getMessage())),
        }
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        for name, value in _fields(record).items():
            line[name] = clip(redact(value)) if isinstance(value, str) else value
        # What JSON leaves as it is may still move the cursor of a terminal.
        return visible(json.dumps(line, ensure_ascii=False, default=lambda value: clip(redact(str(value)))))


@dataclass(slots=True)
class _Kind:
    """The state of one kind of message. Times are the clock's."""

    first: logging.LogRecord
    tokens: float
    seen: float
    suppressed: int = 0


class RateLimit(logging.Filter):
    """Lets `burst` records of each kind pass at once and then `per_second`; the others are counted.

    A kind is the place in the source that logs, and, where one place says different things, what the caller gives as
    `extra={"kind": …}`. The next record of a kind that passes has the field `suppressed`; `ended` makes a record of what
    is left when no more of the kind come. May be used from any thread, on a handler or a logger.
    """

    def __init__(
        self, burst: int = _BURST, per_second: float = _PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[Hashable, _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether `record` passes."""
        if getattr(record, "is_limited", False):
            # Rust has decided.
            return True
        name: Hashable = (record.pathname, record.lineno, getattr(record, "kind", None))
        now = self._clock()
        with self._lock:
            if name not in self._kinds and len(self._kinds) >= _KINDS_MAX:
                name = None
            kind = self._kinds.get(name)
            if kind is None:
                kind = self._kinds[name] = _Kind(_bare(record), self._burst, now)
            kind.tokens = min(self._burst, kind.tokens + (now - kind.seen) * self._per_second)
            kind.seen = now
            if kind.tokens < 1:
                kind.suppressed += 1
                return False
            kind.tokens -= 1
            suppressed, kind.suppressed = kind.suppressed, 0
        if suppressed:
            record.orcas = _fields(record) | {"suppressed": suppressed}
        return True

    def ended(self, quiet_seconds: float = _QUIET_SECONDS) -> list[logging.LogRecord]:
        """Records that count what was left out of kinds of which nothing has come for `quiet_seconds`."""
        now = self._clock()
        with self._lock:
            over = [kind for kind in self._kinds.values() if kind.suppressed and now - kind.seen >= quiet_seconds]
            counts = [(kind.first, kind.suppressed) for kind in over]
            for kind in over:
                kind.suppressed = 0
        return [_count(first, suppressed) for first, suppressed in counts]


def _bare(record: logging.LogRecord) -> logging.LogRecord:
    """A record of the same kind, without what belongs to one occasion: a traceback would keep its frames alive."""
    bare = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, record.msg, (), None)
    bare.kind = getattr(record, "kind", None)
    return bare


def _count(first: logging.LogRecord, suppressed: int) -> logging.LogRecord:
    text, arguments = "%d more like %r were not logged", (suppressed, str(first.msg)[:200])
    record = logging.LogRecord(first.name, first.levelno, first.pathname, first.lineno, text, arguments, None)
    kind = getattr(first, "kind", None)
    record.orcas = {} if kind is None else {"kind": kind}
    return record


def report_suppressed(quiet_seconds: float = _QUIET_SECONDS) -> None:
    """Log what rate limits have left out, where that has ended. Called once a second, and with 0 at the end."""
    for handler in logging.root.handlers:
        for limit in handler.filters:
            if isinstance(limit, RateLimit):
                for record in limit.ended(quiet_seconds):
                    # Past the filter, which would count this one.
                    handler.acquire()
                    try:
                        handler.emit(record)
                    finally:
                        handler.release()


class _Output(logging.StreamHandler[TextIO]):
    """Writes lines to stderr, and keeps the newest."""

    def __init__(self, *, human: bool) -> None:
        super().__init__(sys.stderr)
        self.kept = KeptLines()
        self._json = JsonFormatter()
        self.setFormatter(HumanFormatter() if human else self._json)
        self.addFilter(RateLimit())

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record, which is kept as JSON."""
        line = super().format(record)
        self.kept.take(line if self.formatter is self._json else self._json.format(record))
        return line


def kept_lines() -> KeptLines | None:
    """The newest lines of the log of this process; None if `configure` has not set it up."""
    return next((handler.kept for handler in logging.root.handlers if isinstance(handler, _Output)), None)


def configure(form: str, level: str) -> None:
    """Send every log record of this process to stderr in `form` (`auto`, `human`, `json`)."""
    logging.root.handlers = [_Output(human=form == "human" or (form == "auto" and sys.stderr.isatty()))]
    logging.root.setLevel(level.upper())
    # uvicorn's own news (started, waiting for connections, cut off) is for its own users: `orcas.serving.serve` tells its.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    for name in ("uvicorn", "asyncio", "aiosqlite"):
        logging.getLogger(name).setLevel(logging.WARNING)
