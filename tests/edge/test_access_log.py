"""The access log of a live server: what its lines say, and that no request waits for it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest
from tests.fixtures.serving import ACCESS_KEY, SECRET_KEY, Running, serving

Line = dict[str, Any]


def wait_for(path: Path, wanted: Callable[[list[Line]], bool]) -> list[Line]:
    """The lines of the file, as soon as they are as wanted."""
    for _ in range(200):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
        if wanted(lines):
            return lines
        time.sleep(0.05)
    raise AssertionError(lines)


def metric(server: Running, name: str) -> float:
    lines = server.wire("GET", "/_orcas/metrics", sign=False).body.decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[-1])


def test_a_line_says_who_asked_for_what_and_what_became_of_it(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with serving(tmp_path, level="info", form="json", ORCAS_ACCESS_LOG=str(path)) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
        version = s3.put_object(Bucket="bucket", Key='a "key"\n', Body=b"x" * 70_000)["VersionId"]
        answer = s3.get_object(Bucket="bucket", Key='a "key"\n', VersionId=version)
        answer["Body"].read()
        wire = server.wire
        target = wire.presign("GET", "/bucket/missing")
        headers = {"Host": wire.netloc, "Referer": 'http://page/"x\\'}
        assert wire.send("GET", target, headers).status == 404
        with pytest.raises(botocore.exceptions.ClientError):
            server.client(aws_secret_access_key="another").list_objects_v2(Bucket="bucket")
        lines = wait_for(path, lambda lines: len(lines) >= 6)
        by_operation = {(line.get("operation"), line["status"]): line for line in lines}
        put, get = by_operation["PutObject", 200], by_operation["GetObject", 200]
        assert (put["bucket"], put["key"], put["method"], put["auth"]) == ("bucket", 'a "key"\n', "PUT", "header")
        assert 70_000 <= put["bytes_in"] < 71_000
        assert put["access_key"] == ACCESS_KEY
        assert len(put["principal"]) == 64
        assert put["remote"] == "127.0.0.1"
        assert (get["version_id"], get["bytes_in"], get["bytes_out"]) == (version, 0, 70_000)
        assert get["request_id"] == answer["ResponseMetadata"]["RequestId"]
        assert 0 < get["first_byte_sec"] <= get["total_sec"] < 30
        assert get["user_agent"].startswith("Boto3/")
        assert get["host"] == server.url.removeprefix("http://")
        missing = by_operation["GetObject", 404]
        assert (missing["error"], missing["auth"], missing["referer"]) == ("NoSuchKey", "query", 'http://page/"x\\')
        refused = by_operation["ListObjectsV2", 403]
        assert (refused["error"], refused["access_key"]) == ("SignatureDoesNotMatch", ACCESS_KEY)
        assert "principal" not in refused
        assert path.stat().st_mode & 0o777 == 0o600
        assert server.stop() == 0
    text = path.read_text(encoding="utf-8")
    assert SECRET_KEY not in text
    assert "Signature=" not in text
    assert "X-Amz" not in text


def test_pages_of_websites_have_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    settings = {"ORCAS_ACCESS_LOG": str(path), "ORCAS_WEBSITE_HOST": "pages.test"}
    with serving(tmp_path, level="info", form="json", **settings) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="site")
        s3.delete_public_access_block(Bucket="site")
        s3.put_bucket_website(Bucket="site", WebsiteConfiguration={"IndexDocument": {"Suffix": "index.html"}})
        s3.put_object(Bucket="site", Key="a b.html", Body=b"page")
        for method, name, status in (("GET", "a%20b.html", 200), ("GET", "missing", 404), ("PUT", "x", 405)):
            assert server.wire.send(method, f"/{name}", {"Host": "site.pages.test"}).status == status
        lines = wait_for(path, lambda lines: len(lines) >= 7)[4:]
    shown = [(line.get("operation"), line["bucket"], line["key"], line["status"], line["auth"]) for line in lines]
    assert shown == [
        ("GetObject", "site", "a b.html", 200, "none"),
        ("GetObject", "site", "missing", 404, "none"),
        (None, "site", "x", 405, "none"),
    ]


def test_the_last_lines_are_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with serving(tmp_path, level="info", form="json", ORCAS_ACCESS_LOG=str(path)) as server:
        server.client().create_bucket(Bucket="bucket")
        assert server.stop() == 0
    assert [json.loads(line)["operation"] for line in path.read_text().splitlines()] == ["CreateBucket"]


def test_the_file_is_opened_anew_when_somebody_has_renamed_it(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    with serving(tmp_path, level="info", form="json", ORCAS_ACCESS_LOG=str(path)) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="before")
        wait_for(path, lambda lines: len(lines) == 1)
        path.rename(tmp_path / "elsewhere.log")
        server.process.send_signal(signal.SIGHUP)
        # The signal is handled before the request that follows is answered, or soon after.
        lines: list[Line] = []
        for number in range(100):
            s3.create_bucket(Bucket=f"after-{number}")
            if path.exists() and (lines := wait_for(path, bool)):
                break
            time.sleep(0.1)
        assert lines[0]["bucket"].startswith("after-")


def test_without_a_file_a_reload_does_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", stdin=subprocess.DEVNULL) as server:
        s3 = server.client()
        server.process.send_signal(signal.SIGHUP)
        s3.create_bucket(Bucket="bucket")
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.3)
        assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["bucket"]
        assert server.stop() == 0


def test_a_terminal_that_is_closed_stops_the_server_in_order(tmp_path: Path) -> None:
    ours, terminal = pty.openpty()
    with serving(tmp_path, level="info", form="json", stdin=terminal) as server:
        server.client().create_bucket(Bucket="bucket")
        server.process.send_signal(signal.SIGHUP)
        assert server.process.wait(30) == 0
        assert server.lines()[-1]["message"] == "Stopped"
    os.close(ours)
    os.close(terminal)


def test_a_full_disk_costs_lines_and_no_requests(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_ACCESS_LOG="/dev/full") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        for _ in range(100):
            s3.put_object(Bucket="bucket", Key="k", Body=b"x")
            if metric(server, "orcas_access_log_dropped_lines_total"):
                break
        assert metric(server, "orcas_access_log_dropped_lines_total") > 0
        said = [line for line in server.lines() if line["message"].startswith("The access log cannot be written")]
        assert len(said) == 1
        assert "No space left" in said[0]["message"]


def test_a_file_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "access.log"
    with (
        pytest.raises(AssertionError, match="cannot be opened"),
        serving(tmp_path, level="info", form="human", ORCAS_ACCESS_LOG=str(path)),
    ):
        pass


def test_slow_requests_are_reported_with_their_stages(tmp_path: Path) -> None:
    with serving(tmp_path, level="info", form="json", ORCAS_SLOW_REQUEST_MS="1") as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="k", Body=bytes(20 << 20))

        def slow() -> list[Line]:
            """The line is written after the answer."""
            lines = [json.loads(line) for line in server.text().splitlines(keepends=True) if line.endswith("\n")]
            return [line for line in lines if line["message"] == "Slow request" and line["operation"] == "PutObject"]

        for _ in range(200):
            if slow():
                break
            time.sleep(0.05)
        (put,) = slow()
        assert (put["level"], put["bucket"], put["key"]) == ("warning", "bucket", "k")
        stages = put["receive_sec"] + put["execute_sec"] + put["send_sec"]
        assert put["total_sec"] == pytest.approx(stages, abs=0.001)
        assert put["receive_sec"] > 0
