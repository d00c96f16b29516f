"""Makes the drives in this folder with a real MinIO: `python -m tests.golden.minio.make PATH_OF_MINIO [KIND…]`.

Each `KIND.tar.xz` has the directories of drives, and the two `.json` what clients saw before the server was ended.
They were made by RELEASE.2025-10-15T17-29-55Z.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.client import Config
from tests.golden.minio.description import described

HERE: Final = Path(__file__).parent
KEY: Final = "minioadmin"
KMS: Final = "key:" + "A" * 43 + "="
MIB: Final = 1 << 20
UNTIL: Final = dt.datetime(2099, 1, 1, tzinfo=dt.UTC)
# Drives, and variables of the server.
KINDS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "one": (1, {}),
    "ec1": (4, {"MINIO_STORAGE_CLASS_STANDARD": "EC:1"}),
    "ec2": (4, {"MINIO_STORAGE_CLASS_STANDARD": "EC:2"}),
    "sets": (8, {"MINIO_ERASURE_SET_DRIVE_COUNT": "4"}),
    "compressed": (1, {"MINIO_COMPRESSION_ENABLE": "on", "MINIO_KMS_SECRET_KEY": KMS}),
    "sealed": (
        1,
        {
            "MINIO_COMPRESSION_ENABLE": "on", "MINIO_COMPRESSION_ALLOW_ENCRYPTION": "on",
            "MINIO_COMPRESSION_MIME_TYPES": "*", "MINIO_KMS_SECRET_KEY": KMS, "MINIO_KMS_AUTO_ENCRYPTION": "on",
        },
    ),
    "killed": (4, {"MINIO_STORAGE_CLASS_STANDARD": "EC:2"}),
}  # fmt: skip
# The bucket of encrypted objects. MinIO does not compress what is compressed by its name.
SEALED: Final = {"managed \"<&>'\\ü": 10, "empty": 0, "named.zip": 200_000, "directory/": 5, "squeezed": 300_000}
CUSTOMER: Final = "customer"


def content(name: str, size: int) -> bytes:
    """Bytes that are known by a name, and that compress well."""
    block = b"".join(hashlib.sha256(f"{name}{at}".encode()).digest() for at in range(32))
    return (block * (size // len(block) + 1))[:size]


@contextlib.contextmanager
def minio(binary: str, top: Path, kind: str) -> Iterator[tuple[Any, subprocess.Popen[bytes], str]]:
    """A server on new drives below `top`: a client of it, its process, and its address."""
    count, variables = KINDS[kind]
    drives = [top / f"drive{number}" for number in range(1, count + 1)]
    for drive in drives:
        drive.mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    scheme, trusted = "http", None
    if kind == "sealed":
        # MinIO takes keys of clients over TLS alone.
        scheme, trusted = "https", str(top / "public.crt")
        certificate = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=minio", "-addext",
                       "subjectAltName=IP:127.0.0.1", "-keyout", str(top / "private.key"), "-out", trusted]  # fmt: skip
        subprocess.run(certificate, check=True, stderr=subprocess.DEVNULL)
        os.environ["AWS_CA_BUNDLE"] = trusted
    url = f"{scheme}://{address}"
    own = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": KEY, "MINIO_CI_CD": "1", "MINIO_BROWSER": "off",
           "HOME": str(top), "PATH": os.environ["PATH"]}  # fmt: skip
    words = [binary, "server", "--quiet", "--certs-dir", str(top), "--address", address, *map(str, drives)]
    process = subprocess.Popen(words, env=own | variables, stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                context = ssl.create_default_context(cafile=trusted)
                urllib.request.urlopen(f"{url}/minio/health/cluster", timeout=5, context=context)
                break
            time.sleep(0.1)
        yield (
            boto3.client(
                "s3", endpoint_url=url, aws_access_key_id=KEY, aws_secret_access_key=KEY,
                region_name="us-east-1", config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
            ),
            process,
            url,
        )  # fmt: skip
    finally:
        process.terminate()
        process.wait(60)


def write(client: Any) -> None:
    """What all kinds have."""
    client.create_bucket(Bucket="plain")
    client.create_bucket(Bucket="empty")
    bodies = {
        "a": 1,
        "a-b": 0,
        "b/b": 700,
        "b/c/d.txt": 130_000,
        "deep/": 0,
        "deep/ü +%&.txt": 20,
        "large": 3 * MIB + 17,
    }
    for key, size in bodies.items():
        client.put_object(Bucket="plain", Key=key, Body=content(key, size))
    client.put_object(
        Bucket="plain", Key="described", Body=b"x", ContentType="text/plain", CacheControl="no-store",
        ContentLanguage="de", ContentEncoding="gzip", Metadata={"colour": "blue", "Name-With": "a b"},
        Tagging="team=blue&year=20%2026", ChecksumAlgorithm="SHA256",
    )  # fmt: skip
    client.put_object(Bucket="plain", Key="gone", Body=b"gone")
    client.delete_object(Bucket="plain", Key="gone")
    in_parts(client, "plain", "parts", "CRC32")
    client.put_bucket_tagging(Bucket="plain", Tagging={"TagSet": [{"Key": "team", "Value": "blue"}]})
    client.put_bucket_lifecycle_configuration(
        Bucket="plain",
        LifecycleConfiguration={
            "Rules": [{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 30}}]
        },
    )
    statement = {
        "Effect": "Deny", "Principal": {"AWS": ["*"]}, "Action": ["s3:PutObject"], "Resource": ["arn:aws:s3:::plain/x/*"],
    }  # fmt: skip
    client.put_bucket_policy(Bucket="plain", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    client.create_bucket(Bucket="history")
    put(client, "history", "k", b"null version")
    client.put_bucket_versioning(Bucket="history", VersioningConfiguration={"Status": "Enabled"})
    put(client, "history", "k", content("two", 150_000))
    client.delete_object(Bucket="history", Key="k")
    time.sleep(0.01)
    put(client, "history", "k", b"three", Tagging="n=3")
    put(client, "history", "only-marker", b"x")
    client.delete_object(Bucket="history", Key="only-marker")
    client.put_bucket_versioning(Bucket="history", VersioningConfiguration={"Status": "Suspended"})
    put(client, "history", "k", b"a new null version")
    put(client, "history", "suspended", b"s")
    client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    put(client, "locked", "kept", b"kept", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=UNTIL)
    put(client, "locked", "held", b"held", ObjectLockLegalHoldStatus="ON")
    client.put_object_lock_configuration(
        Bucket="locked",
        ObjectLockConfiguration={
            "ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}},
        },
    )  # fmt: skip


def write_sealed(client: Any) -> None:
    """A bucket of objects that are encrypted in each way."""
    client.create_bucket(Bucket="sealed")
    for key, size in SEALED.items():
        client.put_object(Bucket="sealed", Key=key, Body=content(key, size), ServerSideEncryption="AES256")
    context = base64.b64encode(b'{"a <key>": "a & value", "b": "\\u2028"}').decode()
    client.put_object(
        Bucket="sealed", Key="named.zip", Body=content("named.zip", SEALED["named.zip"]), ServerSideEncryption="aws:kms",
        SSEKMSKeyId="key", SSEKMSEncryptionContext=context, ChecksumAlgorithm="SHA256",
    )  # fmt: skip
    client.put_object(Bucket="sealed", Key=CUSTOMER, Body=b"x", SSECustomerAlgorithm="AES256", SSECustomerKey="k" * 32)
    in_parts(client, "sealed", "parts", "SHA1")
    in_parts(client, "sealed", "parts of a key", "SHA1", ServerSideEncryption="aws:kms", SSEKMSKeyId="key")


def put(client: Any, bucket: str, key: str, body: bytes, **more: Any) -> None:
    """An object, at a time of its own."""
    client.put_object(Bucket=bucket, Key=key, Body=body, **more)
    time.sleep(0.01)


def in_parts(client: Any, bucket: str, key: str, algorithm: str, **more: Any) -> None:
    """An object of two parts, the first as small as may be."""
    place = {"Bucket": bucket, "Key": key}
    more |= {"Metadata": {"in": "parts"}, "ChecksumAlgorithm": algorithm}
    upload = client.create_multipart_upload(**place, **more)["UploadId"]
    parts = []
    for number, size in ((1, 5 * MIB), (2, 100_001)):
        done = client.upload_part(
            **place, UploadId=upload, PartNumber=number, Body=content(f"{key}{number}", size),
            ChecksumAlgorithm=algorithm,
        )  # fmt: skip
        checksum = f"Checksum{algorithm}"
        parts.append({"PartNumber": number, "ETag": done["ETag"], checksum: done[checksum]})
    client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})


def write_and_kill(client: Any, process: subprocess.Popen[bytes]) -> dict[str, str]:
    """Put, replace and delete objects in several threads until the server is killed; what was acknowledged last of each
    key: the SHA-256 of its content, empty if it was deleted, and `?` if the last request had no answer."""
    client.create_bucket(Bucket="busy")
    state: dict[str, str] = {}

    def work(thread: int) -> None:
        with contextlib.suppress(Exception):
            for turn in range(100_000):
                key = f"t{thread}/{turn % 7}"
                body = content(f"{key}{turn}", (100, 200_000, 2 * MIB)[turn % 3])
                state[key], before = "?", state.get(key, "")
                if turn % 5 == 4 and before:
                    client.delete_object(Bucket="busy", Key=key)
                    state[key] = ""
                else:
                    client.put_object(Bucket="busy", Key=key, Body=body)
                    state[key] = hashlib.sha256(body).hexdigest()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(4)
    process.kill()
    for thread in threads:
        thread.join()
    return state


def users(address: str, mc: str) -> None:
    """A user, a group and a policy of their own."""
    with tempfile.TemporaryDirectory() as home:
        policy = Path(home) / "policy.json"
        policy.write_text(json.dumps({
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::plain/*"]}],
        }))  # fmt: skip
        for words in (
            f"alias set s {address} {KEY} {KEY}",
            "admin user add s alice alice-secret",
            "admin user add s bob bob-secret-1",
            "admin user disable s bob",
            f"admin policy create s plain-reader {policy}",
            "admin policy attach s plain-reader --user alice",
            "admin group add s readers alice",
            "admin policy attach s readonly --group readers",
        ):
            subprocess.run(
                [mc, "--config-dir", home, "--insecure", "--quiet", *words.split()],
                check=True,
                stdout=subprocess.DEVNULL,
            )


def make(binary: str, kind: str) -> None:
    """Make one kind of drives."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        with minio(binary, top, kind) as (client, process, address):
            if kind == "killed":
                expected: Any = write_and_kill(client, process)
            else:
                write(client)
                if mc := shutil.which("mc"):
                    users(address, mc)
                expected = described(client)
                # MinIO gives the second one, but does not list it.
                client.create_bucket(Bucket="below")
                for key in ("a", "a/b"):
                    client.put_object(Bucket="below", Key=key, Body=key.encode())
                if kind == "sealed":
                    write_sealed(client)
                if kind == "compressed":
                    client.create_bucket(Bucket="sealed")
                    client.put_object(Bucket="sealed", Key="s3", Body=b"x", ServerSideEncryption="AES256")
        shutil.rmtree(top / ".minio", ignore_errors=True)
        for name in ("private.key", "public.crt", "CAs"):
            shutil.rmtree(top / name, ignore_errors=True)
            (top / name).unlink(missing_ok=True)
        for drive in top.glob("drive*"):
            shutil.rmtree(drive / ".minio.sys" / "tmp", ignore_errors=True)
        with tarfile.open(HERE / f"{kind}.tar.xz", "w:xz", preset=9) as archive:
            archive.add(top, ".")
        # Those that are written to the end look the same, but for ETags, which say nothing with SSE-KMS.
        if kind != "sealed":
            text = json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False)
            place = HERE / ("killed.json" if kind == "killed" else "written.json")
            place.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    for chosen in sys.argv[2:] or KINDS:
        make(sys.argv[1], chosen)
