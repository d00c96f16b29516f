"""Logs on stderr: for people on a terminal, one JSON object a line elsewhere.

Fields given as `extra={"orcas": {…}}` (a request's id, for one) become members of the object. Whatever holds a secret is
struck out here, last, so that no caller can forget to.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Final

# Signatures and credentials as they stand in headers, presigned queries and reprs of settings.
_SECRET: Final = re.compile(
    r"(?i)(signature=|x-amz-signature=|x-amz-security-token[=:]\s*|secret_(?:access_)?key['\"]?[=:]\s*['\"]?)[^\s&,;'\"]+"
)


def redact(text: str) -> str:
    """`text` without what follows a signature's, a token's or a secret key's name."""
    return _SECRET.sub(r"\1***", text)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "orcas", None)
    return fields if isinstance(fields, dict) else {}


class HumanFormatter(logging.Formatter):
    """`12:00:00 WARNING orcas.http: message request_id=…`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides the library's name
        """The line before any traceback."""
        return " ".join(
            [super().formatMessage(record), *(f"{name}={value}" for name, value in _fields(record).items())]
        )

    def format(self, record: logging.LogRecord) -> str:
        """The whole text of a record."""
        return redact(super().format(record))


class JsonFormatter(logging.Formatter):
    """One object: time (UTC, RFC 3339), level, logger, message, exception, and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole line of a record."""
        line: dict[str, object] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        line |= {name: redact(value) if isinstance(value, str) else value for name, value in _fields(record).items()}
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(form: str, level: str) -> None:
    """Send every log record of this process to stderr in `form` (`auto`, `human`, `json`)."""
    human = form == "human" or (form == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(HumanFormatter() if human else JsonFormatter())
    logging.root.handlers = [handler]
    logging.root.setLevel(level.upper())
    # uvicorn's own news (started, waiting for connections) is for its own users.
    for name in ("uvicorn", "uvicorn.error", "asyncio", "aiosqlite"):
        logging.getLogger(name).setLevel(logging.WARNING)
