"""Accounts of the store, and the key of its root. Keys of roots are for root alone."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError, admin
from orcas.console.pages.users.handing import hand_over
from orcas.console.rendering import explained, field, flash, page, redirect, visit
from orcas.http.signing import Keys

_PATH = "/users/accounts"


async def create(request: Request) -> Response:
    """Make an account, with a key of its root if that was chosen."""
    name = field(request, "name").strip()
    try:
        number = (await admin(visit(request), "POST", "accounts", {"name": name}))["Account"]["AccountId"]
    except CallError as error:
        return await show(request, f"Nothing was made. {explained(error)}", error.status)
    if field(request, "with_key"):
        return await _new_key(request, number, f"The account {name} was made, with the number {number}. ")
    flash(request, f"The account {name} was made, with the number {number}.")
    return redirect(request, _PATH)


async def create_key(request: Request) -> Response:
    """Make an access key of the root of an account."""
    number = field(request, "number")
    return await (_new_key(request, number) if number else show(request, "No key was made. Choose an account.", 400))


async def _new_key(request: Request, number: str, said: str = "") -> Response:
    try:
        order = {"action": "CreateAccessKey", "account": number}
        made = (await admin(visit(request), "POST", "iam", order))["AccessKey"]
    except CallError as error:
        return await show(request, f"{said}No key was made. {explained(error)}", error.status)
    heading = f"A key of the root of account {number}"
    return hand_over(request, made["AccessKeyId"], made["SecretAccessKey"], heading, _PATH, said)


async def show(request: Request, problem: str = "", status: int = 200) -> Response:
    """A page of the list of accounts."""
    marker = request.query_params.get("after", "")
    found = await admin(visit(request), "GET", "accounts", query={"after": marker or None})
    return await page(
        request, "users/accounts.html", status, rows=found["Accounts"], more=found.get("Marker", ""),
        first=not marker, problem=problem, name=field(request, "name"),
    )  # fmt: skip


async def replace_root_key(request: Request) -> Response:
    """Replace the root key, after the present one was typed. The session goes on with the new one."""
    who = visit(request)
    if field(request, "confirm") != who.session.keys.access_key:
        return await root_key(request, "Nothing was changed. Type the access key to replace it.", 400)
    try:
        made = await admin(who, "POST", "iam/root-key")
    except CallError as error:
        return await root_key(request, f"The root key was not replaced. {explained(error)}", error.status)
    who.session.keys = Keys(made["access_key"], made["secret_key"])
    note = "The root key was replaced. This session goes on with the new one, all others of the former key have ended. "
    if made["was_set_by_operator"]:
        note += "Remove ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY before the next start, which would use them. "
    return hand_over(request, made["access_key"], made["secret_key"], "The new root key", "/", note)


async def root_key(request: Request, problem: str = "", status: int = 200) -> Response:
    """What replacing the root key does, and the form for it."""
    who = visit(request)
    if not (await admin(who, "POST", "access/own", {"questions": []}))["root"]:
        raise CallError(403, "AccessDenied", "This is of root, who alone may do it")
    rows = (await admin(who, "GET", "settings"))["settings"]
    source = next(row["source"] for row in rows if row["name"] == "root_access_key")
    return await page(
        request, "users/root-key.html", status, problem=problem, is_set=source != "default", source=source
    )
