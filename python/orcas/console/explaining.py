"""Whether a policy is valid, and whether somebody may do something: the checks of IAM, and the text that decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from orcas.console.calls import CallError, Visit, call, iam, object_path
from orcas.console.documents.policies import statement
from orcas.edge import check_policy

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

DECISIONS: Final = {
    "allowed": "Yes: allowed.",
    "explicitDeny": "No: denied by a statement.",
    "implicitDeny": "No: no statement allows it.",
}
_SOURCE: Final = re.compile(r"(.*) statement ([0-9]{1,4})(?: \(.*\))?", re.DOTALL)
_INLINE: Final = re.compile(r"(user|group|role) ([\w+=,.@-]{1,128}): ([\w+=,.@-]{1,128})", re.ASCII)


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """An access decision, the name of the statement behind it, if there is one, and its text, if the visitor may see it."""

    decision: str
    source: str = ""
    text: str = ""

    @property
    def words(self) -> str:
        """The access decision in words."""
        return DECISIONS.get(self.decision, self.decision)

    @property
    def allowed(self) -> bool:
        """Whether it is yes."""
        return self.decision == "allowed"


@dataclass(frozen=True, slots=True)
class Question:
    """Who, by the ARN of a user, group or role; which action; on which resource, as an ARN; with keys of conditions."""

    source: str
    action: str
    resource: str
    context: Mapping[str, str]


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


def resource_arn(text: str) -> str:
    """An ARN, from BUCKET, BUCKET/KEY or an ARN."""
    return text if text.startswith("arn:") or text in ("", "*") else f"arn:aws:s3:::{text}"


async def entity_arn(visit: Visit, kind: str, name: str) -> str:
    """The ARN of a user, group or role. Raises CallError."""
    called = kind.capitalize()
    return (await iam(visit, f"Get{called}", {f"{called}Name": name})).findtext(f"{called}/Arn") or ""


async def explain(visit: Visit, question: Question, bucket_policy: str | None = None) -> AccessDecision:
    """The access decision; `bucket_policy` is that of the bucket.

    Raises:
        CallError: there is no such user, or the visitor may not ask.
    """
    asked = {
        "PolicySourceArn": question.source, "ActionNames.member.1": question.action,
        "ResourceArns.member.1": question.resource,
    }  # fmt: skip
    for at, (key, value) in enumerate(question.context.items(), 1):
        asked[f"ContextEntries.member.{at}.ContextKeyName"] = key
        asked[f"ContextEntries.member.{at}.ContextKeyType"] = "string"
        asked[f"ContextEntries.member.{at}.ContextKeyValues.member.1"] = value
    if bucket_policy is not None:
        asked["ResourcePolicy"] = bucket_policy
    found = (await iam(visit, "SimulatePrincipalPolicy", asked)).find("EvaluationResults/member")
    if found is None:
        raise CallError(502, "NoDecision", "The server did not decide.")
    source = found.findtext("MatchedStatements/member/SourcePolicyId") or ""
    return AccessDecision(found.findtext("EvalDecision") or "", source, await _text(visit, source, bucket_policy))


async def bucket_policy(visit: Visit, resource: str) -> str | None:
    """The policy of the bucket of a resource; None if it has none. Raises CallError if the visitor may not see it."""
    bucket = resource.removeprefix("arn:aws:s3:::").partition("/")[0]
    if not resource.startswith("arn:aws:s3:::") or "*" in bucket or not bucket:
        return None
    try:
        return (await call(visit, "GET", object_path(bucket), {"policy": ""})).body.decode()
    except CallError as error:
        if error.code in ("NoSuchBucketPolicy", "NoSuchBucket"):
            return None
        raise


async def _text(visit: Visit, source: str, bucket_policy: str | None) -> str:
    """The statement that a decision names."""
    found = _SOURCE.fullmatch(source)
    if found is None:
        return ""
    if found[1] == "resource":
        document = bucket_policy
    else:
        try:
            document = await _document(visit, found[1])
        except CallError:
            # Whoever may ask may not always read policies.
            return ""
    return "" if document is None else statement(document, int(found[2])) or ""


async def _document(visit: Visit, label: str) -> str | None:
    if label.startswith("arn:"):
        return await managed_document(visit, label)
    inline = _INLINE.fullmatch(label)
    if inline is None:
        return None
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
