"""The access control list of a bucket or an object: who is given what, and one of the usual lists in its place.

Where lists are disabled, which is the default, the page says what to do instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, Query, Visit, call, object_path
from orcas.console.rendering import asked_object, explained, field, flash, page, redirect, visit

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

TITLE: Final = "Access control list"
ABOUT: Final = "What other accounts, or everybody, are given beside policies."
_DISABLED: Final = "Disabled: policies alone decide."
_GROUPS: Final = "http://acs.amazonaws.com/groups/"
_STRANGERS: Final = {
    f"{_GROUPS}global/AllUsers": "Everybody, also without a key",
    f"{_GROUPS}global/AuthenticatedUsers": "Everybody who has a key",
}
_OTHERS: Final = {f"{_GROUPS}s3/LogDelivery": "The delivery of access logs"}
_OF_LIST: Final = {
    "READ_ACP": "see this list", "WRITE_ACP": "change this list", "FULL_CONTROL": "everything, also change this list",
}  # fmt: skip
# What permissions mean: of a bucket, and of an object.
_BUCKET_MAY: Final = _OF_LIST | {"READ": "list the objects", "WRITE": "store and delete objects"}
_OBJECT_MAY: Final = _OF_LIST | {"READ": "read the object", "WRITE": "nothing: objects have no such permission"}
_BUCKET_LISTS: Final = (
    ("private", "private: the owner alone"),
    ("public-read", "public-read: everybody may list the objects"),
    ("public-read-write", "public-read-write: everybody may list, store and delete objects"),
    ("authenticated-read", "authenticated-read: everybody who has a key may list the objects"),
    ("log-delivery-write", "log-delivery-write: access logs may be stored"),
)
_OBJECT_LISTS: Final = (
    ("private", "private: the owner alone"),
    ("public-read", "public-read: everybody may read it"),
    ("authenticated-read", "authenticated-read: everybody who has a key may read it"),
    ("bucket-owner-read", "bucket-owner-read: the owner of the bucket may read it"),
    ("bucket-owner-full-control", "bucket-owner-full-control: the owner of the bucket may do everything"),
)


async def state(who: Visit, bucket: str) -> tuple[str, str]:
    """Whether the bucket gives anybody anything, as of the list of settings."""
    if await _disabled(who, bucket):
        return "none", _DISABLED
    grants = len((await call(who, "GET", object_path(bucket), {"acl": ""})).xml().findall(".//Grant"))
    return "set", f"{grants} grant{'' if grants == 1 else 's'}"


async def _disabled(who: Visit, bucket: str) -> bool:
    """Whether lists are disabled, as far as the key may know it."""
    try:
        found = (await call(who, "GET", object_path(bucket), {"ownershipControls": ""})).xml()
    except CallError as error:
        if error.code not in ("OwnershipControlsNotFoundError", "AccessDenied"):
            raise
        return False
    return found.findtext("Rule/ObjectOwnership") == "BucketOwnerEnforced"


async def change(request: Request) -> Response:
    """Replace the list by one of the usual ones."""
    path, query = _place(request)
    try:
        await call(visit(request), "PUT", path, query, {"x-amz-acl": field(request, "acl")})
    except CallError as error:
        problem = f"Nothing was changed. {explained(error)}"
        if "Block Public Access" in error.message:
            problem = f"Nothing was changed. {error.message} Change the public access block first."
        return await show(request, problem, error.status)
    flash(request, f"{TITLE}: saved.")
    key, version = _object(request)
    below = "settings/acl" if key is None else "object/acl"
    return redirect(request, f"/b{object_path(request.path_params['bucket'])}/{below}", key=key, version=version)


def _object(request: Request) -> tuple[str | None, str | None]:
    """Key and version; None for the bucket itself."""
    if not request.url.path.endswith("/object/acl"):
        return None, None
    return asked_object(request)[1:]


def _place(request: Request) -> tuple[str, Query]:
    key, version = _object(request)
    return object_path(request.path_params["bucket"], key), {"acl": "", "versionId": version}


async def show(request: Request, problem: str = "", status: int = 200) -> Response:
    """The list."""
    who, bucket, (key, version) = visit(request), request.path_params["bucket"], _object(request)
    found = (await call(who, "GET", *_place(request))).xml()
    owner = found.findtext("Owner/ID") or ""
    may = _BUCKET_MAY if key is None else _OBJECT_MAY
    needs = "s3:PutBucketAcl" if key is None else "s3:PutObjectVersionAcl" if version else "s3:PutObjectAcl"
    resource = f"arn:aws:s3:::{bucket}" + ("" if key is None else f"/{key}")
    return await page(
        request, "access-list.html", status, key=key, version=version, title=TITLE, about=ABOUT,
        problem=problem, disabled=await _disabled(who, bucket), owner=_account(found.find("Owner")),
        grants=[_grant(each, owner, may) for each in found.iter("Grant")],
        lists=_BUCKET_LISTS if key is None else _OBJECT_LISTS, chosen=field(request, "acl", "private"),
        needs=needs, asks={needs: resource},
    )  # fmt: skip


def _grant(grant: ET.Element, owner: str, may: dict[str, str]) -> dict[str, Any]:
    """A grant in words: who is given what, and whether that is a stranger."""
    permission, group = grant.findtext("Permission") or "", grant.findtext("Grantee/URI") or ""
    is_owner = grant.findtext("Grantee/ID") == owner
    return {
        "words": "The owner" if is_owner else (_STRANGERS | _OTHERS).get(group, ""),
        "who": group or _account(grant.find("Grantee")), "public": group in _STRANGERS,
        "may": may.get(permission, permission), "permission": permission,
    }  # fmt: skip


def _account(element: ET.Element | None) -> str:
    """An account by its name, if it has one, and its canonical id."""
    if element is None:
        return ""
    name, number = element.findtext("DisplayName"), element.findtext("ID") or ""
    return f"{name}, account {number}" if name else f"account {number}"


ROUTES = [
    Route("/b/{bucket}/settings/acl", show, methods=["GET"]),
    Route("/b/{bucket}/settings/acl", change, methods=["POST"]),
    Route("/b/{bucket}/object/acl", show, methods=["GET"]),
    Route("/b/{bucket}/object/acl", change, methods=["POST"]),
]
