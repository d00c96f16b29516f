"""Pages from templates: what every template knows, redirects, messages for the next page, and static files.

Templates escape by default and refuse names that they were not given. They are rendered in a thread, so that a long table
delays no other request. Static files have a hash of their content in their URL.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Awaitable
from importlib.resources import files
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from orcas.console import shown
from orcas.console.calls import CallError, Visit, object_path
from orcas.console.guard import local_path
from orcas.console.rights import rights_of

_Result = TypeVar("_Result")
_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@functools.cache
def static_files() -> dict[str, tuple[str, bytes]]:
    """Hash and content of each static file, by its name."""
    found = {}
    for path in files("orcas.console").joinpath("static").iterdir():
        if path.name.endswith(tuple(_TYPES)):
            content = path.read_bytes()
            found[path.name] = hashlib.sha256(content).hexdigest()[:16], content
    return found


@functools.cache
def environment() -> Environment:
    """The templates."""
    made = Environment(
        loader=PackageLoader("orcas.console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters.update(
        key=shown.key, line=shown.line, text=shown.text, plain=shown.plain, size=shown.size, number=shown.number,
        when=shown.when, counted=shown.counted, raw=lambda text: quote(text, safe=""),
    )  # fmt: skip
    return made


def visit(request: Request) -> Visit:
    """The visit of a request; pages are reached only with a session."""
    found: Visit = request.state.visit
    return found


def asked_object(request: Request) -> tuple[str, str, str | None]:
    """The object that a page is about: its bucket, its key, and a version if it is about one.

    Raises:
        CallError: no object can have the key that the URL names.
    """
    bucket, asked = str(request.path_params["bucket"]), request.query_params
    # Forms change line ends: theirs is percent-encoded once more.
    key = asked.get("key") or unquote(asked.get("raw", ""))
    object_path(bucket, key)
    return bucket, key, asked.get("version") or None


def field(request: Request, name: str, default: str = "") -> str:
    """A field of the form; the first one of this name."""
    return fields(request, name)[0] if fields(request, name) else default


def fields(request: Request, name: str) -> list[str]:
    """All fields of the form with this name."""
    form: dict[str, list[str]] = request.state.form
    return form.get(name, [])


def digits(text: str | None) -> int:
    """The number in a field or query that only pages fill in; 0 for anything else."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 16 else 0


def url(request: Request, path: str, **query: str | None) -> str:
    """The URL of a page, from its path below the console, which is raw. A parameter that is None is left out."""
    given = {name: value for name, value in query.items() if value is not None}
    # As browsers encode: a form would change line ends of hidden fields, a query keeps them.
    return str(request.scope["root_path"]) + path + (f"?{urlencode(given, quote_via=quote, safe='')}" if given else "")


