"""The pytest plugin, in sessions of pytest as users have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.waiting import wait_until
from tests.testing.network import assert_nothing_left, environment_of_developer

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def orcas_settings():
    return {"region": "eu-central-1"}
"""
SUITE = """
import subprocess
import sys

import boto3
import pytest

@pytest.mark.parametrize("number", range(6))
def test_buckets_are_new_and_empty(s3, orcas_bucket, number):
    assert "Contents" not in s3.list_objects_v2(Bucket=orcas_bucket)
    s3.put_object(Bucket=orcas_bucket, Key="k", Body=b"x", ServerSideEncryption="aws:kms")
    assert s3.meta.region_name == "eu-central-1"
    assert len(s3.list_buckets()["Buckets"]) == 1

@pytest.mark.parametrize("orcas_versioning", ["unversioned", "enabled", "suspended"], indirect=True)
def test_versions(s3, orcas_bucket, orcas_versioning):
    found = s3.get_bucket_versioning(Bucket=orcas_bucket).get("Status", "Unversioned")
    assert found.lower() == orcas_versioning

@pytest.mark.parametrize("orcas_durability", ["memory", "buffered"], indirect=True)
def test_durability(s3, orcas_server, orcas_bucket, orcas_durability):
    s3.put_object(Bucket=orcas_bucket, Key="k", Body=b"x")
    assert s3.list_objects_v2(Bucket=orcas_bucket)["KeyCount"] == 1
    assert s3.meta.region_name == "eu-central-1"
    used = orcas_server._settings
    on_disk = orcas_durability != "memory"
    assert (used.memory, used.durability) == (not on_disk, orcas_durability if on_disk else "unsafe-none")

@pytest.mark.parametrize("orcas_durability", ["sync"], indirect=True)
@pytest.mark.xfail(raises=pytest.fail.Exception, strict=True)
def test_no_faults_on_disk(orcas_control):
    raise AssertionError

def test_other_programs(aws_env, orcas_bucket):
    script = "import boto3; boto3.client('s3').put_object(Bucket='%s', Key='k', Body=b'x')" % orcas_bucket
    subprocess.run([sys.executable, "-c", script], check=True)
    assert boto3.client("s3").head_object(Bucket=orcas_bucket, Key="k")["ContentLength"] == 1

def test_faults(s3, orcas_bucket, orcas_control):
    orcas_control.fault("error", operation="GetObject", code="AccessDenied")
    s3.create_bucket(Bucket="left-behind", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    with pytest.raises(s3.exceptions.ClientError, match="AccessDenied"):
        s3.get_object(Bucket=orcas_bucket, Key="k")

def test_no_faults_are_left(s3, orcas_bucket):
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=orcas_bucket, Key="k")
    assert len(s3.list_buckets()["Buckets"]) == 1
"""


