"""What runs and what it does, over the admin API of a live server: settings, parts, the last hour, requests as they come."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from tests.fixtures.sources import ROOT
from tests.fixtures.targets import Target, refusal, running
from tests.fixtures.waiting import wait_until

from orcas.admin.watching.causes import CAUSES
from orcas.tools.session import Session, session_of

SECRET = "a-secret-of-the-metrics"


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with running(None, metrics_token=SECRET, region="eu-north-1", log_level="info") as made:
        yield made


@pytest.fixture
def admin(target: Target) -> Iterator[Session]:
    with session_of(target.client()) as session:
        yield session


def newest(admin: Session, query: str, count: int) -> list[dict[str, Any]]:
    """The newest requests, as soon as there are so many."""
    found: list[dict[str, Any]] = []

    def ask() -> bool:
        found[:] = admin.admin("GET", f"requests?{query}")["requests"]
        return len(found) >= count

    assert wait_until(ask), found
    return found


def test_settings_have_their_sources_and_no_secrets(admin: Session) -> None:
    answer = admin.admin("GET", "settings")
    rows = {row["name"]: row for row in answer["settings"]}
    assert (rows["region"]["value"], rows["region"]["source"]) == ("eu-north-1", "program")
    assert (rows["port"]["variable"], rows["chunk_size"]["source"]) == ("ORCAS_PORT", "default")
    assert rows["metrics_token"]["value"] == "***"
    assert SECRET not in json.dumps(answer)


def test_it_says_what_runs(admin: Session) -> None:
    about = admin.admin("GET", "about")
    assert about["health"]["status"] == "ok"
    assert about["versions"]["python"]
    assert about["opening"]["last_stop"] == "clean"
    found = {(part["kind"], part["name"]): part for part in admin.admin("GET", "licences")["parts"]}
    assert found["python", "orcas-s3"]["licence"] == "Apache-2.0"
    assert "BSD" in found["python", "starlette"]["licence"]


def test_requests_are_seen_as_they_come(target: Target, admin: Session, bucket: str) -> None:
    client = target.client()
    admin.admin("GET", "requests")
    client.put_object(Bucket=bucket, Key="seen/1", Body=b"123")
    hostile = 'x\n\x1b[31m"status":200'
    assert refusal(client.get_object, Bucket=bucket, Key=hostile) == (404, "NoSuchKey")
    found = newest(admin, f"bucket={bucket}", 2)
    assert [entry["key"] for entry in found[:2]] == [hostile, "seen/1"]
    assert found[1]["bytes_in"] == 3
    assert [entry["key"] for entry in newest(admin, f"bucket={bucket}&key=seen/", 1)] == ["seen/1"]
    failed = newest(admin, f"bucket={bucket}&failed=true", 1)
    assert [entry["status"] for entry in failed] == [404]
    assert failed[0]["usual_cause"] == CAUSES["NoSuchKey"][0]
    assert newest(admin, f"after={found[0]['number']}&bucket={bucket}", 0) == []


def test_a_refused_signature_has_its_likely_cause(target: Target, admin: Session, bucket: str) -> None:
    admin.admin("GET", "requests")
    wrong = boto3.client(
        "s3", endpoint_url=target.server.endpoint, aws_access_key_id=target.server.access_key,
        aws_secret_access_key="another-secret", region_name="eu-north-1", config=Config(s3={"addressing_style": "path"}),
    )  # fmt: skip
    assert refusal(wrong.head_bucket, Bucket=bucket)[0] == 403
    found = newest(admin, f"bucket={bucket}&code=SignatureDoesNotMatch", 1)[0]
    assert "most likely the secret key" in found["likely_cause"]
    assert found["advice"]
    wrong.close()


def test_requests_are_seen_beside_an_access_log(tmp_path: Any) -> None:
    log = tmp_path / "access.log"
    with running(None, access_log=str(log)) as target, session_of(target.client()) as admin:
        admin.admin("GET", "requests")
        target.client().create_bucket(Bucket="both")
        assert newest(admin, "bucket=both", 1)[0]["operation"] == "CreateBucket"
        assert wait_until(lambda: b'"bucket":"both"' in log.read_bytes())


def test_the_last_hour_grows_by_samples(target: Target, admin: Session) -> None:
    found: dict[str, Any] = {}

    def ask() -> bool:
        found.update(admin.admin("GET", "history"))
        return bool(found["samples"])

    assert wait_until(ask)
    samples = found["samples"]
    assert samples["disk_free_bytes"][-1] > 0
    assert samples["memory_bytes"][-1] > 0
    assert {len(values) for values in samples.values()} == {len(samples["time"])}
    assert found["latest"]["state"] == "ok"


def test_no_history_is_kept_without_the_console() -> None:
    with running(None, console=False) as target:
        answer = target.wire("GET", "/_orcas/admin/history")
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (409, "NoHistory")


def test_the_disk_is_described(admin: Session) -> None:
    disk = admin.admin("GET", "disk")
    assert disk["total"] >= disk["free"] > disk["reserve"] > 0
    assert disk["store"] > 0
    assert disk["store"] + disk["free"] + disk["others"] >= disk["total"]


def test_jobs_are_listed(admin: Session) -> None:
    job = admin.admin("POST", "gc")
    assert job["id"] in [entry["id"] for entry in admin.admin("GET", "jobs")["jobs"]]


def test_causes_are_those_of_the_guide() -> None:
    guide = (ROOT / "docs" / "operations" / "log-requests.md").read_text(encoding="utf-8")
    table = guide.partition("| Code | Usual cause |")[2].partition("\n\n")[0]
    codes = {code for row in table.splitlines()[2:] for code in re.findall(r"`(\w+)`", row.split("|")[1])}
    # Two more that no line of the log is for, or that the guide explains elsewhere.
    assert codes == set(CAUSES) - {"NoSuchKey", "QuotaExceeded"}


def test_the_log_is_kept(target: Target, admin: Session) -> None:
    answer = admin.admin("GET", "log?limit=500")
    ready = next(line for line in answer["lines"] if line["message"] == "Ready")
    assert (ready["level"], ready["logger"]) == ("info", "orcas")
    assert answer["lines"][0]["number"] == answer["newest"]
    assert admin.admin("GET", f"log?after={answer['newest']}&level=error")["lines"] == []
    found = admin.admin("GET", "log?search=rEADY&level=info")["lines"]
    assert [line["message"] for line in found] == ["Ready"]
    assert admin.admin("GET", "log?search=rEADY&level=warning")["lines"] == []
    assert target.server.secret_key not in json.dumps(answer)
