"""A page that documents the routes under `/_orcas/`. It is rendered here, so it loads nothing.

It shows the OpenAPI document of the application, including the operator's routes.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from orcas.pages import STYLE

_METHODS: Final = ("get", "put", "post", "delete")

Document = dict[str, Any]


def joined(outer: Document, inner: Document, prefix: str) -> Document:
    """`outer` with the paths of `inner` under `prefix`, and the schemas of both."""
    for item in inner["paths"].values():
        for operation in item.values():
            # FastAPI takes it for granted, but an order that is none is answered with 400.
            operation["responses"].pop("422", None)
    paths = {**outer["paths"], **{prefix + path: item for path, item in inner["paths"].items()}}
    schemas = {**outer.get("components", {}).get("schemas", {}), **inner.get("components", {}).get("schemas", {})}
    return {**outer, "paths": paths, "components": {"schemas": schemas}}


def page(document: Document) -> str:
    """The page of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    parts = [
        _operation(method, path, item[method], schemas)
        for path, item in document["paths"].items()
        for method in _METHODS
        if method in item
    ]
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head>'
        f"<body>\n<h1>{title}</h1>\n<p>Routes under <code>/_orcas/</code>. Those under <code>/_orcas/admin/</code> answer "
        "requests that the root identity has signed in their headers (Signature Version 4, service <code>s3</code>). "
        'Everything else is S3. The same as <a href="openapi.json">OpenAPI</a>.</p>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _operation(method: str, path: str, operation: Document, schemas: Document) -> str:
    text = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>"]
    if said := operation.get("description"):
        text.append(f"<p>{escape(said)}</p>")
    rows = [
        (entry["name"], f"in the {entry['in']}", "")
        for entry in operation.get("parameters", ())
        if entry["in"] != "header"
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        rows += _fields(content["schema"], schemas)
    if rows:
        cells = "".join(
            f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{escape(more)}</td></tr>"
            for name, kind, more in rows
        )
        text.append(f"<table>{cells}</table>")
    answers = ", ".join(f"{status} {entry['description']}" for status, entry in operation["responses"].items())
    text.append(f"<p>Answers: {escape(answers)}.</p>")
    return "\n".join(text)


def _fields(schema: Document, schemas: Document) -> list[tuple[str, str, str]]:
    """Name, type and default of each field of a body."""
    choices = [*schema.get("anyOf", ()), schema]
    names = [choice["$ref"].rpartition("/")[2] for choice in choices if "$ref" in choice]
    fields = []
    for name in names:
        for field, facts in schemas[name].get("properties", {}).items():
            default = f"default {facts['default']}" if "default" in facts else ""
            fields.append((field, str(facts.get("type", "any")), default))
    return fields
