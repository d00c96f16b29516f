"""Whether a policy is valid, and whether somebody may do something: the server's decision, and the text that decides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from orcas.console.calls import CallError, Visit, admin, call, iam, object_path
from orcas.console.documents.policies import statement
from orcas.engine import check_policy

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

_INLINE: Final = re.compile(r"(user|group|role) ([\w+=,.@-]{1,128}): ([\w+=,.@-]{1,128})", re.ASCII)
_OF_BUCKET: Final = "the bucket policy"


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """An access decision: `why` it is so, or the statement behind it, with its `text` if the visitor may see it.

    `missing`: keys of conditions that were asked for, and are those of the visitor, or none.
    """

    allowed: bool
    explicit: bool
    why: str
    text: str
    missing: list[str]

    @property
    def words(self) -> str:
        """The access decision in words."""
        if self.allowed:
            return "Yes: allowed."
        return "No: denied by a statement." if self.explicit else "No: nothing allows it."


def checked(text: str, kind: str, bucket: str | None = None) -> tuple[list[str], str]:
    """Warnings about a policy, and the sentence that says what is wrong with it.

    Args:
        text: the policy.
        kind: identity, resource, session, boundary or trust.
        bucket: whose policy it is, if it is of a bucket.
    """
    if not text.strip():
        return [], "Write a policy."
    try:
        return check_policy(text, kind, bucket), ""
    except ValueError as error:
        return [], f"The policy is not valid: {str(error).rstrip('.')}. Correct it."


async def entity_arn(visit: Visit, name: str) -> str:
    """The ARN of a user, of `role/NAME`, or of what is named by its ARN already. Raises CallError."""
    if name.startswith("arn:"):
        return name
    kind, _, name = name.rpartition("/")
    called = "Role" if kind == "role" else "User"
    return (await iam(visit, f"Get{called}", {f"{called}Name": name})).findtext(f"{called}/Arn") or ""


async def explain(visit: Visit, question: dict[str, Any]) -> AccessDecision:
    """The access decision on a request as of `POST access` of the admin API. Raises CallError."""
    found = await admin(visit, "POST", "access", question)
    return _shown(found, await _text(visit, found, question))


async def who_may(visit: Visit, question: dict[str, Any]) -> tuple[list[tuple[str, AccessDecision]], str | None]:
    """A part of those who may do something, and where the next part begins. Raises CallError."""
    found = await admin(visit, "POST", "access/who", question)
    return [(each["who"], _shown(each, "")) for each in found["allowed"]], found["next"]


def _shown(found: dict[str, Any], text: str) -> AccessDecision:
    why = found["why"]
    if found["policy"]:
        why = f"Statement {found['statement']}{f' ({sid})' if (sid := found['sid']) else ''} of {found['policy']}"
    return AccessDecision(found["allowed"], found["explicit"], why, text, found["missing"])


async def _text(visit: Visit, found: dict[str, Any], question: dict[str, Any]) -> str:
    """The statement that a decision names."""
    if not found["policy"]:
        return ""
    try:
        document = await _document(visit, found["policy"], question)
    except CallError:
        # Whoever may ask may not always read policies.
        return ""
    return statement(document, found["statement"]) or ""


async def _document(visit: Visit, label: str, question: dict[str, Any]) -> str:
    if label.startswith("arn:"):
        return await managed_document(visit, label)
    if label == _OF_BUCKET:
        bucket = question["resource"].removeprefix("arn:aws:s3:::").partition("/")[0]
        given = question.get("bucket_policy")
        return given or (await call(visit, "GET", object_path(bucket), {"policy": ""})).body.decode()
    inline = _INLINE.fullmatch(label)
    if inline is None:
        return ""
    called = inline[1].capitalize()
    named = {f"{called}Name": inline[2], "PolicyName": inline[3]}
    return document_of(await iam(visit, f"Get{called}Policy", named), "PolicyDocument")


async def managed_document(visit: Visit, arn: str, version: str | None = None) -> str:
    """The text of a managed policy; of the version in effect if none is named. Raises CallError."""
    if version is None:
        version = (await iam(visit, "GetPolicy", {"PolicyArn": arn})).findtext("Policy/DefaultVersionId") or ""
    answer = await iam(visit, "GetPolicyVersion", {"PolicyArn": arn, "VersionId": version})
    return document_of(answer, "PolicyVersion/Document")


def document_of(answer: ET.Element, path: str) -> str:
    """A policy in an answer of IAM, which has it percent-encoded."""
    return unquote(answer.findtext(path) or "")
