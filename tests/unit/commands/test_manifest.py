"""Manifests of backups: they are read back as written, and nothing in them is trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from orcas.errors import UnavailableError
from orcas.tools.copies.manifest import Entry, Manifest, Stat, decode

MANIFEST = Manifest(
    "0" * 32, 7, 42, "2026-01-01T00:00:00+00:00", "1.0",
    (
        Entry("log/00000000000000000001.log", 5000, "a" * 64, "log/00000000000000000001.log.3", Stat(1, 2, 3, 4)),
        Entry("control.db", 10, "b" * 64, "control.db.7"),
    ),
)  # fmt: skip


def test_a_manifest_is_read_back() -> None:
    assert decode(MANIFEST.encode(), "there") == MANIFEST


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(MANIFEST.encode())
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["files"][0].update(name="../../etc/passwd", stored="../../etc/passwd.1"),
        lambda document: document["files"][0].update(name="log/../root.json", stored="log/../root.json.1"),
        lambda document: document["files"][0].update(stored="../log/00000000000000000001.log.3"),
        lambda document: document["files"][0].update(stored="log/00000000000000000001.log./x"),
        lambda document: document["files"][0].update(length=-1),
        lambda document: document["files"][0].update(length=True),
        lambda document: document["files"][0].update(sha256="A" * 64),
        lambda document: document["files"].append(document["files"][0]),
        lambda document: document.pop("sequence"),
        lambda document: document.update(store="x"),
        lambda document: document.update(number="7"),
        lambda document: document.update(format=2),
        lambda document: document.update(files=None),
    ],
)
def test_a_manifest_that_is_not_one_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(UnavailableError):
        decode(changed(change), "there")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff", b"{"])
def test_what_is_no_document_is_refused(content: bytes) -> None:
    with pytest.raises(UnavailableError, match="damaged"):
        decode(content, "there")
