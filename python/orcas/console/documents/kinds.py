"""The documents of a bucket that have a form, as tables of fields. What they may say, the server decides."""

from __future__ import annotations

from typing import Final

from orcas.console.documents.forms import ON, Field, Form
from orcas.console.documents.trees import Tree, element

_SETTING: Final = "x-amz-orcas-"
# What a setting may be, and that in words.
DURABILITIES: Final = (
    ("", "as the store does"),
    ("sync", "sync: nothing that was answered is lost"),
    ("interval", "interval: a power cut may cost writes of an interval, by default 50 ms, and of one sync"),
    ("buffered", "buffered: a crash may cost writes of up to 10 seconds"),
    ("unsafe-none", "unsafe-none: a crash may cost everything; for tests"),
)
BLOCKS: Final = (
    ("BlockPublicAcls", "Refuse access control lists that give everybody something"),
    ("IgnorePublicAcls", "Let grants to everybody not count"),
    ("BlockPublicPolicy", "Refuse policies that allow everybody something"),
    ("RestrictPublicBuckets", "Let such policies allow nobody outside the account anything"),
)

VERSIONING: Final = Form("VersioningConfiguration", (
    Field("status", "Status", "Old versions of objects", "choice", (
        ("", "never kept: an object that is replaced or deleted is gone"),
        ("Enabled", "kept: everything that is replaced or deleted can be restored"),
        ("Suspended", "those there are kept, no new ones"),
    ), "Once it is on, versioning can be suspended, and not removed."),
))  # fmt: skip

TAGS: Final = Form(
    "Tagging", rules="TagSet/Tag", rule=(Field("key", "Key", "Key"), Field("value", "Value", "Value")), rule_name="tag"
)

PUBLIC_ACCESS: Final = Form(
    "PublicAccessBlockConfiguration", tuple(Field(name, name, label, "flag") for name, label in BLOCKS)
)

OWNERSHIP: Final = Form("OwnershipControls", (
    Field("ownership", "Rule/ObjectOwnership", "Whose objects are", "choice", (
        ("", "not set: as ObjectWriter"),
        ("BucketOwnerEnforced", "BucketOwnerEnforced: the bucket's account; access control lists are off"),
        ("BucketOwnerPreferred", "BucketOwnerPreferred: who writes, or the bucket's account if the writer agrees"),
        ("ObjectWriter", "ObjectWriter: who writes"),
    )),
))  # fmt: skip

_DEFAULT: Final = "Rule/ApplyServerSideEncryptionByDefault/"
KEY_PATH: Final = f"{_DEFAULT}KMSMasterKeyID"
# That keys of requests (SSE-C) are refused is edited as text.
ENCRYPTION: Final = Form("ServerSideEncryptionConfiguration", (
    Field("algorithm", f"{_DEFAULT}SSEAlgorithm", "New objects are encrypted", "choice", (
        ("", "as the server does by default"),
        ("AES256", "with keys of the server (AES256)"),
        ("aws:kms", "with a named key (aws:kms)"),
    )),
    Field("key", KEY_PATH, "Named key", hint="With aws:kms alone."),
    Field("bucket-key", "Rule/BucketKeyEnabled", "Let answers say that a bucket key is used", "flag"),
))  # fmt: skip

_RETENTION: Final = "Rule/DefaultRetention/"
LOCK: Final = Form("ObjectLockConfiguration", (
    Field("enabled", "ObjectLockEnabled", "Object Lock", "flag", says=("Enabled", ""),
          hint="It cannot be turned off again, nor can versioning be suspended."),
    Field("mode", f"{_RETENTION}Mode", "Default retention of new versions", "choice", (
        ("", "none"),
        ("GOVERNANCE", "governance: whoever has the right may remove them earlier"),
        ("COMPLIANCE", "compliance: nobody can remove them earlier, also not root"),
    )),
    Field("days", f"{_RETENTION}Days", "For days", "number"),
    Field("years", f"{_RETENTION}Years", "Or for years", "number"),
))  # fmt: skip


def _plain_lifecycle(tree: Tree) -> Tree:
    """Conditions of a filter stand below it, whether they are one or several; an empty prefix is the same as none."""
    for found in tree.find("Rule/Filter"):
        if len(found.children) == 1 and found.children[0].name == "And":
            found.children = found.children[0].children
        if [(child.name, child.text) for child in found.children] == [("Prefix", "")]:
            found.children = []
    return tree


def _shaped_lifecycle(tree: Tree) -> Tree:
    for found in tree.find("Rule/Filter"):
        if len(found.children) > 1:
            found.children = [Tree("And", "", found.children)]
    return tree


# Rules of the first version of the document, with a prefix outside a filter, are text.
LIFECYCLE: Final = Form(
    "LifecycleConfiguration", rules="Rule", always="Filter", new_rule={"enabled": ON}, plain=_plain_lifecycle,
    shaped=_shaped_lifecycle, rule=(
        Field("id", "ID", "Name", hint="Optional. Shown in headers and in lists."),
        Field("enabled", "Status", "In effect", "flag", says=("Enabled", "Disabled")),
        Field("prefix", "Filter/Prefix", "Keys that begin with", hint="Such as tmp/. Empty: all keys."),
        Field("tags", "Filter/Tag", "With all these tags", "pairs", hint="One KEY=VALUE a line."),
        Field("larger", "Filter/ObjectSizeGreaterThan", "Larger than", "size", hint="Bytes, or such as 1 MiB."),
        Field("smaller", "Filter/ObjectSizeLessThan", "Smaller than", "size", hint="Bytes, or such as 1 MiB."),
        Field("days", "Expiration/Days", "Remove objects after days", "number", hint="Days since they were stored."),
        Field("date", "Expiration/Date", "Or remove objects on a day", "date"),
        Field("markers", "Expiration/ExpiredObjectDeleteMarker", "Or remove delete markers that are alone", "flag",
              says=("true", "")),
        Field("noncurrent_days", "NoncurrentVersionExpiration/NoncurrentDays", "Remove old versions after days",
              "number", hint="Days since they were replaced."),
        Field("newer", "NoncurrentVersionExpiration/NewerNoncurrentVersions", "But keep the newest old versions",
              "number", hint="At most 100."),
        Field("abort_days", "AbortIncompleteMultipartUpload/DaysAfterInitiation",
              "Remove unfinished uploads after days", "number"),
    ),
)  # fmt: skip

