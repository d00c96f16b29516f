"""Lifecycle rules: their document as S3 has it, what answers say of them, and what they remove."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, refusal, running
from tests.fixtures.uploads import begin

import orcas
from orcas.testing import Control
from orcas.tools.work import run_job

pytestmark = pytest.mark.conformance

RULES: list[dict[str, Any]] = [
    {"ID": "days", "Filter": {"Prefix": "logs/"}, "Status": "Enabled", "Expiration": {"Days": 3}},
    {
        "ID": "and & more",
        "Filter": {
            "And": {
                "Prefix": "a/", "Tags": [{"Key": "k", "Value": "v"}, {"Key": "l", "Value": ""}],
                "ObjectSizeGreaterThan": 5, "ObjectSizeLessThan": 5_000_000_000,
            }
        },
        "Status": "Disabled",
        "Expiration": {"Date": dt.datetime(2030, 1, 2, tzinfo=dt.UTC)},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 2},
    },
    {"ID": "tag", "Filter": {"Tag": {"Key": "k", "Value": "v"}}, "Status": "Enabled", "Expiration": {"Days": 1}},
    {
        "ID": "rest", "Filter": {}, "Status": "Enabled", "Expiration": {"ExpiredObjectDeleteMarker": True},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
    },
]  # fmt: skip


def put(s3: Any, bucket: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = s3.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": list(rules)}, **more
    )
    return answer


def expiring(prefix: str = "", days: int = 1, **more: Any) -> dict[str, Any]:
    return {"ID": "r", "Filter": {"Prefix": prefix}, "Status": "Enabled", "Expiration": {"Days": days}, **more}


def test_rules_come_back_as_they_were_put(s3: Any, bucket: str) -> None:
    assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (404, "NoSuchLifecycleConfiguration")
    stored = put(s3, bucket, *RULES)
    assert stored["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    answer = s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    assert answer["Rules"] == RULES
    assert answer["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    varies = "varies_by_storage_class"
    put(s3, bucket, *RULES[:1], TransitionDefaultMinimumObjectSize=varies)
    answer = s3.get_bucket_lifecycle_configuration(Bucket=bucket)
    assert (answer["Rules"], answer["TransitionDefaultMinimumObjectSize"]) == (RULES[:1], varies)
    for _ in range(2):
        assert s3.delete_bucket_lifecycle(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 204
        assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (404, "NoSuchLifecycleConfiguration")


def test_the_older_form_of_a_rule(s3: Any, bucket: str) -> None:
    rules = [{"ID": "old", "Prefix": "logs/", "Status": "Enabled", "Expiration": {"Days": 3}}]
    put(s3, bucket, *rules)
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == rules
    s3.put_bucket_lifecycle(
        Bucket=bucket,
        LifecycleConfiguration={
            "Rules": [{"ID": "older", "Prefix": "", "Status": "Enabled", "Expiration": {"Days": 4}}]
        },
    )
    assert s3.get_bucket_lifecycle(Bucket=bucket)["Rules"][0]["ID"] == "older"


def test_a_thousand_rules_get_ids(s3: Any, bucket: str) -> None:
    rules = [
        {"Filter": {"Prefix": f"{'p' * 150}/{at}"}, "Status": "Enabled", "Expiration": {"Days": at + 1}}
        for at in range(1000)
    ]
    put(s3, bucket, *rules)
    there = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert len({rule.pop("ID") for rule in there}) == 1000
    assert there == rules
    assert refusal(put, s3=s3, bucket=bucket) == (400, "MalformedXML")
    with pytest.raises(ClientError, match="must not exceed the allowed limit of 1000 rules"):
        put(s3, bucket, *rules, expiring())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ID": "i" * 256}, "InvalidArgument"),
        ({"Status": "enabled"}, "MalformedXML"),
        ({"Expiration": {"Days": 0}}, "InvalidArgument"),
        ({"Expiration": {"Days": 1, "Date": dt.datetime(2030, 1, 1, tzinfo=dt.UTC)}}, "MalformedXML"),
        ({"Expiration": {"Date": dt.datetime(2030, 1, 1, 1, tzinfo=dt.UTC)}}, "InvalidArgument"),
        ({"Expiration": {}}, "MalformedXML"),
        ({"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 101}}, "InvalidArgument"),
        ({"Filter": {"Prefix": "a", "ObjectSizeLessThan": 5}}, "MalformedXML"),
        ({"Prefix": "also"}, "MalformedXML"),
        (
            {
                "Filter": {"Tag": {"Key": "a", "Value": "b"}},
                "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
            },
            "InvalidRequest",
        ),
        ({"Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}, "NotImplemented"),
        ({"Transitions": [{"Days": 1, "StorageClass": "STANDARD"}]}, "MalformedXML"),
        (
            {"Transitions": [{"Date": dt.datetime(2030, 1, 1, 1, tzinfo=dt.UTC), "StorageClass": "GLACIER"}]},
            "InvalidArgument",
        ),
    ],
)
def test_what_s3_refuses_is_refused(s3: Any, bucket: str, change: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as refused:
        put(s3, bucket, expiring() | change)
    assert refused.value.response["Error"]["Code"] == code
    assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (404, "NoSuchLifecycleConfiguration")


def test_prefixes_outside_of_filters_do_not_overlap(s3: Any, bucket: str) -> None:
    def old(name: str, prefix: str) -> dict[str, Any]:
        return {"ID": name, "Prefix": prefix, "Status": "Enabled", "Expiration": {"Days": 1}}

    with pytest.raises(ClientError, match="Found overlapping prefixes 'a' and 'a/b' for same action type 'Expiration'"):
        put(s3, bucket, old("1", "a/b"), old("2", "c"), old("3", "a"))
    put(s3, bucket, old("1", "a/b"), old("2", "c"), old("3", "a/c"))


def test_two_rules_of_one_id_are_refused(s3: Any, bucket: str) -> None:
    with pytest.raises(ClientError, match="Rule ID must be unique"):
        put(s3, bucket, expiring("a"), expiring("b"))


def shown(answer: dict[str, Any]) -> tuple[dt.datetime, str] | None:
    """The time and the rule in `x-amz-expiration`."""
    value = answer.get("Expiration")
    if value is None:
        return None
    found = re.fullmatch(r'expiry-date="(.+)", rule-id="(.+)"', value)
    assert found is not None, value
    return dt.datetime.strptime(found[1], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=dt.UTC), found[2]


def test_answers_say_when_an_object_expires(s3: Any, bucket: str) -> None:
    put(
        s3, bucket, expiring("in/", days=3), expiring("in/", days=2, ID="t", Filter={"Tag": {"Key": "k", "Value": "v"}})
    )
    stored = s3.put_object(Bucket=bucket, Key="in/1", Body=b"1")
    modified = s3.head_object(Bucket=bucket, Key="in/1")["LastModified"]
    expected = (modified + dt.timedelta(days=4)).replace(hour=0, minute=0, second=0), "r"
    assert shown(stored) == expected
    for read in (s3.get_object, s3.head_object):
        assert shown(read(Bucket=bucket, Key="in/1")) == expected
    assert shown(s3.copy_object(Bucket=bucket, Key="in/2", CopySource=f"{bucket}/in/1")) == expected
    upload = begin(s3, bucket, "in/3")
    upload.put(1, b"part")
    assert shown(upload.complete()) == expected
    assert shown(s3.put_object(Bucket=bucket, Key="out", Body=b"1")) is None
    assert shown(s3.head_object(Bucket=bucket, Key="out")) is None
    tagged = s3.put_object(Bucket=bucket, Key="out", Body=b"1", Tagging="k=v")
    earlier = expected[0] - dt.timedelta(days=1), "t"
    assert shown(tagged) == shown(s3.head_object(Bucket=bucket, Key="out")) == earlier
    s3.delete_bucket_lifecycle(Bucket=bucket)
    assert shown(s3.head_object(Bucket=bucket, Key="in/1")) is None


def test_answers_say_when_an_upload_is_aborted(s3: Any, bucket: str) -> None:
    abort = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3}}
    put(s3, bucket, {"ID": "a b", "Filter": {"Prefix": "in/"}, "Status": "Enabled"} | abort, expiring())
    for key, rule in [("in/1", "a%20b"), ("out", None)]:
        created = s3.create_multipart_upload(Bucket=bucket, Key=key)
        parts = s3.list_parts(Bucket=bucket, Key=key, UploadId=created["UploadId"])
        begun = s3.list_multipart_uploads(Bucket=bucket, Prefix=key)["Uploads"][0]["Initiated"]
        due = (begun + dt.timedelta(days=4)).replace(hour=0, minute=0, second=0, microsecond=0)
        for answer in (created, parts):
            assert answer.get("AbortRuleId") == rule
            assert answer.get("AbortDate") == (due if rule else None)


@pytest.fixture
def fast(tmp_path: Path) -> Iterator[Target]:
    """A server whose days have two seconds."""
    with running(tmp_path / "store", lifecycle_day_sec=2, lifecycle_interval_sec=1) as target:
        yield target


def within(seconds: float, holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.1)


def keys(s3: Any, bucket: str) -> list[str]:
    return [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def history(s3: Any, bucket: str) -> tuple[int, int]:
    """How many versions and delete markers there are."""
    listed = s3.list_object_versions(Bucket=bucket)
    return len(listed.get("Versions", [])), len(listed.get("DeleteMarkers", []))


def test_objects_expire_and_others_stay(fast: Target) -> None:
    s3 = fast.client()
    s3.create_bucket(Bucket="bkt")
    for key in ("in/1", "in/2", "out"):
        s3.put_object(Bucket="bkt", Key=key, Body=key.encode())
    s3.put_object(Bucket="bkt", Key="tagged", Body=b"1", Tagging="k=v")
    s3.put_object(Bucket="bkt", Key="large", Body=bytes(1000))
    upload = begin(s3, "bkt", "in/upload")
    put(
        s3, "bkt", expiring("in/", AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1}),
        expiring(ID="t", Filter={"Tag": {"Key": "k", "Value": "v"}}),
        expiring(ID="l", Filter={"ObjectSizeGreaterThan": 999}),
    )  # fmt: skip
    within(10, lambda: keys(s3, "bkt") == ["out"])
    within(10, lambda: "Uploads" not in s3.list_multipart_uploads(Bucket="bkt"))
    assert refusal(s3.list_parts, Bucket="bkt", Key="in/upload", UploadId=upload.id) == (404, "NoSuchUpload")
    assert s3.get_object(Bucket="bkt", Key="out")["Body"].read() == b"out"


def test_versions_markers_and_locks(fast: Target) -> None:
    s3 = fast.client()
    s3.create_bucket(Bucket="bkt", ObjectLockEnabledForBucket=True)
    for at in range(4):
        s3.put_object(Bucket="bkt", Key="k", Body=bytes(at))
    s3.put_object(Bucket="bkt", Key="held", Body=b"1", ObjectLockLegalHoldStatus="ON")
    s3.put_object(Bucket="bkt", Key="held", Body=b"22")
    put(s3, "bkt", {
        "ID": "n", "Filter": {}, "Status": "Enabled",
        "NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 1},
    })  # fmt: skip
    # The current versions, and the newest of the others.
    within(10, lambda: history(s3, "bkt") == (4, 0))
    put(s3, "bkt", {
        "ID": "n", "Filter": {}, "Status": "Enabled", "Expiration": {"Days": 1},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
    })  # fmt: skip
    # In the end the markers go as well, but not what is held, nor the marker in front of it.
    within(20, lambda: history(s3, "bkt") == (1, 1))
    assert [entry["Key"] for entry in s3.list_object_versions(Bucket="bkt")["Versions"]] == ["held"]


def test_a_suspended_bucket_gets_a_null_marker(fast: Target) -> None:
    s3 = fast.client()
    s3.create_bucket(Bucket="bkt")
    s3.put_object(Bucket="bkt", Key="k", Body=b"1")
    for status in ("Enabled", "Suspended"):
        s3.put_bucket_versioning(Bucket="bkt", VersioningConfiguration={"Status": status})
    put(s3, "bkt", expiring())
    within(10, lambda: history(s3, "bkt") == (0, 1))
    # It is alone, so it goes with the days of the same rule.
    within(10, lambda: history(s3, "bkt") == (0, 0))


def test_a_date_removes_markers_that_are_alone(tmp_path: Path) -> None:
    data = tmp_path / "store"
    with running(data, lifecycle_interval_sec=0) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        s3.put_bucket_versioning(Bucket="bkt", VersioningConfiguration={"Status": "Enabled"})
        s3.put_object(Bucket="bkt", Key="kept", Body=b"1")
        for key in ("kept", "gone"):
            s3.delete_object(Bucket="bkt", Key=key)
        for year, left in ((2100, (1, 2)), (2001, (1, 1))):
            put(s3, "bkt", expiring() | {"Expiration": {"Date": dt.datetime(year, 1, 1, tzinfo=dt.UTC)}})
            document("lifecycle", "--data", data)
            assert history(s3, "bkt") == left, year
        assert s3.list_object_versions(Bucket="bkt")["DeleteMarkers"][0]["Key"] == "kept"


def test_rules_outlive_the_server_and_backups_have_them(tmp_path: Path) -> None:
    store, backup, restored = (tmp_path / name for name in ("store", "backup", "restored"))
    with running(store, lifecycle_interval_sec=0) as first:
        s3 = first.client()
        s3.create_bucket(Bucket="bkt")
        put(s3, "bkt", *RULES, TransitionDefaultMinimumObjectSize="varies_by_storage_class")
        first.server.kill()
    command("fsck", "--data", store)
    command("backup", backup, "--data", store)
    command("restore", backup, "--data", restored)
    for path in restored.glob("index.db*"):
        path.unlink()
    for data in (store, restored):
        with running(data) as again:
            answer = again.client().get_bucket_lifecycle_configuration(Bucket="bkt")
            assert answer["Rules"] == RULES
            assert answer["TransitionDefaultMinimumObjectSize"] == "varies_by_storage_class"


def test_a_run_on_request_says_what_it_did(tmp_path: Path) -> None:
    data = tmp_path / "store"
    with running(data, lifecycle_interval_sec=0) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        for at in range(20):
            s3.put_object(Bucket="bkt", Key=f"{at:02}", Body=b"1")
        past = {"Date": dt.datetime(2001, 1, 1, tzinfo=dt.UTC)}
        put(s3, "bkt", expiring("0") | {"Expiration": past})
        done = document("lifecycle", "--data", data)
        assert done == {
            "buckets": 1, "seen": 10, "versions": 10, "markers": 0, "uploads": 0, "changed": 0, "locked": 0,
        }  # fmt: skip
        assert len(keys(s3, "bkt")) == 10
        state = document("stats", "--data", data)["lifecycle"]
        assert state == {"total": done, "runs": 1, "running": False, "failed": None}
        put(s3, "bkt", expiring("1") | {"Expiration": past})
    # Also of a store that no server has open; other commands remove nothing.
    assert document("stats", "--data", data)["lifecycle"]["runs"] == 0
    assert "versions removed" in command("lifecycle", "--data", data)
    assert document("stats", "--data", data)["buckets"][0]["objects"] == 0


def test_uploads_are_aborted_when_no_part_has_come_for_days() -> None:
    with orcas.Server(memory=True, lifecycle_interval_sec=0, abort_uploads_after_days=1) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="bkt")
        idle, used = begin(s3, "bkt", "idle"), begin(s3, "bkt", "used")
        idle.put(1, b"part")
        with Control(server) as control:
            control.advance(hours=23)
            used.put(1, b"part")
            control.advance(hours=2)
            done = run_job(control._session, "task uploads", lambda _: None, path="tasks/uploads")
        assert done == {"seen": 2, "aborted": 1, "changed": 0}
        assert [upload["Key"] for upload in s3.list_multipart_uploads(Bucket="bkt")["Uploads"]] == ["used"]
        assert refusal(s3.list_parts, Bucket="bkt", Key="idle", UploadId=idle.id) == (404, "NoSuchUpload")
        used.complete()
        s3.close()


def test_a_task_runs_on_request(tmp_path: Path) -> None:
    data = tmp_path / "store"
    with running(data, lifecycle_day_sec=1, lifecycle_interval_sec=0, abort_uploads_after_days=1) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        begin(s3, "bkt", "idle")
        time.sleep(1.1)
        assert document("tasks", "run", "uploads", "--data", data) == {"seen": 1, "aborted": 1, "changed": 0}
        listed = {task["name"]: task for task in document("tasks", "list", "--data", data)["tasks"]}
        assert (listed["uploads"]["runs"], listed["uploads"]["failures"]) == (1, 0)
        assert listed["uploads"]["next_run"] is None
        assert "aborted" in command("tasks", "run", "uploads", "--data", data)
        assert "on request" in command("tasks", "list", "--data", data)
        shown = command("stats", "--data", data)
        assert "Last success" in shown
        assert "lifecycle" in shown
    # Of a store that no server has open, nothing runs by itself.
    stopped = {task["name"]: task for task in document("tasks", "list", "--data", data)["tasks"]}
    assert stopped["scrub"]["runs"] == 0
    # By default, only rules abort uploads.
    assert "uploads" not in stopped
