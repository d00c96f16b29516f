"""Lifecycle rules as a form. Those of the first version of the document, with a prefix outside a filter, are text only."""

from __future__ import annotations

import datetime as dt
from typing import Final

from orcas.console.documents.forms import (
    ON,
    Field,
    FieldError,
    Filled,
    InexpressibleError,
    Values,
    number,
    only,
    pairs,
    size,
    xml_form,
)
from orcas.console.documents.trees import Tree, element, maybe

ROOT: Final = "LifecycleConfiguration"
_MIDNIGHT: Final = "T00:00:00.000Z"
_EXPIRATIONS: Final = (
    ("", "keep them"),
    ("days", "remove them after a number of days"),
    ("date", "remove them on a day"),
    ("markers", "remove delete markers that are the only version of their key"),
)
FIELDS: Final = (
    Field("id", "Name", hint="Optional. Shown in headers and in lists."),
    Field("enabled", "In effect", "flag"),
    Field("prefix", "Keys that begin with", hint="Such as tmp/. Empty: all keys."),
    Field("tags", "With all these tags", "lines", hint="One KEY=VALUE a line."),
    Field("larger", "Larger than", hint="Bytes, or such as 1 MiB."),
    Field("smaller", "Smaller than", hint="Bytes, or such as 1 MiB."),
    Field("expire", "Current objects", "choice", _EXPIRATIONS),
    Field("days", "Days after they were stored", "number"),
    Field("date", "Day", "date"),
    Field("noncurrent_days", "Remove old versions after days", "number", hint="Days since they were replaced."),
    Field("newer", "But keep the newest old versions", "number", hint="At most 100."),
    Field("abort_days", "Remove unfinished uploads after days", "number"),
)


def _read(tree: Tree) -> Filled:
    only(tree, "Rule")
    return Filled(rules=[_rule(rule) for rule in tree.children])


def _rule(rule: Tree) -> Values:
    only(rule, "ID", "Filter", "Status", "Expiration", "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload")
    filter_ = rule.get("Filter")
    if filter_ is None:
        raise InexpressibleError("the rule has no filter")
    conditions = filter_.get("And") or filter_
    expire = ""
    for kind, name in (("days", "Days"), ("date", "Date"), ("markers", "ExpiredObjectDeleteMarker")):
        if (found := rule.get("Expiration")) is not None and found.get(name) is not None:
            expire = kind
    return {
        "id": rule.value("ID"),
        "enabled": ON if rule.value("Status") == "Enabled" else "",
        "prefix": conditions.value("Prefix"),
        "tags": "\n".join(f"{tag.value('Key')}={tag.value('Value')}" for tag in conditions.all("Tag")),
        "larger": conditions.value("ObjectSizeGreaterThan"),
        "smaller": conditions.value("ObjectSizeLessThan"),
        "expire": expire,
        "days": rule.value("Expiration", "Days"),
        "date": rule.value("Expiration", "Date").removesuffix(_MIDNIGHT),
        "noncurrent_days": rule.value("NoncurrentVersionExpiration", "NoncurrentDays"),
        "newer": rule.value("NoncurrentVersionExpiration", "NewerNoncurrentVersions"),
        "abort_days": rule.value("AbortIncompleteMultipartUpload", "DaysAfterInitiation"),
    }


def _write(filled: Filled) -> Tree | None:
    rules = [_element(rule, at) for at, rule in enumerate(filled.rules)]
    return element(ROOT, *rules) if rules else None


def _element(rule: Values, at: int) -> Tree:
    actions = [each for each in (_expiration(rule, at), _noncurrent(rule, at), _abort(rule, at)) if each]
    if not actions:
        raise FieldError("expire", "Say what the rule removes: objects, old versions or unfinished uploads.", at)
    status = element("Status", "Enabled" if rule["enabled"] else "Disabled")
    return element("Rule", maybe("ID", rule["id"]), _filter(rule, at), status, *actions)


def _filter(rule: Values, at: int) -> Tree:
    conditions = [maybe("Prefix", rule["prefix"])]
    conditions += [
        element("Tag", element("Key", key), element("Value", value)) for key, value in pairs(rule, "tags", at)
    ]
    for name, of in (("larger", "ObjectSizeGreaterThan"), ("smaller", "ObjectSizeLessThan")):
        bound = size(rule, name, at)
        conditions.append(None if bound is None else element(of, str(bound)))
    given = [each for each in conditions if each is not None]
    return element("Filter", element("And", *given)) if len(given) > 1 else element("Filter", *given)


def _expiration(rule: Values, at: int) -> Tree | None:
    if rule["expire"] == "markers":
        return element("Expiration", element("ExpiredObjectDeleteMarker", "true"))
    if rule["expire"] == "days":
        return element("Expiration", element("Days", str(_required(rule, "days", at))))
    if rule["expire"] == "date":
        try:
            day = dt.date.fromisoformat(rule["date"])
        except ValueError:
            raise FieldError("date", "Write a day such as 2027-01-31.", at) from None
        return element("Expiration", element("Date", f"{day.isoformat()}{_MIDNIGHT}"))
    for name in ("days", "date"):
        if rule[name]:
            raise FieldError("expire", "Say that current objects are removed, or leave days and day empty.", at)
    return None


def _noncurrent(rule: Values, at: int) -> Tree | None:
    days, newer = number(rule, "noncurrent_days", at, low=1), number(rule, "newer", at, low=1)
    if days is None:
        if newer is not None:
            raise FieldError("noncurrent_days", "Say after how many days old versions are removed.", at)
        return None
    kept = None if newer is None else element("NewerNoncurrentVersions", str(newer))
    return element("NoncurrentVersionExpiration", element("NoncurrentDays", str(days)), kept)


def _abort(rule: Values, at: int) -> Tree | None:
    days = number(rule, "abort_days", at, low=1)
    name = "AbortIncompleteMultipartUpload"
    return None if days is None else element(name, element("DaysAfterInitiation", str(days)))


def _required(rule: Values, name: str, at: int) -> int:
    found = number(rule, name, at, low=1)
    if found is None:
        raise FieldError(name, "Write a number of days from 1.", at)
    return found


def _normal(tree: Tree) -> Tree:
    """An empty prefix is the same as none."""
    for rule in tree.children:
        filter_ = rule.get("Filter")
        if filter_ is not None and [(child.name, child.text) for child in filter_.children] == [("Prefix", "")]:
            filter_.children = []
    return tree


FORM: Final = xml_form(ROOT, _read, _write, rule=FIELDS, new_rule={"enabled": ON, "expire": "days"}, normal=_normal)