CORS: Final = Form(
    "CORSConfiguration", rules="CORSRule", new_rule={"get": ON}, rule=(
        Field("id", "ID", "Name", hint="Optional."),
        Field("origins", "AllowedOrigin", "Origins that may ask", "lines",
              hint="One a line, such as https://example.org or *."),
        *(Field(method.lower(), "AllowedMethod", method, "flag", says=(method, ""))
          for method in ("GET", "PUT", "HEAD", "POST", "DELETE")),
        Field("headers", "AllowedHeader", "Headers that requests may have", "lines", hint="One a line; * for any."),
        Field("exposed", "ExposeHeader", "Headers that pages may read", "lines", hint="One a line, such as ETag."),
        Field("max_age", "MaxAgeSeconds", "Seconds for which browsers keep the answer", "number"),
    ),
)  # fmt: skip

# Redirections are edited as text.
WEBSITE: Final = Form("WebsiteConfiguration", (
    Field("index", "IndexDocument/Suffix", "Index document",
          hint="Such as index.html: what a path that ends with / shows."),
    Field("error", "ErrorDocument/Key", "Error document", hint="Optional. A key, such as error.html."),
))  # fmt: skip

# By the service that an ARN names: the element of the configuration, and that of the ARN in it.
_SERVICES: Final = {"sns": ("TopicConfiguration", "Topic"), "sqs": ("QueueConfiguration", "Queue"),
                    "lambda": ("CloudFunctionConfiguration", "CloudFunction")}  # fmt: skip
_TARGET: Final = "Target"


def _plain_notifications(tree: Tree) -> Tree:
    """Each configuration is a target with an ARN, and has its prefix and its suffix below it."""
    of = dict(_SERVICES.values())
    for each in tree.children:
        if (arn := each.get(of.get(each.name, ""))) is not None and _service(arn.text) == (each.name, arn.name):
            each.name, arn.name = _TARGET, "Arn"
            rules = each.find("Filter/S3Key/FilterRule")
            if rules and {rule.value("Name").lower() for rule in rules} <= {"prefix", "suffix"}:
                each.children = [child for child in each.children if child.name != "Filter"]
                each.children += [Tree(rule.value("Name").lower(), rule.value("Value")) for rule in rules]
    return tree


def _shaped_notifications(tree: Tree) -> Tree:
    for each in tree.children:
        each.name, arn = _service(each.value("Arn")) or _SERVICES["sqs"]
        filters = [
            element("FilterRule", element("Name", child.name.capitalize()), element("Value", child.text))
            for child in each.children if child.name in ("prefix", "suffix")
        ]  # fmt: skip
        each.children = [child for child in each.children if child.name not in ("prefix", "suffix")]
        each.children += [element("Filter", element("S3Key", *filters))] if filters else []
        for child in each.children:
            child.name = arn if child.name == "Arn" else child.name
    return tree


def _service(arn: str) -> tuple[str, str] | None:
    parts = arn.split(":")
    return _SERVICES.get(parts[2]) if len(parts) > 5 else None


NOTIFICATIONS: Final = Form(
    "NotificationConfiguration", rules=_TARGET, rule_name="notification", new_rule={"created": ON},
    plain=_plain_notifications, shaped=_shaped_notifications, rule=(
        Field("id", "Id", "Name", hint="Optional."),
        Field("arn", "Arn", "Target"),
        *(Field(name, "Event", label, "flag", says=(f"s3:{event}:*", "")) for name, event, label in (
            ("created", "ObjectCreated", "Objects are stored"), ("removed", "ObjectRemoved", "Objects are deleted"),
            ("expired", "LifecycleExpiration", "Lifecycle rules remove objects"), ("tagged", "ObjectTagging", "Tags change"),
        )),
        Field("others", "Event", "Other events", "lines", hint="One a line, such as s3:ObjectCreated:Copy."),
        Field("prefix", "prefix", "Keys that begin with"),
        Field("suffix", "suffix", "Keys that end with", hint="Such as .jpg."),
    ),
)  # fmt: skip

QUOTA: Final = Form("", (
    Field("bytes", "bytes", "At most so many bytes", "size",
          hint="Such as 10 GiB. All versions and unfinished uploads count."),
    Field("objects", "objects", "At most so many objects", "number", hint="All versions and delete markers count."),
))  # fmt: skip


def _as_the_store(*values: str) -> tuple[tuple[str, str], ...]:
    return (DURABILITIES[0], *((value, value) for value in values))


STORE: Final = Form("", (
    *(Field(name, _SETTING + name, label, "choice", choices) for name, label, choices in (
        ("durability", "Durability", DURABILITIES),
        ("ref-level", "Sharing of equal content", _as_the_store("off", "full", "fast")),
        ("chunking", "Where chunks of large objects end", _as_the_store("fixed", "content-defined")),
        ("keep-sha256", "Store the SHA-256 of objects", _as_the_store("true", "false")),
    )),
    Field("chunk-size", f"{_SETTING}chunk-size", "Bytes of a chunk of large objects", "size",
          hint="64 KiB to 64 MiB. Empty: as the store does."),
))  # fmt: skip
