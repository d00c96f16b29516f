"""What users, groups and roles have alike: lists, pages of one, and the actions of IAM that these need."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request

from orcas.console.calls import CallError, Visit, iam
from orcas.console.explaining import document_of
from orcas.console.rendering import explained

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

KINDS: Final = {"users": "user", "groups": "group", "roles": "role"}
# Entries of one answer, and so of a page of a list.
PAGE: Final = 100
# Calls for one list that is read as a whole.
_CALLS_MAX: Final = 20


@dataclass(slots=True)
class Part:
    """A part of a page that may be refused: its entries, or the sentence."""

    rows: list[Any] = field(default_factory=list)
    refused: str = ""
    # There are more than these.
    more: bool = False

    def choices(self, value: str, title: str) -> list[tuple[str, str]]:
        """The entries for a form: the texts of these names."""
        return [(row[value], row[title]) for row in self.rows]


def kind_of(request: Request) -> str:
    """`user`, `group` or `role`, from the address."""
    found = KINDS.get(request.path_params["kind"])
    if found is None:
        raise HTTPException(404)
    return found


def name_of(request: Request) -> str:
    """The name in the address."""
    return str(request.path_params["name"])


def called(kind: str) -> str:
    """The kind as actions and parameters of IAM have it."""
    return kind.capitalize()


def place(kind: str, name: str) -> str:
    """The path of the page of one, below the console."""
    return f"/users/{kind}s/{quote(name, safe='')}"


def texts(element: ET.Element | None) -> dict[str, str]:
    """The children of an element that have text alone."""
    return {} if element is None else {child.tag: child.text or "" for child in element}


async def listed(
    visit: Visit, action: str, path: str, parameters: Mapping[str, str] | None = None, marker: str = ""
) -> tuple[list[ET.Element], str]:
    """One page of a list, and the marker of the next one; empty after the last. Raises CallError."""
    given = {**(parameters or {}), "MaxItems": str(PAGE)} | ({"Marker": marker} if marker else {})
    answer = await iam(visit, action, given)
    more = (answer.findtext("Marker") or "") if answer.findtext("IsTruncated") == "true" else ""
    return answer.findall(f"{path}/member"), more


async def everything(
    visit: Visit, action: str, path: str, parameters: Mapping[str, str] | None = None
) -> list[ET.Element]:
    """A list as a whole, as far as it has 2,000 entries. Raises CallError."""
    return (await _first(visit, action, path, parameters))[0]


async def _first(
    visit: Visit, action: str, path: str, parameters: Mapping[str, str] | None
) -> tuple[list[ET.Element], bool]:
    """The first entries of a list, and whether there are more."""
    found: list[ET.Element] = []
    marker = ""
    for _ in range(_CALLS_MAX):
        entries, marker = await listed(visit, action, path, parameters, marker)
        found += entries
        if not marker:
            break
    return found, bool(marker)


async def part(visit: Visit, action: str, path: str, parameters: Mapping[str, str] | None = None) -> Part:
    """A list as of `everything`, or why it is refused: texts, or the texts of structures by name."""
    try:
        rows, more = await _first(visit, action, path, parameters)
    except CallError as error:
        return Part(refused=explained(error))
    return Part([texts(row) if len(row) else row.text or "" for row in rows], more=more)


async def policies_of(visit: Visit, kind: str, name: str) -> dict[str, Part]:
    """Managed and inline policies of a user, group or role, and the policies that could be attached."""
    of, named = called(kind), {f"{called(kind)}Name": name}
    attached, inline, offered = await asyncio.gather(
        part(visit, f"ListAttached{of}Policies", "AttachedPolicies", named),
        part(visit, f"List{of}Policies", "PolicyNames", named),
        part(visit, "ListPolicies", "Policies"),
    )
    return {"attached": attached, "inline": inline, "offered": offered}


async def inline_document(visit: Visit, kind: str, name: str, policy: str) -> str:
    """The text of an inline policy. Raises CallError."""
    parameters = {f"{called(kind)}Name": name, "PolicyName": policy}
    return document_of(await iam(visit, f"Get{called(kind)}Policy", parameters), "PolicyDocument")
