"""Make the golden stores of the installed code: `python -m tests.golden.make NAME`, where NAME is its version.

Each is a packed data directory as a server left it, beside a manifest of its expected contents: one shut down cleanly
after a compaction, one killed while it wrote. Content is the same in every run; keys, salts, ids and times are not. A store
that exists never changes: a later format, or a new kind of record or document, gets another name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.fixtures import checksums
from tests.fixtures.commands import command
from tests.fixtures.keys import MASTER_KEY, admin
from tests.fixtures.targets import Target, running
from tests.golden import kinds
from tests.golden.expectation import FIELDS, modified, settings_of, verify, versions_of

import orcas

HERE: Final = Path(__file__).parent / "stores"
PACKED_MAX: Final = 80 << 10
PART: Final = 5 << 20
ENDS_MAX: Final = 20
BURST: Final = 40
HEADERS: Final[dict[str, Any]] = {
    "ContentType": "text/plain; charset=utf-8", "ContentEncoding": "gzip", "ContentDisposition": 'inline; filename="a"',
    "ContentLanguage": "en", "CacheControl": "max-age=60", "Metadata": {"color": "blue", "empty": ""},
}  # fmt: skip


def content(size: int, seed: str) -> bytes:
    """Bytes that compress well, and differ in each 70,000 bytes."""
    pieces = range(0, size, 70_000)
    return b"".join(
        (hashlib.sha512(f"{seed} {at}".encode()).digest() * 1100)[: min(70_000, size - at)] for at in pieces
    )


def uniform(size: int, seed: str) -> bytes:
    """As `content`, but repeating, so that all chunks of 64 KiB are the same."""
    return (hashlib.sha512(seed.encode()).digest() * (size // 64 + 1))[:size]


@dataclass
class Store:
    """A store under construction, and its expected contents."""

    target: Target
    manifest: dict[str, Any] = field(
        default_factory=lambda: {"buckets": {}, "versions": {}, "completed": [], "unanswered": []}
    )

    @property
    def client(self) -> Any:
        return self.target.client()

    def objects(self, bucket: str) -> dict[str, Any]:
        found: dict[str, Any] = self.manifest["buckets"][bucket]["objects"]
        return found

    def make_bucket(self, name: str, location: str | None = None, **settings: str) -> None:
        body = f"<CreateBucketConfiguration><LocationConstraint>{location}</LocationConstraint></CreateBucketConfiguration>"
        headers = {f"x-amz-orcas-{key.replace('_', '-')}": value for key, value in settings.items()}
        answer = self.target.wire("PUT", f"/{name}", headers=headers, body=body.encode() if location else b"")
        assert answer.status == 200, answer.body
        self.manifest["buckets"][name] = {"location": location, "settings": {}, "objects": {}, "uploads": []}
        self.configure(name)

    def configure(self, name: str, **settings: str) -> None:
        headers = {f"x-amz-orcas-{key.replace('_', '-')}": value for key, value in settings.items()}
        if headers:
            assert self.target.wire("PUT", f"/{name}", "orcas-settings", headers=headers).status == 200
        shown = settings_of(self.target, name)
        assert set(settings.items()) <= {(key.replace("-", "_"), value) for key, value in shown.items()}
        self.manifest["buckets"][name]["settings"] = shown

    def tag(self, name: str, **tags: str) -> None:
        """Gives a bucket a document."""
        named = [{"Key": key, "Value": value} for key, value in tags.items()]
        self.client.put_bucket_tagging(Bucket=name, Tagging={"TagSet": named})
        self.manifest["buckets"][name]["tags"] = named

    def note(self, bucket: str, key: str, body: bytes, fields: dict[str, Any], parts: tuple[int, ...] = ()) -> None:
        head = self.client.head_object(Bucket=bucket, Key=key)
        self.objects(bucket)[key] = {
            "size": len(body), "sha256": checksums.sha256(body), "modified": modified(head), "parts": list(parts),
            "fields": {name: value for name, value in fields.items() if value},
        }  # fmt: skip

    def put(self, bucket: str, key: str, body: bytes, algorithm: str = "CRC32", **options: Any) -> None:
        """Puts an object with a checksum and these headers."""
        named = {f"Checksum{algorithm}": checksums.checksum(algorithm, body)}
        self.client.put_object(Bucket=bucket, Key=key, Body=body, **named, **options)
        fields = {"ContentType": "binary/octet-stream", **options, **named, "ChecksumType": "FULL_OBJECT"}
        self.note(bucket, key, body, fields | {"ETag": checksums.etag(body)})

    def copy(self, source: tuple[str, str], bucket: str, key: str, **replaced: Any) -> None:
        directive = {"MetadataDirective": "REPLACE"} if replaced else {}
        place = dict(zip(("Bucket", "Key"), source, strict=True))
        self.client.copy_object(Bucket=bucket, Key=key, CopySource=place, **directive, **replaced)
        before = self.objects(source[0])[source[1]]
        kept = ("ETag", "Checksum")
        fields = before["fields"]
        if replaced:
            fields = {name: value for name, value in fields.items() if name.startswith(kept)} | replaced
        age = modified(self.client.head_object(Bucket=bucket, Key=key))
        self.objects(bucket)[key] = {**before, "fields": fields, "modified": age}

    def rename(self, bucket: str, old: str, new: str) -> None:
        self.client.rename_object(Bucket=bucket, Key=new, RenameSource=old)
        self.objects(bucket)[new] = self.objects(bucket).pop(old)

    def delete(self, bucket: str, *keys: str) -> None:
        if len(keys) == 1:
            self.client.delete_object(Bucket=bucket, Key=keys[0])
        else:
            named = [{"Key": key} for key in keys]
            assert "Errors" not in self.client.delete_objects(Bucket=bucket, Delete={"Objects": named})
        for key in keys:
            del self.objects(bucket)[key]

    def upload(self, bucket: str, key: str, bodies: list[bytes], **options: Any) -> dict[str, Any]:
        """Begins an upload and sends its parts."""
        place = {"Bucket": bucket, "Key": key}
        place["UploadId"] = self.client.create_multipart_upload(**place, **options)["UploadId"]
        parts = []
        algorithm = options.get("ChecksumAlgorithm")
        for number, body in enumerate(bodies, 1):
            named = {f"Checksum{algorithm}": checksums.checksum(algorithm, body)} if algorithm else {}
            tag = self.client.upload_part(**place, PartNumber=number, Body=body, **named)["ETag"]
            parts.append({"number": number, "size": len(body), "etag": tag})
        return {"bucket": bucket, "key": key, "id": place["UploadId"], "algorithm": algorithm, "parts": parts}

    def complete(self, bucket: str, key: str, bodies: list[bytes], **options: Any) -> None:
        """An object from parts, with the checksum that `options` ask for."""
        upload = self.upload(bucket, key, bodies, **options)
        algorithm = options.get("ChecksumAlgorithm")
        fields = {"ContentType": "binary/octet-stream"} | {k: v for k, v in options.items() if k != "ChecksumAlgorithm"}
        named = []
        for part, body in zip(upload["parts"], bodies, strict=True):
            value = {f"Checksum{algorithm}": checksums.checksum(algorithm, body)} if algorithm else {}
            named.append({"PartNumber": part["number"], "ETag": part["etag"], **value})
        place = {"Bucket": bucket, "Key": key, "UploadId": upload["id"]}
        self.client.complete_multipart_upload(**place, MultipartUpload={"Parts": named})
        if algorithm:
            composite = options.get("ChecksumType") == "COMPOSITE"
            whole = (
                checksums.composite(algorithm, bodies) if composite else checksums.checksum(algorithm, b"".join(bodies))
            )
            fields[f"Checksum{algorithm}"] = whole
        else:
            fields |= {
                "ChecksumCRC64NVME": checksums.checksum("CRC64NVME", b"".join(bodies)), "ChecksumType": "FULL_OBJECT"
            }  # fmt: skip
        fields["ETag"] = checksums.multipart_etag(bodies)
        self.note(bucket, key, b"".join(bodies), fields, tuple(len(body) for body in bodies))
        self.manifest["completed"].append({**upload, "etag": fields["ETag"]})

    def leave_open(self, bucket: str, key: str, bodies: list[bytes], **options: Any) -> None:
        upload = self.upload(bucket, key, bodies, **options)
        self.manifest["buckets"][bucket]["uploads"].append(upload)


def fill(store: Store, *, large: bool) -> None:
    """Every operation on objects, for each way in which content is stored; `large` chunks only on request."""
    store.make_bucket("plain")
    store.make_bucket("tuned", "eu-west-1", chunk_size="65536", keep_sha256="true", ref_level="fast")
    store.make_bucket("cut", chunking="content-defined", chunk_size="65536", durability="interval", ref_level="off")
    store.configure("cut", ref_level="full", durability="sync")
    store.tag("cut", project="öl", owner="")
    store.make_bucket("apart", ref_level="off")
    for size in (0, 1, 256, 257, 4_096, 65_536, 65_537, 200_000):
        store.put("plain", f"size/{size}", content(size, "size"))
        store.put("apart", f"size/{size}", content(size, "size"))
        store.put("cut", f"size/{size}", content(size, "cut"))
    for algorithm in checksums.ALGORITHMS:
        store.put("plain", f"checksum/{algorithm}", content(600, algorithm), algorithm)
    store.put("plain", "headers", b"x", **HEADERS)
    store.put("plain", "schlüssel/日本 +&=?%2F\u0001", content(300, "key"))
    for key in ("a", "b"):
        store.put("tuned", f"same/{key}", content(150_000, "same"))
    store.put("plain", "again", content(300, "old"))
    store.put("plain", "again", content(301, "new"), "SHA256")
    store.copy(("plain", "size/200000"), "plain", "copied")
    store.copy(("plain", "headers"), "tuned", "copied", ContentType="text/html", Metadata={"new": "yes"})
    store.put("plain", "old", content(5_000, "renamed"))
    store.rename("plain", "old", "new/name")
    if large:
        store.complete("plain", "parts", [uniform(PART, "part"), b"end"])
    store.complete(
        "tuned", "segments", [uniform(PART, "part"), b"end"], ChecksumAlgorithm="SHA256", ChecksumType="COMPOSITE"
    )
    store.complete(
        "tuned", "whole", [content(9_000, "one part")], ChecksumAlgorithm="CRC32C", ChecksumType="FULL_OBJECT"
    )
    store.leave_open(
        "plain", "open", [uniform(PART, "part") if large else b"one", b"so far"], ContentType="a/b", Metadata={"m": "1"}
    )
    store.leave_open("tuned", "open", [], ChecksumAlgorithm="SHA1", ChecksumType="COMPOSITE")
    given_up = store.upload("plain", "given up", [b"x"])
    store.client.abort_multipart_upload(Bucket="plain", Key="given up", UploadId=given_up["id"])
    store.delete("apart", "size/65537", "size/4096")
    store.delete("apart", "size/1")
    store.make_bucket("gone")
    store.client.delete_bucket(Bucket="gone")
    del store.manifest["buckets"]["gone"]


def fill_versions(store: Store) -> None:
    """Versions, delete markers, tags, retention and legal holds."""
    client = store.client
    store.make_bucket("versioned")
    client.put_object(Bucket="versioned", Key="a", Body=content(300, "null"))
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    versions = [
        client.put_object(Bucket="versioned", Key="a", Body=content(size, "version"), Tagging="set=with+it")[
            "VersionId"
        ]
        for size in (100, 400, 70_000, 500)
    ]
    client.delete_object(Bucket="versioned", Key="a", VersionId=versions[1])
    for number, version in enumerate(versions[2:]):
        tags = [{"Key": "number", "Value": str(number)}, {"Key": "empty", "Value": ""}]
        client.put_object_tagging(Bucket="versioned", Key="a", VersionId=version, Tagging={"TagSet": tags})
    client.delete_object_tagging(Bucket="versioned", Key="a", VersionId=versions[2])
    client.put_object(Bucket="versioned", Key="hidden", Body=b"hidden")
    client.delete_object(Bucket="versioned", Key="hidden")
    client.delete_object(Bucket="versioned", Key="never there")
    client.put_object(Bucket="versioned", Key="shown again", Body=b"shown", WebsiteRedirectLocation="/other")
    marker = client.delete_object(Bucket="versioned", Key="shown again")["VersionId"]
    client.delete_object(Bucket="versioned", Key="shown again", VersionId=marker)
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Suspended"})
    client.put_object(Bucket="versioned", Key="suspended", Body=b"null", StorageClass="STANDARD_IA")
    client.delete_object(Bucket="versioned", Key="hidden")
    store.client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    days = {"Mode": "GOVERNANCE", "Days": 36_500}
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": days}}
    client.put_object_lock_configuration(Bucket="locked", ObjectLockConfiguration=configuration)
    client.put_object(Bucket="locked", Key="by default", Body=content(300, "locked"))
    until = datetime(2100, 1, 1, tzinfo=UTC)
    client.put_object(
        Bucket="locked", Key="for long", Body=b"locked", ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=until
    )
    client.put_object(Bucket="locked", Key="held", Body=b"held", ObjectLockLegalHoldStatus="ON")
    client.put_object_legal_hold(Bucket="locked", Key="by default", LegalHold={"Status": "ON"})
    store.manifest["buckets"]["locked"] = {"location": None, "settings": {}, "objects": {}, "uploads": []}
    store.configure("locked")
    note_versions(store, "versioned", "locked")


def fill_histories(store: Store) -> None:
    """Versions of a bucket with snapshots: of those that a snapshot has, one is deleted and one gets other tags."""
    client = store.client
    store.make_bucket("histories")
    client.put_bucket_versioning(Bucket="histories", VersioningConfiguration={"Status": "Enabled"})
    put = [client.put_object(Bucket="histories", Key="a", Body=content(size, "a"))["VersionId"] for size in (100, 300)]
    admin(store.target, "POST", "buckets/histories/snapshots", {"name": "one"})
    client.delete_object(Bucket="histories", Key="a", VersionId=put[0])
    tags = [{"Key": "amended", "Value": "yes"}]
    client.put_object_tagging(Bucket="histories", Key="a", VersionId=put[1], Tagging={"TagSet": tags})
    client.put_object(Bucket="histories", Key="b", Body=content(200, "b"))
    admin(store.target, "POST", "buckets/histories/snapshots", {"name": "two"})
    client.delete_object(Bucket="histories", Key="b")
    note_versions(store, "histories")


def fill_replication(store: Store) -> None:
    """A bucket with a rule for replication to a server that is there while the rule is made, and gone afterwards."""
    client = store.client
    store.make_bucket("replicated")
    client.put_bucket_versioning(Bucket="replicated", VersioningConfiguration={"Status": "Enabled"})
    with running(None) as other:
        key = {"access_key": other.server.access_key, "secret_key": other.server.secret_key}
        order = {"name": "gone", "url": other.server.endpoint, "private": True, **key}
        admin(store.target, "PUT", "replication/targets", order)
    rule = {
        "ID": "one", "Priority": 1, "Status": "Disabled", "Filter": {"Prefix": "a/"},
        "DeleteMarkerReplication": {"Status": "Enabled"}, "Destination": {"Bucket": "arn:aws:s3:::gone/copies"},
    }  # fmt: skip
    configuration = {"Role": "arn:aws:iam::123456789012:role/r", "Rules": [rule]}
    client.put_bucket_replication(Bucket="replicated", ReplicationConfiguration=configuration)
    store.manifest["replication"] = configuration
    note_versions(store, "replicated")


def note_versions(store: Store, *buckets: str) -> None:
    """All versions of these buckets are in the manifest, the current ones as objects, too."""
    for bucket in buckets:
        store.manifest["versions"][bucket] = versions_of(store.client, bucket)
        for key in (one["key"] for one in store.manifest["versions"][bucket] if one["latest"] and "etag" in one):
            body = store.client.get_object(Bucket=bucket, Key=key)["Body"].read()
            answer = store.client.get_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
            store.note(bucket, key, body, {field: answer[field] for field in FIELDS if answer.get(field)})


def waste(store: Store, count: int) -> list[str]:
    """Fills a pack and some of the log with content that is then deleted."""
    store.make_bucket("waste")
    keys = [f"{size}/{number}" for size in (2_000, 80_000) for number in range(count)]
    for key in keys:
        store.put("waste", key, content(int(key.split("/")[0]), key))
    store.complete("waste", "forgotten", [content(3_000, "forgotten")])
    return [*keys, "forgotten"]


def seal(data: Path, store: Store) -> None:
    """Adds encrypted objects: two contents, of which one is shared, and a chunk, small because it does not compress.

    Their headers are sealed, and so are those of an upload that stays open.
    """
    with serving(data, store, max_batch_write_file_size=1024) as sealing:
        sealing.make_bucket("sealed")
        for size in (100, 1_000, 2_000):
            sealing.put("sealed", f"size/{size}", content(size, "sealed"), **HEADERS, ServerSideEncryption="AES256")
        sealing.leave_open("sealed", "open", [content(100, "open")], **HEADERS, ServerSideEncryption="AES256")


def add_kinds(data: Path, store: Store) -> None:
    """Adds what `kinds` has, with chunks as small as those of `seal`."""
    with (
        kinds.targets_file(data.parent) as targets,
        serving(data, store, max_batch_write_file_size=1024, **targets) as serving_kinds,
    ):
        store.manifest["kinds"] = kinds.fill(serving_kinds.target)
        kinds.check_content(store.manifest["kinds"])
        fill_histories(serving_kinds)
        fill_replication(serving_kinds)


@contextlib.contextmanager
def serving(data: Path, store: Store | None = None, **settings: object) -> Iterator[Store]:
    """A server on `data`, with the expectations of the previous server's store."""
    with running(data, master_key=MASTER_KEY, **settings) as target:
        yield Store(target, store.manifest) if store else Store(target)


