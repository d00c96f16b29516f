"""`orcas bench` as users run it: right counts on a real server, and every error of a wrong one noticed."""

from __future__ import annotations

import contextlib
import itertools
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bench.conftest import KEYS, Fake, serving
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, keys_of

from orcas.settings.config import child_environment

WEIGHTS = {"put": 20, "get": 30, "head": 15, "list": 10, "delete": 10, "copy": 13, "multipart": 2}
EVERYTHING = f"""
connections = 8
count = 300
keys = 50
size = {{ "0" = 1, "5" = 1, "1KiB" = 10, "100KiB" = 3, "1MiB" = 1 }}
list_page = 20
mix = {{ {", ".join(f"{name} = {weight}" for name, weight in WEIGHTS.items())} }}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "load.toml"
    path.write_text(text)
    return path


def environment(target: Target) -> dict[str, str]:
    server = target.server
    return {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}


def only(shown: dict[str, Any]) -> dict[str, Any]:
    """The result of the only case on the only server."""
    (case,) = shown["cases"]
    (result,) = case["servers"]
    return dict(result)


@pytest.mark.parametrize("target", ["disk", "chunked"], indirect=True)
@pytest.mark.parametrize(
    "fields", [[], ["content=identical", "payload=unsigned"], ["overwrite=true", "threads=2"], ["payload=unsigned"]]
)
def test_every_operation_is_counted_and_verified(target: Target, tmp_path: Path, fields: list[str]) -> None:
    client = target.client()
    foreign = f"foreign-{len(fields)}-{tmp_path.name[-20:].replace('_', '-').strip('-')}".lower()
    client.create_bucket(Bucket=foreign)
    client.put_object(Bucket=foreign, Key="o/00000000-00000000", Body=b"not of the run")
    before = [entry["Name"] for entry in client.list_buckets()["Buckets"]]
    options = [word for field in fields for word in ("--set", field)]
    load = written(tmp_path, EVERYTHING)
    shown = document("bench", target.server.endpoint, "--workload", load, *options, **environment(target))
    assert shown["format"] == "orcas-bench/1"
    assert shown["ok"]
    result = only(shown)
    operations = result["total"]["operations"]
    assert {name: found["done"] + found["raced"] for name, found in operations.items()} == {
        name: weight * 3 for name, weight in WEIGHTS.items()
    }
    assert result["wrong"] == result["errors"] == 0
    for found in operations.values():
        assert found["errors"] == {}
        latency = found["latency_ms"]
        quantiles = [latency[name] for name in ("min", "p50", "p90", "p99", "p999", "max")]
        assert quantiles == sorted(quantiles)
        assert latency["min"] > 0
    assert operations["multipart"]["bytes"] == 6 * (10 << 20)
    assert result["read_back"]["done"] > 50
    assert result["total"]["client_cpu_seconds"] > 0
    if sys.platform == "linux":
        assert [process["pid"] for process in result["server"]["processes"]] == [target.server.pid]
        assert result["total"]["server_cpu_seconds"] > 0
    assert [entry["Name"] for entry in client.list_buckets()["Buckets"]] == before
    assert keys_of(client, foreign) == ["o/00000000-00000000"]


@pytest.mark.full
def test_a_server_of_its_own_needs_nothing(tmp_path: Path) -> None:
    shown = document("bench", "--count", "100", "--set", "keys=20", "--set", "warmup_seconds=0", "--data", tmp_path)
    names = [case["name"] for case in shown["cases"]]
    assert names == ["put", "get", "head", "list", "copy", "delete"]
    for case in shown["cases"]:
        (result,) = case["servers"]
        assert result["ok"]
        assert result["total"]["done"] == 100
        assert result["server"]["own"]
        assert result["server"]["durability"] == "sync"
        assert case["mix"]
        assert case["count"] == 100
    assert list(tmp_path.iterdir()) == []


def test_tables_for_people(tmp_path: Path) -> None:
    done = command("bench", "--workload", "reads-1mib", "--seconds", "0.3", "--set", "keys=5", "--data", tmp_path)
    assert "p99.9" in done
    row = next(line for line in done.splitlines() if line.startswith("reads-1mib"))
    assert row.split()[1] == "get"
    listed = command("bench", "--list")
    assert {"operations", "batch-write", "mixed"} <= {line.split()[0] for line in listed.splitlines()}
    assert document("bench", "--list")["mixed"]["cases"] == 1


GETS = 'mix = { get = 1 }\nkeys = 10\nconnections = 3\ncount = 60\nsize = "10000"\n'
PUTS = 'mix = { put = 1 }\nconnections = 3\ncount = 60\nsize = "10000"\n'


def flip(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
    """Change the byte at 7777."""
    if method == "GET" and "/o/" in path and body:
        body = body[:7777] + bytes([body[7777] ^ 4]) + body[7778:]
    return status, body


def another(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
    """Replace the object with another one of the same length."""
    return status, bytes(len(body)) if method == "GET" and "/o/" in path else body


def shorten(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
    """Leave out the last byte."""
    return status, body[:-1] if method == "GET" and "/o/" in path else body


@pytest.mark.parametrize(
    ("twist", "said"), [(flip, "has another byte at 7777"), (another, "has another byte at 0"), (shorten, "9999 bytes")]
)
@pytest.mark.parametrize("text", [GETS, PUTS], ids=["measured", "read back"])
def test_wrong_bytes_are_reported(
    fake: Fake, tmp_path: Path, text: str, twist: Callable[[str, str, int, bytes], tuple[int, bytes]], said: str
) -> None:
    fake.twist = twist
    load = written(tmp_path, text)
    result = only(document("bench", fake.url, "--workload", load, code=1, **KEYS))
    assert not result["ok"]
    if text == GETS:
        get = result["total"]["operations"]["get"]
        assert (result["wrong"], get["done"], get["wrong"], get["latency_ms"]) == (60, 0, 60, None)
        told = result["total"]["wrong_examples"]
    else:
        assert (result["wrong"], result["total"]["done"]) == (0, 60)
        assert (result["read_back"]["wrong"], result["read_back"]["done"]) == (60, 0)
        told = result["read_back"]["wrong_examples"]
    assert all(said in line for line in told)
    shown = command("bench", fake.url, "--workload", load, code=1, **KEYS)
    assert "WRONG" in shown
    assert said in shown
    unseen = document("bench", fake.url, "--workload", load, "--set", "verify=false", **KEYS)
    assert only(unseen)["ok"], "nobody looked"


def test_errors_are_counted_by_status_and_code_and_never_tried_again(fake: Fake, tmp_path: Path) -> None:
    # Several threads send requests: each gets its own number.
    seen = itertools.count(1)

    def busy(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        if method == "GET" and "/o/" in path:
            if next(seen) % 4 == 0:
                return 503, b"<Error><Code>SlowDown</Code></Error>"
        return status, body

    fake.twist = busy
    result = only(document("bench", fake.url, "--workload", written(tmp_path, GETS), code=1, **KEYS))
    get = result["total"]["operations"]["get"]
    assert (get["done"], get["errors"], get["wrong"]) == (45, {"503 SlowDown": 15}, 0)
    assert get["latency_ms"] is not None
    assert next(seen) == 61


def test_only_what_the_run_made_is_removed(fake: Fake, tmp_path: Path) -> None:
    fake.buckets.add("theirs")
    fake.objects["theirs/o/00000000-00000000"] = b"theirs"
    assert document("bench", fake.url, "--workload", written(tmp_path, PUTS), **KEYS)["ok"]
    assert fake.buckets == {"theirs"}
    assert list(fake.objects) == ["theirs/o/00000000-00000000"]
    assert all(path.startswith("orcas-bench-") for _, _, path in fake.asked)

    def slip_in(method: str, path: str, status: int, body: bytes) -> tuple[int, bytes]:
        if method == "PUT" and "/" in path:
            fake.objects[path.partition("/")[0] + "/somebody/elses"] = b"theirs"
        return status, body

    fake.twist = slip_in
    result = only(document("bench", fake.url, "--workload", written(tmp_path, PUTS), code=1, **KEYS))
    assert result["bucket_left"].startswith("orcas-bench-")
    assert "409, It is not empty" in result["notes"][-1]
    assert [path.partition("/")[2] for path in fake.objects] == ["o/00000000-00000000", "somebody/elses"]


def test_settings_that_nobody_could_set_are_told(fake: Fake, tmp_path: Path) -> None:
    load = written(tmp_path, PUTS + '[server]\ndurability = "buffered"\n')
    assert "is meant for a server with durability=buffered" in command("bench", fake.url, "--workload", load, **KEYS)
    own = only(document("bench", "--workload", load, "--data", tmp_path))
    assert own["server"]["durability"] == "buffered"
    assert not any("is meant for a server" in note for note in own["notes"])


def test_two_servers_are_measured_in_turn(tmp_path: Path) -> None:
    record: list[tuple[str, str, str]] = []
    load = written(tmp_path, GETS)
    with serving(Fake(name="A", record=record)) as a, serving(Fake(name="B", record=record)) as b:
        shown = document("bench", a.url, "--against", b.url, "--rounds", "4", "--workload", load, **KEYS)
    asked = [name for name, method, path in record if method == "GET" and "/o/" in path]
    turns = [name for at, name in enumerate(asked) if at == 0 or asked[at - 1] != name]
    assert turns == ["A", "B", "A", "B", "A"], "A B, B A, A B, B A"
    (case,) = shown["cases"]
    assert [len(result["rounds"]) for result in case["servers"]] == [4, 4]
    assert [result["total"]["done"] for result in case["servers"]] == [240, 240]
    (comparison,) = case["comparisons"]
    assert (comparison["over"], comparison["under"]) == (b.url, a.url)
    for name in ("operations_per_second", "get_p50", "get_p99"):
        found = comparison["ratios"][name]
        assert 0 < found["low"] <= found["ratio"] <= found["high"]
        assert found["rounds"] == 4


def test_a_server_against_one_of_its_own(target: Target, tmp_path: Path) -> None:
    words = ["bench", target.server.endpoint, "--against", "own", "--rounds", "2", "--data", str(tmp_path)]
    shown = command(*words, "--workload", str(written(tmp_path, GETS)), **environment(target))
    assert "B ÷ A" in shown
    assert f"A is {target.server.endpoint}" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--workload", "batchwrite"], 2, "did you mean batch-write"),
        (["--connections", "0"], 2, "connections must be a whole number"),
        (["--count", "5", "--seconds", "5"], 2, "either count or seconds"),
        (["--size", "large"], 2, "size must be a size"),
        (["--set", "keys"], 2, "--set needs FIELD=VALUE"),
        (["--set", "kees=1"], 2, "kees is not a field, did you mean keys"),
        (["https://127.0.0.1:9000"], 2, "does not support TLS"),
        (["127.0.0.1:9000"], 2, "is not a server"),
        (["http://127.0.0.1:9000/path"], 2, "is not a server"),
        (["http://127.0.0.1:port"], 2, "is not a server"),
        (["http://127.0.0.1:1", "--access-key", "a"], 2, "one pair"),
        (["http://127.0.0.1:1"], 78, "There is no key"),
        (["http://127.0.0.1:1", "--access-key", "a", "--secret-key", "b"], 69, "cannot be reached"),
        (["http://no-such-host.invalid", "--access-key", "a", "--secret-key", "b"], 69, "cannot be reached"),
        (["--data", "/dev/null"], 2, "must be a directory"),
    ],
)
def test_what_cannot_be_run(arguments: list[str], code: int, said: str) -> None:
    assert said in command("bench", *arguments, code=code, AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")


def test_a_refused_key(target: Target) -> None:
    keys = {"AWS_ACCESS_KEY_ID": target.server.access_key, "AWS_SECRET_ACCESS_KEY": "another-secret-key"}
    assert "refused to create a bucket (403" in command("bench", target.server.endpoint, code=1, **keys)


def test_objects_that_are_not_taken_end_a_run(fake: Fake, tmp_path: Path) -> None:
    fake.twist = lambda method, path, status, body: (507, b"") if method == "PUT" and "/o/" in path else (status, body)
    said = command("bench", fake.url, "--workload", written(tmp_path, GETS), code=1, **KEYS)
    assert "rejected 10 of 10 objects of load (507)" in said
    assert fake.buckets == set()


@contextlib.contextmanager
def started(*arguments: str, stderr: int = subprocess.PIPE, **variables: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "orcas", "bench", *arguments],
        env=child_environment() | variables, stdout=subprocess.PIPE, stderr=stderr, text=True,
        # SIGINT may be ignored if the tests run in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_interrupted_cleans_up(target: Target, number: signal.Signals) -> None:
    client = target.client()

    def ours() -> list[str]:
        return [e["Name"] for e in client.list_buckets()["Buckets"] if e["Name"].startswith("orcas-bench-")]

    with started(target.server.endpoint, "--workload", "mixed", "--seconds", "600", **environment(target)) as process:
        deadline = time.monotonic() + 30
        while not (ours() and keys_of(client, ours()[0])):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(number)
        shown, told = process.communicate(timeout=30)
        assert process.returncode == 130
        assert shown == ""
        assert "Traceback" not in told
    assert ours() == []


@pytest.mark.full
def test_a_bar_on_a_terminal_and_lines_in_a_pipe(tmp_path: Path) -> None:
    words = ["--count", "500", "--workload", "reads-1mib", "--set", "keys=10", "--data", str(tmp_path)]
    with started(*words) as process:
        shown, told = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "reads-1mib" in shown
        # A case that ends before it is polled is not reported.
        steps = {f"reads-1mib{what}" for what in ("", ", preparing", ", warming up", ", reading back")}
        assert told
        assert set(told.splitlines()) <= steps
    assert "━".encode() in on_a_terminal(words)
    assert on_a_terminal([*words, "--json"]) == b""


def on_a_terminal(words: list[str]) -> bytes:
    """What a run prints on stderr if that is a terminal."""
    ours, theirs = pty.openpty()
    text = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65536):
                text.extend(piece)

    reader = threading.Thread(target=read)
    with started(*words, stderr=theirs, TERM="xterm") as process:
        os.close(theirs)
        reader.start()
        process.communicate(timeout=60)
        assert process.returncode == 0
    reader.join()
    os.close(ours)
    return bytes(text)
