"""`orcas cp` and `orcas cat`: what arrives, under which name, and what is left when something goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.servers.tampering import Answer, tampering
from tests.fixtures.targets import MIB, Target, content, keys_of, read, running
from tests.fixtures.waiting import wait_until
from tests.tools.objects.conftest import Command

LARGE = 40 * MIB + 7


@pytest.fixture
def s3(target: Target) -> Any:
    return target.client()


def names(directory: Path) -> list[str]:
    """Every file below a directory, those that are not finished as well."""
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if not path.is_dir())


def test_files_to_objects_and_back(s3: Any, bucket: str, orcas: Command) -> None:
    for name, size in (("empty", 0), ("one", 1), ("a b.txt", 70_000), ("large", LARGE)):
        (orcas.directory / name).write_bytes(content(size))
        assert orcas("cp", name, f"s3://{bucket}/in/") == f"upload: {name} to s3://{bucket}/in/{name}\n"
        assert read(s3, bucket, f"in/{name}") == content(size)
        said = orcas("cp", f"s3://{bucket}/in/{name}", f"back {name}")
        assert said == f"download: s3://{bucket}/in/{name} to {orcas.directory}/back {name}\n"
        back = orcas.directory / f"back {name}"
        assert back.read_bytes() == content(size)
        head = s3.head_object(Bucket=bucket, Key=f"in/{name}")
        assert back.stat().st_mtime == head["LastModified"].timestamp()
        assert back.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert s3.head_object(Bucket=bucket, Key="in/a b.txt")["ContentType"] == "text/plain"
    assert s3.head_object(Bucket=bucket, Key="in/large")["ETag"].endswith('-3"')
    orcas("cp", "one", f"s3://{bucket}")
    orcas("cp", "one", f"s3://{bucket}/under/another")
    (orcas.directory / "here").mkdir()
    orcas("cp", f"s3://{bucket}/one", "here")
    orcas("cp", f"s3://{bucket}/one", "new/")
    assert {"here/one", "new/one"} <= set(names(orcas.directory))
    assert read(s3, bucket, "under/another") == content(1)


def current_umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def test_streams(s3: Any, bucket: str, orcas: Command) -> None:
    for size in (0, 5, LARGE):
        assert orcas("cp", "-", f"s3://{bucket}/stream", stdin=content(size)) == f"upload: - to s3://{bucket}/stream\n"
        assert read(s3, bucket, "stream") == content(size)
        assert orcas.run("cp", f"s3://{bucket}/stream", "-").stdout == content(size)
        assert orcas.run("cat", f"s3://{bucket}/stream", f"s3://{bucket}/stream").stdout == 2 * content(size)
    assert s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    # A device stays what it is.
    orcas("cp", f"s3://{bucket}/stream", "/dev/null")
    assert Path("/dev/null").is_char_device()
    script = (
        f'orcas cat s3://{bucket}/stream --endpoint {orcas.endpoint} | head -c 1 >/dev/null; echo "${{PIPESTATUS[0]}}"'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = subprocess.run(
        ["bash", "-c", script], env=orcas.variables | {"PATH": path}, capture_output=True, text=True, check=True
    )
    assert (shell.stdout, shell.stderr) == ("141\n", "")


def test_headers(s3: Any, bucket: str, orcas: Command) -> None:
    (orcas.directory / "page").write_bytes(b"<p>")
    given = ("--content-type", "text/html", "--cache-control", "no-store", "--metadata", "a=1,b=2", "--metadata", "c=3")
    orcas("cp", "page", f"s3://{bucket}/", *given)
    orcas("cp", f"s3://{bucket}/page", f"s3://{bucket}/same")
    orcas("cp", f"s3://{bucket}/page", f"s3://{bucket}/other", "--content-type", "text/plain")
    for key, kind, metadata in (
        ("page", "text/html", {"a": "1", "b": "2", "c": "3"}),
        ("same", "text/html", {"a": "1", "b": "2", "c": "3"}),
        ("other", "text/plain", {}),
    ):
        head = s3.head_object(Bucket=bucket, Key=key)
        assert (head["ContentType"], head["Metadata"]) == (kind, metadata)
    assert s3.head_object(Bucket=bucket, Key="same")["CacheControl"] == "no-store"
    refused = orcas("cp", "page", f"s3://{bucket}/", "--metadata", "a\nb=c", code=2)
    assert "must be printable" in refused


def test_directories_to_prefixes_and_back(s3: Any, bucket: str, orcas: Command) -> None:
    tree = {"a": b"1", "a-b/c": b"2", "sub/deeper/x y": b"3", "sub/ä\n\x7f%": b"4", "-": b"5", "sub/~": b""}
    top = orcas.directory / "tree"
    for name, body in tree.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(body)
    # Links are followed, round in circles only once.
    (top / "linked").symlink_to("a")
    (top / "sub" / "round").symlink_to(top)
    (top / "broken").symlink_to("nowhere")
    done = orcas.run("cp", "-r", "tree", f"s3://{bucket}/to")
    assert b"Left out, because they are no files: 2\n" in done.stderr
    assert done.stdout.endswith(b"\ncopied: 7\n")
    assert set(keys_of(s3, bucket)) == {f"to/{name}" for name in (*tree, "linked")}
    s3.put_object(Bucket=bucket, Key="to/sub/", Body=b"")
    assert orcas.json("cp", "-r", f"s3://{bucket}/to", "back")["Objects"] == 7
    assert {name: (orcas.directory / "back" / name).read_bytes() for name in names(orcas.directory / "back")} == {
        **tree, "linked": b"1",
    }  # fmt: skip
    assert orcas("cp", "-r", f"s3://{bucket}/to/sub", f"s3://{bucket}/copy").endswith("\ncopied: 4\n")
    assert read(s3, bucket, "copy/deeper/x y") == b"3"
    # Copies below their source are not copied again.
    assert orcas("cp", "-r", f"s3://{bucket}/copy", f"s3://{bucket}/copy/below").endswith("\ncopied: 4\n")
    before = keys_of(s3, bucket)
    assert "(dry run) upload: tree/a to" in orcas("cp", "-r", "--dryrun", "tree", f"s3://{bucket}/dry/")
    orcas("cp", "--dryrun", "-", f"s3://{bucket}/dry", stdin=b"x")
    orcas("cp", "--dryrun", f"s3://{bucket}/to/a", "dry")
    assert keys_of(s3, bucket) == before
    assert "dry" not in names(orcas.directory)


def test_a_download_writes_nothing_outside_its_directory(s3: Any, bucket: str, orcas: Command, tmp_path: Path) -> None:
    hostile = [
        "../out",
        "a/../../out",
        "/out",
        "a//out",
        "./out",
        "..",
        ".",
        "a/.",
        "b/..",
        "\0",
        "x" * 256,
        "link/out",
    ]
    for key in hostile:
        s3.put_object(Bucket=bucket, Key=f"p/{key}", Body=b"hostile")
    for key in ("fine", "...", "..a/b"):
        s3.put_object(Bucket=bucket, Key=f"p/{key}", Body=b"fine")
    top = orcas.directory / "top"
    top.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (top / "link").symlink_to(tmp_path / "elsewhere")
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
    done = orcas.run("cp", "-r", f"s3://{bucket}/p", "top", "--json", code=1)
    assert b'"Failed": %d,' % len(hostile) in done.stdout
    assert b"InvalidKey" in done.stderr
    assert names(top) == ["...", "..a/b", "fine"]
    new = {path for path in tmp_path.rglob("*") if before.get(path) != path.stat().st_ino}
    assert all(path.is_relative_to(top) for path in new - {tmp_path / "state"})
    for key in ("p/..", "p/."):
        assert "is no name of a file" in orcas("cp", f"s3://{bucket}/{key}", "top", code=2).replace(
            "ends in no", "is no"
        )
    # Under a name that was given it is a file like any other.
    orcas("cp", f"s3://{bucket}/p/..", "top/dots")
    assert (top / "dots").read_bytes() == b"hostile"


def test_wrong_bytes_get_no_name(
    s3: Any, bucket: str, orcas: Command, target: Target, through: Any, tmp_path: Path
) -> None:
    (orcas.directory / "large").write_bytes(content(LARGE))
    orcas("cp", "large", f"s3://{bucket}/large")
    s3.put_object(Bucket=bucket, Key="small", Body=content(70_000))
    (orcas.directory / "small").write_bytes(b"what was there")
    (orcas.directory / "large").unlink()

    def tamper(method: str, path: str, answer: Answer) -> None:
        if method == "GET" and f"/{bucket}/" in path and len(answer.body) > 1000:
            answer.body = answer.body[:500] + bytes([answer.body[500] ^ 1]) + answer.body[501:]

    with tampering(target.server.endpoint, tamper) as proxy, through(proxy.url) as bent:
        for key in ("small", "large"):
            assert "do not match" in bent("cp", f"s3://{bucket}/{key}", ".", code=1)
            assert "do not match" in bent("cat", f"s3://{bucket}/{key}", code=1)
        assert bent.run("cp", "-r", f"s3://{bucket}", "all", "--json", code=1).stderr.count(b"BadDigest") == 1
    assert names(orcas.directory) == ["small"]
    assert (orcas.directory / "small").read_bytes() == b"what was there"


def test_connections_that_break_continue(s3: Any, bucket: str, orcas: Command, target: Target, through: Any) -> None:
    (orcas.directory / "large").write_bytes(content(LARGE))
    seen: Counter[str] = Counter()

    def tamper(method: str, path: str, answer: Answer) -> None:
        seen[f"{method} {path}"] += 1
        if method in {"GET", "PUT"} and seen[f"{method} {path}"] == 1 and "/large" in path:
            answer.cut = True
            if method == "PUT":
                answer.body += b"."

    with tampering(target.server.endpoint, tamper) as proxy, through(proxy.url) as bent:
        bent("cp", "large", f"s3://{bucket}/large")
        bent("cp", f"s3://{bucket}/large", "back")
        assert bent.run("cp", f"s3://{bucket}/large", "-").stdout == content(LARGE)
    assert (orcas.directory / "back").read_bytes() == content(LARGE)
    assert any(count > 1 for name, count in seen.items() if name.startswith("GET"))


@pytest.mark.parametrize("ending", ["kill", "int", "other file"])
def test_an_upload_that_was_interrupted_continues(
    s3: Any, bucket: str, orcas: Command, target: Target, through: Any, ending: str
) -> None:
    file = orcas.directory / "large"
    file.write_bytes(content(160 * MIB))
    held = True

    def tamper(method: str, path: str, _: Answer) -> None:
        if method == "PUT" and "partNumber=9&" in path:
            wait_until(lambda: not held)

    def parts() -> int:
        uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        if not uploads:
            return 0
        return len(s3.list_parts(Bucket=bucket, Key="large", UploadId=uploads[0]["UploadId"]).get("Parts", []))

    with tampering(target.server.endpoint, tamper) as proxy, through(proxy.url) as held_back:
        with subprocess.Popen(
            [Path(sys.executable).parent / "orcas", "cp", "large", f"s3://{bucket}/large", "--endpoint", proxy.url],
            env=orcas.variables, cwd=orcas.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            wait_until(lambda: parts() == 10)
            process.send_signal(signal.SIGKILL if ending == "kill" else signal.SIGINT)
            held = False
            process.communicate()
        assert process.returncode == (-signal.SIGKILL if ending == "kill" else 130)
        proxy.requests.clear()
        expected = content(160 * MIB)
        if ending == "other file":
            expected = expected[: 150 * MIB] + b"x" + expected[150 * MIB + 1 :]
            file.write_bytes(expected)
        held_back("cp", "large", f"s3://{bucket}/large")
        sent = [path for method, path in proxy.requests if method == "PUT" and "partNumber" in path]
    assert read(s3, bucket, "large") == expected
    # Ctrl-C may come when everything has arrived already.
    assert len(sent) in {"kill": (0,), "int": (0, 10), "other file": (10,)}[ending]
    if ending == "kill":
        assert s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
        assert list((Path(orcas.variables["XDG_STATE_HOME"]) / "orcas" / "uploads").iterdir()) == []


def test_etags_that_say_nothing_leave_the_checksums(
    s3: Any, bucket: str, orcas: Command, target: Target, through: Any
) -> None:
    for key, given in (("sha", {"ChecksumAlgorithm": "SHA256"}), ("crc", {"ChecksumAlgorithm": "CRC32"})):
        s3.put_object(Bucket=bucket, Key=key, Body=content(1000), **given)
    bent = False

    def tamper(method: str, path: str, answer: Answer) -> None:
        if f"/{bucket}/" in path:
            answer.headers.append(("x-amz-server-side-encryption", "aws:kms"))
        if bent and method == "GET":
            answer.body = answer.body[:-1] + b"?"

    with tampering(target.server.endpoint, tamper) as proxy, through(proxy.url) as there:
        for key in ("sha", "crc"):
            assert there.json("cp", f"s3://{bucket}/{key}", key)["Unverified"] == 0
            assert (orcas.directory / key).read_bytes() == content(1000)
        bent = True
        for key in ("sha", "crc"):
            assert "do not match" in there("cp", f"s3://{bucket}/{key}", f"wrong-{key}", code=1)
    assert names(orcas.directory) == ["crc", "sha"]


def test_what_nothing_verifies_is_said(orcas: Command) -> None:
    """Orcas stores neither MD5 nor checksums of what it encrypts with SSE-KMS. Uploads are compared by their signature."""
    with running(None, master_key=MASTER_KEY) as sealed:
        sealed.client().create_bucket(Bucket="sealed")
        keys = {"AWS_ACCESS_KEY_ID": sealed.server.access_key, "AWS_SECRET_ACCESS_KEY": sealed.server.secret_key}
        there = Command(orcas.variables | keys, orcas.directory, sealed.server.endpoint)
        for name, size in (("small", 1000), ("large", LARGE)):
            (orcas.directory / name).write_bytes(content(size))
            there("cp", name, "s3://sealed/", "--sse", "aws:kms")
            done = there.run("cp", f"s3://sealed/{name}", f"back-{name}")
            assert "no digest to verify" in done.stderr.decode()
            assert (orcas.directory / f"back-{name}").read_bytes() == content(size)


def test_mistakes_are_one_sentence(bucket: str, orcas: Command) -> None:
    (orcas.directory / "file").touch()
    (orcas.directory / "folder").mkdir()
    place = f"s3://{bucket}/x"
    for words, code, says in (
        (("cp", "file", "other"), 2, "Neither of the two is an object"),
        (("cp", "folder", place), 2, "is a directory: add -r"),
        (("cp", "-r", "file", place), 2, "is no directory: leave out -r"),
        (("cp", "-r", "-", place), 2, "-r needs a directory"),
        (("cp", "absent", place), 2, "does not exist"),
        (("cp", "file", "s3:///x"), 2, "is not s3://BUCKET/KEY"),
        (("cp", "-", f"s3://{bucket}"), 2, "names no object"),
        (("cp", place, "y"), 1, f"There is no object {place}"),
        (("cat", place), 1, f"There is no object {place}"),
        (("cp", "file", "s3://no-such-bucket/"), 1, "NoSuchBucket"),
        (("cp", "-r", "s3://no-such-bucket/", "y"), 1, "There is no bucket no-such-bucket"),
        (("cp", "file", place, "--exclude", "*"), 2, "No such option: --exclude"),
        (("mv", "file", place), 2, "There is no command mv"),
    ):
        said = orcas(*words, code=code)
        assert says in said, said
        assert said.startswith("orcas: ")
    error = orcas.run("cat", place, "--json", code=1).stderr
    assert b'"code": "NoSuchKey"' in error


def test_who_may_not_is_told_why(s3: Any, bucket: str, orcas: Command) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    (orcas.directory / "file").touch()
    key = orcas.json("user", "create", f"of-{bucket}", "--key")["AccessKey"]
    stranger = replace(orcas, variables=orcas.variables | {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    })  # fmt: skip
    mistaken = replace(orcas, variables=orcas.variables | {"AWS_SECRET_ACCESS_KEY": "x" * 40})
    host, place = orcas.endpoint.removeprefix("http://"), f"s3://{bucket}/k"
    for who, code, step in (
        (stranger, "AccessDenied", "ask for a policy that allows it"),
        (mistaken, "SignatureDoesNotMatch", "check the key of AWS_ACCESS_KEY_ID"),
    ):
        for words, says in (
            (("cat", place), f"{place} cannot be read ({host} says {code}: "),
            (("cp", place, "here"), f"{place} cannot be read ({host} says {code}: "),
            (("cp", "-", place), f"{place} cannot be written ({host} says {code}: "),
            (("cp", "file", place), f"because {host} says {code}: "),
            (("rm", place), f"because {host} says {code}: "),
            (("ls", place), step),
        ):
            error = json.loads(who.run(*words, "--json", code=1).stderr.splitlines()[-1])["error"]
            assert error["code"] == code
            assert says in error["message"]
    for words in (("stop",), ("status",), ("user", "list")):
        assert "or one whose policies allow it" in stranger(*words, code=1)
