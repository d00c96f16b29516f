"""What the visitor may do, as far as pages show it: entries, tabs and buttons. The server decides anew on each request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from orcas.console.calls import CallError, Visit, admin, call, object_path
from orcas.console.places import Place

# What `may` is true for with the key of the root of the store alone.
ROOT: Final = "root"
# In a bucket that the visitor may list: that it has the object which makes it a warehouse of tables.
WAREHOUSE: Final = ".iceberg/warehouse.json"
# What templates ask about beside the actions of entries and tabs: on the server, on a bucket, and on an object of it.
_OF_SERVER: Final = (
    "orcas:CancelJob", "orcas:CreateAccount", "orcas:DiscardDeadLetters", "orcas:PutLimits", "orcas:PutQuota",
    "orcas:ResendDeadLetters", "orcas:RunTask",
)  # fmt: skip
_OF_BUCKET: Final = (
    "orcas:CreateSnapshot", "orcas:DeleteSnapshot", "orcas:ForkBucket", "orcas:PutBucketSettings", "orcas:RestoreBucket",
    "s3:DeleteBucket", "s3:DeleteBucketPolicy", "s3:PutBucketPolicy", "s3:PutLifecycleConfiguration",
)  # fmt: skip
_OF_OBJECT: Final = (
    "s3:BypassGovernanceRetention", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject", "s3:GetObjectAcl",
    "s3:GetObjectVersion", "s3:PutObject", "s3:PutObjectLegalHold", "s3:PutObjectRetention", "s3:PutObjectTagging",
    "s3:PutObjectVersionTagging",
)  # fmt: skip
# The nearest folders above that a page asks about.
_FOLDERS_MAX: Final = 8
_MADE: Final = ("group", "policy", "role", "user")
# Lists may be allowed by prefix, so they are asked about with one.
_PREFIX: Final = "s3:prefix"
SERVER: Final = "arn:aws:orcas:::server"


# Whether one of these actions is allowed; without any, there is nothing to be allowed.
May = Callable[..., bool]


async def rights_of(
    visit: Visit, places: list[Place], tabs: list[Place], bucket: str | None, context: Mapping[str, Any]
) -> May:
    """What a page needs to know: about its bucket, its key or keys with its prefix, and the actions that it `asks`.

    Whether a folder of its `crumbs` may be listed is what the answer says of the folder's prefix, if that ends with a slash.
    All that could not be asked about counts as allowed: a page shows it.
    """
    supposed: dict[str, dict[str, list[str]]] = {}
    asked = dict(context.get("asks", {}))
    for action in (*_OF_SERVER, *(action for place in places for action in place.actions)):
        asked[action] = SERVER if action.startswith("orcas:") and action != "orcas:SimulateAccess" else "*"
    # Who may make some names alone is offered nothing that makes one.
    account = visit.session.arn.split(":")[4]
    asked |= {f"iam:Create{kind.capitalize()}": f"arn:aws:iam::{account}:{kind}/*" for kind in _MADE}
    if bucket is None:
        asked["orcas:PutBucketSettings"] = "*"
    else:
        asked |= dict.fromkeys(
            (*_OF_BUCKET, *(action for tab in tabs for action in tab.actions)), f"arn:aws:s3:::{bucket}"
        )
        key, prefix = context.get("key"), context.get("prefix") or ""
        asked |= dict.fromkeys(_OF_OBJECT, f"arn:aws:s3:::{bucket}/{key or f'{prefix}*'}")
        asked |= dict.fromkeys(("s3:ListBucket", "s3:ListBucketVersions"), f"arn:aws:s3:::{bucket}")
        # The whole bucket, and the versions of the object.
        supposed = {"s3:ListBucket": {_PREFIX: [""]}, "s3:ListBucketVersions": {_PREFIX: [key or prefix]}}
    for what in (ROOT, WAREHOUSE):
        asked.pop(what, None)
    questions = [
        {"action": action, "resource": resource, "context": supposed.get(action, {})}
        for action, resource in asked.items()
    ]
    above = [folder for _, folder in context.get("crumbs", ())[-_FOLDERS_MAX:]]
    questions += [
        {"action": "s3:ListBucket", "resource": f"arn:aws:s3:::{bucket}", "context": {_PREFIX: [folder]}}
        for folder in above
    ]
    try:
        answer = await admin(visit, "POST", "access/own", {"questions": questions})
    except CallError:
        return lambda *_: True
    found = {action for action, allowed in zip((*asked, *above), answer["allowed"], strict=True) if allowed}
    found |= {ROOT} if answer["root"] else set()
    if bucket is not None and "s3:ListBucket" in found:
        query = {"list-type": "2", "prefix": WAREHOUSE, "max-keys": "1"}
        with contextlib.suppress(CallError):
            listed = (await call(visit, "GET", object_path(bucket), query)).body
            found |= {WAREHOUSE} if f"<Key>{WAREHOUSE}</Key>".encode() in listed else set()
    return lambda *actions: not actions or not found.isdisjoint(actions)