def make_closed(data: Path) -> dict[str, Any]:
    """A store that was compacted, then written to, then closed in order."""
    with serving(data) as store:
        wasted = waste(store, 20)
    with serving(data, store) as store:
        fill(store, large=True)
        fill_versions(store)
        store.delete("waste", *wasted)
        store.delete("cut", "size/200000")
    seal(data, store)
    add_kinds(data, store)
    with serving(data, store) as store:
        command("compact", "--data", data, ORCAS_MASTER_KEY=MASTER_KEY)
    with serving(data, store) as store:
        store.put("plain", "after", content(2_000, "after"))
        verify(store.target, store.manifest)
    assert any(path.read_bytes()[:8] == b"ORCASCMP" for path in (data / "log").iterdir()), "a compacted log file"
    return store.manifest


def make_killed(data: Path) -> dict[str, Any]:
    """A store whose server was killed while it wrote, before its index had followed."""
    with serving(data) as store:
        wasted = waste(store, 2)
    with serving(data, store) as store:
        fill(store, large=False)
        fill_versions(store)
        store.delete("waste", *wasted)
        command("gc", "--data", data, ORCAS_MASTER_KEY=MASTER_KEY)
        verify(store.target, store.manifest)
    seal(data, store)
    add_kinds(data, store)
    server = orcas.Server(data, master_key=MASTER_KEY)
    target = Target(server)
    answered: dict[str, bytes] = {}
    asked = [(f"burst/{number:03}", content(100 + 5 * number, "burst")) for number in range(BURST)]

    def write(some: list[tuple[str, bytes]]) -> None:
        client = target.client()
        with contextlib.suppress(Exception):
            for key, body in some:
                client.put_object(Bucket="plain", Key=key, Body=body)
                answered[key] = body

    target.client()
    writers = [threading.Thread(target=write, args=(asked[at::8],)) for at in range(8)]
    for writer in writers:
        writer.start()
    while len(answered) < BURST // 2:
        writers[0].join(0.001)
    server.kill()
    for writer in writers:
        writer.join()
    target.close()
    packed = data.with_name("before")
    shutil.copytree(data, packed)
    # Only the server knows the times. It is asked on a copy, so that the store stays as the kill left it.
    with serving(packed, store) as asked_again:
        asked_again.manifest["unanswered"] = [key for key, _ in asked if key not in answered]
        for key, body in sorted(answered.items()):
            crc = {"ChecksumCRC32": checksums.checksum("CRC32", body), "ChecksumType": "FULL_OBJECT"}
            fields = {"ContentType": "binary/octet-stream", **crc, "ETag": checksums.etag(body)}
            asked_again.note("plain", key, body, fields)
        verify(asked_again.target, asked_again.manifest)
    return store.manifest


