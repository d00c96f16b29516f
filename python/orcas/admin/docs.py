"""The documentation of the routes under `/_orcas/`, as a page and as an OpenAPI document. The page loads nothing.

What FastAPI does not know is added: the streams of events, and the answers that all requests of a kind have in common.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any, Final

from orcas.admin.rights import ACTIONS, SIGNED
from orcas.http.pages import STYLE

_METHODS: Final = ("get", "put", "post", "delete")
_CODE: Final = re.compile(r"`([^`]+)`")
_DONE: Final = {
    "200": "The request was carried out",
    "201": "It was created",
    "202": "A job has begun: `GET /_orcas/admin/jobs/{name}` reports its state",
}
_INVALID: Final = "A parameter or the body is not valid"
_ABSENT: Final = "Nothing has this name"
_CONFLICT: Final = "The present state does not allow it, or the same signed request was sent before"
_TOO_LARGE: Final = "The body has more than 65,536 bytes"


def _of_query(name: str, description: str, *, several: bool = False) -> dict[str, Any]:
    kind = {"type": "array", "items": {"type": "string"}} if several else {"type": "string"}
    return {"name": name, "in": "query", "description": description, "schema": kind}


# The route of the streams is not one of FastAPI's.
EVENTS: Final[dict[str, Any]] = {
    "get": {
        "description": "A stream of server-sent events, which stays open. docs/events.md describes it.",
        "parameters": [
            _of_query("event", "events of this name or pattern, such as `s3:ObjectCreated:*`", several=True),
            _of_query("bucket", "events of this bucket", several=True),
            _of_query("prefix", "events of keys that begin so"),
            _of_query("suffix", "events of keys that end so"),
            _of_query("start", "`now`, `oldest`, a time, or the id of an event, after which the stream begins"),
        ],
        "responses": {
            "200": {"description": "The stream", "content": {"text/event-stream": {}}},
            "400": {"description": _INVALID},
            "403": {"description": "The request has neither the signature of the root identity nor the token"},
            "503": {"description": "Too many streams are open, or the journal of events cannot be read"},
        },
    }
}

Document = dict[str, Any]


def joined(outer: Document, inner: Document, prefix: str) -> Document:
    """`outer` with the streams of events and the paths of `inner` under `prefix`, and the schemas of both."""
    for path, item in inner["paths"].items():
        for method, operation in item.items():
            _complete(path, method, operation)
    paths = {
        **outer["paths"],
        "/_orcas/events": EVENTS,
        **{prefix + path: item for path, item in inner["paths"].items()},
    }
    schemas = {**outer.get("components", {}).get("schemas", {}), **inner.get("components", {}).get("schemas", {})}
    return {**outer, "paths": paths, "components": {"schemas": schemas}}


def _complete(path: str, method: str, operation: Document) -> None:
    """Describe the answers of an operation of the admin API. What its route says of them stays."""
    answers: Document = operation["responses"]
    # FastAPI takes it for granted, but a request that is not valid is answered with 400.
    answers.pop("422", None)
    has_body = "requestBody" in operation
    common = {
        "400": _INVALID if has_body or any(at["in"] == "query" for at in operation.get("parameters", ())) else None,
        "404": _ABSENT if "{" in path else None,
        "409": _CONFLICT if method != "get" else None,
        "413": _TOO_LARGE,
    }
    for status, description in common.items():
        if description is not None:
            answers.setdefault(status, {"description": description})
    for status, description in _DONE.items():
        if status in answers:
            answers[status]["description"] = description
    operation["responses"] = dict(sorted(answers.items()))
    action = ACTIONS.get((method.upper(), path))
    if action != SIGNED:
        needs = "For root alone." if action is None else f"Needs `{action}`."
        operation["description"] = f"{operation.get('description', '')} {needs}".lstrip()


def page(document: Document) -> str:
    """The page of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    parts = [
        _operation(method, path, item[method], schemas)
        for path, item in document["paths"].items()
        for method in _METHODS
        if method in item
    ]
    title = escape(document["info"]["title"])
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>'
        f"<body>\n<h1>{title}</h1>\n<p>Routes under <code>/_orcas/</code>. Those under <code>/_orcas/admin/</code> answer "
        "requests that root has signed in their headers (Signature Version 4, service <code>s3</code>), or somebody who "
        "is allowed the action that they need, in JSON. "
        "Every error is <code>{&quot;error&quot;: {&quot;code&quot;: …, &quot;message&quot;: …}}</code>. "
        'Everything else is S3. The same as <a href="openapi.json">OpenAPI</a>.</p>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _operation(method: str, path: str, operation: Document, schemas: Document) -> str:
    text = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>"]
    if said := operation.get("description"):
        text.append(f"<p>{_text(said)}</p>")
    rows = [
        (entry["name"], f"in the {entry['in']}", entry.get("description", ""))
        for entry in operation.get("parameters", ())
        if entry["in"] != "header"
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        rows += _fields(content["schema"], schemas)
    if rows:
        text.append(_table(rows))
    text.append(_table([(status, entry["description"], "") for status, entry in operation["responses"].items()]))
    return "\n".join(text)


def _table(rows: list[tuple[str, str, str]]) -> str:
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{_text(what)}</td><td>{_text(more)}</td></tr>"
        for name, what, more in rows
    )
    return f"<table>{cells}</table>"


def _text(said: str) -> str:
    """Text with its code in backticks, as HTML."""
    return _CODE.sub(r"<code>\1</code>", escape(said))


def _fields(schema: Document, schemas: Document) -> list[tuple[str, str, str]]:
    """Name, type and default of each field of a body."""
    choices = [*schema.get("anyOf", ()), schema]
    names = [_named(choice) for choice in choices if "$ref" in choice]
    fields = []
    for name in names:
        for field, facts in schemas[name].get("properties", {}).items():
            default = "" if facts.get("default") is None else f"default {json.dumps(facts['default'])}"
            fields.append((field, _type(facts, schemas), default))
    return fields


def _named(reference: Document) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _type(facts: Document, schemas: Document) -> str:
    if "$ref" in facts:
        return f"object with {', '.join(schemas[_named(facts)].get('properties', {}))}"
    if "enum" in facts:
        return ", ".join(f"`{value}`" for value in facts["enum"])
    if "anyOf" in facts:
        return " or ".join(_type(choice, schemas) for choice in facts["anyOf"])
    return str(facts.get("type", "any"))
