"""Every route of the admin API answers hostile requests, signed by root, with a 4xx error, and the server goes on.

A table has a row for each route of the application: a request that is accepted, of which hostile ones are made.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.test_admin import ROOT, URL, Answered
from tests.api.test_admin_inputs import Site, refusal
from tests.fixtures.events.receivers import SECRET
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.signing import signed_headers

from orcas.admin.api import admin_app
from orcas.admin.events import PATH as EVENTS
from orcas.admin.guard import BODY_MAX
from orcas.admin.tools import MOUNT
from orcas.console.app import MOUNT as CONSOLE

LOST: Final = "\ud800"
# Of the wrong type or too large for any field.
WRONG: Final[list[Any]] = [
    [], ["b"], {}, {"name": "b"}, LOST, f"b{LOST}", -1, 1 << 64, 10**400, 0.5, float("nan"), float("inf"), "x" * 60_000,
]  # fmt: skip
# What no bucket, snapshot, key, task, target, job or pin is called.
SEGMENTS: Final = [
    "%00", "%0A", "%20", "%25", "%2F", "%2e%2e", "%2e%2e%2f%2e%2e%2froot", "%ED%A0%80", "%FF%FE", "%C3%BC", "'%22%3B--",
    "%7Bname%7D", "a%0D%0Ax-forged%3A1", "x" * 4_000,
]  # fmt: skip
# Bodies that are no order.
BODIES: Final = [
    b"[]", b"0", b'"b"', b"{", b"\xff\xfe", b"\x00", b"[" * 60_000, b'{"a":' * 10_000, b"9" * 5_000, b"NaN",
    b'\xef\xbb\xbf{}"', b'{"\\ud800": 1}', b"name=b&snapshot=s", b'{"name": "b", "name": []}',
]  # fmt: skip
TYPES: Final = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml", "\\", ""]
BUCKETS: Final = ["", ".", "..", "A", "a" * 64, "a/b", "a\x00b", "-a", "ab\n", "ü", "192.168.0.1"]
NAMES: Final = ["", "\x00", "a\n", "a" * 256]
OWNERS: Final = ["", "0" * 63, "0" * 65, "G" * 64, "0" * 64 + "\n", "\u0660" * 64]


@dataclass(frozen=True)
class Row:
    """What a route takes. Names in `path` are those of a site that `prepare` has made ready."""

    path: dict[str, str] | None = None
    order: dict[str, Any] | None = None
    # May be left out.
    optional: tuple[str, ...] = ()
    # Values of these fields that have the right type.
    wrong: tuple[tuple[str, list[Any]], ...] = ()
    # Values of these fields that are wrong elsewhere.
    right: tuple[tuple[str, Any], ...] = ()
    queries: tuple[str, ...] = ()
    # Of the request that is not hostile.
    status: int = 200


OF_SNAPSHOT: Final = {"bucket": "bucket", "name": "s"}
OF_BUCKET: Final = {"bucket": "bucket"}
OF_TARGET: Final = {"name": "hook"}
PLACE: Final = {"bucket": "plain", "prefix": "a/"}
QUESTION: Final = {"action": "s3:GetObject", "resource": "bucket/a/1", "context": {}}
NO_QUESTION: Final = (
    ("action", [*NAMES, "s3:Nope", "s3:ListBucket", "sts:AssumeRole"]),
    ("resource", ["", "bucket", "arn:aws:s3:::bucket"]),
)
ROWS: Final[dict[tuple[str, str], Row]] = {
    ("POST", "/access"): Row(
        order={"who": "anonymous", **QUESTION, "bucket_policy": ""}, optional=("context", "bucket_policy"),
        wrong=(*NO_QUESTION, ("who", [*NAMES, "role/none"]), ("bucket_policy", ["{", "[]"])), right=(("context", {}),),
    ),
    ("POST", "/access/own"): Row(
        order={"questions": [QUESTION]}, right=(("questions", []),),
        wrong=(("questions", [[{**QUESTION, "action": "s3:Nope"}], [{**QUESTION, "resource": "bucket"}], [{}]]),),
    ),
    ("POST", "/access/who"): Row(
        order={**QUESTION, "after": ""}, optional=("context", "after"), wrong=NO_QUESTION, right=(("context", {}),)
    ),
    ("GET", "/accounts"): Row(queries=("after=" + "x" * 1_025,)),
    ("POST", "/accounts"): Row(order={"name": "new"}, wrong=(("name", NAMES),), status=201),
    # It names neither a user nor a key.
    ("GET", "/limits"): Row(queries=("user=a&access_key=b", "user=" + "x" * 1_025), status=400),
    # There is no such user.
    ("PUT", "/limits"): Row(
        order={"user": "none", "requests": 1, "bytes": 1}, optional=("requests", "bytes"),
        wrong=(("user", [None, *NAMES]), ("requests", [10**6 + 1]), ("bytes", [10**12 + 1])), status=404,
    ),
    ("GET", "/stats"): Row(),
    ("GET", "/scrub"): Row(),
    ("POST", "/gc"): Row(status=202),
    ("POST", "/compact"): Row(
        order={"seal": False}, optional=("seal",), wrong=(("seal", [None, "perhaps", 2]),), status=202
    ),
    ("POST", "/lifecycle/run"): Row(status=202),
    ("POST", "/check"): Row(
        order={"read_content": False, "threads": 1, "bytes_per_sec": 0},
        optional=("read_content", "threads", "bytes_per_sec"),
        wrong=(
            ("read_content", [None, "perhaps", 2]), ("threads", [None, 0, 65, "2 "*9]),
            ("bytes_per_sec", [None, (1 << 40) + 1]),
        ),
        status=202,
    ),
    ("POST", "/move"): Row(
        order={"source": PLACE, "target": {"bucket": "plain", "prefix": "b/"}, "overwrite": False},
        optional=("overwrite",),
        wrong=(
            ("source.bucket", BUCKETS), ("target.bucket", BUCKETS), ("source.prefix", [None, "x" * 1025]),
            ("target.prefix", [None, "x" * 1024, "ü" * 600, "x" * 1025]), ("overwrite", [None, "perhaps"]),
        ),
    ),
    ("GET", "/about"): Row(),
    # The server is that of the tests.
    ("POST", "/stop"): Row(status=409),
    ("GET", "/licences"): Row(),
    ("GET", "/settings"): Row(),
    ("GET", "/history"): Row(),
    ("GET", "/disk"): Row(),
    ("GET", "/requests"): Row(
        queries=(
            "limit=0", "limit=501", "limit=x", "after=-1", "after=" + "9" * 5_000, "failed=perhaps",
            *(f"{name}=" + "x" * 1_025 for name in ("bucket", "code", "key", "access_key")),
        )
    ),
    ("GET", "/log"): Row(
        queries=(
            "limit=0", "limit=501", "limit=x", "after=-1", "level=loud", "level=", "search=" + "x" * 1_025,
            "after=" + "9" * 5_000,
        ),
        # The log is that of the tests.
        status=409,
    ),
    ("GET", "/jobs"): Row(),
    ("GET", "/jobs/{name}"): Row({"name": "job"}),
    ("DELETE", "/jobs/{name}"): Row({"name": "job"}),
    ("POST", "/backup-pins"): Row(status=201),
    ("PUT", "/backup-pins/{name}"): Row({"name": "pin"}),
    ("DELETE", "/backup-pins/{name}"): Row({"name": "pin"}),
    # The server is no node of a cluster.
    ("GET", "/cluster"): Row(status=409),
    ("POST", "/cluster/move"): Row(
        order={"to": "0123abcd"}, optional=("to",), wrong=(("to", ["", "0123abc", "0123ABCD", "0123abcd\n"]),), status=409
    ),
    ("POST", "/cluster/check"): Row(
        order={"read_content": True, "threads": 1, "bytes_per_sec": 0},
        optional=("read_content", "threads", "bytes_per_sec"),
        status=409,
    ),
    ("GET", "/cluster/files"): Row(queries=("position=00", "position=" + "g" * 112), status=409),
    ("GET", "/cluster/jobs/{name}"): Row({"name": "job"}),
    ("DELETE", "/cluster/jobs/{name}"): Row({"name": "job"}),
    ("POST", "/standby/rounds"): Row(
        queries=(
            "standby=x", "standby=" + "0" * 17, "after=-1", "after=x", "after=" + "9" * 5_000, "position=00",
            "control=" + "x" * 33, "wait=-1", "wait=31", "wait=nan",
        ),
        status=201,
    ),
    ("GET", "/standby/rounds/{pin}/files/{folder}/{name}"): Row(
        {"pin": "pin", "folder": "store", "name": "root.json"},
        queries=("start=-1", "start=x", "end=-1"),
    ),
    ("GET", "/buckets/{bucket}/snapshots"): Row(OF_BUCKET),
    ("POST", "/buckets/{bucket}/snapshots"): Row(OF_BUCKET, {"name": "new"}, wrong=(("name", [*NAMES, "s"]),), status=201),
    ("DELETE", "/buckets/{bucket}/snapshots/{name}"): Row(OF_SNAPSHOT),
    ("POST", "/buckets/{bucket}/fork"): Row(
        OF_BUCKET, {"name": "copy", "snapshot": "s"}, ("snapshot",),
        (("name", [*BUCKETS, "bucket"]), ("snapshot", [*NAMES, "none"])), status=201,
    ),
    ("POST", "/buckets/{bucket}/restore"): Row(OF_BUCKET, {"snapshot": "s"}, wrong=(("snapshot", [*NAMES, "none"]),)),
    ("GET", "/targets"): Row(),
    ("GET", "/targets/{name}/dead"): Row(
        OF_TARGET, queries=("limit=0", "limit=1001", "limit=-1", "limit=", "limit=x", "limit=1e3", "limit=" + "9" * 5_000)
    ),
    ("POST", "/targets/{name}/test"): Row(OF_TARGET),
    ("POST", "/targets/{name}/resend"): Row(OF_TARGET),
    ("POST", "/targets/{name}/discard"): Row(OF_TARGET),
    ("GET", "/tasks"): Row(),
    ("POST", "/tasks/{name}"): Row({"name": "usage"}, status=202),
    ("POST", "/iam"): Row(
        order={
            "action": "CreateUser",
            "parameters": {
                "UserName": "new", "Path": "/x/", "PermissionsBoundary": "arn:aws:iam::aws:policy/AmazonS3FullAccess",
            },
        },
        wrong=(
            ("action", [*NAMES, "createuser", "__init__"]), ("account", ["", "0" * 12, "1" * 64, LOST]),
            ("parameters.UserName", [None, *NAMES, "a b", "ü", "../x"]), ("parameters.Path", ["", "x", "//\n/", "/ü/"]),
            ("parameters.PermissionsBoundary", ["", "arn:aws:iam::aws:policy/None", "arn:aws:iam::aws:policy/\n"]),
            ("parameters.Tags", [[{}], [{"Key": 1}], [{"Key": "a", "Value": LOST}], [[]], [{"Key": "k\x00", "Value": ""}]]),
        ),
    ),
    ("POST", "/iam/export"): Row(
        order={"secrets": False}, optional=("secrets",), wrong=(("secrets", [None, "perhaps", 2]),)
    ),
    ("POST", "/iam/root-key"): Row(),
    ("GET", "/audit"): Row(
        queries=(
            "since=yesterday", "since=2026-02-30", "before=0", "before=-1", "before=x", "before=" + "9" * 20, "limit=0",
            "limit=1001", "limit=", "user=" + "x" * 129, "action=" + "x" * 129,
        )
    ),
    ("GET", "/audit/verify"): Row(),
    ("GET", "/keys"): Row(),
    ("POST", "/keys"): Row(order={"name": "new"}, wrong=(("name", [*NAMES, "x" * 251, "key"]),), status=201),
    ("POST", "/keys/action"): Row(
        order={"key": "key", "action": "destroy", "days": 30, "lose_content": True},
        optional=("days", "lose_content"),
        wrong=(
            ("key", [*NAMES, "none"]), ("action", ["", "Rotate", "rotate\n", "__init__"]), ("days", [None, 31]),
            ("lose_content", [None, "perhaps"]),
        ),
    ),
    # There is no older keyring.
    ("POST", "/keys/accept-older"): Row(status=409),
    ("PUT", "/keys/master"): Row(
        order={"passphrase": "another long passphrase"}, wrong=(("passphrase", [None, "", "short", f"{LOST}" * 20]),)
    ),
    ("GET", "/usage"): Row(
        queries=(
            "since=yesterday", "since=", "since=2026-02-30", "since=10000-01-01", "since=99999999999999", "until=-1",
            "since=2026-02-02&until=2026-02-01", "by=", "by=bucket,bucket", "by=%00", "by=%ED%A0%80", "by=" + "x" * 161,
            "by=bucket%0A", "by=bucket,tag:a",
        )
    ),
    ("GET", "/quotas"): Row(),
    ("PUT", "/quotas"): Row(
        order={"bucket": "bucket", "bytes": 1, "objects": 1},
        optional=("bytes", "objects"),
        wrong=(
            ("bucket", [None, *BUCKETS]), ("owner", [*OWNERS, "0" * 64]), ("bytes", [1 << 63, "many"]),
            ("objects", [1 << 63]),
        ),
    ),
    ("GET", "/origins"): Row(),
    ("PUT", "/origins"): Row(
        order={
            "bucket": "bucket", "url": "https://s3.example.org", "source": "b", "region": "r", "access_key": "a",
            "secret_key": "s", "private": True, "object_bytes_max": 1, "timeout_sec": 1,
        },
        optional=("region", "private", "object_bytes_max", "timeout_sec"),
        wrong=(
            ("bucket", [None, *BUCKETS]), ("url", [None, "", "ftp://x", "http://", "http://a/b", "http://u@a", "http://a:x"]),
            ("source", [None, "", "a/b", "ü"]), ("access_key", [None, "", "ü"]), ("secret_key", [None, "", LOST]),
            ("region", [None, ""]), ("timeout_sec", [0, 61]), ("object_bytes_max", [-1, (5 << 40) + 1]),
            ("private", [None, "perhaps"]),
        ),
    ),
    # It has none.
    ("DELETE", "/origins/{bucket}"): Row({"bucket": "bucket"}, status=404),
    ("GET", "/replication"): Row(),
    # Nothing answers there.
    ("PUT", "/replication/targets"): Row(
        order={
            "name": "t", "url": "http://127.0.0.1:1", "access_key": "a", "secret_key": "s", "region": "r", "private": True,
            "ca": "", "concurrency": 1, "bytes_per_sec": 0, "timeout_sec": 1,
        },
        optional=("region", "private", "ca", "concurrency", "bytes_per_sec", "timeout_sec"), status=400,
        wrong=(
            ("name", [None, "", "a/b", "ü"]), ("url", [None, "", "ftp://x", "http://", "http://a/b", "http://u@a"]),
            ("access_key", [None, "", "ü"]), ("secret_key", [None, "", LOST]), ("concurrency", [0, 65]),
            ("bytes_per_sec", [-1]), ("timeout_sec", [0, 601]), ("private", [None, "perhaps"]),
        ),
    ),
    ("DELETE", "/replication/targets/{name}"): Row({"name": "t"}, status=404),
    ("POST", "/replication/targets/{name}/test"): Row({"name": "t"}, status=404),
    ("POST", "/replication/rules"): Row(
        order={"bucket": "bucket", "target": "t", "to": "b2", "prefix": "", "existing": True, "markers": True},
        optional=("prefix", "existing", "markers"), status=404,
        wrong=(("bucket", [None]), ("target", [None, "", "a/b"]), ("to", [None]), ("existing", [None, "perhaps"])),
    ),
    ("POST", "/replication/retry"): Row(
        order={"bucket": "bucket", "everything": True}, optional=("everything",), status=404,
        wrong=(("bucket", [None]), ("everything", [None, "perhaps"])),
    ),
    ("POST", "/replication/verify"): Row(
        order={"bucket": "bucket", "after": "", "metadata": True}, optional=("after", "metadata"), status=404,
        wrong=(("bucket", [None]), ("metadata", [None, "perhaps"])),
    ),
    ("POST", "/test/reset"): Row(),
    ("DELETE", "/test/buckets/{name}"): Row({"name": "bucket"}),
    ("GET", "/test/clock"): Row(),
    ("PUT", "/test/clock"): Row(
        order={"ahead_ms": 60_000, "lifecycle": True}, optional=("lifecycle",),
        wrong=(("ahead_ms", [None, -(10**13), 10**13]), ("now_ms", [0, -1, 10**15]), ("lifecycle", [None, "perhaps"])),
        right=(("ahead_ms", -1),),
    ),
    ("GET", "/test/faults"): Row(),
    ("POST", "/test/faults"): Row(
        order={"fault": "error", "nth": 1, "times": 1, "seed": 1, "bytes": 1, "bytes_per_second": 1, "code": "SlowDown"},
        optional=("nth", "times", "seed", "bytes", "bytes_per_second", "code"),
        wrong=(
            ("fault", [None, "", "Error", "latency\n"]), ("code", [None, "", "Nope", "SlowDown\n"]), ("nth", [0]),
            ("times", [0]), ("bytes_per_second", [0]),
        ),
        status=201,
    ),
    ("DELETE", "/test/faults"): Row(),
    ("DELETE", "/test/faults/{number}"): Row({"number": "1"}),
    # None has begun.
    ("GET", "/test/requests"): Row(status=409),
    ("POST", "/test/requests"): Row(),
    ("DELETE", "/test/requests"): Row(),
}  # fmt: skip
# The application's own, and what has its own tests: those without parameters.
DOCUMENTATION: Final = {
    "/_orcas/docs",
    "/_orcas/openapi.json",
    "/_orcas/console",
    "/_orcas/iceberg",
    "/_orcas/s3tables",
}
TOP: Final = {"/_orcas/health/live", "/_orcas/health/ready", "/_orcas/health/writable", "/_orcas/metrics"}


class Prepared(Site):
    """A site with a keyring, a target, a bucket with a snapshot, one without, a job and a pin."""

    names: dict[str, str]
    # Statuses that the documentation names for the route under test.
    documented: set[str]

    def __init__(self, data: Path, **settings: str) -> None:
        super().__init__(data, **settings)
        # A server in memory has all routes. It makes such a directory itself.
        self.app.settings = dataclasses.replace(self.app.settings, memory=True)

    def prepare(self) -> None:
        """Make what good requests name."""
        self.names = {}
        for target, body in (
            ("/bucket", b""),
            ("/bucket/a/1", b"content"),
            ("/plain", b""),
            ("/plain/a/1", b"content"),
        ):
            headers = signed_headers(ROOT, "PUT", URL + target, {"content-length": str(len(body))}, body)
            assert self.runner.run(self.client.exchange("PUT", target, headers, body))[0] == 200
        assert self.send("POST", "buckets/bucket/snapshots", {"name": "s"})[0] == 201
        assert self.send("POST", "keys", {"name": "key"})[0] == 201
        status, job = self.send("POST", "gc", None)
        assert status == 202
        found = self.tools.jobs.find(job["id"])
        assert found is not None
        assert found.thread is not None
        found.thread.join()
        status, pin = self.send("POST", "backup-pins", None)
        assert status == 201
        self.names = {"job": job["id"], "pin": pin["id"]}

    def send(self, method: str, path: str, order: Any) -> Answered:
        """The answer to this order."""
        return self.ask(method, path, b"" if order is None else json.dumps(order).encode())


@pytest.fixture
def site(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Prepared]:
    targets = tmp_path / "targets.toml"
    targets.write_text(
        f'[hook]\ntype = "webhook"\nurl = "http://127.0.0.1:9/"\nsecret = "{SECRET}"\n', encoding="utf-8"
    )
    made = Prepared(tmp_path / "data", master_key=MASTER_KEY, event_targets_file=str(targets))
    made.open()
    try:
        made.prepare()
        yield made
        # It goes on, and knows of no failure of its own.
        assert made.ask("GET", "stats")[0] == 200
        assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    finally:
        made.close()


def filled(row: Row, path: str, site: Prepared, replaced: dict[str, str] | None = None) -> str:
    """The path with its names."""
    for parameter, name in (row.path or {}).items():
        path = path.replace(f"{{{parameter}}}", (replaced or {}).get(parameter, site.names.get(name, name)), 1)
    return path.removeprefix("/")


def changed(order: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """The order with another value in this place."""
    made = copy.deepcopy(order)
    inner = made
    *before, last = place.split(".")
    for name in before:
        inner = inner[name]
    inner[last] = value
    return made


def places(order: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of an order and those within them, with their values."""
    for name, value in order.items():
        yield before + name, value
        if isinstance(value, dict):
            yield from places(value, f"{before}{name}.")


