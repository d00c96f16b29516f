"""A real directory tree: this Python's standard library and site-packages, kept in Orcas, before and after a restart."""

from __future__ import annotations

import hashlib
import itertools
import os
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fixtures.targets import MIB, Target, keys_of, running

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(900)]

MULTIPART_BYTES: Final = 8 * MIB
THREADS: Final = 16


def files_below(top: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for directory, folders, names in os.walk(top):
        # Compiled files come and go while Python runs. The library's own site-packages may be another installation's.
        folders[:] = sorted(set(folders) - {"__pycache__", *(["site-packages"] if prefix == "lib" else [])})
        for name in sorted(names):
            path = Path(directory, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield f"{prefix}/{path.relative_to(top)}", path


@pytest.fixture(scope="module")
def tree() -> dict[str, Path]:
    """Keys and files."""
    paths = sysconfig.get_paths()
    packages = files_below(Path(paths["purelib"]), "site-packages")
    return dict(itertools.chain(files_below(Path(paths["stdlib"]), "lib"), packages))


def digest(data: bytes) -> bytes:
    return hashlib.blake2b(data).digest()


def upload(target: Target, bucket: str, tree: dict[str, Path]) -> dict[str, bytes]:
    client = target.client()

    def put(item: tuple[str, Path]) -> tuple[str, bytes]:
        key, path = item
        data = path.read_bytes()
        if len(data) > MULTIPART_BYTES:
            client.upload_file(str(path), bucket, key)
        else:
            with path.open("rb") as file:
                client.put_object(Bucket=bucket, Key=key, Body=file)
        return key, digest(data)

    with ThreadPoolExecutor(THREADS) as pool:
        return dict(pool.map(put, tree.items()))


def check(client: Any, bucket: str, digests: dict[str, bytes]) -> None:
    """Every key is listed, in order, and every body is what it was."""
    assert keys_of(client, bucket) == sorted(digests, key=str.encode)

    def get(key: str) -> tuple[str, bytes]:
        return key, digest(client.get_object(Bucket=bucket, Key=key)["Body"].read())

    with ThreadPoolExecutor(THREADS) as pool:
        found = dict(pool.map(get, digests))
    assert [key for key in digests if found[key] != digests[key]] == []


def test_every_file_comes_back_before_and_after_a_restart(tmp_path: Path, tree: dict[str, Path]) -> None:
    assert len(tree) > 1000
    with running(tmp_path / "store") as first:
        first.client().create_bucket(Bucket="tree")
        digests = upload(first, "tree", tree)
        check(first.client(), "tree", digests)
    with running(tmp_path / "store") as second:
        check(second.client(), "tree", digests)
        folders = second.client().list_objects_v2(Bucket="tree", Delimiter="/")["CommonPrefixes"]
        assert [entry["Prefix"] for entry in folders] == ["lib/", "site-packages/"]
