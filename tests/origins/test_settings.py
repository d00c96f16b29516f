"""How the origins of buckets are set: by root, by a command or the admin API, and kept sealed."""

from __future__ import annotations

import base64
import contextlib
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, read, refusal, running
from tests.origins.conftest import Pair, admin

from orcas.tools.session import HttpTransport, RefusedError, Session

SECRET = "a-secret-that-must-not-show"
KEY = base64.b64encode(bytes(range(32))).decode()
SHOWN = {
    "bucket": "photos", "url": "https://s3.eu-central-1.amazonaws.com", "source": "theirs", "region": "eu-central-1",
    "access_key": "AKIA", "private": False, "object_bytes_max": 1 << 20, "timeout_sec": 7, "fetches": {}, "bytes": 0,
    "last_failure": None,
}  # fmt: skip


def test_commands_set_show_and_remove_it_in_a_store_that_is_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as target:
        target.client().create_bucket(Bucket="photos")
    keys = {"SOURCE_AWS_ACCESS_KEY_ID": "AKIA", "SOURCE_AWS_SECRET_ACCESS_KEY": SECRET}
    place = "https://s3.eu-central-1.amazonaws.com/theirs"
    limits = ("--max-object-size", "1MiB", "--timeout", "7")
    told = document("origin", "set", "photos", place, *limits, "--data", data, **keys)
    assert told == {name: SHOWN[name] for name in told}
    assert document("origin", "show", "--data", data) == {"origins": [SHOWN]}
    assert not [path for path in data.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    # In place of the one before.
    command("origin", "set", "photos", place, "--source-unsigned", "--data", data)
    assert f"photos  {place}" in command("origin", "show", "photos", "--data", data)
    assert command("origin", "remove", "photos", "--data", data) == "bucket photos has no origin\n"
    assert document("origin", "show", "--data", data) == {"origins": []}
    log = command("audit", "--data", data)
    assert (log.count("SetBucketOrigin"), log.count("RemoveBucketOrigin")) == (2, 1)
    assert "SourceAccessKeyId=AKIA" in log
    assert SECRET not in log


def test_only_root_may_change_them(pair: Pair) -> None:
    iam = pair.here.server.client("iam")
    iam.create_user(UserName=pair.bucket)
    iam.attach_user_policy(UserName=pair.bucket, PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    key = iam.create_access_key(UserName=pair.bucket)["AccessKey"]
    keys = key["AccessKeyId"], key["SecretAccessKey"]
    session = Session(HttpTransport(pair.here.server.endpoint), keys, pair.here.server.region)
    order = {"bucket": pair.bucket, "url": "https://s3.example.org", "source": "b"}
    with contextlib.closing(session):
        for method, path in (("PUT", "origins"), ("DELETE", f"origins/{pair.bucket}")):
            with pytest.raises(RefusedError, match="is not root"):
                session.admin(method, path, order if method == "PUT" else None)


def serve(data: Path, there: Target, **settings: object) -> None:
    """Read one more object through a server on `data`."""
    with running(data, **settings) as here:
        key = f"k{len(here.client().list_objects_v2(Bucket='here').get('Contents', []))}"
        there.client().put_object(Bucket="there", Key=key, Body=key.encode())
        assert read(here.client(), "here", key) == key.encode()


def test_the_secret_outlives_a_new_key_of_secrets(tmp_path: Path, servers: tuple[Target, Target]) -> None:
    data, there = tmp_path / "data", servers[1]
    there.client().create_bucket(Bucket="there")
    with running(data) as here:
        here.client().create_bucket(Bucket="here")
        key = {"access_key": there.server.access_key, "secret_key": there.server.secret_key}
        order = {"bucket": "here", "url": there.server.endpoint, "source": "there", "private": True, **key}
        admin(here, "PUT", "origins", order)
    before = (data / "control.key").read_bytes()
    serve(data, there)
    serve(data, there, master_key=KEY)
    assert (data / "control.key").read_bytes() != before
    serve(data, there, master_key=KEY)


def test_a_database_from_before_origins_gets_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as here:
        here.client().create_bucket(Bucket="photos")
    (data / "control.db.copy").unlink()
    connection = sqlite3.connect(data / "control.db")
    connection.executescript("DROP TABLE digests; DROP TABLE origins; PRAGMA user_version = 3;")
    connection.close()
    command("origin", "set", "photos", "https://s3.example.org/b", "--source-unsigned", "--data", data)
    assert document("origin", "show", "--data", data)["origins"][0]["source"] == "b"


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        ("UPDATE origins SET details = '{' WHERE bucket = ?", "its secret cannot be decrypted"),
        ("UPDATE origins SET secret = x'00' WHERE bucket = ?", "its secret cannot be decrypted"),
    ],
)
def test_damage_of_an_origin_costs_its_bucket_only_what_is_not_here(
    tmp_path: Path, servers: tuple[Target, Target], damage: str, cause: str
) -> None:
    data, there = tmp_path / "data", servers[1]
    names = [f"{bucket}-{uuid.uuid4().hex}" for bucket in ("hit", "whole")]
    key = {"access_key": there.server.access_key, "secret_key": there.server.secret_key}

    def order(name: str) -> dict[str, Any]:
        return {"bucket": name, "url": there.server.endpoint, "source": name, "private": True, **key}

    with running(data) as here:
        for name in names:
            for target in (here, there):
                target.client().create_bucket(Bucket=name)
            there.client().put_object(Bucket=name, Key="k", Body=b"content")
            here.client().put_object(Bucket=name, Key="here", Body=b"mine")
            admin(here, "PUT", "origins", order(name))
    with contextlib.closing(sqlite3.connect(data / "control.db")) as connection, connection:
        connection.execute(damage, (names[0],))
    # It would be taken from there.
    (data / "control.db.copy").unlink()
    with running(data) as here:
        assert [read(here.client(), name, "here") for name in names] == [b"mine"] * 2
        assert read(here.client(), names[1], "k") == b"content"
        assert refusal(here.client().get_object, Bucket=names[0], Key="k") == (503, "ServiceUnavailable")
        shown = {origin["bucket"]: origin for origin in admin(here, "GET", "origins")["origins"]}
        assert cause in shown[names[0]]["last_failure"]
        assert shown[names[0]]["fetches"] == {"damaged": 1}
        assert shown[names[1]]["last_failure"] is None
        admin(here, "PUT", "origins", order(names[0]))
        assert read(here.client(), names[0], "k") == b"content"
