"""What a MinIO has beside objects: the documents of its buckets, and its users, groups and policies.

Documents that the store has already are left as they are, so that an import that is run again changes nothing back.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from orcas.minio.policies import BUILT_IN
from orcas.tools.imports.requests import ObjectError
from orcas.tools.session import RefusedError

if TYPE_CHECKING:
    from orcas.tools.imports.target import Target
    from orcas.tools.session import Session

# Their names for MinIO, and for S3.
_DOCUMENTS: Final = {
    "TaggingConfigXML": "tagging", "EncryptionConfigXML": "encryption", "PolicyConfigJSON": "policy",
    "NotificationConfigXML": "notification", "ObjectLockConfigXML": "object-lock", "LifecycleConfigXML": "lifecycle",
}  # fmt: skip
_NOT_TAKEN: Final = {"QuotaConfigJSON": "quota", "ReplicationConfigXML": "replication"}
IAM: Final = "config/iam/"
# Policies before those who have them, and members before their groups.
_ORDER: Final = {"policies": 0, "users": 1, "groups": 2, "policydb": 3}


def versioning_in(documents: dict[str, bytes]) -> str:
    """Enabled, Suspended, or nothing."""
    return _parsed(documents.get("VersioningConfigXML", b"")).findtext("{*}Status") or ""


def bring_documents(documents: dict[str, bytes], bucket: str, target: Target, *, dry_run: bool) -> Iterator[str]:
    """Give a bucket of the store the documents that it has not; what is not taken."""
    for name, title in _NOT_TAKEN.items():
        if name in documents:
            yield f"{title} of the bucket {bucket}"
    if dry_run:
        return
    status = versioning_in(documents)
    if status and not target.versioning():
        target.set_versioning(status)
    for name, title in _DOCUMENTS.items():
        # Of replication between sites; no document of S3 has it.
        document = re.sub(rb"<ExpiryUpdatedAt>[^<]*</ExpiryUpdatedAt>", b"", documents.get(name, b""))
        # Without content, it says nothing: notifications of nothing, a lock without a default.
        if not document or (title in ("notification", "object-lock") and not _says_something(document, title)):
            continue
        try:
            if title in ("notification", "object-lock") or not target.has(title):
                target.set_document(title, document)
        except ObjectError as error:
            yield f"{title} of the bucket {bucket} ({error})"


def _says_something(document: bytes, title: str) -> bool:
    parsed = _parsed(document)
    return parsed.find("{*}Rule") is not None if title == "object-lock" else len(parsed) > 0


def _parsed(document: bytes) -> ET.Element:
    try:
        return ET.fromstring(document)  # noqa: S314 - expat bounds the growth of entities
    except (ET.ParseError, LookupError, ValueError):
        return ET.Element("Nothing")


def bring_identities(found: Iterator[tuple[str, bytes]], session: Session) -> Iterator[str]:
    """Make users with their keys, groups and policies that the store has not; what is not taken.

    `found`: the files of MinIO below `IAM`, and their contents.
    """
    files: dict[str, Any] = {}
    for name, content in found:
        try:
            files[name.removeprefix(IAM)] = json.loads(content)
        except ValueError:
            yield f"{name.removeprefix(IAM)}, which is encrypted or damaged"
    made = _Maker(session)
    for name, document in sorted(files.items(), key=lambda item: _ORDER.get(item[0].split("/")[0], 9)):
        kind, _, rest = name.partition("/")
        try:
            made.make(kind, rest, document)
        except (KeyError, TypeError, AttributeError):
            yield f"{name}, which is damaged"
        except (ObjectError, RefusedError) as error:
            if error.code != "EntityAlreadyExists":
                yield f"{name} ({str(error).rstrip('.')})"
    yield from ("service account" for name in files if name.startswith("service-accounts/"))


class _Maker:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._arns: dict[str, str] = {}

    def make(self, kind: str, name: str, document: Any) -> None:
        """What one file of MinIO describes."""
        first = name.partition("/")[0]
        if kind == "policies":
            policy = document.get("Policy", document)
            self._call("CreatePolicy", PolicyName=first, PolicyDocument=json.dumps(policy))
        elif kind == "users":
            key = document["credentials"]
            self._call("CreateUser", UserName=first)
            of_user = {"UserName": first, "AccessKeyId": key["accessKey"]}
            self._call("CreateAccessKey", **of_user, SecretAccessKey=key["secretKey"])
            if key.get("status") == "off":
                self._call("UpdateAccessKey", **of_user, Status="Inactive")
        elif kind == "groups":
            self._call("CreateGroup", GroupName=first)
            for member in document["members"] or ():
                self._call("AddUserToGroup", GroupName=first, UserName=member)
        elif name.startswith(("users/", "groups/")):
            owner = name.partition("/")[2].removesuffix(".json")
            what = "User" if name.startswith("users/") else "Group"
            for policy in filter(None, document["policy"].split(",")):
                self._call(f"Attach{what}Policy", **{f"{what}Name": owner, "PolicyArn": self._arn(policy)})

    def _arn(self, policy: str) -> str:
        if not self._arns:
            marker = None
            while True:
                page = self._call("ListPolicies", MaxItems=1000, **({"Marker": marker} if marker else {}))
                self._arns |= {each["PolicyName"]: each["Arn"] for each in page["Policies"]}
                if not page["IsTruncated"]:
                    break
                marker = page["Marker"]
        if policy not in self._arns and policy in BUILT_IN:
            made = self._call("CreatePolicy", PolicyName=policy, PolicyDocument=json.dumps(BUILT_IN[policy]))
            self._arns[policy] = made["Policy"]["Arn"]
        if policy not in self._arns:
            raise ObjectError(f"there is no policy {policy}")
        return self._arns[policy]

    def _call(self, action: str, **parameters: Any) -> dict[str, Any]:
        return self._session.admin("POST", "iam", {"action": action, "parameters": parameters, "account": None})
