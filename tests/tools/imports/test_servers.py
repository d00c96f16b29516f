"""Imports from another server: everything of an object that can be kept is the same, and a second import copies nothing."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clients import AWKWARD
from tests.fixtures.commands import document
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.servers.tampering import Answer, tampering
from tests.fixtures.targets import MIB, Target, content, keys_of, put_keys, read, running
from tests.tools.imports.conftest import Importing

KEPT = (
    "ETag", "ContentLength", "ContentType", "ContentEncoding", "ContentDisposition", "ContentLanguage", "CacheControl",
    "Expires", "Metadata", "StorageClass", "WebsiteRedirectLocation", "ChecksumCRC32", "ChecksumSHA256",
    "ChecksumCRC64NVME", "ChecksumType", "TagCount",
)  # fmt: skip


@pytest.fixture
def bucket(source: Target) -> str:
    name = f"b-{uuid.uuid4()}"
    source.client().create_bucket(Bucket=name)
    return name


def upload(target: Target, bucket: str, key: str, parts: list[bytes], **options: Any) -> None:
    client = target.client()
    named = {"Bucket": bucket, "Key": key}
    identifier = client.create_multipart_upload(**named, **options)["UploadId"]
    done = []
    algorithm = {name: options[name] for name in ("ChecksumAlgorithm",) if name in options}
    for number, part in enumerate(parts, 1):
        sent = client.upload_part(**named, **algorithm, UploadId=identifier, PartNumber=number, Body=part)
        kept = {name: value for name, value in sent.items() if name.startswith("Checksum") and algorithm}
        done.append({"PartNumber": number, "ETag": sent["ETag"], **kept})
    client.complete_multipart_upload(**named, UploadId=identifier, MultipartUpload={"Parts": done})


def described(target: Target, bucket: str, key: str) -> dict[str, Any]:
    """What must be the same on both sides."""
    client = target.client()
    head = client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    tags = client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    body = read(client, bucket, key)
    return {name: head[name] for name in KEPT if name in head} | {"tags": tags, "body": body}


def test_everything_of_an_object_is_kept(source: Target, target: Target, bucket: str, importing: Importing) -> None:
    client = source.client()
    for key in (*AWKWARD, "/", "//a", "a/../b", "."):
        client.put_object(Bucket=bucket, Key=key, Body=key.encode(), Tagging="a=1&b%20c=%C3%A9")
    client.put_object(
        Bucket=bucket, Key="described", Body=b"x" * 3000, ContentType="text/csv", ContentEncoding="br",
        ContentDisposition="attachment", ContentLanguage="de", CacheControl="no-store", Expires=1_900_000_000,
        Metadata={"who": "me", "name": "a  b"}, StorageClass="STANDARD_IA", WebsiteRedirectLocation="/there",
        ChecksumAlgorithm="SHA256",
    )  # fmt: skip
    client.put_object(Bucket=bucket, Key="empty")
    client.put_object(Bucket=bucket, Key="large", Body=content(3 * MIB))
    upload(source, bucket, "parts", [content(5 * MIB), content(6 * MIB), b"end"], Metadata={"in": "parts"})
    upload(source, bucket, "composite", [content(5 * MIB), b"end"], ChecksumAlgorithm="SHA256")
    upload(source, bucket, "one part", [b"one"], ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    done = importing(f"{source.server.endpoint}/{bucket}")
    keys = keys_of(client, bucket)
    assert (done["copied"], done["present"], done["unverified"], done["failed"]) == (len(keys), 0, 0, 0)
    assert done["not_kept"] == {}
    assert keys_of(target.client(), bucket) == keys
    for key in keys:
        assert described(target, bucket, key) == described(source, bucket, key), key
    again = importing(f"{source.server.endpoint}/{bucket}")
    assert (again["copied"], again["present"]) == (0, len(keys))


def test_what_changed_and_what_is_new_is_copied(
    source: Target, target: Target, bucket: str, importing: Importing
) -> None:
    url = f"{source.server.endpoint}/{bucket}"
    put_keys(source, bucket, (f"k/{number}" for number in range(20)))
    dry = importing(url, "--dry-run")
    assert (dry["copied"], dry["bytes"], dry["dry_run"]) == (20, sum(len(f"k/{n}") for n in range(20)), True)
    assert bucket not in [entry["Name"] for entry in target.client().list_buckets()["Buckets"]]
    assert importing(url)["copied"] == 20
    client = source.client()
    client.put_object(Bucket=bucket, Key="k/3", Body=b"3/k")
    client.put_object(Bucket=bucket, Key="new", Body=b"n")
    client.delete_object(Bucket=bucket, Key="k/4")
    target.client().put_object(Bucket=bucket, Key="own", Body=b"stays")
    assert importing(url, "--dry-run")["copied"] == 2
    done = importing(url)
    assert (done["copied"], done["present"]) == (2, 18)
    assert read(target.client(), bucket, "k/3") == b"3/k"
    # Nothing is deleted.
    assert read(target.client(), bucket, "k/4") == b"k/4"
    assert read(target.client(), bucket, "own") == b"stays"


def test_prefixes_choose_keys_and_are_put_before_them(
    source: Target, target: Target, bucket: str, importing: Importing
) -> None:
    put_keys(source, bucket, ["a/1", "a/2", "b/1"])
    url = f"{source.server.endpoint}/{bucket}"
    importing(url, f"{bucket}-copy/old/", "--prefix", "a/")
    assert keys_of(target.client(), f"{bucket}-copy") == ["old/a/1", "old/a/2"]
    again = importing(url, f"s3://{bucket}-copy/old/")
    assert (again["copied"], again["present"]) == (1, 2)


def test_all_buckets_and_a_stopped_store(tmp_path: Path) -> None:
    with running(None, buckets=["one", "two"]) as source:
        put_keys(source, "one", ["a", "b"])
        put_keys(source, "two", ["c"])
        source.client().put_object(Bucket="two", Key="large", Body=content(9 * MIB))
        source.client().put_bucket_tagging(Bucket="two", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
        keys = {
            "SOURCE_AWS_ACCESS_KEY_ID": source.server.access_key,
            "SOURCE_AWS_SECRET_ACCESS_KEY": source.server.secret_key,
        }
        with running(tmp_path / "data"):
            pass
        done = document("import", source.server.endpoint, "--data", tmp_path / "data", **keys)
        assert (done["buckets"], done["copied"]) == (2, 4)
        assert done["not_kept"] == {"tagging of the bucket two": 1}
    with running(tmp_path / "data") as target:
        assert [keys_of(target.client(), name) for name in ("one", "two")] == [["a", "b"], ["c", "large"]]
        assert read(target.client(), "two", "large") == content(9 * MIB)


def test_a_public_bucket_needs_no_key(source: Target, target: Target, bucket: str, importing: Importing) -> None:
    client = source.client()
    put_keys(source, bucket, ["a"])
    client.put_public_access_block(
        Bucket=bucket,
        PublicAccessBlockConfiguration=dict.fromkeys(
            ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), False
        ),
    )
    policy = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", '
        f'"Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::{bucket}", "arn:aws:s3:::{bucket}/*"]}}]}}'
    )
    client.put_bucket_policy(Bucket=bucket, Policy=policy)
    done = importing(f"{source.server.endpoint}/{bucket}", "--source-unsigned")
    assert done["copied"] == 1
    assert read(target.client(), bucket, "a") == b"a"


def test_a_profile_has_the_key(
    source: Target, target: Target, bucket: str, importing: Importing, variables: dict[str, str], tmp_path: Path
) -> None:
    put_keys(source, bucket, ["a"])
    file = tmp_path / "credentials"
    file.write_text(
        f"[old]\naws_access_key_id = {source.server.access_key}\naws_secret_access_key = {source.server.secret_key}\n"
    )
    variables |= {"AWS_SHARED_CREDENTIALS_FILE": str(file), "SOURCE_AWS_ACCESS_KEY_ID": ""}
    assert importing(f"{source.server.endpoint}/{bucket}", "--source-profile", "old")["copied"] == 1


def test_an_object_without_an_md5_is_copied_once(source: Target, target: Target, importing: Importing) -> None:
    with running(None, master_key=MASTER_KEY, buckets=["sealed"]) as sealed:
        client = sealed.client()
        client.put_object(Bucket="sealed", Key="a", Body=b"secret", ServerSideEncryption="aws:kms")
        client.put_object(Bucket="sealed", Key="large", Body=content(2 * MIB), ServerSideEncryption="aws:kms")
        upload(sealed, "sealed", "parts", [content(5 * MIB), b"end"], ServerSideEncryption="aws:kms")
        keys = {
            "SOURCE_AWS_ACCESS_KEY_ID": sealed.server.access_key,
            "SOURCE_AWS_SECRET_ACCESS_KEY": sealed.server.secret_key,
            "AWS_ACCESS_KEY_ID": target.server.access_key, "AWS_SECRET_ACCESS_KEY": target.server.secret_key,
        }  # fmt: skip
        line = ("import", f"{sealed.server.endpoint}/sealed", "--endpoint", target.server.endpoint)
        done, again = document(*line, **keys), document(*line, **keys)
    assert (done["copied"], done["failed"]) == (3, 0)
    assert (again["copied"], again["present"]) == (0, 3)
    assert read(target.client(), "sealed", "large") == content(2 * MIB)
    assert read(target.client(), "sealed", "parts") == content(5 * MIB) + b"end"


def test_a_source_that_does_not_know_parts(source: Target, target: Target, bucket: str, importing: Importing) -> None:
    upload(source, bucket, "parts", [content(5 * MIB), content(15 * MIB), b"end"])

    def tamper(_: str, target: str, answer: Answer) -> None:
        if "partNumber" in target:
            answer.without("x-amz-mp-parts-count")

    with tampering(source.server.endpoint, tamper) as proxy:
        done = importing(f"{proxy.url}/{bucket}")
        again = importing(f"{proxy.url}/{bucket}")
    assert (done["copied"], done["unverified"], done["not_kept"]) == (1, 0, {"ETag of parts": 1})
    assert (again["copied"], again["present"]) == (0, 1)
    assert read(target.client(), bucket, "parts") == content(5 * MIB) + content(15 * MIB) + b"end"


@pytest.mark.parametrize(
    ("shown", "instead"),
    [
        ("<Size>1</Size>", "<Size>many</Size>"), ("<Size>1</Size>", ""), ("<Size>1</Size>", "<Size>-1</Size>"),
        ("<Size>1</Size>", "<Size>\u0661</Size>"), ('encoding="UTF-8"', 'encoding="none"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("option", ["", "--versions"])
def test_a_source_whose_lists_cannot_be_read(
    source: Target, bucket: str, importing: Importing, shown: str, instead: str, option: str
) -> None:
    put_keys(source, bucket, ["k"])

    def tamper(_: str, target: str, answer: Answer) -> None:
        if "max-keys=1000" in target:
            assert shown.encode() in answer.body
            answer.body = answer.body.replace(shown.encode(), instead.encode())

    with tampering(source.server.endpoint, tamper) as proxy:
        sentence = importing(f"{proxy.url}/{bucket}", *option.split(), code=69)
    assert "does not speak S3: name the address of an S3 server." in sentence
