"""Documents of few values as forms: versioning, tags, public access, ownership, encryption, lock, quota, store settings."""

from __future__ import annotations

import json
from typing import Any, Final

from orcas.console.documents.forms import (
    ON,
    Field,
    FieldError,
    Filled,
    Form,
    InexpressibleError,
    number,
    only,
    size,
    xml_form,
)
from orcas.console.documents.trees import Tree, element, maybe

BLOCKS: Final = (
    ("BlockPublicAcls", "Refuse access control lists that give everybody something"),
    ("IgnorePublicAcls", "Let grants to everybody not count"),
    ("BlockPublicPolicy", "Refuse policies that allow everybody something"),
    ("RestrictPublicBuckets", "Let such policies allow nobody outside the account anything"),
)
_SETTING: Final = "x-amz-orcas-"
# What a setting may be, and that in words.
DURABILITIES: Final = (
    ("", "as the store does"),
    ("sync", "sync: nothing that was answered is lost"),
    ("interval", "interval: a power cut may cost writes of an interval, by default 50 ms, and of one sync"),
    ("buffered", "buffered: a crash may cost writes of up to 10 seconds"),
    ("unsafe-none", "unsafe-none: a crash may cost everything; for tests"),
)


def _as_the_store(*values: str) -> tuple[tuple[str, str], ...]:
    return (DURABILITIES[0], *((value, value) for value in values))


SETTINGS: Final = {
    "durability": ("Durability", DURABILITIES),
    "ref-level": ("Sharing of equal content", _as_the_store("off", "full", "fast")),
    "chunking": ("Where chunks of large objects end", _as_the_store("fixed", "content-defined")),
    "keep-sha256": ("Store the SHA-256 of objects", _as_the_store("true", "false")),
}


def _read_versioning(tree: Tree) -> Filled:
    only(tree, "Status")
    return Filled({"status": tree.value("Status")})


def _write_versioning(filled: Filled) -> Tree:
    status = filled.fixed["status"]
    return element("VersioningConfiguration", maybe("Status", status))


VERSIONING: Final = xml_form(
    "VersioningConfiguration",
    _read_versioning,
    _write_versioning,
    (
        Field(
            "status",
            "Old versions of objects",
            "choice",
            (
                ("", "never kept: an object that is replaced or deleted is gone"),
                ("Enabled", "kept: everything that is replaced or deleted can be restored"),
                ("Suspended", "those there are kept, no new ones"),
            ),
            hint="Once it is on, versioning can be suspended, and not removed.",
        ),
    ),
)


def _read_tags(tree: Tree) -> Filled:
    only(tree, "TagSet")
    tags = tree.get("TagSet")
    found = [] if tags is None else tags.children
    return Filled(rules=[{"key": tag.value("Key"), "value": tag.value("Value")} for tag in found])


def _write_tags(filled: Filled) -> Tree | None:
    tags = []
    for at, tag in enumerate(filled.rules):
        if not tag["key"]:
            raise FieldError("key", "Write the key of the tag, or remove the row.", at)
        tags.append(element("Tag", element("Key", tag["key"]), element("Value", tag["value"])))
    return element("Tagging", element("TagSet", *tags)) if tags else None


TAGS: Final = xml_form(
    "Tagging", _read_tags, _write_tags, rule=(Field("key", "Key"), Field("value", "Value")), rule_name="tag"
)


def _read_block(tree: Tree) -> Filled:
    only(tree, *(name for name, _ in BLOCKS))
    return Filled({name: ON if tree.value(name) == "true" else "" for name, _ in BLOCKS})


def _write_block(filled: Filled) -> Tree:
    set_ = [element(name, "true" if filled.fixed[name] else "false") for name, _ in BLOCKS]
    return element("PublicAccessBlockConfiguration", *set_)


PUBLIC_ACCESS: Final = xml_form(
    "PublicAccessBlockConfiguration",
    _read_block,
    _write_block,
    tuple(Field(name, label, "flag") for name, label in BLOCKS),
)


def _read_ownership(tree: Tree) -> Filled:
    only(tree, "Rule")
    return Filled({"ownership": tree.value("Rule", "ObjectOwnership")})


def _write_ownership(filled: Filled) -> Tree | None:
    chosen = filled.fixed["ownership"]
    return element("OwnershipControls", element("Rule", element("ObjectOwnership", chosen))) if chosen else None


OWNERSHIP: Final = xml_form(
    "OwnershipControls",
    _read_ownership,
    _write_ownership,
    (
        Field(
            "ownership",
            "Whose objects are",
            "choice",
            (
                ("", "not set: as ObjectWriter"),
                ("BucketOwnerEnforced", "BucketOwnerEnforced: the bucket's account; access control lists are off"),
                (
                    "BucketOwnerPreferred",
                    "BucketOwnerPreferred: who writes, or the bucket's account if the writer agrees",
                ),
                ("ObjectWriter", "ObjectWriter: who writes"),
            ),
        ),
    ),
)


def _read_encryption(tree: Tree) -> Filled:
    only(tree, "Rule")
    if len(tree.children) > 1:
        raise InexpressibleError("the document has several rules")
    rule = tree.get("Rule") or Tree("Rule")
    default = rule.get("ApplyServerSideEncryptionByDefault") or Tree("")
    return Filled({"algorithm": default.value("SSEAlgorithm"), "key": default.value("KMSMasterKeyID")})


