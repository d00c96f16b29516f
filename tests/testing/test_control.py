"""`orcas.testing` and the admin API below `/_orcas/admin/test/`, by boto3 against a server in memory."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import time_machine
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
)

import orcas
from orcas.testing import Control
from orcas.tools.work import run_job

BODY = bytes(range(256)) * 8
LARGE = BODY * 1024
# One try, so that a test sees what the first one sees.
ONCE = Config(retries={"max_attempts": 0})


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    with orcas.Server(memory=True) as running:
        yield running


@pytest.fixture
def control(server: orcas.Server) -> Iterator[Control]:
    with Control(server) as found:
        yield found
        found.reset()


@pytest.fixture
def s3(server: orcas.Server, control: Control) -> Any:
    client = server.client(config=ONCE)
    client.create_bucket(Bucket="photos")
    client.put_object(Bucket="photos", Key="a.jpg", Body=BODY)
    client.put_object(Bucket="photos", Key="large", Body=LARGE)
    return client


def read(s3: Any, key: str = "a.jpg") -> bytes:
    body: bytes = s3.get_object(Bucket="photos", Key=key)["Body"].read()
    return body


def code_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


def test_an_error_meets_what_its_rule_says(s3: Any, control: Control) -> None:
    with control.fault("error", operation="GetObject", key="a.*", code="SlowDown", nth=2) as fault:
        assert read(s3) == BODY
        assert read(s3, "large") == LARGE
        assert code_of(s3.get_object, Bucket="photos", Key="a.jpg") == "SlowDown"
        assert read(s3) == BODY
        s3.head_object(Bucket="photos", Key="a.jpg")
        assert fault.applied == 1
    with control.fault("error", bucket="photos", times=2):
        assert code_of(s3.list_objects_v2, Bucket="photos") == "InternalError"
        assert code_of(s3.put_object, Bucket="photos", Key="b", Body=LARGE) == "InternalError"
        assert s3.list_objects_v2(Bucket="photos")["KeyCount"] == 2
    upload = {"Bucket": "photos", "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    with control.fault("error", operation="AbortMultipartUpload", code="SlowDown"):
        assert code_of(s3.abort_multipart_upload, **upload) == "SlowDown"
    control.fault("error", operation=["PutObject", "DeleteObject"], code="AccessDenied")
    assert code_of(s3.delete_object, Bucket="photos", Key="a.jpg") == "AccessDenied"
    control.clear_faults()
    s3.delete_object(Bucket="photos", Key="a.jpg")


@pytest.mark.parametrize(
    ("rule", "host", "path", "meets"),
    [
        ({"bucket": "photos"}, "127.0.0.1", "/photos/k", True),
        ({"bucket": "photos"}, "127.0.0.1", "/photos-2/k", False),
        ({"bucket": "photos"}, "127.0.0.1", "/%70hotos", True),
        ({"bucket": "photos"}, "photos.localhost:9000", "/k", True),
        ({"bucket": "photos"}, "other.localhost", "/k", False),
        ({"bucket": "ph?t*"}, "127.0.0.1", "/phones/k", False),
        ({"bucket": "ph?t*"}, "127.0.0.1", "/photos/k", True),
        ({"bucket": "photos", "key": "a b/*"}, "127.0.0.1", "/photos/a%20b/c", True),
        ({"bucket": "photos", "key": "a/[b-d]"}, "127.0.0.1", "/photos/a/c", True),
        ({"bucket": "photos", "key": "a/[b-d]"}, "127.0.0.1", "/photos/a/e", False),
        ({"key": "*.jpg"}, "127.0.0.1", "/photos/a.jpg", True),
        ({"operation": "ListBuckets"}, "127.0.0.1", "/", True),
        ({"operation": "PutObject", "bucket": "photos"}, "127.0.0.1", "/photos/k", False),
    ],
)
def test_a_fault_meets_requests_however_they_are_addressed(
    server: orcas.Server, control: Control, rule: dict[str, Any], host: str, path: str, *, meets: bool
) -> None:
    control.fault("error", code="SlowDown", **rule)
    connection = http.client.HTTPConnection(server.endpoint.removeprefix("http://"))
    connection.request("GET", path, headers={"host": host})
    found = connection.getresponse().read()
    connection.close()
    # Without a signature, others are refused.
    assert (b"<Code>SlowDown</Code>" in found) is meets, found


def test_a_share_is_the_same_for_the_same_seed(s3: Any, control: Control) -> None:
    def failures() -> list[bool]:
        found = []
        with control.fault("error", operation="HeadObject", share=0.5, seed=7):
            for _ in range(20):
                try:
                    s3.head_object(Bucket="photos", Key="a.jpg")
                    found.append(False)
                except ClientError:
                    found.append(True)
        return found

    first = failures()
    assert 0 < sum(first) < 20
    assert failures() == first


def test_a_full_disk_refuses_what_is_stored(s3: Any, control: Control) -> None:
    with control.fault("disk-full"):
        assert code_of(s3.put_object, Bucket="photos", Key="b", Body=b"b") == "ServiceUnavailable"
        assert read(s3) == BODY


def test_a_dropped_connection_before_and_after_the_commit(server: orcas.Server, s3: Any, control: Control) -> None:
    for kind, stored in (("drop-before", False), ("drop-after", True)):
        with control.fault(kind, operation="PutObject"), pytest.raises(ConnectionClosedError):
            s3.put_object(Bucket="photos", Key=kind, Body=b"x")
        assert (s3.list_objects_v2(Bucket="photos", Prefix=kind)["KeyCount"] == 1) == stored
    # A client that tries again does not see it.
    with control.fault("drop-after", operation="PutObject", times=1):
        server.client().put_object(Bucket="photos", Key="again", Body=b"x")


def test_bodies_that_are_cut_short_or_wrong(s3: Any, control: Control) -> None:
    for key, whole in (("a.jpg", BODY), ("large", LARGE)):
        for length in (0, 1, 1000):
            with control.fault("truncate", operation="GetObject", bytes=length):
                body = s3.get_object(Bucket="photos", Key=key)["Body"]
                with pytest.raises(HTTPClientError):
                    body.read()
        with control.fault("truncate", operation="GetObject", bytes=len(whole)):
            assert read(s3, key) == whole
        with control.fault("corrupt", operation="GetObject"), pytest.raises(FlexibleChecksumError):
            read(s3, key)
    with control.fault("corrupt"):
        assert code_of(s3.get_object, Bucket="photos", Key="absent") == "NoSuchKey"


def test_latency_and_a_slow_body(s3: Any, control: Control) -> None:
    for kind, options in (("latency", {"seconds": 0.3}), ("slow", {"bytes_per_second": len(BODY) * 3})):
        with control.fault(kind, operation="GetObject", **options):
            began = time.monotonic()
            assert read(s3) == BODY
            assert time.monotonic() - began >= 0.3


def test_the_clock_moves_lifecycle_urls_and_locks(s3: Any, control: Control) -> None:
    rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}
    s3.put_bucket_lifecycle_configuration(Bucket="photos", LifecycleConfiguration={"Rules": [rule]})
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "photos", "Key": "a.jpg"}, ExpiresIn=3600)
    assert urllib.request.urlopen(url).read() == BODY
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=20)
    kept = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until}
    version = s3.put_object(Bucket="locked", Key="k", Body=b"k", **kept)["VersionId"]
    control.advance(hours=2)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(url)
    assert read(s3) == BODY
    assert code_of(s3.delete_object, Bucket="locked", Key="k", VersionId=version) == "AccessDenied"
    control.advance(dt.timedelta(days=32))
    assert s3.list_objects_v2(Bucket="photos")["KeyCount"] == 0
    s3.delete_object(Bucket="locked", Key="k", VersionId=version)
    s3.put_object(Bucket="photos", Key="later", Body=b"x")
    modified = s3.head_object(Bucket="photos", Key="later")["LastModified"]
    assert modified > dt.datetime.now(dt.UTC) + dt.timedelta(days=31)
    control.advance(days=40, lifecycle=False)
    assert s3.list_objects_v2(Bucket="photos")["KeyCount"] == 1


def test_the_clock_goes_back(s3: Any, control: Control) -> None:
    s3.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
    control.advance(days=40)
    s3.put_object(Bucket="photos", Key="a.jpg", Body=b"later")
    control.advance(days=-50)
    s3.put_object(Bucket="photos", Key="a.jpg", Body=b"last")
    now = dt.datetime.now(dt.UTC)
    ages = [round((now - v["LastModified"]) / dt.timedelta(days=1)) for v in versions(s3)]
    # What was written last is the newest version, whatever its date.
    assert (read(s3), ages) == (b"last", [10, -40, 0])
    for shown in (dt.datetime(1999, 12, 31, 23, tzinfo=dt.UTC), now + dt.timedelta(days=365)):
        control.set_clock(shown)
        s3.put_object(Bucket="photos", Key="a.jpg", Body=b"last")
        url = s3.generate_presigned_url("get_object", Params={"Bucket": "photos", "Key": "a.jpg"})
        assert abs(versions(s3)[0]["LastModified"] - shown) < dt.timedelta(minutes=5)
        with pytest.raises(urllib.error.HTTPError, match="403") if shown > now else contextlib.nullcontext():
            urllib.request.urlopen(url)
    control.set_clock(None)
    s3.put_object(Bucket="photos", Key="a.jpg", Body=b"last")
    assert abs(versions(s3)[0]["LastModified"] - now) < dt.timedelta(minutes=5)


def versions(s3: Any) -> list[Any]:
    found: list[Any] = s3.list_object_versions(Bucket="photos", Prefix="a.jpg")["Versions"]
    return found


def test_only_a_server_that_is_told_to_accepts_any_date(s3: Any) -> None:
    with time_machine.travel(dt.datetime(2012, 1, 14, 12, tzinfo=dt.UTC)):
        assert code_of(s3.list_buckets) == "RequestTimeTooSkewed"
        with orcas.Server(memory=True, any_date=True) as lenient, Control(lenient) as control:
            lenient.client().create_bucket(Bucket="photos")
            control.record()
            control.reset()
    with pytest.raises(orcas.ConfigurationError, match="--any-date is for tests"):
        orcas.Server("/nowhere", any_date=True)


def test_requests_are_recorded(s3: Any, control: Control) -> None:
    control.record()
    with control.fault("error", code="SlowDown", operation="HeadObject"), pytest.raises(ClientError):
        s3.head_object(Bucket="photos", Key="a.jpg")
    assert read(s3, "large") == LARGE
    assert code_of(s3.get_object, Bucket="photos", Key="absent/ä") == "NoSuchKey"
    head, good, absent = control.requests()
    assert (head.operation, head.status, head.fault) == ("HeadObject", 503, "error")
    assert (good.operation, good.bucket, good.key, good.status, good.code) == (
        "GetObject", "photos", "large", 200, None,
    )  # fmt: skip
    assert (absent.key, absent.status, absent.code) == ("absent/ä", 404, "NoSuchKey")
    assert "user-agent" in good.headers
    assert "authorization" not in good.headers
    assert control.requests("PutObject") == []
    control.reset()
    with pytest.raises(orcas.OrcasError, match="not being recorded"):
        control.requests()


def test_a_reset_leaves_nothing(s3: Any, control: Control) -> None:
    s3.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="photos", Key="a.jpg", Body=b"second")
    s3.create_multipart_upload(Bucket="photos", Key="parts")
    orcas.buckets.create_snapshot(s3, "photos", "s1")
    orcas.buckets.fork(s3, "photos", "fork")
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket="locked", Key="k", Body=b"k", ObjectLockLegalHoldStatus="ON")
    control.fault("error")
    control.advance(days=1)
    control.reset()
    assert s3.list_buckets()["Buckets"] == []
    # Names are free, and what they had does not come back.
    s3.create_bucket(Bucket="photos")
    assert s3.list_object_versions(Bucket="photos").get("Versions") is None
    assert s3.list_multipart_uploads(Bucket="photos").get("Uploads") is None
    now = dt.datetime.now(dt.UTC)
    assert abs(s3.list_buckets()["Buckets"][0]["CreationDate"] - now) < dt.timedelta(minutes=5)


def test_a_state_comes_back(s3: Any, control: Control, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "one.txt").write_text("1")
    (tmp_path / "sub" / "two ä.txt").write_text("2")
    assert control.seed(tmp_path, "seeded", "data/") == 2
    assert control.seed(tmp_path, "seeded") == 2
    assert s3.head_object(Bucket="seeded", Key="data/one.txt")["ContentType"] == "text/plain"
    state = control.snapshot()
    for _ in range(2):
        s3.put_object(Bucket="seeded", Key="data/one.txt", Body=b"changed")
        s3.delete_object(Bucket="seeded", Key="sub/two ä.txt")
        s3.create_bucket(Bucket="newer")
        s3.put_object(Bucket="newer", Key="k", Body=b"k")
        control.restore(state)
        assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["photos", "seeded"]
        found = {entry["Key"] for entry in s3.list_objects_v2(Bucket="seeded")["Contents"]}
        assert found == {"data/one.txt", "data/sub/two ä.txt", "one.txt", "sub/two ä.txt"}
        assert s3.get_object(Bucket="seeded", Key="data/one.txt")["Body"].read() == b"1"
    with pytest.raises(orcas.OrcasError, match="not a directory"):
        control.seed(tmp_path / "absent", "seeded")


def test_mistakes_are_sentences(control: Control) -> None:
    with pytest.raises(orcas.OrcasError, match="S3 has no error Nope: give one such as SlowDown"):
        control.fault("error", code="Nope")
    with pytest.raises(TypeError, match="days, hours, minutes and seconds, not day"):
        control.advance(day=3)
    with pytest.raises(ValueError, match="a time with a time zone"):
        control.set_clock(dt.datetime(2026, 1, 1))  # noqa: DTZ001
    for wrong in (lambda: control.advance(days=50_000), lambda: control.advance(days=-50_000)):
        with pytest.raises(orcas.OrcasError, match="from 1970 to a hundred years from now"):
            wrong()
    with pytest.raises(orcas.OrcasError, match="fault"):
        control.fault("nonsense")  # type: ignore[arg-type]
    with pytest.raises(orcas.OrcasError, match="S3 has no operation PutObjct: give one such as PutObject"):
        control.fault("latency", operation="PutObjct")
    with pytest.raises(orcas.OrcasError, match="bucket does not exist"):
        control.drop_bucket("absent")
    for _ in range(100):
        control.fault("latency", operation="PutObject")
    with pytest.raises(orcas.OrcasError, match="100 rules"):
        control.fault("latency")


def test_a_store_on_disk_refuses(tmp_path: Path) -> None:
    with orcas.Server(tmp_path / "store") as server, Control(server) as control:
        server.client().create_bucket(Bucket="photos")
        calls = [
            control.reset, control.record, control.clear_faults, lambda: control.advance(days=1),
            lambda: control.fault("error"), lambda: control.drop_bucket("photos"),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(orcas.OrcasError, match="--memory"):
                call()
        assert len(server.client().list_buckets()["Buckets"]) == 1


def test_a_server_that_is_gone() -> None:
    with orcas.Server(memory=True) as server:
        control = Control(server)
        client = server.client(config=ONCE)
    with pytest.raises(orcas.UnavailableError, match="cannot be reached"):
        control.reset()
    with pytest.raises(EndpointConnectionError):
        client.list_buckets()


def test_connections_that_a_server_has_ended_are_opened_anew() -> None:
    keys = {"root_access_key": "tests", "root_secret_key": "of-these-tests"}
    with orcas.Server(memory=True, **keys) as server:
        control = Control(server)
        control.record()
    with orcas.Server(memory=True, port=int(server.endpoint.rpartition(":")[2]), **keys):
        control.record()
        assert control.requests() == []
        control.close()


def test_what_is_dropped_counts_for_nobody_and_its_space_comes_back(s3: Any, control: Control) -> None:
    session = control._session
    owner = s3.list_buckets()["Owner"]["ID"]
    s3.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
    s3.create_bucket(Bucket="plain")
    for bucket in ("photos", "plain"):
        s3.put_object(Bucket=bucket, Key="many", Body=LARGE + bucket.encode())
        upload = s3.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
        part = {"Bucket": bucket, "Key": "parts", "UploadId": upload, "PartNumber": 1}
        s3.upload_part(**part, Body=LARGE + b"part of " + bucket.encode())
    session.admin("PUT", "quotas", {"owner": owner, "bytes": 2 * len(LARGE), "objects": 5})
    assert code_of(s3.put_object, Bucket="plain", Key="more", Body=b"x") != ""
    control.reset()
    try:
        s3.create_bucket(Bucket="plain")
        for number in range(5):
            s3.put_object(Bucket="plain", Key=f"{number}", Body=b"x")
        run_job(session, "gc", lambda _: None)
        totals = session.admin("GET", "stats")["totals"]
        assert totals["logical"] == 5
        assert run_job(session, "check", lambda _: None, {})["clean"]
        assert totals["stored"] <= 5, totals
    finally:
        session.admin("PUT", "quotas", {"owner": owner})
