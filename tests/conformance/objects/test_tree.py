"""A real directory tree (Python's standard library and some packages), before and after a restart."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sysconfig
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fixtures.targets import MIB, Target, keys_of, running
from tests.fixtures.wire import quote_key

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(900)]

MULTIPART_BYTES: Final = 8 * MIB
THREADS: Final = 6
# There are tens of thousands of files: one in so many is taken of the library, and of packages.
SHARES: Final = {"lib": 3, "site-packages": 24}


def files_below(top: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for directory, folders, names in os.walk(top):
        # Compiled files appear and vanish meanwhile. The library's site-packages may belong to another installation.
        folders[:] = sorted(set(folders) - {"__pycache__", *(["site-packages"] if prefix == "lib" else [])})
        for name in sorted(names):
            path = Path(directory, name)
            if path.is_file() and os.access(path, os.R_OK):
                yield f"{prefix}/{path.relative_to(top)}", path


@pytest.fixture(scope="module")
def tree() -> dict[str, Path]:
    """The files, by key."""
    paths = sysconfig.get_paths()
    tops = {"lib": Path(paths["stdlib"]), "site-packages": Path(paths["purelib"])}
    return dict(
        itertools.chain.from_iterable(
            itertools.islice(files_below(tops[prefix], prefix), 0, None, share) for prefix, share in SHARES.items()
        )
    )


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


def check(client: Any, bucket: str, digests: dict[str, bytes], read: Callable[[str], bytes]) -> None:
    """Check that every key is listed, in order, and that every body is unchanged."""
    assert keys_of(client, bucket) == sorted(digests, key=str.encode)
    with ThreadPoolExecutor(THREADS) as pool:
        found = dict(zip(digests, pool.map(lambda key: digest(read(key)), digests), strict=True))
    assert [key for key in digests if found[key] != digests[key]] == []


def reader(target: Target, bucket: str) -> Callable[[str], bytes]:
    """Reads through boto3."""
    client = target.client()
    return lambda key: client.get_object(Bucket=bucket, Key=key)["Body"].read()


@contextlib.contextmanager
def link_reader(target: Target, bucket: str) -> Iterator[Callable[[str], bytes]]:
    """Reads by presigned URLs, with one connection per thread, in a quarter of boto3's time."""
    wire, local = target.wire, threading.local()
    with contextlib.ExitStack() as connections:

        def get(key: str) -> bytes:
            if not hasattr(local, "connection"):
                local.connection = connections.enter_context(wire.connect())
            link = wire.presign("GET", f"/{bucket}/{quote_key(key)}")
            local.connection.send(f"GET {link} HTTP/1.1\r\nHost: {wire.netloc}\r\n\r\n".encode())
            answer = local.connection.response()
            assert answer.status == 200, answer.body
            body: bytes = answer.body
            return body

        yield get


@pytest.mark.full
def test_every_file_comes_back_before_and_after_a_restart(tmp_path: Path, tree: dict[str, Path]) -> None:
    assert len(tree) > 500
    with running(tmp_path / "store") as first:
        first.client().create_bucket(Bucket="tree")
        digests = upload(first, "tree", tree)
        check(first.client(), "tree", digests, reader(first, "tree"))
    with running(tmp_path / "store") as second:
        with link_reader(second, "tree") as read:
            check(second.client(), "tree", digests, read)
        folders = second.client().list_objects_v2(Bucket="tree", Delimiter="/")["CommonPrefixes"]
        assert [entry["Prefix"] for entry in folders] == ["lib/", "site-packages/"]