def started(directory: Path, suite: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """A session of pytest over `suite`, in a directory of its own for temporary files, whose network is watched."""
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_suite.py").write_text(suite)
    (directory / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environ = environment_of_developer(directory / "watch", TMPDIR=str(directory / "tmp"), **variables)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=directory, env=environ)


def assert_pass(passed: str, session: subprocess.Popen[str], directory: Path) -> None:
    said, _ = session.communicate()
    assert passed in said, said
    assert_nothing_left(directory / "watch")


def test_two_sessions_of_a_suite_at_once(tmp_path: Path) -> None:
    whole, part = started(tmp_path, SUITE), started(tmp_path, SUITE, "-k", "new_and_empty")
    assert_pass("6 passed", part, tmp_path)
    assert_pass("14 passed, 1 xfailed", whole, tmp_path)
    # pytest keeps its directories, but no store is in them.
    assert not list(tmp_path.rglob("control.lock"))


def test_a_suite_in_several_processes(tmp_path: Path) -> None:
    # For a user without a home.
    choice = "not durability and not disk"
    assert_pass("12 passed", started(tmp_path, SUITE, "-n", "2", "-k", choice, HOME="/dev/null"), tmp_path)


ANY_DATE = """
import pytest

@pytest.fixture(scope="session")
def orcas_settings():
    return {"any_date": True}

@pytest.mark.parametrize("orcas_durability", ["memory", "interval"], indirect=True)
def test_durability(orcas_server):
    pass
"""


def test_any_date_is_refused_on_disk_in_words_of_fixtures(tmp_path: Path) -> None:
    assert_pass(
        "any_date needs a server in memory: leave it out of orcas_settings", started(tmp_path, ANY_DATE), tmp_path
    )


SHARED = """
import datetime as dt

import pytest
from orcas.testing import Control

@pytest.fixture(scope="module")
def shared(orcas_server):
    client = orcas_server.client()
    client.create_bucket(Bucket="shared")
    client.put_bucket_versioning(Bucket="shared", VersioningConfiguration={"Status": "Enabled"})
    client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    for bucket in ("shared", "locked"):
        client.put_object(Bucket=bucket, Key="k", Body=b"kept")
    with Control(orcas_server) as control:
        control.advance(days=400)
    return client

@pytest.fixture
def own(shared):
    shared.create_bucket(Bucket="own")
    return "own"

@pytest.mark.parametrize("number", range(3))
def test_what_is_shared_is_there_again(orcas_control, shared, own, orcas_bucket, number):
    # An own bucket is new, although the last test has left it or deleted it.
    assert [b["Name"] for b in shared.list_buckets()["Buckets"]] == ["locked", "own", "shared", orcas_bucket]
    versions = shared.list_object_versions(Bucket="shared")
    assert ([v["Key"] for v in versions["Versions"]], versions.get("DeleteMarkers")) == (["k"], None)
    assert shared.get_object(Bucket="shared", Key="k")["Body"].read() == b"kept"
    written = shared.put_object(Bucket="shared", Key="clock", Body=b"")
    ahead = shared.head_object(Bucket="shared", Key="clock")["LastModified"] - dt.datetime.now(dt.UTC)
    assert dt.timedelta(days=399) < ahead < dt.timedelta(days=401)
    with pytest.raises(Exception, match="not being recorded"):
        orcas_control.requests()
    shared.put_object(Bucket="shared", Key="k", Body=b"changed")
    shared.delete_object(Bucket="shared", Key="k")
    shared.put_object(Bucket="locked", Key=f"more-{number}", Body=b"stays")
    shared.create_bucket(Bucket="left-behind")
    if number == 1:
        shared.delete_bucket(Bucket=own)
    orcas_control.record()
    orcas_control.advance(days=30)
    orcas_control.fault("error")

def test_shared_buckets_can_be_deleted(shared):
    shared.create_bucket(Bucket="other")
    shared.delete_bucket(Bucket="other")
    assert len(shared.list_objects_v2(Bucket="locked")["Contents"]) == 4
    for version in shared.list_object_versions(Bucket="shared")["Versions"]:
        shared.delete_object(Bucket="shared", Key=version["Key"], VersionId=version["VersionId"])
    shared.delete_bucket(Bucket="shared")

def test_a_reset_in_a_test_is_no_error_after_it(shared, orcas_control):
    orcas_control.reset()
    assert shared.list_buckets()["Buckets"] == []
"""


def test_what_longer_fixtures_have_stored_outlives_a_test_with_faults(tmp_path: Path) -> None:
    assert_pass("5 passed", started(tmp_path, SHARED), tmp_path)


OWN_NAMES = """
import boto3
import pytest

@pytest.fixture
def s3():
    return "a fixture of the suite"

@pytest.mark.parametrize("orcas_versioning", ["enabled"], indirect=True)
def test_a_bucket(s3, orcas_bucket):
    found = boto3.client("s3").get_bucket_versioning(Bucket=orcas_bucket)
    assert (s3, found["Status"]) == ("a fixture of the suite", "Enabled")
"""


def test_a_suite_has_a_fixture_called_s3(tmp_path: Path) -> None:
    assert_pass("1 passed", started(tmp_path, OWN_NAMES), tmp_path)


FROZEN = """
import datetime as dt
import urllib.error
import urllib.request

import boto3
import freezegun
import pytest
import time_machine

@pytest.fixture(scope="session")
def orcas_settings():
    return {"any_date": True}

PAST, FUTURE = dt.datetime(2012, 1, 14, 12, tzinfo=dt.UTC), dt.datetime(2051, 3, 4, 5, tzinfo=dt.UTC)

@pytest.fixture(params=["freezegun", "time-machine"])
def frozen_at(request):
    return freezegun.freeze_time if request.param == "freezegun" else lambda at: time_machine.travel(at, tick=False)

def stored(bucket):
    client = boto3.client("s3")
    client.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=600)
    return client.head_object(Bucket=bucket, Key="k")["LastModified"], url

@pytest.fixture
def in_the_past(frozen_at):
    with frozen_at(PAST):
        yield

def test_fixtures_work_while_time_is_frozen(in_the_past, orcas_bucket, orcas_control):
    orcas_control.record()
    modified, _ = stored(orcas_bucket)
    assert modified.year > 2012
    assert [request.operation for request in orcas_control.requests()] == ["PutObject", "HeadObject"]

@pytest.mark.parametrize("at", [PAST, FUTURE])
def test_the_server_follows(frozen_at, at, orcas_bucket, orcas_control):
    with frozen_at(at):
        orcas_control.set_clock(dt.datetime.now(dt.UTC))
        modified, url = stored(orcas_bucket)
        assert abs(modified - at) < dt.timedelta(minutes=5)
        assert urllib.request.urlopen(url).read() == b"x"
        orcas_control.advance(minutes=11)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url)

def test_the_clock_is_right_again(orcas_bucket):
    assert abs(stored(orcas_bucket)[0] - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)
"""


def test_time_is_frozen(tmp_path: Path) -> None:
    assert_pass("7 passed", started(tmp_path, FROZEN), tmp_path)


WAITING = """
import os, pathlib, time

def test_that_is_killed(orcas_server, s3, orcas_bucket):
    s3.put_object(Bucket=orcas_bucket, Key="k", Body=b"x")
    pathlib.Path("pid.new").write_text(str(orcas_server.pid))
    os.rename("pid.new", "pid")
    time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux lists the files of a process")
def test_a_session_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    session = started(tmp_path, WAITING)
    try:
        assert wait_until((tmp_path / "pid").exists)
        server = int((tmp_path / "pid").read_text())
        files = [entry.readlink() for entry in Path(f"/proc/{server}/fd").iterdir()]
        [store] = {path.parent for path in files if path.name == "control.lock"}
        assert store.name.startswith("orcas-memory-")
    finally:
        session.kill()
        session.communicate()
    assert wait_until(lambda: not Path(f"/proc/{server}").exists())
    assert not store.exists()
    assert not store.with_name(f"{store.name}.lock").exists()


def test_the_plugin_costs_nothing_until_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text(
        "import sys\n\ndef test_none():\n    assert not {'orcas._core', 'boto3', 'fastapi'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert "1 passed" in done.stdout, done.stdout
