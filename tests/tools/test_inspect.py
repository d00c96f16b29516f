"""`orcas inspect` on stores as operators have them: running, stopped and damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, ran
from tests.fixtures.targets import MIB, content, running
from tests.tools.test_seal_stored import KEY

from orcas.settings.config import child_environment

BUCKET = "photos"
SECRET = "what-only-the-owner-may-know"
HOSTILE = "forged\x1b[2J\n log/1.log:1: 7 PutVersion key=x\x7f\u202e"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped store with two log files, a pack and a journal; tests copy it."""
    data = tmp_path_factory.mktemp("sound") / "store"
    with running(data, master_key=KEY) as target:
        s3 = target.client()
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        for size in (10, 5_000):
            s3.put_object(Bucket=BUCKET, Key="a.jpg", Body=content(size), Metadata={"color": "blue"})
        s3.delete_object(Bucket=BUCKET, Key="a.jpg")
        s3.put_object(Bucket=BUCKET, Key="b.jpg", Body=b"b")
        s3.put_object(Bucket=BUCKET, Key=HOSTILE, Body=b"hostile")
        s3.put_object(
            Bucket=BUCKET, Key="sealed", Body=SECRET.encode() * 20, ServerSideEncryption="AES256",
            Metadata={"secret": SECRET}, ContentType=SECRET,
        )  # fmt: skip
        upload = {"Bucket": BUCKET, "Key": "parts"}
        upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
        etag = s3.upload_part(**upload, PartNumber=1, Body=content(5 * MIB))["ETag"]
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
        s3.create_bucket(Bucket="other")
        s3.put_object(Bucket="other", Key="a.jpg", Body=b"of another bucket")
    # Every start begins a new log file.
    with running(data, master_key=KEY) as target:
        target.client().put_object(Bucket=BUCKET, Key="last", Body=content(3_000))
    return data


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A copy of the store that a test may damage."""
    return Path(shutil.copytree(sound, tmp_path / "store"))


def rows(data: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in command("inspect", "--data", data, *arguments, "--json", code=code).splitlines()
    ]


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [row["kind"] for row in found]


def unreadable(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in found if row["kind"] == "unreadable"]


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_the_history_of_an_object(sound: Path) -> None:
    history = rows(sound, "log", "--bucket", BUCKET, "--key", "a.jpg")
    assert kinds(history) == ["PutVersion"] * 3
    first, second, marker = history
    assert (first["size"], first["inline"], second["size"]) == (10, [10], 5_000)
    assert marker["marker"] == "delete"
    assert [row["operation"] for row in history] == ["PutObject", "PutObject", "DeleteObject"]
    assert first["metadata"] == {"color": "blue"}
    assert len({row["version_id"] for row in history}) == len({row["request_id"] for row in history}) == 3
    # The content of the second is a record of its own, named by its sequence.
    (blob,) = second["blobs"]
    (content_row,) = rows(sound, "log", "--from", str(blob), "--to", str(blob))
    assert (content_row["kind"], content_row["length"]) == ("Content", 5_000)
    # The events of the same requests.
    events = rows(sound, "journal", "--bucket", BUCKET, "--key", "a.jpg")
    assert [row["request_id"] for row in events] == [row["request_id"] for row in history]
    assert [row["sequence"] for row in events] == [row["sequence"] for row in history]


def test_parts_belong_to_their_upload(sound: Path) -> None:
    upload = rows(sound, "log", "--bucket", BUCKET, "--prefix", "par")
    assert kinds(upload) == ["CreateUpload", "PutPart", "CompleteUpload"]
    assert len({row["upload"] for row in upload}) == 1
    chunks = [row for row in rows(sound, "log", "--kind", "chunk") if row["sequence"] in upload[-1]["blobs"]]
    assert sum(row["length"] for row in chunks) == 5 * MIB
    stored = {f"pack {int(Path(row['file']).stem)}, byte {row['byte']}": row for row in rows(sound, "packs")}
    for row in chunks:
        assert stored[row["at"]]["fingerprint"] == row["fingerprint"]


def test_filters(sound: Path) -> None:
    everything = rows(sound, "log")
    sequences = [row["sequence"] for row in everything]
    assert sequences == sorted(set(sequences))
    assert kinds(rows(sound, "log", "--kind", "CREATEBUCKET", "--kind", "PutVersion")).count("CreateBucket") == 2
    assert [row["sequence"] for row in rows(sound, "log", "--from", "3", "--to", "5")] == [3, 4, 5]
    files = sorted({row["file"] for row in everything})
    assert len(files) == 2
    for name in files:
        found = rows(sound, "log", "--file", Path(name).name)
        assert found == [row for row in everything if row["file"] == name]
    in_brief = {row["file"]: row for row in rows(sound)}
    for name in files:
        assert in_brief[name]["rows"] == sum(row["file"] == name for row in everything)
    assert "Entries" in command("inspect", "--data", sound)
    for selection in (("log", "--key", "absent"), ("packs", "--kind", "PutVersion"), ("--file", "absent.log")):
        done = ran(child_environment(), ".", "inspect", "--data", str(sound), *selection)
        assert (done.returncode, "Nothing in the store is selected" in done.stderr) == (0, True), selection
    command("inspect", "--data", sound, "index", code=2)
    command("inspect", "--data", sound / "absent", code=69)


def test_objects_in_layers_have_the_names_of_their_buckets(store: Path) -> None:
    command("snapshot", "create", BUCKET, "s1", "--data", store, ORCAS_MASTER_KEY=KEY)
    command("fork", f"{BUCKET}@s1", "copy", "--data", store, ORCAS_MASTER_KEY=KEY)
    with running(store, master_key=KEY) as target:
        for name in (BUCKET, "copy"):
            target.client().put_object(Bucket=name, Key="layered", Body=b"x")
    assert [row["bucket"] for row in rows(store, "log", "--key", "layered")] == [BUCKET, "copy"]
    assert {row["bucket"] for row in rows(store, "log", "--bucket", BUCKET, "--key", "b.jpg")} == {BUCKET}
    # The fork has the objects of the snapshot as well.
    assert kinds(rows(store, "log", "--bucket", "copy", "--key", "b.jpg")) == ["PutVersion"]
    assert kinds(rows(store, "log", "--bucket", BUCKET, "--key", "layered")) == ["PutVersion"]


def test_nothing_secret_and_nothing_that_controls_a_terminal(sound: Path) -> None:
    for part in ("log", "packs", "journal"):
        for form in ([], ["--json"]):
            shown = command("inspect", "--data", sound, part, *form)
            assert SECRET not in shown
            assert all(line.isprintable() for line in shown.split("\n"))
            assert HOSTILE not in shown
    (row,) = rows(sound, "log", "--key", "sealed")
    assert row["encryption"] == "SSE-S3"
    assert row["sealed_headers"] > 0
    (row,) = rows(sound, "log", "--key", HOSTILE)
    assert row["key"] == HOSTILE
    assert command("inspect", "--data", sound, "log", "--key", HOSTILE).count("\n") == 1


def test_a_flipped_bit_is_named_and_reading_goes_on(store: Path) -> None:
    whole = rows(store, "log")
    damaged = rows(store, "log", "--key", "b.jpg")[0]
    path = store / damaged["file"]
    flip(path, path.read_bytes().index(b"b.jpg", damaged["byte"]))
    found = rows(store, "log", code=1)
    assert found == sorted(found, key=lambda row: (row["file"], row["byte"]))
    (lost,) = unreadable(found)
    assert (lost["file"], lost["byte"], lost["lost_kind"]) == (damaged["file"], damaged["byte"], "PutVersion")
    assert lost["first_lost"] == lost["last_lost"] == damaged["sequence"]
    assert [row for row in found if row != lost] == [row for row in whole if row != damaged]
    assert "Unreadable" in command("inspect", "--data", store, code=1)
    chunk = rows(store, "packs")[0]
    flip(store / chunk["file"], chunk["byte"] + 100_000)
    assert [row["byte"] for row in unreadable(rows(store, "packs", code=1))] == [chunk["byte"]]


def test_files_that_are_cut_or_lost(store: Path) -> None:
    whole = rows(store, "log")
    first, last = sorted(store.glob("log/*.log"))[:2]
    # The last record of each file is cut.
    for path in (first, last):
        end = max(row["byte"] for row in whole if row["file"] == f"log/{path.name}")
        with path.open("r+b") as file:
            file.truncate(end + 20)
    found = rows(store, "log", code=1)
    assert [row["file"] for row in unreadable(found)] == [f"log/{first.name}", f"log/{last.name}"]
    assert len(found) >= len(whole) - 2
    (store / "store.keys").unlink()
    first.unlink()
    found = rows(store, "log", code=1)
    assert {"store.keys", f"log/{first.name}"} <= {row["file"] for row in unreadable(found)}
    (store / "store.keys.copy").unlink()
    assert "--salvage" in command("inspect", "--data", store, "log", code=1)
    assert kinds(rows(store, "packs")) != []
    event = rows(store, "journal")[-1]
    flip(store / event["file"], event["byte"] + 8)
    assert [row["byte"] for row in unreadable(rows(store, "journal", code=1))] == [event["byte"]]


def test_a_running_store_is_read_and_no_store_is_changed(store: Path) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    for part in ("log", "packs", "journal"):
        rows(store, part)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before
    with running(store, master_key=KEY) as target:
        version = target.client().put_object(Bucket=BUCKET, Key="now", Body=content(400_000))["VersionId"]
        (row,) = rows(store, "log", "--key", "now")
        assert row["size"] == 400_000
        assert row["version_id"] in version
        assert kinds(rows(store, "packs")) != []
        assert rows(store) != []
