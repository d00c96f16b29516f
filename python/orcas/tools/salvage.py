"""The findings of a salvage, for people and for programs: a few sentences, and a document that lists everything."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orcas.errors import UnavailableError, because

if TYPE_CHECKING:
    from orcas.engine import SalvageReport

_SHOWN_MAX: Final = 20


def text_fields(name: str, value: bytes) -> dict[str, str]:
    """A text that a client sent, as JSON can hold it: text, and its bytes where the text does not say them."""
    text = value.decode(errors="backslashreplace")
    if text.encode() == value and "\\" not in text:
        return {name: text}
    return {name: text, f"{name}_base64": base64.b64encode(value).decode()}


def readable_salvage(report: SalvageReport) -> dict[str, Any]:
    """The report as JSON can hold it."""
    losses = [{**loss, **text_fields("key", loss["key"])} for loss in report["losses"]]
    named = [{"bucket": bucket, **text_fields("key", key)} for bucket, key in report["named"]]
    return {**report, "losses": losses, "named": named}


def write_report(path: Path, document: dict[str, Any]) -> None:
    """Put a report at `path`.

    Raises:
        UnavailableError: it cannot be written.
    """
    try:
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UnavailableError(f"The report {path} cannot be written: {because(error)}.") from None


def in_words(document: dict[str, Any]) -> list[str]:
    """The findings for an operator, one sentence each. Long lists are truncated."""
    lines = [
        f"Open for salvage, read-only: {document['whole']} objects are intact, {document['losses_total']} are damaged."
    ]
    if not document["keys"]:
        lines.append("The keys of the store are lost: content is only verified by its checksums and ETags.")
    for loss in document["losses"][:_SHOWN_MAX]:
        version = f" (version {loss['version_id']})" if loss["version_id"] else ""
        lines.append(f"Damaged: {loss['bucket']}/{loss['key']}{version}: {loss['reason']}.")
    if document["losses_total"] > _SHOWN_MAX:
        lines.append(f"{document['losses_total'] - _SHOWN_MAX} more are damaged: --report FILE lists them.")
    if document["gone_total"]:
        lines.append(f"{document['gone_total']} records of the log are lost, with all data that only they contained.")
    if document["doubtful"]:
        lines.append(
            f"{document['doubtful']} objects are older than a lost record: each may have been deleted or replaced by it."
        )
    lines += [
        f"May have been deleted or replaced: {named['bucket']}/{named['key']}."
        for named in document["named"][:_SHOWN_MAX]
    ]
    if document["deleted"]:
        lines.append(f"{document['deleted']} objects are not shown: they had certainly been deleted.")
    lines += [f"The name of a bucket is lost: it is served as {name}." for name in document["made_up"]]
    lines += [
        f"{finding['place']}: {finding['detail']}."
        for finding in document["findings"][:_SHOWN_MAX]
        if finding["damage"]
    ]
    return lines
