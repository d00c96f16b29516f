"""Ten tasks of the console, by root, by a writer and by the reader of one folder, who got theirs from the templates.

Whoever may do one does it. Nobody else is offered a way to it, and whoever goes there all the same reads what is true, and
finds a way on.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from tests.console.test_templates import (
    Of,
    deletes_and_undoes,
    downloads,
    lists,
    restores,
    shares,
    shows,
    uploads,
)
from tests.console.test_uploads import step
from tests.console.visitors import BASE, Visitor, shown

FOLDER: Final = "home/anna/"
# What would be false on a page of somebody who may not know it, or may not do it.
FALSE: Final = (
    "does not keep versions", "There is no version", "There are no users", "No lifecycle rule", "There is no such",
    "not-for-everybody was", "saved.",
)  # fmt: skip


def makes_a_bucket(of: Of) -> None:
    visitor, bucket, _ = of
    made = visitor.done("/buckets/new", {"name": f"{bucket[:40]}-new", "versioning": "yes"})
    assert f"The bucket {bucket[:40]}-new was created." in made
    assert visitor.lists(f"{bucket[:40]}-new")


def gives_a_colleague_a_key(of: Of) -> None:
    visitor, bucket, _ = of
    user = f"colleague-{bucket[-12:]}"
    assert f"The user {user} was made." in visitor.done("/users/users", {"name": user})
    assert len(shown(visitor.done(f"/users/users/{user}/create-key"), "secret-key")) == 40


def expires_old_objects(of: Of) -> None:
    visitor, bucket, _ = of
    rule = {"rule.0.enabled": "on", "rule.0.prefix": "tmp/", "rule.0.days": "30", "rule.0.id": "old"}
    assert "Lifecycle rules: saved." in visitor.done(f"/b/{bucket}/settings/lifecycle", {"do": "form", **rule})


@dataclass(frozen=True)
class Task:
    """What somebody wants: who may, how it is done, and what the page at which one begins has for it.

    `asked`: the address, and the form, of somebody who goes there although nothing leads there.
    """

    may: str
    does: Callable[[Of], None]
    page: str
    offer: str
    asked: tuple[str, dict[str, Any] | None] = ("", None)


LIST: Final = "/b/{bucket}?prefix={prefix}"
OBJECT: Final = "/b/{bucket}/object?key={prefix}k"
TASKS: Final = {
    "find an object": Task("root writer reader", lists, LIST, "/object?key="),
    "look at it": Task("root writer reader", shows, OBJECT, "second content"),
    "download it": Task("root writer reader", downloads, OBJECT, "Download"),
    "share it": Task("root writer reader", shares, OBJECT, "Share"),
    "upload a file": Task("root writer", uploads, LIST, "Upload files"),
    "delete, and undo that": Task(
        "root writer", deletes_and_undoes, LIST, ">Delete</button>",
        ("/b/{bucket}/delete-objects", {"key": "{prefix}k", "prefix": "{prefix}"}),
    ),
    "restore an old version": Task(
        "root writer", restores, "/b/{bucket}/versions?key={prefix}k", ">Restore<",
        ("/b/{bucket}/versions/restore?key={prefix}k", {"version": "{older}"}),
    ),
    "make a bucket": Task(
        "root", makes_a_bucket, "/", '/buckets/new"', ("/buckets/new", {"name": "not-for-everybody"})
    ),
    "give a colleague a key": Task(
        "root", gives_a_colleague_a_key, "/", '/users/users"', ("/users/users", {"name": "not-for-everybody"})
    ),
    "expire old objects": Task(
        "root", expires_old_objects, LIST, '/settings"',
        ("/b/{bucket}/settings/lifecycle", {"do": "form", "rule.0.enabled": "on", "rule.0.days": "30"}),
    ),
}  # fmt: skip


@pytest.fixture(params=["root", "writer", "reader"])
def person(
    request: pytest.FixtureRequest, visitor: Visitor, user_of: Callable[[str, str, str], Visitor], kept: str
) -> tuple[str, Of]:
    """Who it is, with the folder in which this person works."""
    who: str = request.param
    if who == "root":
        return who, (visitor, kept, "")
    prefix = "" if who == "writer" else FOLDER
    return who, (user_of("identity", "write" if who == "writer" else "read", prefix), kept, prefix)


def ways_on(page: str) -> list[str]:
    """The addresses to which a page leads."""
    return [html.unescape(path) for path in re.findall(rf'<a[^>]* href="{BASE}([^"#]*)"', page)]


def test_ten_tasks(person: tuple[str, Of]) -> None:
    who, of = person
    visitor, bucket, prefix = of
    older = re.findall(r"version=([0-9A-Za-z._-]+)\"", visitor.page(f"/b/{bucket}/versions?key={prefix}k"))[1]

    def filled(text: str) -> str:
        return text.format(bucket=bucket, prefix=prefix, older=older)

    for name, task in TASKS.items():
        begins = visitor.page(filled(task.page))
        if who in task.may.split():
            assert task.offer in begins, name
            task.does(of)
            continue
        assert task.offer not in begins, name
        path, form = filled(task.asked[0]), task.asked[1]
        if not path:
            refused = step(visitor, bucket, "begin", key=f"{prefix}new", type="")
            assert (refused.status_code, "Your key may not do this" in refused.text) == (403, True), name
            continue
        answer = visitor.post(path, {each: filled(value) for each, value in (form or {}).items()})
        # As of a form that was sent: the page after it, or that of the refusal.
        text = visitor.page(answer.headers["location"].removeprefix(BASE)) if answer.status_code == 303 else answer.text
        assert "Your key may not do this" in html.unescape(text), (name, text)
        assert not [each for each in FALSE if each in text], (name, text)
        assert any(visitor.get(way, follow_redirects=True).status_code == 200 for way in ways_on(text)), name
