"""Bodies of requests: contents of objects, and documents by operation. Those in `documents.tsv` are good, or nearly so."""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

from tests.fixtures.checksums import etag

CONTENTS: Final = (b"", b"0123456789", b"x" * 300, b"line\r\n" * 1000, bytes(range(256)) * 300, b"large" * 60_000)
ETAGS: Final = tuple(etag(content) for content in CONTENTS)
_STRANGE: Final = (
    "<Any/>", "", "{", "<", "<!DOCTYPE a [<!ENTITY b 'c'>]><Delete>&b;</Delete>", "\ufeff<Tagging/>",
    "<?xml version='1.0' encoding='utf-16'?><Tagging/>", "<a>" * 300, " " * 5000, "\x00",
)  # fmt: skip


@cache
def _documents() -> dict[str, list[str]]:
    """By operation. In each, `{bucket}`, `{owner}` and the ETags of the contents are filled in."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in Path(__file__).with_name("documents.tsv").read_text(encoding="utf-8").splitlines():
        operation, _, document = line.partition("\t")
        found[operation].append(document)
    return dict(found)


def document(rng: random.Random, operation: str, bucket: str, owner: str) -> bytes:
    """A document for an operation; now and then one that is none."""
    choice = rng.random()
    if choice < 0.06:
        return rng.choice(_STRANGE).encode()
    documents = _documents()
    named = documents.get(operation) if choice < 0.95 else rng.choice(list(documents.values()))
    if named is None:
        return b"<Any/>"
    text = rng.choice(named).replace("{bucket}", bucket).replace("{owner}", owner)
    for number, tag in enumerate(ETAGS):
        text = text.replace(f"{{etag{number}}}", tag)
    found = text.encode()
    if choice < 0.09:
        at = rng.randrange(len(found) + 1)
        return found[:at] + rng.choice((b"", b"<", b"\x00", b"&", b"\xff")) + found[at + 1 :]
    return found
