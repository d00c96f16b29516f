"""Every template of a policy lets its user do what the pages of a bucket offer, and nothing that it does not say."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest
from tests.console.test_uploads import PART, crc32, send, step
from tests.console.visitors import Visitor, area

from orcas.console.documents.policies import BUCKET, IDENTITY

Of = tuple[Visitor, str, str]
# Templates that let somebody use the pages of a bucket, and whether they let it write.
USED: Final = [
    *((place, name, name == "write") for place, names in (("identity", IDENTITY), ("bucket", ("read", "write")))
      for name in names)
]  # fmt: skip


def versions(visitor: Visitor, bucket: str, key: str) -> list[str]:
    """Those of an object, the newest first."""
    return re.findall(r"version=([0-9A-Za-z._-]+)\"", visitor.page(f"/b/{bucket}/versions?key={key}"))


def followed(visitor: Visitor, path: str) -> bytes:
    """What a presigned redirect leads to."""
    answer = visitor.get(path)
    assert answer.status_code == 303, answer.text
    got = httpx.get(visitor.url + answer.headers["location"], trust_env=False)
    assert got.status_code == 200, got.text
    return got.content


def lists(of: Of) -> None:
    visitor, bucket, prefix = of
    for query in (f"prefix={prefix}", f"prefix={prefix}k", f"prefix={prefix}&find=k", f"prefix={prefix}&sort=size"):
        assert f"{prefix}k".replace("/", "%2F") in visitor.page(f"/b/{bucket}?{query}")


def shows(of: Of) -> None:
    visitor, bucket, prefix = of
    page = visitor.page(f"/b/{bucket}/object?key={prefix}k")
    for said in ("second content", "team", "History", "Download", "Share"):
        assert said in page
    assert "may not see" not in page
    (_, older) = versions(visitor, bucket, f"{prefix}k")
    page = visitor.page(f"/b/{bucket}/object?key={prefix}k&version={older}")
    assert "first content" in page
    assert "may not see" not in page


def shows_parts(of: Of) -> None:
    visitor, bucket, prefix = of
    assert "Parts one by one" in visitor.page(f"/b/{bucket}/object?key={prefix}parts")


def compares(of: Of) -> None:
    visitor, bucket, prefix = of
    newer, older = versions(visitor, bucket, f"{prefix}k")
    page = visitor.page(f"/b/{bucket}/versions/compare?key={prefix}k&old={older}&new={newer}")
    assert "second content" in page


def downloads(of: Of) -> None:
    visitor, bucket, prefix = of
    assert followed(visitor, f"/b/{bucket}/object/download?key={prefix}k") == b"second content"
    (_, older) = versions(visitor, bucket, f"{prefix}k")
    assert followed(visitor, f"/b/{bucket}/object/download?key={prefix}k&version={older}") == b"first content"
    zipped = visitor.post(f"/b/{bucket}/zip", {"key": f"{prefix}k", "prefix": prefix})
    assert zipped.headers["content-type"] == "application/zip"


def shares(of: Of) -> None:
    visitor, bucket, prefix = of
    page = visitor.page(f"/b/{bucket}/share?key={prefix}k&seconds=3600")
    (link,) = re.findall(r'<pre id="link"[^>]*>([^<]*)<', page)
    assert httpx.get(html.unescape(link), trust_env=False).content == b"second content"


def says_what_deleting_does(of: Of) -> None:
    visitor, bucket, prefix = of
    page = visitor.post(f"/b/{bucket}/confirm-delete", {"key": f"{prefix}k", "prefix": prefix}).text
    assert "The bucket keeps versions" in page


def uploads(of: Of) -> None:
    visitor, bucket, prefix = of
    signed = step(visitor, bucket, "put", key=f"{prefix}new", type="text/plain", crc32=crc32(b"new")).json()
    assert send(visitor, signed, b"new").status_code == 200
    assert "drop files" in visitor.page(f"/b/{bucket}?prefix={prefix}")


def resumes_an_upload(of: Of) -> None:
    visitor, bucket, prefix = of
    key = f"{prefix}large"
    upload = step(visitor, bucket, "begin", key=key, type="").json()["upload"]
    signed = step(visitor, bucket, "part", key=key, upload=upload, part=1, crc32=crc32(PART)).json()
    assert send(visitor, signed, PART).status_code == 200
    found = step(visitor, bucket, "parts", key=key, upload=upload)
    assert found.status_code == 200, found.text
    assert step(visitor, bucket, "complete", key=key, upload=upload, parts=found.json()["parts"]).status_code == 200
    upload = step(visitor, bucket, "begin", key=key, type="", replace=True).json()["upload"]
    assert step(visitor, bucket, "abort", key=key, upload=upload).status_code == 200


def changes_tags(of: Of) -> None:
    visitor, bucket, prefix = of
    (_, older) = versions(visitor, bucket, f"{prefix}k")
    for more in ("", f"&version={older}"):
        path = f"/b/{bucket}/object/tags?key={prefix}k{more}"
        assert "The tags were changed." in visitor.done(path, {"tags": "team=red"})


def copies_and_moves(of: Of) -> None:
    visitor, bucket, prefix = of
    path = f"/b/{bucket}/object/copy?key={prefix}"
    assert "The object was copied." in visitor.done(f"{path}k", {"bucket": bucket, "target": f"{prefix}copy"})
    moved = visitor.done(f"{path}copy", {"bucket": bucket, "target": f"{prefix}moved", "how": "move"})
    assert "The object was moved." in moved
    assert "not deleted" not in moved


def deletes_and_undoes(of: Of) -> None:
    visitor, bucket, prefix = of
    for path, form in (
        (f"/b/{bucket}/delete-objects", {"key": f"{prefix}k", "prefix": prefix}),
        (f"/b/{bucket}/object/delete?key={prefix}k", {}),
    ):
        assert "Undo the deletion" in visitor.done(path, form)
        assert "1 object restored." in visitor.done(f"/b/{bucket}/undo", {"prefix": prefix})
        assert visitor.get(f"/b/{bucket}/object?key={prefix}k").status_code == 200


def restores(of: Of) -> None:
    visitor, bucket, prefix = of
    (_, older) = versions(visitor, bucket, f"{prefix}k")
    path = f"/b/{bucket}/versions/restore?key={prefix}k"
    assert "The version was restored" in visitor.done(path, {"version": older})
    assert "first content" in visitor.page(f"/b/{bucket}/object?key={prefix}k")
    newest = versions(visitor, bucket, f"{prefix}k")[0]
    gone = visitor.done(f"/b/{bucket}/object/delete?key={prefix}k&version={newest}")
    assert "The version was deleted." in gone


READS: Final[tuple[Callable[[Of], None], ...]] = (
    lists, shows, shows_parts, compares, downloads, shares, says_what_deleting_does,
)  # fmt: skip
WRITES: Final[tuple[Callable[[Of], None], ...]] = (
    uploads, resumes_an_upload, changes_tags, copies_and_moves, deletes_and_undoes, restores,
)  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "home/anna/"])
@pytest.mark.parametrize(("place", "template", "writes"), USED)
def test_a_template_is_enough_for_the_pages(
    user_of: Callable[[str, str, str], Visitor], kept: str, place: str, template: str, writes: bool, prefix: str
) -> None:
    user = user_of(place, template, prefix)
    for page in (*READS, *(WRITES if writes else ())):
        page((user, kept, prefix))
    if prefix:
        # The folder is all that it is about.
        assert user.get(f"/b/{kept}?prefix=").status_code == 403
        assert user.get(f"/b/{kept}/object?key=k").status_code == 403
        assert user.get(f"/b/{kept}/versions?key=k").status_code == 403
    listing = user.page(f"/b/{kept}?prefix={prefix}")
    page = user.page(f"/b/{kept}/object?key={prefix}k")
    for offered in ("Upload files", ">Delete</button>"):
        assert (offered in listing) is writes
    for offered in ("Save the tags", "/confirm-delete"):
        assert (offered in page) is writes
    for never in ('/snapshots"', '/settings"'):
        assert f"/b/{kept}{never}" not in listing
    if not writes:
        for path, form in (
            ("object/tags", {"tags": "a=b"}),
            ("object/copy", {"bucket": kept, "target": f"{prefix}copy"}),
            ("object/delete", {}),
            ("versions/restore", {"version": "null"}),
        ):
            said = user.done(f"/b/{kept}/{path}?key={prefix}k", form)
            assert "Your key may not do this." in said
        assert step(user, kept, "begin", key=f"{prefix}new", type="").status_code == 403


def test_the_template_for_everybody_lets_strangers_read_objects(visitor: Visitor, s3: Any, kept: str) -> None:
    s3.delete_public_access_block(Bucket=kept)
    path = f"/b/{kept}/settings/policy"
    begun = visitor.post(path, {"do": "template", "template": "public-read", "prefix": "home/"})
    visitor.done(path, {"do": "save", "document": area(begun.text)})
    found = [
        httpx.get(f"{visitor.url}/{kept}{path}", trust_env=False).status_code for path in ("/home/anna/k", "/k", "")
    ]
    assert found == [200, 403, 403]


def test_the_template_about_tls_refuses_what_is_not(visitor: Visitor, kept: str) -> None:
    path = f"/b/{kept}/settings/policy"
    begun = visitor.post(path, {"do": "template", "template": "tls"})
    asked = {"do": "explain", "document": area(begun.text), "who": "anonymous", "action": "s3:GetObject", "key": "k"}
    assert "No: denied by a statement." in visitor.post(path, asked).text
    assert set(BUCKET) == {"public-read", "read", "write", "tls"}


def test_a_page_that_may_not_know_says_so(visitor_with: Callable[..., Visitor], kept: str) -> None:
    user = visitor_with("s3:ListBucket", "s3:DeleteObject")
    page = user.post(f"/b/{kept}/confirm-delete", {"key": "k", "prefix": ""}).text
    assert "may not know whether the bucket keeps versions" in page
    assert "does not keep versions" not in page
    knows = visitor_with("s3:ListBucket", "s3:DeleteObject", "s3:GetBucketVersioning")
    page = knows.post(f"/b/{kept}/confirm-delete", {"key": "k", "prefix": ""}).text
    assert "what is deleted stays as an old version" in page
    # Undo removes a delete marker, which this key may not do.
    assert "Undo the deletion" not in knows.done(f"/b/{kept}/delete-objects", {"key": "k"})
