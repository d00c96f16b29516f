"""`orcas move` on stores at work and at rest, and its request of the admin API."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, keys_of, read, refusal
from tests.tools.conftest import BUCKET, fill

Serve = Callable[..., AbstractContextManager[Target]]


def moved(target: Target, bodies: dict[str, bytes], bucket: str, old: str, new: str) -> None:
    """Checks that objects have another prefix and their content."""
    client = target.client()
    wanted = {new + key.removeprefix(old): body for key, body in bodies.items()}
    assert [key for key in keys_of(client, bucket) if key.startswith(new)] == sorted(wanted)
    for key, body in wanted.items():
        assert read(client, bucket, key) == body


def test_a_prefix_gets_another_name(serve: Serve, data: Path) -> None:
    with serve() as target:
        bodies = fill(target, range(20))
        target.client().put_object(Bucket=BUCKET, Key="kept", Body=b"kept")
        before = target.client().head_object(Bucket=BUCKET, Key="k/0001")
        done = document("move", f"{BUCKET}/k/", f"{BUCKET}/x/y/", "--data", data)
        assert done == {"objects": 20, "bytes": sum(map(len, bodies.values()))}
        moved(target, bodies, BUCKET, "k/", "x/y/")
        after = target.client().head_object(Bucket=BUCKET, Key="x/y/0001")
        assert (after["ETag"], after["LastModified"]) == (before["ETag"], before["LastModified"])
        assert "kept" in keys_of(target.client(), BUCKET)
    # And with the store at rest.
    assert "20 objects moved" in command("move", f"s3://{BUCKET}/x/y/", f"{BUCKET}/z/", "--data", data)
    with serve() as target:
        moved(target, bodies, BUCKET, "k/", "z/")
        assert keys_of(target.client(), BUCKET)[0] == "kept"


def test_a_bucket_moves_into_another(serve: Serve, data: Path) -> None:
    with serve() as target:
        bodies = fill(target, range(10))
        target.client().create_bucket(Bucket="other")
        command("move", f"{BUCKET}/", "other/all/", "--data", data)
        moved(target, {f"all/{key}": body for key, body in bodies.items()}, "other", "all/", "all/")
        assert keys_of(target.client(), BUCKET) == []
        target.client().delete_bucket(Bucket=BUCKET)
    with serve() as target:
        moved(target, {f"all/{key}": body for key, body in bodies.items()}, "other", "all/", "all/")


def test_a_list_does_not_move_into_another_bucket(serve: Serve, data: Path) -> None:
    with serve() as target:
        client = target.client()
        for bucket in ("open", "blocked"):
            client.create_bucket(Bucket=bucket, ObjectOwnership="ObjectWriter")
        client.delete_public_access_block(Bucket="open")
        for key in ("k/1", "k/2", "k/3"):
            client.put_object(Bucket="open", Key=key, Body=b"x", ACL="public-read")
        private = client.get_bucket_acl(Bucket="open")["Grants"]
        public = client.get_object_acl(Bucket="open", Key="k/1")["Grants"]
        assert len(public) == len(private) + 1
        command("move", "open/k/1", "open/m/1", "--data", data)
        assert client.get_object_acl(Bucket="open", Key="m/1")["Grants"] == public
        command("move", "open/k/2", "blocked/k/2", "--data", data)
        assert client.get_object_acl(Bucket="blocked", Key="k/2")["Grants"] == private
        answer = target.wire("PUT", "/blocked/k/3", headers={"x-amz-move-source": "/open/k/3"})
        assert answer.status == 200, answer.body
        assert client.get_object_acl(Bucket="blocked", Key="k/3")["Grants"] == private


def test_what_is_refused_moves_nothing(serve: Serve, data: Path) -> None:
    with serve(move_objects_max=5) as target:
        client = target.client()
        fill(target, range(6))
        client.put_object(Bucket=BUCKET, Key="there/1", Body=b"x")
        client.create_bucket(Bucket="versions")
        client.create_bucket(Bucket="empty")
        client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
        before = keys_of(client, BUCKET)
        for source, place, says in (
            (f"{BUCKET}/k/", f"{BUCKET}/new/", "more than 5 objects"),
            (f"{BUCKET}/k/000", f"{BUCKET}/k/", "begins with"),
            (f"{BUCKET}/k/", f"{BUCKET}/k/", "have this prefix already"),
            (f"{BUCKET}/none/", f"{BUCKET}/new/", f"No key of {BUCKET} begins with none/"),
            ("versions/", "empty/", "versioning"),
            ("empty/", f"{BUCKET}/new/", "The bucket empty has no objects"),
            (f"{BUCKET}/k/0001", f"{BUCKET}/there/", "already"),
            (f"{BUCKET}/there/", f"{BUCKET}/{'x' * 1024}", "too long"),
            (f"{BUCKET}/k/0001", "versions/", "versioning"),
            (f"{BUCKET}/k/", "absent/", "no bucket absent"),
        ):
            assert says in command("move", source, place, "--data", data, code=1), (source, place)
        command("move", BUCKET, f"{BUCKET}/new/", "--data", data, code=2)
        assert keys_of(client, BUCKET) == before
        assert document("move", f"{BUCKET}/k/0001", f"{BUCKET}/there/", "--overwrite", "--data", data)["objects"] == 1


def test_clients_see_all_of_it_or_nothing(serve: Serve, data: Path) -> None:
    with serve() as target:
        client = target.client()
        fill(target, range(200))
        over = threading.Event()
        seen: list[Any] = []

        def watch() -> None:
            while not over.is_set():
                keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]]
                seen.append((len(keys), keys[0].partition("/")[0], keys[-1].partition("/")[0]))

        watching = threading.Thread(target=watch)
        watching.start()
        for old, new in (("k/", "l/"), ("l/", "m/"), ("m/", "k/")):
            command("move", f"{BUCKET}/{old}", f"{BUCKET}/{new}", "--data", data)
        over.set()
        watching.join()
        assert {count for count, _, _ in seen} == {200}
        assert all(first == last for _, first, last in seen), seen
        assert refusal(client.get_object, Bucket=BUCKET, Key="l/0000") == (404, "NoSuchKey")
