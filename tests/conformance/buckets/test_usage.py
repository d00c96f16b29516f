"""Usage as it comes about: requests of boto3, read by the command, from Python and over the admin API."""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import io
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, content, running

import orcas
from orcas.errors import OrcasError
from orcas.tools.session import session_of

BUCKET = "usage"


def rows_of(target: Target, *by: Any) -> list[dict[str, Any]]:
    return orcas.usage.report(target.client(), by=by or ("bucket",))


def fill(client: Any) -> None:
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key="a", Body=b"1" * 1000)
    client.put_object(Bucket=BUCKET, Key="b", Body=b"1" * 1000)
    client.copy_object(Bucket=BUCKET, Key="c", CopySource={"Bucket": BUCKET, "Key": "a"})
    client.get_object(Bucket=BUCKET, Key="a", Range="bytes=0-99")["Body"].read()
    client.head_object(Bucket=BUCKET, Key="a")
    client.list_objects_v2(Bucket=BUCKET)
    client.delete_object(Bucket=BUCKET, Key="c")
    with contextlib.suppress(client.exceptions.NoSuchKey):
        client.get_object(Bucket=BUCKET, Key="absent")


def test_requests_and_bytes_count_for_bucket_and_key() -> None:
    with running(None) as target:
        client = target.client()
        fill(client)
        (row,) = [row for row in rows_of(target) if row["bucket"] == BUCKET]
        # Two uploads, a copy and a list; two reads, a HEAD; one DELETE. CreateBucket is about no bucket yet.
        assert (row["writes"], row["reads"], row["free"]) == (4, 3, 1)
        assert row["received"] == 2000
        assert row["sent"] > 100
        assert (row["objects"], row["versions"], row["logical"], row["stored"]) == (2, 2, 2000, 1000)
        (by_key,) = [row for row in rows_of(target, "key", "bucket") if row["bucket"] == BUCKET]
        assert (by_key["key"], by_key["writes"]) == (target.server.access_key, 4)
        today = dt.datetime.now(dt.UTC).date()
        assert {row["day"] for row in rows_of(target, "day")} <= {str(today), str(today - dt.timedelta(days=1))}


def test_a_report_of_the_buckets_between_two_names() -> None:
    with running(None) as target:
        client = target.client()
        for name in ("aaa", "bbb", "ccc", "ddd"):
            client.create_bucket(Bucket=name)
            client.put_object(Bucket=name, Key="k", Body=b"1" * 10)
        with session_of(client) as session:
            rows = session.admin("GET", "usage?by=bucket&first=bbb&last=ccc")["rows"]
            assert [(row["bucket"], row["writes"], row["logical"]) for row in rows] == [("bbb", 1, 10), ("ccc", 1, 10)]
            rows = session.admin("GET", "usage?by=bucket,day&first=ddd&last=ddd")["rows"]
            assert [(row["bucket"], row["writes"]) for row in rows] == [("ddd", 1)]
            assert session.admin("GET", "usage?by=bucket&first=e&last=f")["rows"] == []
            with pytest.raises(OrcasError, match="both first and last"):
                session.admin("GET", "usage?by=bucket&first=bbb")


def test_what_is_stored_is_exact_at_once() -> None:
    with running(None) as target:
        client = target.client()
        client.create_bucket(Bucket=BUCKET)
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        for at in range(20):
            client.put_object(Bucket=BUCKET, Key="same", Body=content(100_000, at % 2))
            (row,) = rows_of(target)[-1:]
            assert (row["objects"], row["versions"], row["logical"]) == (1, at + 1, 100_000 * (at + 1))
            assert row["stored"] == 100_000 * min(at + 1, 2)
        upload = client.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
        client.upload_part(Bucket=BUCKET, Key="parts", UploadId=upload, PartNumber=1, Body=content(50_000, 3))
        assert rows_of(target)[-1]["logical"] == 2_050_000


def test_refused_requests_cost_nobody_anything() -> None:
    with running(None) as target:
        wrong = target.server.client(aws_secret_access_key="not-the-secret-key-of-it")
        with contextlib.suppress(wrong.exceptions.ClientError):
            wrong.put_object(Bucket=BUCKET, Key="a", Body=b"x" * 500)
        client = target.client()
        with contextlib.suppress(client.exceptions.NoSuchBucket):
            client.put_object(Bucket="absent", Key="a", Body=b"x" * 500)
        assert rows_of(target, "key") == []


def test_usage_survives_restarts_and_the_command_shows_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as target:
        fill(target.client())
    with running(data) as target:
        target.client().put_object(Bucket=BUCKET, Key="a", Body=b"2" * 500)
        shown = document("usage", "--data", data)
        (row,) = [row for row in shown["rows"] if row["bucket"] == BUCKET]
        assert (row["writes"], row["received"], row["logical"]) == (5, 2500, 1500)
        assert shown["exact"] is True
    # A stopped store answers as well.
    table = command("usage", "--data", data)
    assert "GB-months" in table
    assert BUCKET in table
    assert "2.4 KiB" in table
    rows = list(csv.DictReader(io.StringIO(command("usage", "--data", data, "--by", "key,day", "--csv"))))
    assert {row["key"] for row in rows} == {target.server.access_key}
    assert sum(int(row["received"]) for row in rows) == 2500
    assert document("usage", "--data", data, "--since", "2020-01-01", "--until", "2020-12-31")["rows"][0]["writes"] == 0
    for wrong in (("--by", "colour"), ("--since", "2026-02-01", "--until", "2026-01-01")):
        assert "orcas: " in command("usage", "--data", data, *wrong, code=1)
    command("usage", "--data", data, "--csv", "--json", code=2)


def test_a_killed_server_loses_no_more_than_its_last_interval(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with contextlib.suppress(OrcasError), running(data) as target:
        client = target.client()
        fill(client)
        before = rows_of(target)
        client.put_object(Bucket=BUCKET, Key="lost", Body=b"3" * 100)
        os.kill(target.server.pid, signal.SIGKILL)
    with running(data) as target:
        (row,) = [row for row in rows_of(target) if row["bucket"] == BUCKET]
        (kept,) = [row for row in before if row["bucket"] == BUCKET]
        # The report had written down what came before it. What is stored is counted anew.
        assert [row[name] for name in ("writes", "reads", "free")] == [
            kept[name] for name in ("writes", "reads", "free")
        ]
        assert row["logical"] == kept["logical"] + 100


def test_commands_on_a_stopped_store_are_nobodys_requests(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as target:
        fill(target.client())
    before = (data / "usage.db").read_bytes()
    for at in range(2):
        command("export", tmp_path / f"export-{at}", "--data", data)
    document("stats", "--data", data)
    assert (data / "usage.db").read_bytes() == before
    rows = document("usage", "--data", data, "--by", "key")["rows"]
    assert [row["key"] for row in rows] == [target.server.access_key]


def test_usage_can_be_turned_off() -> None:
    with running(None, usage_interval_sec=0) as target, pytest.raises(OrcasError, match="is not kept"):
        rows_of(target)
