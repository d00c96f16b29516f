"""`orcas probe`: what it finds of Orcas, and of stores that break one rule each; and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import ran
from tests.fixtures.servers.unreliable import unreliable
from tests.fixtures.targets import Target, keys_of
from tests.tools.objects.conftest import Command

from orcas.settings.config import child_environment
from orcas.tools.probe import Answer, FoundError, judge

HOLDS, BROKEN, OPEN = "holds", "does not hold", "could not be told"
CHECKS = [
    "create-existing", "create-new", "swap", "create-race", "swap-race", "read-after-write", "list-after-write",
    "create-after-delete", "etags",
]  # fmt: skip
# Each fault of a store with two endpoints, the checks that do not hold or cannot be told, and words about the first.
FAULTS = {
    "ignores-create": ({"create-existing": BROKEN, "create-race": BROKEN}, "status 200 instead of 412"),
    "ignores-match": (
        {"swap": BROKEN, "swap-race": BROKEN},
        "`If-Match` with an older ETag was answered with status 200",
    ),
    "two-winners": ({"create-race": BROKEN, "swap-race": BROKEN}, "2 of 16 writers at once were told that they won"),
    "stale-list": ({"list-after-write": BROKEN}, "after a write lacks the object: nothing follows"),
    "stale-second": (
        {"read-after-write": BROKEN},
        "after a second write gave other content: readers act on an old state",
    ),
    "conflict": (
        {"create-existing": BROKEN, "swap": BROKEN},
        "`If-None-Match: *` on a taken name was answered with status 409 instead of 412",
    ),
    "no-conditions": (
        dict.fromkeys(
            ("create-existing", "create-new", "swap", "create-race", "swap-race", "create-after-delete"), BROKEN
        ),
        "status 501 instead of 412",
    ),
    "refused-writes-land": (
        dict.fromkeys(("create-existing", "swap", "create-race", "swap-race"), BROKEN),
        "gave other content: who comes second replaces what is there",
    ),
    "etags": ({"swap": BROKEN, "swap-race": BROKEN, "etags": BROKEN}, "was answered with status 200 instead of 412"),
    "no-lists": ({"list-after-write": OPEN}, "nobody knows whether lists through every endpoint"),
    "busy": (
        dict.fromkeys(
            ("create-existing", "create-new", "swap", "create-race", "swap-race", "create-after-delete"), OPEN
        ),
        "status 503: nobody knows whether",
    ),
    "cuts-conditions": (
        dict.fromkeys(
            ("create-existing", "create-new", "swap", "create-race", "swap-race", "create-after-delete"), OPEN
        ),
        "closed the connection",
    ),
}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Callable[[str], Command]:
    """The command at the address of a store that takes any key."""
    kept = {name: value for name, value in child_environment().items() if not name.startswith("AWS_")}
    nowhere = {"XDG_DATA_HOME": str(tmp_path / "none"), "HOME": str(tmp_path)}
    keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "key"}
    return lambda url: Command(kept | nowhere | keys, tmp_path, url)


def versions_of(s3: Any, bucket: str) -> list[Any]:
    found = s3.list_object_versions(Bucket=bucket)
    return [*found.get("Versions", []), *found.get("DeleteMarkers", [])]


@pytest.mark.parametrize("versioning", ["", "Enabled", "Suspended"])
def test_orcas_keeps_every_promise(target: Target, bucket: str, orcas: Command, versioning: str) -> None:
    s3 = target.client()
    if versioning:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": versioning})
    s3.put_object(Bucket=bucket, Key="folder/kept", Body=b"kept")
    found = orcas.json("probe", f"s3://{bucket}/folder", "--endpoint", orcas.endpoint)
    assert found["place"].startswith(f"s3://{bucket}/folder/orcas-probe-")
    assert [(each["check"], each["verdict"]) for each in found["checks"]] == [(check, HOLDS) for check in CHECKS]
    assert 250 < found["requests"] < 500
    assert keys_of(s3, bucket) == ["folder/kept"]
    assert len(versions_of(s3, bucket)) == 1


def test_a_store_that_no_server_has_open(tmp_path: Path, orcas: Command) -> None:
    """Its sentences name each check, and say what it means."""
    import orcas as library

    with library.Server(tmp_path / "data", buckets=["photos"]):
        pass
    done = subprocess.run(
        [Path(sys.executable).parent / "orcas", "probe", "s3://photos", "--data", tmp_path / "data"],
        env=orcas.variables, cwd=orcas.directory, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["Check", *CHECKS]
    assert all(HOLDS in line and line.rstrip().endswith(".") and ", so " in line for line in lines[1:])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_rule_is_named(fault: str, elsewhere: Callable[[str], Command]) -> None:
    expected, words = FAULTS[fault]
    with unreliable(fault, ports=2) as store:
        there = elsewhere(store.urls[1])
        code = 3 if BROKEN in expected.values() else 1
        done = there.run("probe", "s3://bucket/here", "--endpoint", store.urls[0], "--json", code=code)
        assert store.objects == {}
    found = json.loads(done.stdout)["checks"]
    assert {each["check"]: each["verdict"] for each in found if each["verdict"] != HOLDS} == expected
    assert words in next(each["meaning"] for each in found if each["verdict"] != HOLDS)
    if code == 1:
        assert f"Checks that could not be told: {len(expected)}: " in json.loads(done.stderr)["error"]["message"]
    else:
        assert done.stderr == b""


def test_a_store_in_order_keeps_every_promise(elsewhere: Callable[[str], Command]) -> None:
    with unreliable(ports=2) as store:
        found = elsewhere(store.urls[1]).json("probe", "s3://bucket", "--endpoint", store.urls[0])
        assert [each["verdict"] for each in found["checks"]] == [HOLDS] * len(CHECKS)
        assert store.objects == {}


def test_a_store_that_cannot_be_written_is_not_probed(target: Target, bucket: str, orcas: Command) -> None:
    assert "The specified bucket does not exist" in orcas("probe", "s3://absent", code=1)
    with unreliable("cuts") as store:
        there = Command(orcas.variables, orcas.directory, store.urls[0])
        assert "closed the connection" in there("probe", "s3://bucket", code=69)
        assert store.objects == {}
        # What the first of two endpoints has stored is removed.
        line = ("probe", f"s3://{bucket}", "--endpoint", orcas.endpoint)
        assert "closed the connection" in there(*line, code=69)
    assert keys_of(target.client(), bucket) == []


def test_what_cannot_be_removed_is_said(elsewhere: Callable[[str], Command]) -> None:
    with unreliable("no-deletions") as store:
        done = elsewhere(store.urls[0]).run("probe", "s3://bucket", code=1)
        assert b"could not be told" in done.stdout
        said = done.stderr.decode()
        assert store.objects
        assert re.search(r"Objects that could not be removed: \d+: run `orcas rm -r --all-versions s3://bucket/", said)


def answers(*statuses: int) -> list[tuple[bytes, Answer]]:
    return [(b"%d" % number, Answer(status, {}, b"")) for number, status in enumerate(statuses)]


@pytest.mark.parametrize(
    ("statuses", "read", "verdict"),
    [
        ((200, 412, 409), b"0", None),
        ((200, 412, 200), b"0", BROKEN),
        ((200, 412, 412), b"1", BROKEN),
        ((200, 412, 412), b"", BROKEN),
        ((412, 412, 412), b"", BROKEN),
        # One of them may have stored its object before the winner did.
        ((200, 412, 503), b"0", OPEN),
        ((0, 412, 412), b"0", OPEN),
        ((0, 412, 412), b"1", BROKEN),
        ((409, 409, 409), b"", OPEN),
    ],
)
def test_one_winner(statuses: tuple[int, ...], read: bytes, verdict: str | None) -> None:
    with pytest.raises(FoundError) if verdict else contextlib.nullcontext() as found:
        judge(answers(*statuses), Answer(200 if read else 404, {}, read))
    assert verdict == (found and found.value.args[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_probe_leaves_nothing_behind(
    elsewhere: Callable[[str], Command], number: signal.Signals
) -> None:
    """It is interrupted in the middle of a race, and all sixteen writes are carried out after that."""
    waits, go_on = threading.Semaphore(0), threading.Event()

    def before(method: str, path: str) -> None:
        if method == "PUT" and "created-0" in path:
            waits.release()
            go_on.wait(60)

    with unreliable() as store:
        store.before = before
        process = subprocess.Popen(
            [Path(sys.executable).parent / "orcas", "probe", "s3://bucket", "--endpoint", store.urls[0]],
            env=elsewhere("").variables, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            for _ in range(16):
                assert waits.acquire(timeout=60)
            assert any("created-0" not in key for key in store.objects)
            process.send_signal(number)
            go_on.set()
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
        assert (process.returncode, said) == (130, "orcas: interrupted: run the command again.\n")
        assert store.objects == {}


@pytest.mark.parametrize(("limit", "value"), [("_REQUESTS_MAX", 1), ("_SECONDS_MAX", -1)])
def test_limits(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch, elsewhere: Callable[[str], Command], tmp_path: Path
) -> None:
    """What would exceed them cannot be told, and what was written is removed."""
    monkeypatch.setattr(f"orcas.tools.probe.{limit}", value)
    with unreliable() as store:
        line = ("probe", "s3://bucket", "--endpoint", store.urls[0], "--json")
        done = ran(elsewhere("").variables, str(tmp_path), *line)
        assert store.objects == {}
    assert done.returncode == 1
    found = json.loads(done.stdout)["checks"]
    assert [each["verdict"] for each in found] == [*[OPEN] * (len(CHECKS) - 1), HOLDS]
    assert "the limit of" in found[0]["meaning"].lower()
