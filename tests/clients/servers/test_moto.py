"""`orcas import` from moto's server, and `orcas probe` of it. It shares no code with Orcas."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from tests.fixtures.clients import AWKWARD, package
from tests.fixtures.commands import command, document, ran
from tests.fixtures.targets import MIB, content, keys_of, read, running

from orcas.settings.config import child_environment

threaded = package("moto.moto_server.threaded_moto_server")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def moto() -> Iterator[Any]:
    """A client of moto's server."""
    server = threaded.ThreadedMotoServer(port=0, verbose=False)
    # Its lines would be among those of the command, which runs in this process.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id="any", aws_secret_access_key="key",
            region_name="us-east-1", config=Config(retries={"total_max_attempts": 1}),
        )  # fmt: skip
    finally:
        server.stop()


def test_objects_come_over_with_what_belongs_to_them(moto: Any, tmp_path: Path) -> None:
    moto.create_bucket(Bucket="photos")
    for key in AWKWARD:
        moto.put_object(
            Bucket="photos", Key=key, Body=key.encode(), Metadata={"of": "moto"}, ContentType="text/x", Tagging="a=b"
        )
    named = {"Bucket": "photos", "Key": "parts"}
    upload = moto.create_multipart_upload(**named)["UploadId"]
    parts = []
    for number, body in enumerate((content(5 * MIB), b"end"), 1):
        sent = moto.upload_part(**named, UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": sent["ETag"]})
    moto.complete_multipart_upload(**named, UploadId=upload, MultipartUpload={"Parts": parts})
    url = moto.meta.endpoint_url
    keys = {"SOURCE_AWS_ACCESS_KEY_ID": "any", "SOURCE_AWS_SECRET_ACCESS_KEY": "key"}
    with running(tmp_path / "data") as target:
        client = target.client()
        done = document("import", url, "--data", tmp_path / "data", **keys)
        again = document("import", url, "--data", tmp_path / "data", **keys)
        count = len(AWKWARD) + 1
        assert (done["copied"], done["unverified"], done["failed"]) == (count, 0, 0)
        assert (again["copied"], again["present"]) == (0, count)
        assert keys_of(client, "photos") == keys_of(moto, "photos")
        for key in AWKWARD:
            assert read(client, "photos", key) == key.encode()
            head = client.head_object(Bucket="photos", Key=key)
            assert (head["Metadata"], head["ContentType"], head["TagCount"]) == ({"of": "moto"}, "text/x", 1)
        assert read(client, "photos", "parts") == content(5 * MIB) + b"end"
        assert client.head_object(**named)["ETag"] == moto.head_object(**named)["ETag"]


def test_versions_whose_order_cannot_be_told_are_refused(moto: Any, tmp_path: Path) -> None:
    moto.create_bucket(Bucket="photos")
    moto.put_bucket_versioning(Bucket="photos", VersioningConfiguration={"Status": "Enabled"})
    moto.put_object(Bucket="photos", Key="k", Body=b"1")
    moto.delete_object(Bucket="photos", Key="k")
    keys = {"SOURCE_AWS_ACCESS_KEY_ID": "any", "SOURCE_AWS_SECRET_ACCESS_KEY": "key"}
    with running(tmp_path / "data"):
        line = ("import", f"{moto.meta.endpoint_url}/photos", "--versions", "--data", tmp_path / "data")
        assert "leave out --versions" in command(*line, code=69, **keys)


def test_what_one_writer_after_the_other_finds_holds(moto: Any, tmp_path: Path) -> None:
    """moto locks nothing, so that of several writers at once any number may win."""
    moto.create_bucket(Bucket="probed")
    keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "key"}
    line = ("probe", "s3://probed", "--endpoint", moto.meta.endpoint_url, "--json")
    done = ran(child_environment() | keys, str(tmp_path), *line)
    verdicts = {each["check"]: each["verdict"] for each in json.loads(done.stdout)["checks"]}
    assert done.returncode == (3 if "does not hold" in verdicts.values() else 0)
    assert {check for check, verdict in verdicts.items() if verdict != "holds"} <= {"create-race", "swap-race"}
    assert keys_of(moto, "probed") == []
