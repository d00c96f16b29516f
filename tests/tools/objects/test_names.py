"""Names of files and keys, both ways: a path gives back its key, and no key leads out of a directory."""

from __future__ import annotations

import os
import stat
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orcas.errors import UsageError
from orcas.tools.imports.requests import ObjectError
from orcas.tools.transfers.files import Tree, files_below
from orcas.tools.transfers.places import Place, bucket_of, object_of, parts_of, place_of

# What file systems take as a name, and keys that are made of the same and of what leads elsewhere.
NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: name not in (b".", b"..") and not {0, 47} & set(name))
PARTS = st.sampled_from([b"", b".", b"..", b"a", b"..a", b"a\n", b"\xff", b"\0", b"~", b"-", b"x" * 256]) | NAMES
KEYS = st.lists(PARTS, min_size=1, max_size=5).map(b"/".join) | st.binary(min_size=1, max_size=30)


def fresh(tmp_path: Path) -> Path:
    """A directory of its own for each example."""
    number = len(list(tmp_path.iterdir()))
    top = tmp_path / str(number) / "top"
    top.mkdir(parents=True)
    return top


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=5))
def test_a_file_comes_back_under_its_name(paths: list[list[bytes]], tmp_path: Path) -> None:
    top, back = os.fsencode(fresh(tmp_path)), os.fsencode(fresh(tmp_path))
    for parts in paths:
        # One may be in the way of another.
        try:
            with Tree(top, 0o022).written(parts) as descriptor:
                os.write(descriptor, b"/".join(parts))
        except ObjectError:
            continue
    keys = dict(files_below(top, []))
    assert list(keys) == sorted(keys)
    for key, path in keys.items():
        parts = parts_of(key)
        assert parts is not None
        with Tree(back, 0o022).written(parts) as descriptor:
            os.write(descriptor, Path(os.fsdecode(path)).read_bytes())
    assert list(files_below(back, [])) == [(key, path.replace(top, back, 1)) for key, path in keys.items()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.lists(KEYS, min_size=1, max_size=4, unique=True))
def test_a_key_is_a_file_of_its_own_below_the_directory_or_refused(keys: list[bytes], tmp_path: Path) -> None:
    top = fresh(tmp_path)
    written = Counter[bytes]()
    for key in keys:
        if (parts := parts_of(key)) is None:
            continue
        assert b"/".join(parts) == key
        try:
            with Tree(os.fsencode(top), 0o022).written(parts) as descriptor:
                os.write(descriptor, key)
        except ObjectError:
            continue
        written[key] += 1
    # Nothing else was made, inside or outside.
    assert [path.name for path in top.parent.iterdir()] == ["top"]
    found = dict(files_below(os.fsencode(top), []))
    assert found.keys() == written.keys()
    assert all(Path(os.fsdecode(path)).read_bytes() == key for key, path in found.items())


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"before")

    def fail(error: BaseException) -> None:
        with Tree(os.fsencode(tmp_path), 0).written([b"file"]) as descriptor:
            os.write(descriptor, b"half")
            raise error

    for error in (ObjectError("wrong"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            fail(error)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"before")]
    with Tree(os.fsencode(tmp_path), 0o027).written([b"a", b"new"]):
        pass
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "a" / "new").stat().st_mode) == 0o640


@given(bucket=st.text("abc-.", min_size=1), key=st.text())
def test_what_is_typed_is_the_bucket_and_the_key(bucket: str, key: str) -> None:
    try:
        expected = os.fsencode(key)
    except UnicodeEncodeError:
        # No argument has such a letter.
        return
    assert place_of(f"s3://{bucket}/{key}") == Place(bucket, expected)
    assert place_of(f"s3://{bucket}") == Place(bucket)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (place_of, "s3://"),
        (place_of, "s3:///key"),
        (place_of, "bucket/key"),
        (object_of, "s3://bucket"),
        (object_of, "s3://bucket/"),
        (bucket_of, "s3://bucket/key"),
    ],
)
def test_what_names_nothing_is_refused(parse: object, text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)  # type: ignore[operator]
