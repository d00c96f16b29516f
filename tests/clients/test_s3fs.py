"""s3fs, which pandas, dask and others reach S3 through: a file system with buckets as its first level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, package, tree_of, write_tree
from tests.fixtures.targets import MIB, Target, content

s3fs = package("s3fs")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


def file_system(target: Target, **others: Any) -> Any:
    """A file system of its own, without what others have listed."""
    server = target.server
    settings = {"key": server.access_key, "secret": server.secret_key, "endpoint_url": server.endpoint} | others
    return s3fs.S3FileSystem(
        **settings, client_kwargs={"region_name": server.region}, skip_instance_cache=True, use_listings_cache=False
    )


@pytest.fixture
def fs(target: Target) -> Any:
    return file_system(target)


@pytest.mark.parametrize("key", AWKWARD)
def test_files(fs: Any, bucket: str, key: str) -> None:
    data = content(12 * MIB + 1)
    with fs.open(f"{bucket}/{key}", "wb", block_size=5 * MIB) as file:
        file.write(data[:1000])
        file.write(data[1000:])
    assert fs.info(f"{bucket}/{key}")["size"] == len(data)
    with fs.open(f"{bucket}/{key}", "rb", block_size=MIB) as file:
        file.seek(7 * MIB)
        assert file.read(100) == data[7 * MIB : 7 * MIB + 100]
        file.seek(0)
        assert file.read() == data
    assert fs.cat_file(f"{bucket}/{key}", start=10, end=20) == data[10:20]


@pytest.mark.parametrize("size", [10, 6 * MIB])
def test_appending(fs: Any, bucket: str, size: int) -> None:
    # What is there is a part of the upload that replaces it, if it is large enough for a part.
    data = content(size)
    fs.pipe_file(f"{bucket}/k", data)
    for more in (b"more", content(6 * MIB, 1)):
        with fs.open(f"{bucket}/k", "ab") as file:
            file.write(more)
        data += more
        assert fs.cat_file(f"{bucket}/k") == data


def test_trees(fs: Any, bucket: str, tmp_path: Path) -> None:
    sizes = {"one/a b.txt": 10, "one/two/ü+.bin": 300, "one/two/three/c": 9 * MIB, "d": 0}
    write_tree(tmp_path / "up", sizes)
    fs.put(f"{tmp_path}/up/", f"{bucket}/tree/", recursive=True)
    walked = {place: (sorted(folders), sorted(files)) for place, folders, files in fs.walk(f"{bucket}/tree")}
    assert walked == {
        f"{bucket}/tree": (["one"], ["d"]),
        f"{bucket}/tree/one": (["two"], ["a b.txt"]),
        f"{bucket}/tree/one/two": (["three"], ["ü+.bin"]),
        f"{bucket}/tree/one/two/three": ([], ["c"]),
    }
    assert fs.du(f"{bucket}/tree") == sum(sizes.values())
    assert fs.glob(f"{bucket}/tree/**/*.bin") == [f"{bucket}/tree/one/two/ü+.bin"]
    # s3fs cannot move a directory that has no object of its own, only files.
    fs.copy(f"{bucket}/tree/one/", f"{bucket}/moved/", recursive=True)
    for path in fs.find(f"{bucket}/tree/one"):
        fs.mv(path, path.replace("/tree/", "/elsewhere/"))
    assert not fs.exists(f"{bucket}/tree/one")
    assert len(fs.find(f"{bucket}/elsewhere")) == 3
    fs.get(f"{bucket}/moved/", f"{tmp_path}/down/", recursive=True)
    assert tree_of(tmp_path / "down") == {
        name.removeprefix("one/"): data for name, data in tree_of(tmp_path / "up").items() if name != "d"
    }
    fs.rm(bucket, recursive=True)
    assert not fs.exists(bucket)


def test_more_than_a_page(fs: Any, listed: str, bucket: str) -> None:
    assert len(fs.find(listed)) == MANY
    fs.cp_file(f"{listed}/page/0000", f"{bucket}/0")
    fs.copy(f"{listed}/page/", f"{bucket}/copies/", recursive=True)
    assert len(fs.ls(f"{bucket}/copies", detail=False)) == MANY
    fs.rm(f"{bucket}/copies", recursive=True)
    assert fs.ls(bucket, detail=False) == [f"{bucket}/0"]


def test_metadata_tags_and_versions(target: Target, bucket: str) -> None:
    target.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    fs = file_system(target, version_aware=True)
    path = f"{bucket}/k"
    fs.pipe_file(path, b"first")
    fs.pipe_file(path, b"second")
    versions = fs.object_version_info(path)
    assert [fs.cat_file(path, version_id=entry["VersionId"]) for entry in versions] == [b"second", b"first"]
    fs.setxattr(path, colour="blue")
    assert fs.metadata(path)["colour"] == "blue"
    fs.put_tags(path, {"a": "1"})
    assert fs.get_tags(path) == {"a": "1"}
    fs.chmod(path, "private")
    fs.touch(f"{bucket}/empty")
    assert fs.info(f"{bucket}/empty")["size"] == 0
    assert fs.checksum(path) == fs.checksum(path)


def test_exclusive_creation(fs: Any, bucket: str) -> None:
    for size in (10, 6 * MIB):
        with fs.open(f"{bucket}/{size}", "xb") as file:
            file.write(content(size))
        with pytest.raises(FileExistsError), fs.open(f"{bucket}/{size}", "xb") as file:
            file.write(b"other")
        assert fs.cat_file(f"{bucket}/{size}") == content(size)


def test_errors(target: Target, fs: Any, bucket: str) -> None:
    with pytest.raises(FileNotFoundError):
        fs.open(f"{bucket}/none", "rb")
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{bucket}-none")
    with pytest.raises(FileNotFoundError):
        fs.pipe_file(f"{bucket}-none/k", b"x")
    with pytest.raises(PermissionError):
        file_system(target, secret=WRONG_SECRET).ls(bucket)
