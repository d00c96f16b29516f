"""docs/format.md is enough to read a store: the golden stores, read by it alone, agree with their manifests."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.golden.document import LogFile, Record, headed, look_at_chunk, numbers, read_keys, read_log, sections, tables
from tests.golden.test_golden import STORES, unpack


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    data = tmp_path_factory.mktemp("golden")
    return data, unpack(request.param, data)


def logs_of(data: Path) -> list[LogFile]:
    """The files with a header, in the order of their records."""
    found = [read_log(path, read_keys(data)) for path in sorted((data / "log").iterdir())]
    return sorted((log for log in found if log), key=lambda log: (log.sequence, log.number))


def records_of(data: Path) -> list[Record]:
    return [record for log in logs_of(data) for record in log.records]


def test_the_files_of_the_log_name_each_other(store: tuple[Path, dict[str, Any]]) -> None:
    logs = {log.number: log for log in logs_of(store[0])}
    replaced = [record.fields for record in records_of(store[0]) if record.kind == 21]
    for log in logs.values():
        file, end, sequence = log.chained
        if file in logs and not log.compacted:
            assert (end, sequence) == (logs[file].end, logs[file].sequence)
        else:
            # It is the first of the log, or the file before it was replaced.
            assert file == 0 or any(sequence <= fields["last"] for fields in replaced)
    assert store[1]["end"] != "closed" or any(log.compacted for log in logs.values())


def test_the_records_say_which_objects_there_are(store: tuple[Path, dict[str, Any]]) -> None:
    data, manifest = store
    names: dict[int, str] = {}
    # The newest version of each key comes last.
    versions: dict[tuple[int, bytes, bytes | None], dict[str, Any]] = {}
    updates: dict[int, dict[str, Any]] = {}
    buckets: dict[int, dict[str, Any]] = {}
    for record in records_of(data):
        fields = record.fields
        if record.kind in {1, 14}:
            names[fields["bucket"]["id"]] = fields["bucket"]["name"].decode()
            buckets[fields["bucket"]["id"]] = fields["bucket"]
        elif record.kind in {7, 9, 13}:
            if record.kind == 9:
                # Compaction keeps this record without the version that it moved.
                versions.pop((fields["from_bucket"], fields["from_key"], fields["version"]["version_id"]), None)
            version = fields["version"] | {"sequence": record.sequence}
            name = version["bucket"], version["key"], version["version_id"]
            versions.pop(name, None)
            versions[name] = version
        elif record.kind == 8:
            versions.pop((fields["bucket"], fields["key"], fields["version_id"]), None)
        elif record.kind == 22:
            updates[fields["version"]] = fields["attributes"]
    for bucket in buckets.values():
        if bucket["role"] == 0 and bucket["versioning"] and bucket["layers"]:
            versions = histories(bucket, buckets, versions)
    check_versions(names, versions, updates, manifest["versions"])
    objects = {(bucket, key): version for (bucket, key, _), version in versions.items()}
    found, sealed = {}, set()
    for (bucket, key), version in objects.items():
        # Layers, snapshots and the buckets of `kinds` are not in this list.
        if version["delete_marker"] or names.get(bucket) not in manifest["buckets"]:
            continue
        parts = f"-{version['etag_parts']}" if version["etag_parts"] else ""
        user = {one["name"].decode(): one["value"].decode() for one in version["headers"]["user"]}
        if "sealed" in version["attributes"]:
            sealed.add((names[bucket], key.decode()))
        found[names[bucket], key.decode()] = (version["size"], f'"{version["etag_md5"].hex()}{parts}"', user)
    expected = {
        (bucket, key): (
            one["size"],
            one["fields"]["ETag"],
            {} if (bucket, key) in sealed else one["fields"].get("Metadata", {}),
        )
        for bucket, held in manifest["buckets"].items()
        for key, one in held["objects"].items()
    }
    assert {name: said for name, said in found.items() if name[1] not in manifest["unanswered"]} == expected


def histories(
    bucket: dict[str, Any], buckets: dict[int, dict[str, Any]], versions: dict[tuple[int, bytes, bytes | None], Any]
) -> dict[tuple[int, bytes, bytes | None], Any]:
    """The versions, those of a bucket with layers and versioning as the bucket shows them. It has no null versions."""
    layers = [layer["bucket"] for layer in bucket["layers"]]
    shown = {name: version for name, version in versions.items() if name[0] != bucket["id"]}
    for at, layer in reversed(list(enumerate(layers))):
        if buckets[layer]["role"] == 4:
            continue
        above = [other for other in layers[:at] if buckets[other]["role"] == 4]
        for (_, key, version_id), version in [item for item in versions.items() if item[0][0] == layer]:
            amended = [versions[other, key, version_id] for other in above if (other, key, version_id) in versions]
            if not amended or not amended[0]["delete_marker"]:
                shown[bucket["id"], key, version_id] = [*amended, version][0]
    return shown


def check_versions(
    names: dict[int, str],
    versions: dict[tuple[int, bytes, bytes | None], dict[str, Any]],
    updates: dict[int, dict[str, Any]],
    expected: dict[str, list[dict[str, Any]]],
) -> None:
    """The versions of the buckets that have versioning are the expected ones, with their present attributes."""
    found: dict[str, set[tuple[Any, ...]]] = {bucket: set() for bucket in expected}
    for (bucket, key, version_id), version in versions.items():
        if names.get(bucket) in found:
            attributes = updates.get(version["sequence"], version["attributes"])
            tags = tuple((tag["key"].decode(), tag["value"].decode()) for tag in attributes.get("tags", []))
            shown = version_id.hex() if version_id else "null"
            found[names[bucket]].add((key.decode(), shown, bool(version["delete_marker"]), tags, "until" in attributes))
    assert found == {
        bucket: {
            (
                one["key"],
                one["id"],
                "etag" not in one,
                tuple((tag["Key"], tag["Value"]) for tag in one.get("tags", [])),
                "until" in one,
            )
            for one in held
        }
        for bucket, held in expected.items()
    }


def test_every_chunk_is_where_its_record_says(store: tuple[Path, dict[str, Any]]) -> None:
    data, _ = store
    packs: dict[int, tuple[bytes, bytes]] = {}
    for path in (data / "chunks").iterdir():
        pack = path.read_bytes()
        packs[int(path.stem)] = pack, headed(pack, (b"ORCASPAK",), 1, read_keys(data), int(path.stem))
    chunks: dict[int, dict[str, Any]] = {}
    for record in records_of(data):
        if record.kind in {5, 26}:
            chunks[record.sequence] = record.fields
        elif record.kind == 17:
            for blob in record.fields["blobs"]:
                chunks.pop(blob, None)
        elif record.kind == 18:
            for moved in record.fields["moves"]:
                if moved["blob"] in chunks:
                    chunks[moved["blob"]] |= {"pack": moved["pack"], "offset": moved["offset"]}
    assert chunks
    for chunk in chunks.values():
        look_at_chunk(*packs[chunk["pack"]], chunk["offset"], chunk)


def test_the_index_has_the_documented_tables(store: tuple[Path, dict[str, Any]]) -> None:
    data, manifest = store
    with contextlib.closing(sqlite3.connect(data / "index.db")) as index:
        schema = [name for (name,) in index.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = {name: {row[1] for row in index.execute(f"PRAGMA table_info({name})")} for name in schema}
        (position,) = index.execute("SELECT value FROM meta WHERE name = 'position'").fetchone()
        versions = index.execute("PRAGMA application_id").fetchone() + index.execute("PRAGMA user_version").fetchone()
    documented = {
        title: set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", text, re.MULTILINE))))
        for title, text in sections().items()
        if "| Column | Meaning |" in text
    }
    # The columns of `meta` are followed by the names of its rows.
    documented["meta"] = {"name", "value"}
    assert documented == columns
    assert versions == (0x4F524349, 5)
    assert len(position) == 56
    file, offset, sequence = numbers(position, 0, 3)
    logs = {log.number: log for log in logs_of(data)}
    assert (sequence < max(log.sequence for log in logs.values())) == (manifest["end"] == "killed")
    assert offset <= logs[file].end


# Chunks move only where the file system cannot punch holes.
MOVED = {"18", "ChunkMove"}


def shapes(title: str, fields: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The record and structures in it; their fields, by name and condition; and the values of codes."""
    yield title, "", None
    for row in tables()[title]:
        if not row.is_there(fields):
            continue
        value = fields[row.name]
        yield title, row.name, (row.relation, row.number)
        if row.type == "code":
            yield title, row.name, value
        of = row.type.split("[")[0]
        if of in tables():
            for inner in value if isinstance(value, list) else [value]:
                yield from shapes(of, inner)


def documented_shapes() -> Iterator[tuple[str, str, Any]]:
    """All that the document has."""
    for title in tables():
        yield title, "", None
        for row in tables()[title]:
            yield title, row.name, (row.relation, row.number)
            yield from ((title, row.name, value) for value in row.values if row.type == "code")


def test_the_stores_have_every_kind_of_record_document_and_field(tmp_path: Path) -> None:
    found = set()
    for name in STORES:
        unpack(name, tmp_path / name)
        for record in records_of(tmp_path / name):
            found |= set(shapes(str(record.kind), record.fields))
    # Who adds a kind makes another golden store with it: `python -m tests.golden.make NAME`.
    assert {shape for shape in documented_shapes() if shape[0] not in MOVED} - found == set()
    # And the other way round.
    assert found <= set(documented_shapes())
