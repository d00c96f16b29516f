"""mc, the client of MinIO: the command lines on docs/from-minio.md, those that work and those that do not."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any, Final

import pytest
from tests.fixtures.clients import Command, executable, tree_of, variables_of, write_tree
from tests.fixtures.events.receivers import SECRET
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.targets import MIB, Target, content_of, keys_of, read, refusal, running

MC: Final = executable("mc", "run .ci/run clients where Go is installed")
DOCS: Final = Path(__file__).parents[3] / "docs"
PAGES: Final = (DOCS / "from-minio.md", DOCS / "instead-of-minio.md")
PICTURES: Final = {"a.jpg": 300, "b b/ü.txt": 20, "c.txt": 0}
NOBODY: Final = "http://127.0.0.1:9/"
CORS: Final = (
    "<CORSConfiguration><CORSRule><AllowedOrigin>https://example.org</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
    "</CORSRule></CORSConfiguration>"
)

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


@dataclass(frozen=True)
class Client:
    """Runs the command lines of the page, with the bucket of this test in place of `photos`."""

    command: Command
    bucket: str

    def words(self, line: str) -> list[str]:
        line = Template(line).substitute(self.command.environment)
        return shlex.split(line.replace("s/photos", f"s/{self.bucket}"))

    def __call__(self, line: str, stdin: bytes = b"") -> bytes:
        """Its output; it must succeed."""
        return self.command.output(*self.words(line), stdin=stdin)

    def documents(self, line: str) -> list[dict[str, Any]]:
        """Its output as JSON, which has a line or several for each document."""
        text, found, decoder = self("--json " + line).decode().strip(), [], json.JSONDecoder()
        while text:
            document, end = decoder.raw_decode(text)
            found.append(document)
            text = text[end:].lstrip()
        return found

    def failure(self, line: str) -> str:
        return self.command.failure(*self.words(line))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server with a keyring and a target of events, where nobody listens."""
    top = tmp_path_factory.mktemp("mc")
    (top / "targets.toml").write_text(
        f'[hook]\nurl = "{NOBODY}"\nsecret = "whsec_{SECRET}"\nprivate = true\nattempts = 1\n'
    )
    with running(top / "store", master_key=MASTER_KEY, event_targets_file=str(top / "targets.toml")) as started:
        yield started