def last_sequence(data: Path) -> int:
    """The last sequence in the log of a store that was not shut down: that of the last commit in its newest file."""
    for path in sorted((data / "log").iterdir(), reverse=True):
        log, at, last = path.read_bytes(), 4096, 0
        while at + 24 <= len(log) and log[at + 5]:
            record, length, sequence = log[at + 5] == 1, *struct.unpack_from("<I4xQ", log, at + 8)
            last = last if record else sequence
            at += (24 + 4 * -(-length // 65_536) * record + length + 7) // 8 * 8
        if last:
            return last
    raise AssertionError("a log without a batch")


def applied_sequence(data: Path) -> int:
    """The sequence up to which the index of a store has applied the log. Reading it changes the index."""
    with contextlib.closing(sqlite3.connect(data / "index.db")) as index:
        (position,) = index.execute("SELECT value FROM meta WHERE name = 'position'").fetchone()
    sequence: int = struct.unpack_from("<Q", position, 16)[0]
    return sequence


def lags(data: Path) -> bool:
    """Whether the index is behind the log."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(data, scratch, dirs_exist_ok=True)
        return applied_sequence(Path(scratch)) < last_sequence(data)


def pack(data: Path, name: str, manifest: dict[str, Any], place: Path = HERE) -> None:
    """Writes the archive and the manifest, without the ballast, which is only space and is made again."""
    # Most of a log file that was being written is zeros, which take no space as holes.
    holes = data.with_name(f"{data.name}-packed")
    subprocess.run(["cp", "-a", "--sparse=always", data, holes], check=True)
    options = ["--format=gnu", "--sparse", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
    left_out = ["--exclude=./ballast", "--exclude=./server.json"]
    done = subprocess.run(["tar", *options, *left_out, "-C", holes, "-c", "."], stdout=subprocess.PIPE, check=True)
    write(name, lzma.compress(done.stdout, preset=9 | lzma.PRESET_EXTREME), manifest, place)


def write(name: str, packed: bytes, manifest: dict[str, Any], place: Path = HERE) -> None:
    """Writes both files, which must not exist."""
    assert len(packed) <= PACKED_MAX, len(packed)
    document = json.dumps(manifest | {"master_key": MASTER_KEY}, indent=1, sort_keys=True, ensure_ascii=False)
    with (place / f"{name}.json").open("x", encoding="utf-8") as text:
        text.write(document + "\n")
    with (place / f"{name}.tar.xz").open("xb") as file:
        file.write(packed)


def main(version: str) -> None:
    there = sorted(path.name for path in HERE.glob(f"{version}-*"))
    if there:
        raise SystemExit(f"{', '.join(there)}: golden stores never change. Give the new ones another name.")
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "closed"
        pack(data, f"{version}-closed", make_closed(data) | {"end": "closed"})
        for attempt in range(ENDS_MAX):
            data = Path(scratch) / f"killed{attempt}" / "data"
            manifest = make_killed(data)
            if lags(data):
                return pack(data, f"{version}-killed", manifest | {"end": "killed"})
        raise AssertionError("the index always followed at once")


if __name__ == "__main__":
    main(*sys.argv[1:])
