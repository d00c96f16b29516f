"""The S3 file system of Arrow's C++ library, and data sets on it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET, package
from tests.fixtures.targets import MIB, Target, content, keys_of, read

arrow = package("pyarrow")
files = package("pyarrow.fs")
datasets = package("pyarrow.dataset")
parquet = package("pyarrow.parquet")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


def file_system(target: Target, **others: Any) -> Any:
    server = target.server
    settings = {"access_key": server.access_key, "secret_key": server.secret_key, "region": server.region} | others
    return files.S3FileSystem(
        **settings, scheme="http", endpoint_override=urlsplit(server.endpoint).netloc, allow_bucket_creation=True,
        allow_bucket_deletion=True,
    )  # fmt: skip


@pytest.fixture
def fs(target: Target) -> Any:
    return file_system(target)


@pytest.mark.parametrize("key", AWKWARD)
def test_streams(fs: Any, s3: Any, bucket: str, key: str) -> None:
    data = content(25 * MIB + 1)
    with fs.open_output_stream(f"{bucket}/{key}", metadata={"Content-Type": "x/y", "m": "1"}) as out:
        for start in range(0, len(data), 4 * MIB):
            out.write(data[start : start + 4 * MIB])
    head = s3.head_object(Bucket=bucket, Key=key)
    assert (head["ContentLength"], head["ContentType"]) == (len(data), "x/y")
    assert "-" in head["ETag"]
    with fs.open_input_file(f"{bucket}/{key}") as file:
        file.seek(7 * MIB)
        assert file.read(100) == data[7 * MIB : 7 * MIB + 100]
    with fs.open_input_stream(f"{bucket}/{key}") as stream:
        assert stream.read() == data
    fs.copy_file(f"{bucket}/{key}", f"{bucket}/{key}.copy")
    fs.move(f"{bucket}/{key}", f"{bucket}/moved")
    # pyarrow keeps the directory of a file that it has moved.
    assert {name for name in keys_of(s3, bucket) if not name.endswith("/")} == {f"{key}.copy", "moved"}
    assert read(s3, bucket, f"{key}.copy") == data


def test_small_files(fs: Any, s3: Any, bucket: str) -> None:
    for size in (0, 1, 70_000):
        with fs.open_output_stream(f"{bucket}/k") as out:
            out.write(content(size))
        assert read(s3, bucket, "k") == content(size)


def test_directories(fs: Any, s3: Any, bucket: str) -> None:
    fs.create_dir(f"{bucket}/a/b", recursive=True)
    with fs.open_output_stream(f"{bucket}/a/b/file") as out:
        out.write(b"x")
    found = {info.path: info.type for info in fs.get_file_info(files.FileSelector(bucket, recursive=True))}
    assert found == {
        f"{bucket}/a": files.FileType.Directory,
        f"{bucket}/a/b": files.FileType.Directory,
        f"{bucket}/a/b/file": files.FileType.File,
    }
    fs.delete_dir(f"{bucket}/a/b")
    assert fs.get_file_info(f"{bucket}/a/b/file").type == files.FileType.NotFound
    fs.delete_dir_contents(bucket)
    assert keys_of(s3, bucket) == []
    fs.create_dir(f"{bucket}-2")
    fs.delete_dir(f"{bucket}-2")


def test_more_than_a_page(fs: Any, s3: Any, listed: str, bucket: str) -> None:
    found = fs.get_file_info(files.FileSelector(listed, recursive=True))
    assert sum(info.type == files.FileType.File for info in found) == MANY
    for number in range(MANY):
        s3.put_object(Bucket=bucket, Key=f"d/{number}", Body=b"")
    fs.delete_dir(f"{bucket}/d")
    assert [key for key in keys_of(s3, bucket) if key != "d/"] == []


def test_data_sets(fs: Any, bucket: str) -> None:
    rows = 200_000
    table = arrow.table(
        {"n": range(rows), "part": [f"p {n % 3}+" for n in range(rows)], "text": [f"ü{n}" for n in range(rows)]}
    )
    parts = datasets.partitioning(arrow.schema([("part", arrow.string())]), flavor="hive")
    datasets.write_dataset(table, f"{bucket}/set", filesystem=fs, format="parquet", partitioning=parts)
    found = datasets.dataset(f"{bucket}/set", filesystem=fs, format="parquet", partitioning=parts)
    assert found.count_rows() == rows
    chosen = found.to_table(columns=["n"], filter=(datasets.field("part") == "p 1+") & (datasets.field("n") < 10))
    assert sorted(chosen["n"].to_pylist()) == [1, 4, 7]
    assert found.to_table().sort_by("n").select(table.column_names).equals(table)


def test_a_parquet_file(fs: Any, bucket: str) -> None:
    table = arrow.table({"n": range(2_000_000)})
    parquet.write_table(table, f"{bucket}/large.parquet", filesystem=fs, compression="none", row_group_size=100_000)
    assert parquet.read_metadata(f"{bucket}/large.parquet", filesystem=fs).num_row_groups == 20
    assert parquet.read_table(f"{bucket}/large.parquet", filesystem=fs, filters=[("n", "=", 1_234_567)]).num_rows == 1
    assert parquet.read_table(f"{bucket}/large.parquet", filesystem=fs).equals(table)


def test_errors(target: Target, fs: Any, bucket: str) -> None:
    assert fs.get_file_info(f"{bucket}/none").type == files.FileType.NotFound
    with pytest.raises(FileNotFoundError):
        fs.open_input_file(f"{bucket}/none")
    with pytest.raises(OSError, match="NO_SUCH_BUCKET"):
        fs.get_file_info(files.FileSelector(f"{bucket}-none"))
    with pytest.raises(OSError, match=r"(?i)bucket does not exist"), fs.open_output_stream(f"{bucket}-none/k") as out:
        out.write(b"x")
    with pytest.raises(OSError, match=r"ACCESS_DENIED|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch"):
        file_system(target, secret_key=WRONG_SECRET).get_file_info(files.FileSelector(bucket))