def disguises(value: Any) -> list[Any]:
    """Values of other types of JSON that could be taken for this one."""
    if isinstance(value, bool):
        return [str(value).lower(), int(value)]
    return [str(value), bool(value)] if isinstance(value, int) else []


def hostile_orders(row: Row) -> Iterator[dict[str, Any]]:
    """Orders with one mistake each."""
    order = row.order or {}
    for place, good in places(order):
        values = [value for value in [*WRONG, *disguises(good)] if (place, value) not in row.right]
        yield from (changed(order, place, value) for value in values)
    for place, values in row.wrong:
        yield from (changed(order, place, value) for value in values)
    for name in order.keys() - set(row.optional):
        yield {other: value for other, value in order.items() if other != name}
    yield from ({**order, name: 1} for name in ("more", "", "__class__", LOST, "x" * 1_000))


def must_refuse(site: Prepared, method: str, path: str, body: bytes, content_type: str = "application/json") -> None:
    status, answer = site.ask(method, path, body, content_type)
    assert 400 <= status < 500, (status, answer, path[:200], body[:200])
    assert refusal(answer) != "Error"
    # A path with another slash leads to no route.
    assert refusal(answer) == "NotFound" or str(status) in site.documented, (status, answer)


def test_every_route_has_a_row(site: Prepared) -> None:
    routes = [route for route in admin_app(lambda: site.parts, site.app._around).routes if hasattr(route, "methods")]
    assert {(method, route.path) for route in routes for method in route.methods} == set(ROWS)  # type: ignore[attr-defined]
    # Nothing else takes input outside of S3. The console has tests of its own.
    paths = {route.path for route in site.app.routes if hasattr(route, "path")}
    assert paths == {MOUNT, EVENTS, CONSOLE, *DOCUMENTATION}
    assert set(FastAPI.openapi(site.app)["paths"]) == TOP


