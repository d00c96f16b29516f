"""Answers of AWS's query protocol as XML. Pure."""

from __future__ import annotations

from typing import Any, Final
from xml.sax.saxutils import escape

NAMESPACES: Final = {
    "iam": "https://iam.amazonaws.com/doc/2010-05-08/",
    "sts": "https://sts.amazonaws.com/doc/2011-06-15/",
}
# Actions whose result is there, although nothing is in it: AWS's SDK for Go requires it.
EMPTY: Final = frozenset({"UpdateRole"})
# Values whose names are data, not names of elements.
_MAPS: Final = frozenset({"SummaryMap"})


def answer_document(service: str, action: str, answer: dict[str, Any], request_id: str) -> bytes:
    """The answer to an action. Most of those without content have no result either."""
    result = f"<{action}Result>{_content(answer)}</{action}Result>" if answer or action in EMPTY else ""
    return _document(
        f'<{action}Response xmlns="{NAMESPACES[service]}">{result}<ResponseMetadata><RequestId>{request_id}</RequestId>'
        f"</ResponseMetadata></{action}Response>"
    )


def error_document(service: str, code: str, message: str, request_id: str, *, at_fault: bool) -> bytes:
    """An error. `at_fault`: the server is to blame."""
    kind = "Receiver" if at_fault else "Sender"
    return _document(
        f'<ErrorResponse xmlns="{NAMESPACES[service]}"><Error><Type>{kind}</Type><Code>{code}</Code>'
        f"<Message>{escape(message)}</Message></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    )


def _document(text: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _content(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(
            f"<{name}>{_map(each) if name in _MAPS else _content(each)}</{name}>" for name, each in value.items()
        )
    if isinstance(value, list):
        return "".join(f"<member>{_content(each)}</member>" for each in value)
    return escape(str(value).lower() if isinstance(value, bool) else str(value))


def _map(values: dict[str, Any]) -> str:
    return "".join(f"<entry><key>{key}</key><value>{_content(value)}</value></entry>" for key, value in values.items())
