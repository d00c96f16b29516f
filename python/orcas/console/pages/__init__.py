"""Pages of the console, one module for each subject.

A module exports `ROUTES`, and, as far as it has any, `PLACES` for the navigation and `TABS` for the pages of a bucket;
`orcas.console.app` collects them. What pages are made with:
"""

from orcas.console.calls import Answer, CallError, Visit, admin, call, iam, object_path, presigned, stream
from orcas.console.places import Place
from orcas.console.rendering import (
    asked_object,
    digits,
    explained,
    field,
    fields,
    flash,
    flash_error,
    page,
    redirect,
    url,
    visit,
)

__all__ = [
    "Answer",
    "CallError",
    "Place",
    "Visit",
    "admin",
    "asked_object",
    "call",
    "digits",
    "explained",
    "field",
    "fields",
    "flash",
    "flash_error",
    "iam",
    "object_path",
    "page",
    "presigned",
    "redirect",
    "stream",
    "url",
    "visit",
]
