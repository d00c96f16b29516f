"""Imports that something goes wrong with: nothing is lost, nothing is doubled, and no wrong byte arrives."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections import Counter
from pathlib import Path

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.servers.tampering import Answer, tampering
from tests.fixtures.targets import MIB, Target, content, keys_of, put_keys, read, running
from tests.fixtures.waiting import wait_until
from tests.tools.imports.conftest import Importing

from orcas.settings.config import child_environment


@pytest.fixture
def bucket(source: Target) -> str:
    name = f"b-{uuid.uuid4()}"
    source.client().create_bucket(Bucket=name)
    return name


def count(target: Target, bucket: str) -> int:
    client = target.client()
    if bucket not in [entry["Name"] for entry in client.list_buckets()["Buckets"]]:
        return 0
    return len(client.list_object_versions(Bucket=bucket).get("Versions", []))


@pytest.mark.parametrize(
    ("kills", "keys"), [pytest.param(2, 60, id="2"), pytest.param(10, 400, id="10", marks=pytest.mark.full)]
)
def test_a_killed_import_goes_on(
    kills: int, keys: int, source: Target, target: Target, bucket: str, importing: Importing, variables: dict[str, str]
) -> None:
    source.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    names = [f"k/{number:04}" for number in range(keys)]
    for _ in range(2):
        put_keys(source, bucket, names)
    slow = keys // (kills + 1)
    taken, served, allowed = threading.Lock(), [0], [0]

    def tamper(method: str, path: str, answer: Answer) -> None:
        # Each run ends at the latest here, so that it is killed in the middle of its work.
        if method == "GET" and "versionId" in path:
            with taken:
                served[0] += 1
                if served[0] > allowed[0]:
                    answer.cut = True

    with tampering(source.server.endpoint, tamper) as proxy:
        line = ["import", f"{proxy.url}/{bucket}", "--versions", "--endpoint", target.server.endpoint, "--threads", "4"]
        for _ in range(kills):
            allowed[0] = served[0] + slow
            before = count(target, bucket)
            with subprocess.Popen(
                [sys.executable, "-m", "orcas", *line],
                env=child_environment() | variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            ) as process:  # fmt: skip
                wait_until(lambda before=before: count(target, bucket) > before)
                process.kill()
        allowed[0] = sys.maxsize
        done = importing(*line[1:3])
    assert 0 < done["present"] < 2 * keys
    found = target.client().list_object_versions(Bucket=bucket)
    versions = found["Versions"]
    assert Counter(entry["Key"] for entry in versions) == dict.fromkeys(names, 2)
    assert all(read(target.client(), bucket, name) == name.encode() for name in names[:: keys // 10])


def test_what_a_network_does_is_tried_again(
    source: Target, target: Target, bucket: str, importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orcas.tools.imports.pool.PAUSES_SECONDS", (0.0, 0.0, 0.0))
    put_keys(source, bucket, [f"k/{number}" for number in range(9)])
    source.client().put_object(Bucket=bucket, Key="large", Body=content(4 * MIB))
    seen: Counter[str] = Counter()

    def tamper(method: str, path: str, answer: Answer) -> None:
        seen[path] += 1
        if method == "GET" and f"/{bucket}/" in path and seen[path] == 1:
            if path.endswith(("1", "large")):
                answer.cut = True
            elif path.endswith("2"):
                answer.body = b"other bytes"
            elif path.endswith("3"):
                answer.status, answer.body = 503, b"<Error><Code>SlowDown</Code></Error>"

    with tampering(source.server.endpoint, tamper) as proxy:
        done = importing(f"{proxy.url}/{bucket}")
    assert (done["copied"], done["failed"]) == (10, 0)
    assert keys_of(target.client(), bucket) == keys_of(source.client(), bucket)
    assert read(target.client(), bucket, "k/2") == b"k/2"
    assert read(target.client(), bucket, "large") == content(4 * MIB)


def test_a_body_that_breaks_off_is_not_the_fault_of_a_stopped_store(
    source: Target, bucket: str, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orcas.tools.imports.pool.PAUSES_SECONDS", (0.0,))
    source.client().put_object(Bucket=bucket, Key="large", Body=content(4 * MIB))
    with running(tmp_path / "data"):
        pass
    cuts = [1, 2]

    def tamper(method: str, path: str, answer: Answer) -> None:
        if method == "GET" and path.endswith("/large") and cuts:
            answer.cut = bool(cuts.pop())

    with tampering(source.server.endpoint, tamper) as proxy:
        line = ("import", f"{proxy.url}/{bucket}", "--data", tmp_path / "data")
        assert "broke off in the middle" in command(*line, code=69, **variables)
        assert document(*line, **variables)["copied"] == 1
    with running(tmp_path / "data") as target:
        assert read(target.client(), bucket, "large") == content(4 * MIB)


def test_wrong_bytes_are_refused_and_the_others_arrive(
    source: Target, target: Target, bucket: str, importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orcas.tools.imports.pool.PAUSES_SECONDS", (0.0,))
    put_keys(source, bucket, ["fine", "gone", "wrong"])
    client = source.client()
    named = {"Bucket": bucket, "Key": "parts"}
    identifier = client.create_multipart_upload(**named)["UploadId"]
    parts = []
    for number, body in enumerate((content(5 * MIB), b"end"), 1):
        sent = client.upload_part(**named, UploadId=identifier, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": sent["ETag"]})
    client.complete_multipart_upload(**named, UploadId=identifier, MultipartUpload={"Parts": parts})

    def tamper(method: str, path: str, answer: Answer) -> None:
        if method != "GET" or f"/{bucket}/" not in path:
            return
        if path.endswith("gone"):
            answer.status, answer.body = 404, b"<Error><Code>NoSuchKey</Code></Error>"
        elif path.endswith(("wrong", "parts")):
            answer.body = answer.body[:-1] + bytes([answer.body[-1] ^ 1])

    with tampering(source.server.endpoint, tamper) as proxy:
        done = importing(f"{proxy.url}/{bucket}", code=1)
    assert (done["copied"], done["gone"], done["failed"]) == (1, 1, 2)
    reasons = {failure["key"]: failure["reason"] for failure in done["failures"]}
    assert reasons["parts"] == "its bytes do not match its ETag"
    assert f"{target.server.endpoint.removeprefix('http://')} says BadDigest" in reasons["wrong"]
    assert keys_of(target.client(), bucket) == ["fine"]
    # A part is no object, and an upload that cannot be completed is not left behind.
    assert "Uploads" not in target.client().list_multipart_uploads(Bucket=bucket)


def test_a_source_that_goes_away_ends_the_import(
    source: Target, target: Target, bucket: str, importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orcas.tools.imports.pool.PAUSES_SECONDS", (0.0,))
    put_keys(source, bucket, [f"k/{number}" for number in range(200)])

    def tamper(method: str, path: str, answer: Answer) -> None:
        answer.cut = method == "GET" and f"/{bucket}/" in path

    with tampering(source.server.endpoint, tamper) as proxy:
        sentence = importing(f"{proxy.url}/{bucket}", code=69)
    assert "broke off in the middle of an object: run the command again" in sentence
    assert len(proxy.requests) < 100
    assert keys_of(target.client(), bucket) == []
