"""What settings can name on this server, keys and targets of events; and what is asked before one of them is saved."""

from __future__ import annotations

import time
from typing import Final

from orcas.console.calls import CallError, Visit, admin
from orcas.console.documents.kinds import BLOCKS, KEY_PATH
from orcas.console.documents.trees import Tree, parse
from orcas.engine import ExpiryCount

Choices = list[tuple[str, str]]
# Nobody uses it for content.
_CONTROL: Final = "orcas/control"


async def offers(who: Visit, slug: str) -> dict[str, Choices]:
    """Values of fields and what they are called, by the name of the field, as far as the visitor may list them."""
    if slug == "encryption":
        return {"key": [("", "orcas/s3: the default"), *(await _keys(who) or [])]}
    if slug == "notifications" and (targets := await known_targets(who)) is not None:
        return {"arn": [("", "Choose …"), *((arn, f"{arn}: {kind}") for arn, kind, _ in targets)]}
    return {}


async def _keys(who: Visit) -> Choices | None:
    """Keys that can be used, by id and name; None if the visitor may not list them, or there is no keyring."""
    try:
        found = (await admin(who, "GET", "keys"))["keys"]
    except CallError:
        return None
    return [(key["id"], key["name"]) for key in found if key["state"] == "enabled" and key["name"] != _CONTROL]


async def known_targets(who: Visit) -> list[tuple[str, str, str]] | None:
    """ARNs by which notifications name targets, what these are, and their names; None if the visitor may not list them."""
    try:
        found = (await admin(who, "GET", "targets"))["targets"]
    except CallError:
        return None
    named = [(str(each["destination"]), str(each["type"]), str(each["name"])) for each in found]
    # The form has no event bus.
    return [
        (arn if ":" in arn else f"arn:aws:sqs:::{arn}", kind, name)
        for arn, kind, name in named
        if kind != "eventbridge"
    ]


async def wrong(who: Visit, slug: str, document: str | None) -> str:
    """Why a document would let the server refuse all writes; empty if it would not, or the visitor may not know."""
    if slug != "encryption" or document is None or (keys := await _keys(who)) is None:
        return ""
    try:
        named = [each.text for each in parse(document).find(KEY_PATH)]
    except ValueError:
        # The server says what is wrong with it.
        return ""
    known = {text for key, name in keys for text in (key, f"alias/{name}")} | {"", "alias/orcas/s3"}
    for text in named:
        # An ARN has six parts, of which the last is `key/ID` or `alias/NAME`.
        if text.rpartition(":")[2].removeprefix("key/") not in known:
            return f"The server has no key {text} that can be used, and would refuse all writes: choose another one."
    return ""


def cost(slug: str, before: str | None, after: str | None) -> str:
    """What saving a document costs, if saving the former one again does not undo it; empty otherwise."""
    try:
        if slug == "public-access" and (lost := [label for label in _blocked(before) if label not in _blocked(after)]):
            blocks = "; ".join(label[:1].lower() + label[1:] for label in lost)
            return (
                f"The server would no longer do this: {blocks}. Policies and access control lists that let everybody in "
                "would count at once, and what strangers read meanwhile they keep."
            )
        if slug == "lifecycle" and (rules := _taking(after) - _taking(before)):
            return (
                f"The server would remove everything in the bucket within a day or two, by {', '.join(sorted(rules))}. "
                "Where no versions are kept, nothing brings it back."
            )
    except ValueError:
        # The server says what is wrong with it.
        return ""
    return ""


def _blocked(document: str | None) -> list[str]:
    tree = Tree("") if document is None else parse(document)
    return [label for name, label in BLOCKS if tree.value(name) == "true"]


def _taking(document: str | None) -> set[str]:
    return set() if document is None else set(ExpiryCount(document.encode(), round(time.time() * 1000)).sweeping())
