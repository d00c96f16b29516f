"""Workload files: their meaning, and the messages when they are refused."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from orcas.bench.sizes import parse_size, parse_sizes
from orcas.bench.workload import OPERATIONS, Case, built_in, read_workload
from orcas.errors import ConfigurationError

LEAST = 'mix = { put = 1 }\nsize = "1KiB"\n'


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "load.toml"
    path.write_text(text)
    return str(path)


def test_sizes() -> None:
    sizes = {"0": 0, 4096: 4096, "64KiB": 65536, "1 MB": 10**6, "2gib": 2 << 30, "7B": 7}
    assert {text: parse_size(text) for text in sizes} == sizes
    for wrong in ("", "KiB", "-1", "1.5MiB", "1TiB", True, 1.0, -1, 6 << 30):
        with pytest.raises(TypeError, match="a size"):
            parse_size(wrong)
    table = parse_sizes({"1KiB": 3, "1MiB": 1})
    assert (table.weighted, table.range, table.largest) == (((1024, 3), (1 << 20, 1)), None, 1 << 20)
    assert parse_sizes({"from": "1KiB", "to": "1MiB"}).range == (1024, 1 << 20)
    for wrong in ({}, {"1KiB": 0}, {"1KiB": True}, {"from": 0, "to": 5}, {"from": 6, "to": 5}, [1]):
        with pytest.raises(TypeError):
            parse_sizes(wrong)


def test_the_workloads_that_come_with_orcas_cover_the_reports() -> None:
    read = {name: read_workload(name) for name in built_in()}
    for switched in ("batch-write", "batch-write-off"):
        cases = read[switched].cases
        assert all(case.mix == {"put": 1} and case.content == "unique" for case in cases)
        asked = Counter((case.size.largest, case.connections) for case in cases)
        assert asked == Counter((kib << 10, n) for kib in (1, 4, 64) for n in (1, 10, 50, 100))
        assert {case.server["batch_write_enabled"] for case in cases} == {switched == "batch-write"}
    single = {tuple(case.mix): case for case in read["operations"].cases}
    assert {("get",), ("head",), ("put",), ("list",)} <= set(single)
    assert single["list",].list_page == 100
    (reads,) = read["reads-1mib"].cases
    assert (reads.mix, reads.connections, reads.size.largest) == ({"get": 1}, 10, 1 << 20)
    (mixed,) = read["mixed"].cases
    assert set(mixed.mix) == set(OPERATIONS)
    assert {"put", "get"} <= {name for case in read["large"].cases for name in case.mix}
    for workload in read.values():
        assert len({case.name for case in workload.cases}) == len(workload.cases)


def test_cases_and_a_matrix_are_combined(tmp_path: Path) -> None:
    text = """
        seconds = 2
        size = "1KiB"
        connections = 3
        [matrix]
        connections = [1, 2]
        size = ["4KiB", { "1B" = 1, "2B" = 2 }]
        [[case]]
        name = "a"
        mix = { put = 1 }
        [[case]]
        name = "b"
        mix = { get = 1 }
        keys = 7
    """
    cases = read_workload(written(tmp_path, text)).cases
    assert [case.name for case in cases][:3] == [
        "a connections=1 size=4KiB", "a connections=1 size=1B:1,2B:2", "a connections=2 size=4KiB",
    ]  # fmt: skip
    assert [(case.connections, case.size.largest, case.keys) for case in cases][4:] == [
        (1, 4096, 7), (1, 2, 7), (2, 4096, 7), (2, 2, 7),
    ]  # fmt: skip


def test_what_is_given_by_hand_stands_above_the_file() -> None:
    one = read_workload("batch-write", {"connections": 5, "size": "2KiB", "count": 30}).cases
    assert [(case.connections, case.size.largest, case.count, case.seconds) for case in one] == [(5, 2048, 30, None)]
    # A number of operations replaces a duration, and vice versa.
    assert {case.seconds for case in read_workload("large", {"seconds": 1.5}).cases} == {1.5}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mix = ", "cannot be read"),
        ('size = "1KiB"\ncount = 1', "mix is missing"),
        ("mix = { put = 1 }\ncount = 1", "size is missing"),
        (LEAST, "either count or seconds"),
        (LEAST + "count = 1\nseconds = 1", "either count or seconds"),
        (LEAST + "count = 0", "count must be a whole number from 1"),
        (LEAST + "count = true", "count must be a whole number"),
        (LEAST + "seconds = 0.01", "seconds must be seconds from 0.1"),
        (LEAST + 'count = 1\nconnections = "many"', "connections must be a whole number from 1 to 1024, not 'many'"),
        (LEAST + "count = 1\nconections = 1", "conections is not a field, did you mean connections"),
        (LEAST + "count = 1\nverify = 1", "verify must be true or false"),
        (LEAST + 'count = 1\ncontent = "random"', "content must be unique or identical"),
        (LEAST + 'count = 1\n[server]\ndurability = "maybe"', "durability must be one of"),
        (LEAST + "count = 1\n[server]\ndurabilty = 1", "did you mean durability"),
        ('mix = { append = 1 }\nsize = "1KiB"\ncount = 1', "append is not one of them"),
        ('mix = { put = 0 }\nsize = "1KiB"\ncount = 1', "at least one weight above 0"),
        ('mix = { put = -1 }\nsize = "1KiB"\ncount = 1', "weights from 0"),
        ('mix = { put = 1 }\nsize = "big"\ncount = 1', "size must be a size such as"),
        ('mix = { get = 1 }\nsize = "1KiB"\ncount = 1', "get needs keys"),
        ('mix = { delete = 1 }\nsize = "1KiB"\nkeys = 5\nseconds = 1', "the objects run out"),
        ('mix = { delete = 3, put = 1 }\nsize = "1KiB"\nkeys = 5\ncount = 8', "need 6 keys"),
        (LEAST + "count = 1\noverwrite = true\nkeys = 9", "at least as many keys as connections"),
        ('mix = { multipart = 1 }\nsize = 1\ncount = 1\npart_size = "1MiB"', "part_size must be at least 5 MiB"),
        (LEAST + "count = 1\nmatrix = 1", "matrix must be a table of lists"),
        (LEAST + "count = 1\n[matrix]\nsize = []", "matrix must be a table of lists"),
        (LEAST + "count = 1\ncase = []", "case must be an array of tables"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_workload(written(tmp_path, text))
    message = str(error.value)
    assert said in message
    assert "load.toml" in message
    assert message.endswith(".")
    assert "\n" not in message


def test_every_field_and_every_workload_is_documented() -> None:
    document = (Path(__file__).parents[3] / "docs" / "benchmarks" / "measure.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", document.partition("## Workloads")[2], re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert documented == {field.name for field in fields(Case)} | {"description"}
    assert all(f"`{name}`" in document for name in built_in())
    assert all(f"`{name}`" in document for name in OPERATIONS)


def test_a_workload_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="did you mean batch-write"):
        read_workload("batchwrite")
    with pytest.raises(ConfigurationError, match=r"there are .*mixed.*or name a file"):
        read_workload("nothing-like-it")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_workload(str(tmp_path / "none.toml"))
