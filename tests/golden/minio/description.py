"""What a client sees of a server: its buckets with their documents, and every version with its bytes; no times, no ids."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from botocore.exceptions import ClientError

from orcas.tools.objects import Version, listed_versions
from orcas.tools.session import session_of


def described(client: Any) -> dict[str, Any]:
    """All buckets, as JSON has them."""
    names = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
    return json.loads(json.dumps({name: _bucket(client, name) for name in names}))  # type: ignore[no-any-return]


def _bucket(client: Any, name: str) -> dict[str, Any]:
    # boto3 does not tell the order of versions and delete markers.
    with session_of(client) as session:
        versions = list(listed_versions(session, name))
    return {
        "versioning": client.get_bucket_versioning(Bucket=name).get("Status", ""),
        "versions": [_version(client, name, version) for version in versions],
        "policy": _asked(lambda: json.loads(client.get_bucket_policy(Bucket=name)["Policy"])),
        "tags": _asked(lambda: client.get_bucket_tagging(Bucket=name)["TagSet"]),
        "lifecycle": _asked(lambda: _rules(client.get_bucket_lifecycle_configuration(Bucket=name)["Rules"])),
        "lock": _asked(lambda: client.get_object_lock_configuration(Bucket=name)["ObjectLockConfiguration"]),
    }


def _version(client: Any, bucket: str, version: Version) -> dict[str, Any]:
    key = version.key.decode()
    if version.is_marker:
        return {"key": key, "marker": True}
    place = {"Bucket": bucket, "Key": key, "VersionId": version.id}
    got = client.get_object(**place, ChecksumMode="ENABLED")
    body = got["Body"].read()
    return {
        "key": key,
        "size": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "etag": got["ETag"],
        "type": got["ContentType"],
        "headers": {name: got[name] for name in ("CacheControl", "ContentEncoding", "ContentLanguage") if name in got},
        "metadata": got["Metadata"],
        "checksums": {name: value for name, value in got.items() if name.startswith("Checksum")},
        "tags": sorted(client.get_object_tagging(**place)["TagSet"], key=lambda tag: tag["Key"]),
        "mode": got.get("ObjectLockMode"),
        "until": str(got.get("ObjectLockRetainUntilDate")),
        "hold": got.get("ObjectLockLegalHoldStatus") == "ON",
    }


def _rules(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: rule[name] for name in ("ID", "Status", "Expiration", "Filter") if name in rule} for rule in rules]


def _asked(ask: Any) -> Any:
    try:
        return ask()
    except ClientError:
        return None