async def page(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """A page. The template gets what is in `context` here, and with a session `may`, as of `rights_of`.

    `problem`: what is said below the heading. A page of a bucket also has the bucket, its path and the folders of `key` or
    `folder`.
    """
    who: Visit | None = request.state.visit
    state, bucket = request.app.state, request.path_params.get("bucket")
    if bucket is not None:
        context["bucket"], context["bucket_path"] = bucket, f"/b{object_path(bucket)}"
        context["crumbs"] = shown.crumbs(context.get("key") or context.get("folder") or "")
    if who is not None:
        context["may"] = await rights_of(who, state.places, state.tabs, bucket, context)
    context = {
        "request": request, "base": request.scope["root_path"], "url": functools.partial(url, request),
        "asset": functools.partial(_asset, request), "visit": who, "csrf": "" if who is None else who.session.csrf,
        "nonce": request.state.nonce, "flashes": [] if who is None else who.session.take_flashes(),
        "places": state.places, "tabs": state.tabs, "path": local_path(request.scope), "problem": "",
        **context,
    }  # fmt: skip
    return HTMLResponse(await asyncio.to_thread(_rendered, template, context), status)


def _rendered(template: str, context: dict[str, Any]) -> str:
    parts = environment().get_template("macros.html").make_module(context)
    return environment().get_template(template).render(context, ui=parts)


def redirect(request: Request, path: str, **query: str | None) -> Response:
    """A redirect to a page, after a form was carried out."""
    return RedirectResponse(url(request, path, **query), 303)


def to_folder(request: Request, prefix: str, said: str = "", kind: str = "failed") -> Response:
    """A redirect to a folder of the bucket that the address names, with a message if something is said."""
    if said:
        flash(request, said, kind)
    return redirect(request, f"/b{object_path(request.path_params['bucket'])}", prefix=prefix or None)


def to_object(request: Request, said: str = "", kind: str = "failed") -> Response:
    """A redirect to the page of the object that the address names, likewise."""
    if said:
        flash(request, said, kind)
    bucket, key, version = asked_object(request)
    return redirect(request, f"/b{object_path(bucket)}/object", key=key, version=version)


def flash(request: Request, text: str, kind: str = "done") -> None:
    """A message on the next page; `kind`: `done` or `failed`."""
    visit(request).session.flashes.append((kind, text))


def flash_error(request: Request, error: CallError, what: str) -> None:
    """A message about a refusal: what was not done, and why."""
    flash(request, f"{what}: {explained(error)}", "failed")


async def attempt(request: Request, work: Awaitable[_Result], failed: str, done: str = "") -> _Result | None:
    """The result of what a form asks for; None if the server refuses it. The next page says what was done, or why not."""
    try:
        result = await work
    except CallError as error:
        flash_error(request, error, failed)
        return None
    if done:
        flash(request, done)
    return result


# What helps against a refusal, by what the server says of it. The first that is in the message counts.
_DENIED: Final = (
    ("who alone may", "No policy gives this to anybody: sign in with the root key."),
    ("by root alone", "No policy gives this to anybody: sign in with the root key."),
    ("those of another account", "Sign in with a key of the first account of the server."),
    ("temporary credentials", "No policy gives this to anybody: sign in with the root key."),
    ("protected by object lock", "It is locked: it can be removed when its retention ends and it has no legal hold."),
    ("ORCAS_PUBLIC_ACCESS", "The server lets the public into no bucket: whoever runs it has set ORCAS_PUBLIC_ACCESS."),
    ("Block Public Access", "The public access block is one of the settings of the bucket."),
    ("explicit deny", "A policy forbids this, so no other one can allow it."),
    ("boundary", "The permissions boundary of your user would have to allow it, whatever other policies allow."),
    ("resource-based", "The bucket is of another account: its policy would have to allow it, too."),
    ("session policy", "Your key or session has a policy of its own, which would have to allow it."),
    ("salvage", "Restore the store first."),
    ("", "Your key may not do this. Ask whoever manages the users of your account for a policy that allows it."),
)
_ADVICE: Final = {
    "AccessControlListNotSupported": "Write a policy instead, or choose another object ownership first.",
    "NoSuchBucket": "There is no such bucket, or it was deleted: go back to the list of buckets.",
    "NoSuchKey": "There is no such object, or it was deleted: go back to its folder.",
    "NotFound": "It may have been deleted: go back.",
    "BucketAlreadyExists": "Another account has a bucket of this name: choose another name.",
    "BucketAlreadyOwnedByYou": "You have a bucket of this name: choose another name.",
    "BucketNotEmpty": "The bucket still has objects, versions or unfinished uploads: empty it first.",
    "InvalidBucketName": "Use 3 to 63 lower-case letters, digits, dots and hyphens.",
    "AnswerTooLong": "The commands of `orcas` show it.",
    "SlowDown": "The server is busy, or your key has reached its limit: wait a moment, and try again.",
    "ServiceUnavailable": "The server is busy: wait a moment, and try again.",
    "InternalError": "Look into the server's log for the reason.",
}


def explained(error: CallError) -> str:
    """What the server said, and what to do, if that is known."""
    said = error.message if error.message.endswith((".", "!", "?")) else f"{error.message}."
    advice = _ADVICE.get(error.code)
    if error.code == "AccessDenied":
        advice = next(helps for part, helps in _DENIED if part in error.message)
    return f"{said} {advice}" if advice else said


def _asset(request: Request, name: str) -> str:
    return f"{request.scope['root_path']}/static/{static_files()[name][0]}/{name}"


async def serve_static(request: Request) -> Response:
    """A static file; its URL changes with its content."""
    name = request.path_params["name"]
    found = static_files().get(name)
    if found is None or found[0] != request.path_params["hash"]:
        return Response("There is no such file: reload the page.", 404, media_type="text/plain")
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(found[1], media_type=_TYPES[name[name.rindex(".") :]], headers=headers)