@pytest.fixture(scope="module")
def home(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mc keeps the alias `s`."""
    top = tmp_path_factory.mktemp("home")
    client = Client(Command((MC,), top, variables_of(target)), "")
    client('alias set s "$AWS_ENDPOINT_URL_S3" "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY"')
    return top


@pytest.fixture
def mc(target: Target, home: Path, bucket: str, tmp_path: Path) -> Client:
    write_tree(tmp_path, {"a.jpg": 300} | {f"pictures/{name}": size for name, size in PICTURES.items()})
    return Client(Command((MC,), tmp_path, {**variables_of(target), "HOME": str(home)}), bucket)


def versions_of(s3: Any, bucket: str) -> list[tuple[str, bool]]:
    """Each version, as its key and whether it is a delete marker."""
    found = s3.list_object_versions(Bucket=bucket)
    kinds = ("Versions", "DeleteMarkers")
    return sorted((one["Key"], kind == "DeleteMarkers") for kind in kinds for one in found.get(kind, []))


def test_every_command_line_of_the_page_is_here() -> None:
    found = re.findall(
        r"(?:^|`)mc ([^`\n#]*\bs\b[^`\n#]*)", "".join(page.read_text(encoding="utf-8") for page in PAGES), re.MULTILINE
    )
    lines = [line.strip() for line in found]
    assert len(lines) > 60
    places = (Path(__file__), Path(__file__).parents[1] / "servers" / "test_minio_admin.py")
    source = "".join(place.read_text(encoding="utf-8") for place in places)
    assert [line for line in lines if f'"{line}"' not in source and f"'{line}'" not in source] == []


def test_buckets(mc: Client, s3: Any) -> None:
    plain, versioned, locked = (replace(mc, bucket=f"{mc.bucket}-{kind}") for kind in "pvl")
    plain("mb s/photos")
    s3.put_object(Bucket=plain.bucket, Key="k", Body=b"1")
    assert f"{plain.bucket}/" in {one["key"] for one in mc.documents("ls s")}
    assert plain.failure("rb s/photos")
    plain("rb --force s/photos")
    versioned("mb --with-versioning s/photos")
    locked("mb --with-lock s/photos")
    assert s3.get_bucket_versioning(Bucket=versioned.bucket)["Status"] == "Enabled"
    lock = s3.get_object_lock_configuration(Bucket=locked.bucket)
    assert lock["ObjectLockConfiguration"]["ObjectLockEnabled"] == "Enabled"
    names = {one["Name"] for one in s3.list_buckets()["Buckets"]}
    assert {plain.bucket, versioned.bucket, locked.bucket} & names == {versioned.bucket, locked.bucket}


def test_copies(mc: Client, s3: Any) -> None:
    """A file of 20 MiB goes up in parts."""
    top, bucket = mc.command.directory, mc.bucket
    write_tree(top, {"pictures/large.bin": 20 * MIB})
    names = sorted(tree_of(top / "pictures"))
    mc("cp a.jpg s/photos/")
    mc("cp --recursive pictures s/photos/")
    mc("put a.jpg s/photos/b.jpg")
    assert keys_of(s3, bucket) == ["a.jpg", "b.jpg", *(f"pictures/{name}" for name in names)]
    assert s3.head_object(Bucket=bucket, Key="pictures/large.bin")["ETag"].endswith('-2"')
    mc("get s/photos/b.jpg got.jpg")
    assert (top / "got.jpg").read_bytes() == (top / "a.jpg").read_bytes() == read(s3, bucket, "b.jpg")
    mc("cp --recursive s/photos/pictures/ down/")
    assert tree_of(top / "down") == tree_of(top / "pictures")
    mc("cp s/photos/a.jpg s/photos/c.jpg")
    mc("mv s/photos/c.jpg s/photos/d.jpg")
    mc("mv --recursive s/photos/pictures/ s/photos/album/")
    mc("rm s/photos/a.jpg")
    assert keys_of(s3, bucket) == [*(f"album/{name}" for name in names), "b.jpg", "d.jpg"]
    assert read(s3, bucket, "album/large.bin") == content_of("pictures/large.bin", 20 * MIB)
    mc("rm --recursive --force s/photos/album")
    assert keys_of(s3, bucket) == ["b.jpg", "d.jpg"]


def test_reading(mc: Client, s3: Any) -> None:
    text = b"first\nsecond\n"
    mc("pipe s/photos/notes.txt", stdin=text)
    assert read(s3, mc.bucket, "notes.txt") == text
    assert mc("cat s/photos/notes.txt") == text
    assert mc("head --lines 1 s/photos/notes.txt") == b"first\n"
    for key in ("a.jpg", "in/ü b.jpg"):
        s3.put_object(Bucket=mc.bucket, Key=key, Body=b"123")
    assert {one["key"] for one in mc.documents("ls s/photos")} == {"a.jpg", "in/", "notes.txt"}
    assert [one["key"] for one in mc.documents("ls --recursive s/photos")] == keys_of(s3, mc.bucket)
    assert mc.documents("stat s/photos/notes.txt")[0]["size"] == len(text)
    assert mc.documents("stat s/photos")[0]["name"] == f"{mc.bucket}/"
    assert mc.documents("du s/photos")[0]["size"] == len(text) + 6
    found = {one["key"].partition(f"{mc.bucket}/")[2] for one in mc.documents('find s/photos --name "*.jpg"')}
    assert found == {"a.jpg", "in/ü b.jpg"}
    tree = mc("tree --files s/photos").decode()
    assert all(name in tree for name in ("notes.txt", "in", "ü b.jpg"))


def test_mirrors(mc: Client, s3: Any) -> None:
    top = mc.command.directory
    mc("mirror pictures s/photos")
    assert keys_of(s3, mc.bucket) == sorted(PICTURES)
    (top / "pictures" / "a.jpg").write_bytes(b"another")
    (top / "pictures" / "c.txt").unlink()
    assert len(mc.documents("diff pictures s/photos")) == 2
    mc("mirror --overwrite --remove pictures s/photos")
    assert keys_of(s3, mc.bucket) == ["a.jpg", "b b/ü.txt"]
    assert read(s3, mc.bucket, "a.jpg") == b"another"
    mc("mirror s/photos down")
    s3.delete_object(Bucket=mc.bucket, Key="a.jpg")
    mc("mirror --remove s/photos down")
    assert set(tree_of(top / "down")) == {"b b/ü.txt"}


def test_versions(mc: Client, s3: Any) -> None:
    mc("version enable s/photos")
    assert mc.documents("version info s/photos")[0]["versioning"]["status"] == "Enabled"
    for body in (b"1", b"22"):
        mc("pipe s/photos/notes.txt", stdin=body)
    mc("rm s/photos/notes.txt")
    assert versions_of(s3, mc.bucket) == [("notes.txt", False), ("notes.txt", False), ("notes.txt", True)]
    listed = mc.documents("ls --versions s/photos")
    assert sorted(one["size"] for one in listed) == [0, 1, 2]
    mc("undo s/photos/notes.txt")
    assert read(s3, mc.bucket, "notes.txt") == b"22"
    mc("rm --versions --force s/photos/notes.txt")
    assert versions_of(s3, mc.bucket) == []
    mc("version suspend s/photos")
    assert s3.get_bucket_versioning(Bucket=mc.bucket)["Status"] == "Suspended"


def test_shares(mc: Client, s3: Any) -> None:
    s3.put_object(Bucket=mc.bucket, Key="notes.txt", Body=b"text")
    (shared,) = mc.documents("share download --expire 1h s/photos/notes.txt")
    with urllib.request.urlopen(shared["share"], timeout=30) as answer:
        assert answer.read() == b"text"
    (upload,) = mc.documents("share upload s/photos/up.txt")
    words = shlex.split(upload["share"].replace("<FILE>", "a.jpg"))
    Command(("curl", "--fail", "--silent", "--show-error"), mc.command.directory, {}).output(*words[1:])
    assert read(s3, mc.bucket, "up.txt") == content_of("a.jpg", 300)


def test_settings(mc: Client, s3: Any) -> None:
    bucket = mc.bucket
    mc("ilm rule add --prefix tmp/ --expire-days 30 s/photos")
    (rule,) = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert (rule["Filter"]["Prefix"], rule["Expiration"]["Days"]) == ("tmp/", 30)
    assert mc.documents("ilm rule ls s/photos")[0]["config"]["Rules"][0]["ID"] == rule["ID"]
    mc("ilm rule rm --all --force s/photos")
    assert refusal(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (404, "NoSuchLifecycleConfiguration")
    mc("encrypt set sse-s3 s/photos")
    assert mc.documents("encrypt info s/photos")[0]["encryption"]["algorithm"] == "AES256"
    s3.put_object(Bucket=bucket, Key="notes.txt", Body=b"text")
    assert s3.head_object(Bucket=bucket, Key="notes.txt")["ServerSideEncryption"] == "AES256"
    mc("encrypt clear s/photos")
    assert s3.put_object(Bucket=bucket, Key="plain.txt", Body=b"text").get("ServerSideEncryption") is None
    (mc.command.directory / "cors.xml").write_text(CORS)
    mc("cors set s/photos cors.xml")
    assert s3.get_bucket_cors(Bucket=bucket)["CORSRules"][0]["AllowedOrigins"] == ["https://example.org"]
    assert mc("cors get s/photos")
    mc("cors remove s/photos")
    assert refusal(s3.get_bucket_cors, Bucket=bucket) == (404, "NoSuchCORSConfiguration")


def test_tags(mc: Client, s3: Any) -> None:
    s3.put_object(Bucket=mc.bucket, Key="notes.txt", Body=b"text")
    mc('tag set s/photos/notes.txt "team=blue&year=2026"')
    assert len(s3.get_object_tagging(Bucket=mc.bucket, Key="notes.txt")["TagSet"]) == 2
    assert mc.documents("tag list s/photos/notes.txt")[0]["tagset"] == {"team": "blue", "year": "2026"}
    mc("tag remove s/photos/notes.txt")
    assert s3.get_object_tagging(Bucket=mc.bucket, Key="notes.txt")["TagSet"] == []
    mc('tag set s/photos "team=blue"')
    assert s3.get_bucket_tagging(Bucket=mc.bucket)["TagSet"] == [{"Key": "team", "Value": "blue"}]


def test_events(mc: Client, s3: Any) -> None:
    # Its filter has no rules.
    mc("event add s/photos arn:minio:sqs::hook:webhook --event put")
    mc("event rm --force s/photos")
    mc("event add s/photos arn:minio:sqs::hook:webhook --event put,delete --prefix in/")
    (queue,) = s3.get_bucket_notification_configuration(Bucket=mc.bucket)["QueueConfigurations"]
    assert queue["Events"] == ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
    assert mc.documents("event ls s/photos")[0]["prefix"] == "in/"
    mc("event rm --force s/photos")
    assert "QueueConfigurations" not in s3.get_bucket_notification_configuration(Bucket=mc.bucket)


def test_locks(mc: Client, s3: Any) -> None:
    locked = f"{mc.bucket}-locked"
    mc = replace(mc, bucket=locked)
    s3.create_bucket(Bucket=locked, ObjectLockEnabledForBucket=True)
    mc("pipe s/photos/notes.txt", stdin=b"text")
    mc("retention set governance 30d s/photos/notes.txt")
    assert s3.get_object_retention(Bucket=locked, Key="notes.txt")["Retention"]["Mode"] == "GOVERNANCE"
    assert mc.documents("retention info s/photos/notes.txt")[0]["mode"] == "GOVERNANCE"
    mc("retention clear s/photos/notes.txt")
    mc("legalhold set s/photos/notes.txt")
    assert mc.documents("legalhold info s/photos/notes.txt")[0]["legalhold"] == "ON"
    assert mc.failure("rm --versions --force s/photos/notes.txt")
    assert versions_of(s3, locked) == [("notes.txt", False)]
    mc("legalhold clear s/photos/notes.txt")
    mc("retention set --default governance 30d s/photos")
    rule = s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]
    assert rule == {"Mode": "GOVERNANCE", "Days": 30}


def test_anonymous_readers(mc: Client, s3: Any) -> None:
    s3.put_object(Bucket=mc.bucket, Key="notes.txt", Body=b"text")
    assert "AccessDenied" in mc.failure("--json anonymous set download s/photos")
    s3.delete_public_access_block(Bucket=mc.bucket)
    mc("anonymous set download s/photos")
    assert mc.documents("anonymous get s/photos")[0]["permission"] == "download"
    endpoint = mc.command.environment["AWS_ENDPOINT_URL_S3"]
    with urllib.request.urlopen(f"{endpoint}/{mc.bucket}/notes.txt", timeout=30) as answer:
        assert answer.read() == b"text"
    mc("anonymous set none s/photos")
    assert refusal(s3.get_bucket_policy, Bucket=mc.bucket) == (404, "NoSuchBucketPolicy")


ADMIN: Final = "the region of the Credential is mal-formed"
SCHEMA: Final = "The XML you provided was not well-formed"
REFUSED: Final = {
    "admin info s": ADMIN,
    "admin trace s": "Failed to parse server response",
    "admin user add s alice secretsecret": ADMIN,
    "quota set s/photos --size 1GiB": ADMIN,
    "batch list s": ADMIN,
    "idp openid ls s": ADMIN,
    "ilm rule add --transition-days 90 --transition-tier COLD s/photos": SCHEMA,
}


@pytest.mark.parametrize("line", REFUSED)
def test_refusals(mc: Client, line: str) -> None:
    assert REFUSED[line] in mc.failure(line)


def test_commands_whose_exit_code_says_nothing(mc: Client, s3: Any) -> None:
    """A query that is refused ends well, and a wait for the health of MinIO does not end."""
    s3.put_object(Bucket=mc.bucket, Key="notes.txt", Body=b"text")
    done = mc.command.run(*mc.words('sql --query "select * from S3Object" s/photos/notes.txt'))
    assert b"SelectObjectContent is not implemented" in done.stderr
    assert mc("ping --count 1 s")
    with subprocess.Popen(
        [MC, *mc.words("ready s")], stdout=subprocess.PIPE, env={**os.environ, **mc.command.environment}
    ) as waiting:
        assert waiting.stdout is not None
        assert b"not ready" in waiting.stdout.readline()
        waiting.kill()