def _write_encryption(filled: Filled) -> Tree | None:
    fixed = filled.fixed
    if not fixed["algorithm"]:
        if fixed["key"]:
            raise FieldError("algorithm", "Say with which keys new objects are encrypted.")
        return None
    if fixed["key"] and fixed["algorithm"] != "aws:kms":
        raise FieldError("key", "Only aws:kms has a named key: choose it, or leave this field empty.")
    rule = element(
        "Rule",
        element(
            "ApplyServerSideEncryptionByDefault",
            element("SSEAlgorithm", fixed["algorithm"]),
            maybe("KMSMasterKeyID", fixed["key"]),
        ),
        # Another value, and that keys of requests (SSE-C) are refused, are edited as text.
        element("BucketKeyEnabled", "false"),
    )
    return element("ServerSideEncryptionConfiguration", rule)


ENCRYPTION: Final = xml_form(
    "ServerSideEncryptionConfiguration",
    _read_encryption,
    _write_encryption,
    (
        Field(
            "algorithm",
            "New objects are encrypted",
            "choice",
            (
                ("", "as the server does by default"),
                ("AES256", "with keys of the server (AES256)"),
                ("aws:kms", "with a named key (aws:kms)"),
            ),
        ),
        Field("key", "Named key", hint="Its id, ARN or alias. Empty: orcas/s3."),
    ),
)


def _read_lock(tree: Tree) -> Filled:
    only(tree, "ObjectLockEnabled", "Rule")
    default = (tree.get("Rule") or Tree("")).get("DefaultRetention") or Tree("")
    unit = "Years" if default.value("Years") else "Days"
    return Filled(
        {
            "enabled": ON if tree.value("ObjectLockEnabled") == "Enabled" else "",
            "mode": default.value("Mode"),
            "length": default.value(unit),
            "unit": unit,
        }
    )


def _write_lock(filled: Filled) -> Tree | None:
    fixed = filled.fixed
    length = number(fixed, "length", low=1)
    if not fixed["enabled"]:
        if fixed["mode"] or length is not None:
            raise FieldError("enabled", "Default retention needs Object Lock: turn it on.")
        return None
    enabled = element("ObjectLockEnabled", "Enabled")
    if not fixed["mode"]:
        if length is not None:
            raise FieldError("mode", "Choose the mode of the default retention, or leave its length empty.")
        return element("ObjectLockConfiguration", enabled)
    if length is None:
        raise FieldError("length", "Write how long new versions are kept.")
    retention = element(
        "DefaultRetention", element("Mode", fixed["mode"]), element(fixed["unit"] or "Days", str(length))
    )
    return element("ObjectLockConfiguration", enabled, element("Rule", retention))


LOCK: Final = xml_form(
    "ObjectLockConfiguration",
    _read_lock,
    _write_lock,
    (
        Field("enabled", "Object Lock", "flag", hint="It cannot be turned off again, nor can versioning be suspended."),
        Field(
            "mode",
            "Default retention of new versions",
            "choice",
            (
                ("", "none"),
                ("GOVERNANCE", "governance: whoever has the right may remove them earlier"),
                ("COMPLIANCE", "compliance: nobody can remove them earlier, also not root"),
            ),
        ),
        Field("length", "For", "number"),
        Field("unit", "Unit", "choice", (("Days", "days"), ("Years", "years"))),
    ),
)


def _read_quota(text: str) -> Filled:
    known = _json(text) if text else {}
    shown = {name: "" if known.get(name) is None else str(known[name]) for name in ("bytes", "objects")}
    return Filled(shown)


def _write_quota(filled: Filled) -> str | None:
    most, objects = size(filled.fixed, "bytes"), number(filled.fixed, "objects")
    if most is None and objects is None:
        return None
    return json.dumps({"bytes": most, "objects": objects})


def _json(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict) or not set(found) <= {"bytes", "objects"}:
        raise InexpressibleError("a quota has bytes and objects")
    return found


QUOTA: Final = Form(
    (
        Field(
            "bytes",
            "At most so many bytes",
            hint="Such as 10 GiB. All versions and unfinished uploads count.",
        ),
        Field("objects", "At most so many objects", "number", hint="All versions and delete markers count."),
    ),
    _read_quota,
    _write_quota,
    normal=_json,
)


def setting_lines(text: str) -> dict[str, str]:
    """Settings of a bucket, as the header lines that set them: names without their beginning, and values.

    Raises:
        ValueError: a line is none of them.
    """
    found = {}
    for line in text.split("\n"):
        name, colon, value = line.strip().partition(":")
        if not line.strip():
            continue
        if not colon or not name.lower().startswith(_SETTING) or not (value.isascii() and value.isprintable()):
            raise ValueError(f"Write each setting as {_SETTING}NAME: VALUE on a line of its own, not {line.strip()!r}.")
        found[name.lower().removeprefix(_SETTING)] = value.strip()
    return found


def setting_text(settings: dict[str, str]) -> str:
    """The reverse."""
    return "".join(f"{_SETTING}{name}: {value}\n" for name, value in settings.items())


def _read_settings(text: str) -> Filled:
    return Filled(setting_lines(text))


def _write_settings(filled: Filled) -> str:
    given = {name: value for name, value in filled.fixed.items() if value}
    if (chunk := size(given, "chunk-size")) is not None:
        given["chunk-size"] = str(chunk)
    return setting_text(given)


STORE: Final = Form(
    (
        *(Field(name, label, "choice", choices) for name, (label, choices) in SETTINGS.items()),
        Field("chunk-size", "Bytes of a chunk of large objects", hint="64 KiB to 64 MiB. Empty: as the store does."),
    ),
    _read_settings,
    _write_settings,
    normal=setting_lines,
)
