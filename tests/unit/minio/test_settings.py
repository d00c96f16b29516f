"""What an import takes of the documents of MinIO's buckets, and of its users; what it does not take is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from orcas.tools.imports.minio_settings import bring_documents, bring_identities

ENCRYPTION = b"<ServerSideEncryptionConfiguration><Rule/></ServerSideEncryptionConfiguration>"
NOTIFICATION = b"<NotificationConfiguration><QueueConfiguration/></NotificationConfiguration>"
DOCUMENTS = {
    "EncryptionConfigXML": ENCRYPTION, "NotificationConfigXML": NOTIFICATION,
    "ObjectLockConfigXML": b"<ObjectLockConfiguration/>", "QuotaConfigJSON": b"{}", "ReplicationConfigXML": b"<x/>",
}  # fmt: skip


def brought(dry_run: bool, had: set[str]) -> tuple[dict[str, bytes], list[str]]:
    given: dict[str, bytes] = {}
    target: Any = SimpleNamespace(set_document=given.__setitem__, has=had.__contains__, versioning=lambda: "")
    left = list(bring_documents(DOCUMENTS, "b", target, dry_run=dry_run))
    return given, left


def test_documents_that_say_something_are_taken_and_others_named() -> None:
    left = ["quota of the bucket b", "replication of the bucket b"]
    assert brought(False, set()) == ({"encryption": ENCRYPTION, "notification": NOTIFICATION}, left)
    # What the bucket has already stays.
    assert brought(False, {"encryption"}) == ({"notification": NOTIFICATION}, left)
    assert brought(True, set()) == ({}, left)


def test_a_service_account_is_named() -> None:
    session: Any = SimpleNamespace()
    found = iter([("config/iam/service-accounts/a/identity.json", b"{}")])
    assert list(bring_identities(found, session)) == ["service account"]