@pytest.mark.parametrize(("method", "path"), ROWS)
def test_hostile_requests_are_refused_and_the_good_one_is_not(site: Prepared, method: str, path: str) -> None:
    row = ROWS[method, path]
    site.documented = set(site.app.openapi()["paths"][MOUNT + path][method.lower()]["responses"])
    body = b"" if row.order is None else json.dumps(row.order).encode()
    for parameter in row.path or {}:
        for segment in SEGMENTS:
            must_refuse(site, method, filled(row, path, site, {parameter: segment}), body)
    place = filled(row, path, site)
    for query in row.queries:
        must_refuse(site, method, f"{place}?{query}", body)
    for other in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} - {known for known, at in ROWS if at == path}:
        status, answer = site.ask(other, place)
        assert (status, refusal(answer)) == (405, "MethodNotAllowed")
    must_refuse(site, method, f"{place}/", body)
    must_refuse(site, method, place, b" " * (BODY_MAX + 1))
    if row.order is None:
        # It does not read one.
        status, answer = site.ask(method, f"{place}?%00=%FF&x", b"[" * 60_000)
    else:
        send_hostile_orders(site, method, place, row)
        status, answer = site.ask(method, place, body)
    if path == "/iam/root-key":
        site.keys = dataclasses.replace(ROOT, access_key=answer["access_key"], secret_key=answer["secret_key"])
    assert status == row.status, answer
    assert str(status) in site.documented


