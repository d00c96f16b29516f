"""Imports with --versions: the whole history of every key, in order, and never a version twice."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from tests.fixtures.servers.tampering import Answer, tampering
from tests.fixtures.targets import Target, read
from tests.fixtures.versions import listed, put, set_versioning
from tests.tools.imports.conftest import Importing

OTHER = {b"true": b"false", b"false": b"true"}


@pytest.fixture
def bucket(source: Target) -> str:
    name = f"v-{uuid.uuid4()}"
    source.client().create_bucket(Bucket=name)
    return name


def history(target: Target, bucket: str) -> list[tuple[Any, ...]]:
    """Key, ETag and kind of each version, those of a key from the newest on."""
    return [
        (entry["Key"], entry.get("ETag"), entry["IsLatest"], entry["marker"])
        for entry in listed(target.client(), bucket)
    ]


def test_a_history_is_kept_and_continued(source: Target, target: Target, bucket: str, importing: Importing) -> None:
    s3 = source.client()
    s3.put_object(Bucket=bucket, Key="k", Body=b"before versioning")
    set_versioning(s3, bucket, "Enabled")
    put(s3, bucket, b"1", b"1", b"22", key="k")
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_object(Bucket=bucket, Key="never")
    put(s3, bucket, b"a", key="a+b c/ü")
    s3.delete_object(Bucket=bucket, Key="k/")
    put(s3, bucket, b"x", b"y", key="k/")
    url = f"{source.server.endpoint}/{bucket}"
    assert importing(url, "--versions", "--dry-run")["copied"] == 7
    done = importing(url, "--versions")
    assert (done["copied"], done["delete_markers"], done["present"]) == (7, 3, 0)
    assert history(target, bucket) == history(source, bucket)
    again = importing(url, "--versions")
    assert (again["copied"], again["delete_markers"], again["present"]) == (0, 0, 10)
    put(s3, bucket, b"again", key="k")
    s3.delete_object(Bucket=bucket, Key="a+b c/ü")
    more = importing(url, "--versions")
    assert (more["copied"], more["delete_markers"], more["present"]) == (1, 1, 10)
    assert history(target, bucket) == history(source, bucket)
    assert read(target.client(), bucket, "k") == b"again"
    assert target.client().get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"


def test_versioning_that_is_suspended_is_so_in_the_end(
    source: Target, target: Target, bucket: str, importing: Importing
) -> None:
    s3 = source.client()
    set_versioning(s3, bucket, "Enabled")
    put(s3, bucket, b"1", b"2", key="k")
    set_versioning(s3, bucket, "Suspended")
    put(s3, bucket, b"3", key="k")
    importing(f"{source.server.endpoint}/{bucket}", f"{bucket}-copy/old/", "--versions")
    copied = [("old/" + key, *rest) for key, *rest in history(source, bucket)]
    assert history(target, f"{bucket}-copy") == copied
    assert target.client().get_bucket_versioning(Bucket=f"{bucket}-copy")["Status"] == "Suspended"


def test_a_bucket_that_never_was_versioned_has_only_its_objects(
    source: Target, target: Target, bucket: str, importing: Importing
) -> None:
    s3 = source.client()
    put(s3, bucket, b"1", key="k")
    url = f"{source.server.endpoint}/{bucket}"
    assert importing(url, "--versions")["copied"] == 1
    put(s3, bucket, b"2", key="k")
    assert importing(url, "--versions")["copied"] == 1
    assert read(target.client(), bucket, "k") == b"2"
    assert "Status" not in target.client().get_bucket_versioning(Bucket=bucket)


def test_another_history_is_left_as_it_is(source: Target, target: Target, bucket: str, importing: Importing) -> None:
    s3 = source.client()
    set_versioning(s3, bucket, "Enabled")
    put(s3, bucket, b"1", b"2", key="k")
    put(s3, bucket, b"1", key="other")
    target.client().create_bucket(Bucket=bucket)
    set_versioning(target.client(), bucket, "Enabled")
    put(target.client(), bucket, b"2", b"1", key="k")
    done = importing(f"{source.server.endpoint}/{bucket}", "--versions", code=1)
    assert done["failures"][0]["key"] == "k"
    assert "the store has other versions of it" in done["failures"][0]["reason"]
    assert [entry[0] for entry in history(target, bucket)] == ["k", "k", "other"]
    assert read(target.client(), bucket, "k") == b"1"


def test_an_order_that_cannot_be_told_is_refused(source: Target, bucket: str, importing: Importing) -> None:
    s3 = source.client()
    set_versioning(s3, bucket, "Enabled")
    put(s3, bucket, b"1", b"2", key="k")

    def tamper(_: str, path: str, answer: Answer) -> None:
        if "versions=" in path:
            # As of a server that lists the oldest first, or delete markers after all others.
            answer.body = re.sub(b"<IsLatest>(true|false)", lambda found: b"<IsLatest>" + OTHER[found[1]], answer.body)

    with tampering(source.server.endpoint, tamper) as proxy:
        sentence = importing(f"{proxy.url}/{bucket}", "--versions", code=69)
    assert f"does not list the versions of {bucket} in order: leave out --versions." in sentence
