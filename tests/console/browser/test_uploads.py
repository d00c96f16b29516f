"""Uploads by the browser: whole, in parts, paused, resumed after a reload and after the server was killed; by keys alone."""

from __future__ import annotations

import hashlib
import os
import random
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.console.visitors import BASE
from tests.fixtures.targets import Target

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

MIB = 1 << 20


def file_of(directory: Path, name: str, size: int) -> Path:
    path = directory / name
    path.write_bytes(random.Random(size).randbytes(size))
    return path


def stored(s3: Any, bucket: str, key: str) -> str:
    return hashlib.sha256(s3.get_object(Bucket=bucket, Key=key)["Body"].read()).hexdigest()


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def folder(browser: Page, target: Target, bucket: str) -> Page:
    browser.goto(f"{target.server.endpoint}{BASE}/b/{bucket}?prefix=in%2F")
    return browser


def test_files_are_uploaded_whole_and_in_parts(folder: Page, s3: Any, bucket: str, tmp_path: Path) -> None:
    files = [
        file_of(tmp_path, name, size) for name, size in (("s é&.bin", 1000), ("none", 0), ("large.bin", 16 * MIB + 7))
    ]
    folder.locator("#choose-files").set_input_files(files)
    folder.get_by_text("Uploaded: 3 of 3.").wait_for()
    for path in files:
        assert stored(s3, bucket, f"in/{path.name}") == sum_of(path)
    head = s3.head_object(Bucket=bucket, Key="in/large.bin", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"]
    assert head["ETag"].endswith('-3"')
    # The list is loaded again by itself.
    folder.get_by_role("link", name="large.bin").wait_for()
    fold = folder.get_by_role("button", name="Uploads")
    fold.click()
    assert fold.get_attribute("aria-expanded") == "false"
    assert folder.locator(".upload").first.is_hidden()
    folder.get_by_role("button", name="Close").click()
    assert folder.locator("#uploads").is_hidden()


def test_what_is_there_is_replaced_only_when_somebody_says_so(
    folder: Page, s3: Any, bucket: str, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        s3.put_object(Bucket=bucket, Key=f"in/{name}", Body=b"former")
    files = [file_of(tmp_path, name, size) for name, size in (("a", 10), ("b", 11), ("c", 9 * MIB), ("new", 12))]
    folder.locator("#choose-files").set_input_files(files)
    folder.get_by_text("Uploaded: 1 of 4. 3 would replace others: say whether.").wait_for()
    assert "keeps no versions" in (folder.locator(".upload").first.text_content() or "")
    assert s3.get_object(Bucket=bucket, Key="in/a")["Body"].read() == b"former"
    folder.get_by_role("button", name="Cancel", exact=True).first.click()
    folder.get_by_role("button", name="Replace all").click()
    folder.get_by_text("Uploaded: 3 of 4.", exact=True).wait_for()
    assert s3.get_object(Bucket=bucket, Key="in/a")["Body"].read() == b"former"
    assert stored(s3, bucket, "in/c") == sum_of(files[2])


def test_all_uploads_are_cancelled(folder: Page, s3: Any, bucket: str, tmp_path: Path) -> None:
    folder.route("**/*partNumber=*", lambda route: None)
    files = [file_of(tmp_path, name, 9 * MIB) for name in ("a", "b")]
    folder.locator("#choose-files").set_input_files(files)
    folder.get_by_text("Left: 2 of 2.").wait_for()
    folder.get_by_role("button", name="Cancel all").click()
    folder.get_by_text("Uploaded: 0 of 2.").wait_for()
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_a_folder_is_uploaded_with_its_folders(folder: Page, s3: Any, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "top" / "sub").mkdir(parents=True)
    file_of(tmp_path / "top", "a", 10)
    file_of(tmp_path / "top" / "sub", "b", 20)
    folder.locator("#choose-folder").set_input_files(tmp_path / "top")
    folder.get_by_text("Uploaded: 2 of 2.").wait_for()
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["in/top/a", "in/top/sub/b"]


def test_dropped_files_are_uploaded(folder: Page, s3: Any, bucket: str) -> None:
    transfer = folder.evaluate_handle(
        "() => { const t = new DataTransfer();"
        " t.items.add(new File(['dropped'], 'd.txt', {type: 'text/plain'})); return t; }"
    )
    folder.dispatch_event("main", "drop", {"dataTransfer": transfer})
    folder.get_by_text("Uploaded: 1 of 1.").wait_for()
    answer = s3.get_object(Bucket=bucket, Key="in/d.txt")
    assert (answer["Body"].read(), answer["ContentType"]) == (b"dropped", "text/plain")


def test_an_upload_resumes_after_a_reload_and_sends_nothing_twice(
    folder: Page, s3: Any, bucket: str, tmp_path: Path
) -> None:
    path = file_of(tmp_path, "large.bin", 33 * MIB)
    left_after_two_parts(folder, s3, bucket, path)
    assert resumed(folder, path) == [3, 4, 5]
    assert stored(s3, bucket, "in/large.bin") == sum_of(path)
    assert folder.evaluate("localStorage.getItem('orcas-uploads')") == "[]"


def test_a_resumed_upload_has_the_content_of_one_file(folder: Page, s3: Any, bucket: str, tmp_path: Path) -> None:
    """Of another file with the name, the size and the time of the first, as rsync and tar make them, no part is missing."""
    path = file_of(tmp_path, "large.bin", 33 * MIB)
    left_after_two_parts(folder, s3, bucket, path)
    made = path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(8 * MIB + 5)
        file.write(b"another content")
    os.utime(path, ns=(made, made))
    assert resumed(folder, path) == [2, 3, 4, 5]
    assert stored(s3, bucket, "in/large.bin") == sum_of(path)


def left_after_two_parts(folder: Page, s3: Any, bucket: str, path: Path) -> None:
    """Begin an upload, of which the first two parts arrive, and leave the page."""

    def hold(route: Route) -> None:
        if "partNumber=1&" in route.request.url or "partNumber=2&" in route.request.url:
            route.continue_()

    # The other parts are never answered.
    folder.route("**/*partNumber=*", hold)
    folder.locator("#choose-files").set_input_files(path)
    upload = None
    for _ in range(600):
        uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        if uploads:
            upload = uploads[0]["UploadId"]
            if len(s3.list_parts(Bucket=bucket, Key="in/large.bin", UploadId=upload).get("Parts", [])) == 2:
                break
        folder.wait_for_timeout(100)
    folder.on("dialog", lambda dialog: dialog.accept())
    folder.reload()
    # Not before: that would let go of the requests that are held.
    folder.unroute("**/*partNumber=*")
    kept = folder.evaluate("JSON.stringify({...localStorage})")
    assert upload is not None
    assert upload in kept
    assert "X-Amz" not in kept


def resumed(folder: Page, path: Path) -> list[int]:
    """Choose the file again. Returns the parts that are sent."""
    puts: list[str] = []
    folder.on("request", lambda request: puts.append(request.url) if request.method == "PUT" else None)
    folder.get_by_text("choose the same file again to resume it").wait_for()
    folder.locator("#choose-files").set_input_files(path)
    folder.get_by_text("Uploaded: 1 of 1.").wait_for()
    return sorted(int(url.split("partNumber=")[1].split("&")[0]) for url in puts)


def test_a_part_is_sent_again_if_the_connection_was_lost(folder: Page, s3: Any, bucket: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, "large.bin", 17 * MIB)
    lost: list[str] = []

    def lose(route: Route) -> None:
        if lost:
            route.continue_()
        else:
            lost.append(route.request.url)
            route.abort("connectionreset")

    folder.route("**/*partNumber=*", lose)
    folder.locator("#choose-files").set_input_files(path)
    folder.get_by_text("Uploaded: 1 of 1.").wait_for()
    assert len(lost) == 1
    assert stored(s3, bucket, "in/large.bin") == sum_of(path)


def test_a_changed_part_is_refused(folder: Page, s3: Any, bucket: str, tmp_path: Path) -> None:
    """The checksum that the page computed is signed, so what arrives otherwise is no part."""
    folder.route("**/*partNumber=2*", lambda route: route.continue_(post_data=b"x" * (8 * MIB)))
    folder.locator("#choose-files").set_input_files(file_of(tmp_path, "large.bin", 17 * MIB))
    folder.get_by_role("button", name="Try again").wait_for()
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    folder.unroute("**/*partNumber=2*")
    folder.get_by_role("button", name="Try again").click()
    folder.get_by_text("Uploaded: 1 of 1.").wait_for()


def test_an_upload_is_paused_and_cancelled(folder: Page, s3: Any, bucket: str, tmp_path: Path) -> None:
    folder.route("**/*partNumber=3*", lambda route: None)
    folder.locator("#choose-files").set_input_files(file_of(tmp_path, "large.bin", 17 * MIB))
    folder.get_by_role("button", name="Pause").click()
    folder.get_by_text("paused", exact=True).wait_for()
    folder.get_by_role("button", name="Resume").click()
    folder.get_by_role("button", name="Cancel", exact=True).click()
    folder.get_by_text("cancelled", exact=True).wait_for()
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_a_refusal_is_shown(browser: Page, target: Target, tmp_path: Path) -> None:
    name = f"t-{uuid.uuid4().hex}"
    browser.goto(f"{target.server.endpoint}{BASE}/buckets/new")
    browser.get_by_label("Name", exact=True).fill(name)
    browser.get_by_label("Quota", exact=True).fill("1")
    browser.get_by_label("Unit of the quota").select_option("MiB")
    browser.get_by_role("button", name="Create the bucket").click()
    browser.wait_for_url(f"**/b/{name}")
    browser.locator("#choose-files").set_input_files(file_of(tmp_path, "large", 2 * MIB))
    browser.get_by_role("button", name="Try again").wait_for()
    assert "quota" in (browser.locator(".upload").text_content() or "").lower()