def send_hostile_orders(site: Prepared, method: str, place: str, row: Row) -> None:
    for order in hostile_orders(row):
        must_refuse(site, method, place, json.dumps(order).encode())
    for garbage in BODIES:
        must_refuse(site, method, place, garbage)
    for content_type in TYPES:
        must_refuse(site, method, place, json.dumps(row.order).encode(), content_type)
    if set(row.optional) != set(row.order or ()):
        must_refuse(site, method, place, b"")
        must_refuse(site, method, place, b"{}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def test_any_order_is_carried_out_or_refused(site: Prepared) -> None:
    site.tools.jobs.start = lambda kind, _: Started(kind)  # type: ignore[assignment, method-assign, return-value]
    cases = [(at, row, place) for at, row in ROWS.items() if row.order for place, _ in places(row.order)]

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(case=st.sampled_from(cases), value=JSON)
    def asked(case: tuple[tuple[str, str], Row, str], value: Any) -> None:
        (method, path), row, place = case
        assert row.order is not None
        status, answer = site.send(method, filled(row, path, site), changed(row.order, place, value))
        if not 200 <= status < 300:
            assert 400 <= status < 500, (status, answer)
            assert refusal(answer) != "Error"

    asked()


@dataclass(frozen=True)
class Started:
    """A job that does nothing."""

    kind: str

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind}


# Parameters of a stream of events, and the last event that a client has seen.
STREAMS: Final = [
    "nothing=1", "=1", "prefix=a&prefix=b", "start=a&start=b", "start=yesterday", "start=%00", "start=%FF",
    "event=s3:Nothing:*", "event=%00", "event=", "start=" + "9" * 400,
]  # fmt: skip
LAST: Final = ["x", "-1", "9" * 400, "1-" + "0" * 70_000, quote("ü")]


def test_a_stream_of_events_begins_with_a_good_request_or_not_at_all(site: Prepared) -> None:
    asked = [(f"{EVENTS}?{query}", {}) for query in STREAMS] + [(EVENTS, {"last-event-id": last}) for last in LAST]
    for target, extra in asked:
        for method, expected in (("GET", {400, 403}), ("POST", {405}), ("DELETE", {405})):
            headers = signed_headers(ROOT, method, URL + target, extra)
            status, answer = site.runner.run(site.client.send(method, target, headers))
            assert status in expected, (target, extra, answer)
            assert refusal(answer) != "Error"
