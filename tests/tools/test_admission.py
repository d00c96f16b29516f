"""Which directories a store may be in, and whose files it may have: asked before anything of it is read or written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest
from tests.fixtures.commands import command, ran
from tests.fixtures.targets import read, running

import orcas
from orcas.control.files.admission import PATH_BYTES_MAX, check_owner
from orcas.errors import ConfigurationError
from orcas.settings.config import child_environment

NOBODY: Final = 65_534
# Root as others are: it cannot read what is not its own.
AS_OTHERS: Final = ["setpriv", *(f"--{one}=-dac_override,-dac_read_search" for one in ("bounding-set", "inh-caps"))]
COMMANDS: Final = (("stats",), ("fsck",), ("fsck", "--repair", "--accept-loss"), ("inspect",), ("env",))


def directory_of(place: Path, length: int) -> Path:
    """A path of that many bytes below `place`, which does not exist."""
    while (missing := length - len(os.fsencode(place))) > 0:
        # Not so long that one byte is left, which could only be a slash.
        place /= "d" * (missing - 1 if missing <= 200 else min(198, missing - 3))
    return place


def test_the_longest_path_takes_a_store_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    data = directory_of(tmp_path.resolve(), PATH_BYTES_MAX)
    assert len(os.fsencode(data)) == PATH_BYTES_MAX
    with running(data) as target:
        client = target.client()
        client.create_bucket(Bucket="bucket")
        client.put_object(Bucket="bucket", Key="key", Body=b"body")
    for index in data.glob("index.db*"):
        index.unlink()
    with running(data) as target:
        assert read(target.client(), "bucket", "key") == b"body"
    for call in COMMANDS:
        command(*call, "--data", data)

    longer = data.with_name(f"{data.name}d")
    data.rename(longer)
    before = {path: path.read_bytes() for path in longer.rglob("*") if path.is_file()}
    link = tmp_path / "short"
    link.symlink_to(longer)
    for place, calls in ((longer, COMMANDS), (link, COMMANDS[:1])):
        for call in calls:
            said = command(*call, "--data", place, code=78)
            assert f"has {PATH_BYTES_MAX + 1} bytes, and must have at most {PATH_BYTES_MAX} for SQLite" in said
            assert "accept-loss" not in said
    with pytest.raises(ConfigurationError, match=f"has {PATH_BYTES_MAX + 1} bytes"):
        orcas.Server(longer)
    assert {path: path.read_bytes() for path in longer.rglob("*") if path.is_file()} == before


def test_a_path_that_is_not_utf_8_is_refused_from_the_first_start_on(tmp_path: Path) -> None:
    data = tmp_path / os.fsdecode(b"caf\xe9")
    for call in COMMANDS:
        said = command(*call, "--data", data, code=78)
        assert "caf\\xe9, is not UTF-8: name another with --data" in said
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        orcas.Server(data)
    assert not data.exists()


def test_files_that_another_user_has_left_are_named_with_what_mends_them(tmp_path: Path) -> None:
    """As after a command that root ran on the store of a service."""
    data = tmp_path / "data"
    with running(data):
        pass
    as_root = os.geteuid() == 0
    left = [data / "root.json", next((data / "log").iterdir())]
    for path in left:
        if as_root:
            os.chown(path, NOBODY, NOBODY)
        else:
            path.chmod(0)
    for call in (("serve", "-p", "0"), ("fsck", "--repair", "--accept-loss")):
        done = subprocess.run(
            [*(AS_OTHERS if as_root else []), sys.executable, "-m", "orcas", *call, "--data", data],
            env=child_environment(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 69, done.stderr
        assert f"orcas: {data}/root.json and 1 more files of the store cannot be read by this user" in done.stderr
        assert "as root, run `chown -R " in done.stderr
        assert "accept-loss" not in done.stderr


def test_a_file_that_a_server_renames_meanwhile_belongs_to_nobody_else(tmp_path: Path) -> None:
    ended = threading.Event()

    def rename() -> None:
        while not ended.is_set():
            (tmp_path / "control.db.copy.new").touch()
            (tmp_path / "control.db.copy.new").rename(tmp_path / "control.db.copy")

    renaming = threading.Thread(target=rename)
    renaming.start()
    try:
        for _ in range(2_000):
            check_owner(tmp_path)
    finally:
        ended.set()
        renaming.join()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root opens the stores of others")
def test_root_is_told_whose_store_it_writes_to(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data):
        pass
    for call, words in ((("stats",), True), (("fsck",), False)):
        os.chown(data, NOBODY, NOBODY)
        done = ran(child_environment(), str(tmp_path), *call, "--data", str(data))
        assert done.returncode == 0
        assert ("who cannot read what root writes: run commands as that user" in done.stderr) == words


def test_a_job_that_gets_no_thread_is_refused_and_keeps_nothing_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with running(data):
        pass
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "orcas-gc":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    said = command("gc", "--data", data, code=1)
    assert "gives the server no thread for the job: raise its limit of threads, or try again later." in said
    monkeypatch.undo()
    command("gc", "--data", data)
    shutil.rmtree(data)
