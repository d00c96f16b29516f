"""What survives when the server is killed again and again under writers: every snapshot that one of them knows to be there,
in one line, and all files that it names, although all others are deleted meanwhile.

A writer of `Commits` makes snapshots by hand, so that it is fast; those of `Rows` append with pyiceberg. Each snapshot says
which commit it is. A writer goes on as clients do: after a conflict it tries again, and after any other failure it looks
first whether its commit has happened.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import json
import os
import random
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from tests.clients.tables.lake import LAKE, catalog_of, numbers, rows
from tests.fixtures.clients import package
from tests.fixtures.targets import keys_of

import orcas
from orcas.errors import OrcasError
from orcas.tables.manifests import named
from orcas.tables.names import TRANSACTIONS
from orcas.tools.session import session_of
from orcas.tools.tables import remove_orphans

exceptions = package("pyiceberg.exceptions")
requests = package("requests")

pytestmark = [pytest.mark.clients, pytest.mark.crash, pytest.mark.filterwarnings("ignore")]

WRITERS = 8
KEYS = {"root_access_key": "AKIAEXAMPLE", "root_secret_key": "a-secret-of-tests"}
COMMIT = "test.commit"


class Killed:
    """A server that is killed and started again, always at one address. `commits` counts what writers know to be there."""

    def __init__(self, data: Path, commits: int) -> None:
        self.data, self.goal = data, commits
        self.seed = os.environ.get("CRASH_SEED") or secrets.token_hex(4)
        self.random = random.Random(self.seed)
        self.known: list[str] = []
        self.kills = self.swept = 0
        # When each writer has begun its present attempt at a commit.
        self._begun: dict[int, float] = {}
        self._names = itertools.count()
        self.server = orcas.Server(data, warehouse=LAKE, **KEYS)
        self.catalog = catalog_of(self.server)
        self.catalog.create_namespace("n")

    def table(self, name: str) -> None:
        """A table, with a first snapshot whose files the others name too."""
        self.catalog.create_table(f"n.{name}", schema=rows(0).schema).append(rows(0))

    def names(self) -> Iterator[str]:
        """The next commits, until there are enough."""
        while len(self.known) < self.goal:
            yield f"c{next(self._names)}"

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """What is written in it is younger than this."""
        self._begun[threading.get_ident()] = time.time()
        try:
            yield
        finally:
            del self._begun[threading.get_ident()]

    def sweeper(self, count: int, *tables: str) -> Callable[[], None]:
        """Removes the orphans of all tables so many times while there are commits: what no attempt under way has written
        and nothing names."""

        def sweep() -> None:
            for number in range(count):
                while len(self.known) < number * self.goal / count:
                    time.sleep(0.01)
                for table in tables:
                    while not self._sweep(table):
                        time.sleep(0.01)

        return sweep

    def _sweep(self, table: str) -> bool:
        now = time.time()
        # Times of objects are listed in whole seconds.
        before = dt.datetime.fromtimestamp(min([now, *self._begun.copy().values()]) - 1, dt.UTC)
        try:
            self.swept += self._removed(table, before)
        except OrcasError:
            # It was killed.
            return False
        return True

    def _removed(self, table: str, before: dt.datetime) -> int:
        with session_of(self.server.client()) as session:
            done = remove_orphans(session, LAKE, f"n.{table}", before, lambda _: None, dry_run=False)
        return done.objects

    def run(self, kills: int, *writers: Callable[[], None]) -> None:
        """Let writers work, and kill the server as many times meanwhile."""
        with ThreadPoolExecutor(len(writers)) as threads:
            running = [threads.submit(each) for each in writers]
            for number in range(kills):
                # Somewhere in its share of the commits, and in the middle of some.
                until = (number + self.random.random()) * self.goal / kills
                while len(self.known) < until and not any(each.done() and each.exception() for each in running):
                    time.sleep(0.002)
                time.sleep(self.random.uniform(0, 0.05))
                os.kill(self.server.pid, signal.SIGKILL)
                self.server.kill()
                port = int(self.server.endpoint.rpartition(":")[2])
                self.server = orcas.Server(self.data, warehouse=LAKE, port=port, **KEYS)
                self.kills += 1
            try:
                for each in running:
                    each.result(1000)
            finally:
                # If one has failed, the others end.
                self.goal = 0

    def check(self, *tables: str) -> list[list[str]]:
        """The commits of each table, the oldest first; all files that it names are there, and no others."""
        for table in tables:
            self._removed(table, dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
        keys = {f"s3://{LAKE}/{key}" for key in keys_of(self.server.client(), LAKE)}
        assert not [key for key in keys if key.startswith(f"s3://{LAKE}/{TRANSACTIONS}")]
        return [self._line(table, keys) for table in tables]

    def _line(self, name: str, keys: set[str]) -> list[str]:
        table = catalog_of(self.server).load_table(f"n.{name}")
        metadata, line, at = table.metadata, [], table.current_snapshot()
        snapshots = {each.snapshot_id: each for each in metadata.snapshots}
        assert len(snapshots) == len(metadata.snapshots)
        while at is not None:
            line.append(snapshots.pop(at.snapshot_id))
            at = None if at.parent_snapshot_id is None else snapshots[at.parent_snapshot_id]
        # No snapshot is beside the line.
        assert not snapshots
        assert [each.sequence_number for each in line] == list(range(len(line), 0, -1))
        assert {table.metadata_location, *(each.manifest_list for each in line)} <= keys
        for manifest in table.inspect.all_manifests()["path"].to_pylist() if name == "rows" else ():
            assert manifest in keys
        read = self.server.client().get_object
        told = metadata.model_dump(mode="json", by_alias=True)
        files = named(
            table.metadata_location,
            told,
            lambda url: read(Bucket=LAKE, Key=url.removeprefix(f"s3://{LAKE}/"))["Body"].read(),
        )
        assert files == {key for key in keys if key.startswith(f"{table.location()}/")}
        made = [each.summary.additional_properties.get(COMMIT) for each in reversed(line)]
        return [each for each in made if each is not None]


class Commits:
    """A writer without pyiceberg: one snapshot for each of its tables, in one commit."""

    def __init__(self, run: Killed, *tables: str) -> None:
        self._run, self._tables = run, tables
        self._http = requests.Session()
        self._base = f"{run.server.endpoint}/_orcas/iceberg"
        form = {"grant_type": "client_credentials", "client_id": KEYS["root_access_key"]}
        form["client_secret"] = KEYS["root_secret_key"]
        token = self._http.post(f"{self._base}/v1/oauth/tokens", data=form, timeout=60).json()["access_token"]
        self._http.headers["Authorization"] = f"Bearer {token}"
        self._http.headers["X-Iceberg-Access-Delegation"] = ""
        self._client = run.server.client()

    def __call__(self) -> None:
        """Commit until there are enough."""
        for name in self._run.names():
            while not self._commit(name):
                pass
            self._run.known.append(name)

    def _commit(self, name: str) -> bool:
        """Whether the commit has happened, with this attempt or with one before."""
        with self._run.attempt():
            return self._attempted(name)

    def _attempted(self, name: str) -> bool:
        try:
            found = [self._ask("GET", f"namespaces/n/tables/{table}").json() for table in self._tables]
            there = [any(each["summary"].get(COMMIT) == name for each in one["metadata"]["snapshots"]) for one in found]
            # All tables, or none.
            assert len(set(there)) == 1, name
            if there[0]:
                return True
            changes = [self._change(table, one, name) for table, one in zip(self._tables, found, strict=True)]
            alone = f"namespaces/n/tables/{self._tables[0]}"
            one, path = (
                (changes[0], alone) if len(changes) == 1 else ({"table-changes": changes}, "transactions/commit")
            )
            answer = self._ask("POST", path, one)
        except requests.RequestException:
            time.sleep(0.01)
            return False
        assert answer.status_code in (200, 204, 409, 503), answer.text
        return bool(answer.ok)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, f"{self._base}/v1/{LAKE}/{path}", json=body, timeout=60)
        if method == "GET":
            # Whose metadata file is missing.
            assert answer.status_code != 500, answer.text
            answer.raise_for_status()
        return answer

    def _change(self, table: str, found: Any, name: str) -> dict[str, Any]:
        metadata, number = found["metadata"], secrets.randbits(62)
        parent = metadata["current-snapshot-id"]
        former = next(each for each in metadata["snapshots"] if each["snapshot-id"] == parent)
        prefix = f"s3://{LAKE}/"
        path = f"{metadata['location']}/metadata/snap-{number}.avro"
        with self._unanswered():
            source = {"Bucket": LAKE, "Key": former["manifest-list"].removeprefix(prefix)}
            self._client.copy_object(Bucket=LAKE, Key=path.removeprefix(prefix), CopySource=source)
        sequence = metadata["last-sequence-number"] + 1
        snapshot = {
            "snapshot-id": number, "parent-snapshot-id": parent, "sequence-number": sequence, "manifest-list": path,
            "timestamp-ms": max(int(time.time() * 1000), metadata["last-updated-ms"]), "schema-id": 0,
            "summary": {"operation": "append", COMMIT: name},
        }  # fmt: skip
        return {
            "identifier": {"namespace": ["n"], "name": table},
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
            ],
        }

    @contextlib.contextmanager
    def _unanswered(self) -> Iterator[None]:
        """Whatever boto3 raises about a server that is not there is a request without an answer."""
        try:
            yield
        except Exception as error:
            raise requests.ConnectionError(str(error)) from error


class Rows:
    """A writer that appends rows with pyiceberg, ten by commit."""

    def __init__(self, run: Killed) -> None:
        self._run, self._catalog = run, catalog_of(run.server)

    def __call__(self) -> None:
        """Append until there are enough."""
        for name in self._run.names():
            while not self._append(name):
                time.sleep(0.01)
            self._run.known.append(name)

    def _append(self, name: str) -> bool:
        try:
            with self._run.attempt():
                self._append_once(name)
        # Conflicts, and whatever the libraries below pyiceberg raise about a server that is not there.
        except (exceptions.RESTError, exceptions.CommitFailedException, requests.RequestException, OSError):
            return False
        return True

    def _append_once(self, name: str) -> None:
        table = self._catalog.load_table("n.rows")
        if not any(each.summary.additional_properties.get(COMMIT) == name for each in table.snapshots()):
            table.append(rows(10 * int(name[1:]) + 1000), snapshot_properties={COMMIT: name})


@pytest.fixture
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Killed]:
    run = Killed(tmp_path / "store", request.param)
    try:
        yield run
    finally:
        run.server.kill()
        sys.stdout.write(
            json.dumps({"seed": run.seed, "kills": run.kills, "commits": len(run.known), "swept": run.swept}) + "\n"
        )


# Its commits read metadata that grows with each, so thousands take minutes.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("killed", "kills"), [(60, 2), pytest.param(2000, 20, marks=pytest.mark.full)], indirect=["killed"]
)
def test_no_commit_is_lost(killed: Killed, kills: int) -> None:
    for name in ("one", "a", "b"):
        killed.table(name)
    writers = [*(Commits(killed, "one") for _ in range(WRITERS)), Commits(killed, "a", "b"), Commits(killed, "a", "b")]
    killed.run(kills, *writers, killed.sweeper(max(2, kills // 4), "one", "a", "b"))
    one, a, b = killed.check("one", "a", "b")
    # Both tables have the same line, and each commit once; none is there that no writer knows.
    assert a == b
    assert sorted([*one, *a]) == sorted(killed.known)
    assert one
    assert a
    # Of so many attempts, some have lost.
    assert killed.swept or kills < 20


@pytest.mark.full
@pytest.mark.parametrize("killed", [150], indirect=True)
def test_no_row_is_lost(killed: Killed) -> None:
    killed.table("rows")
    killed.run(6, *(Rows(killed) for _ in range(WRITERS)), killed.sweeper(4, "rows"))
    assert sorted(killed.check("rows")[0]) == sorted(killed.known)
    table = catalog_of(killed.server).load_table("n.rows")
    said = [10 * int(name[1:]) + 1000 + row for name in killed.known for row in range(10)]
    assert numbers(table) == sorted([*range(10), *said])


class Buckets:
    """A writer that makes table buckets by the API of S3 Tables."""

    def __init__(self, run: Killed) -> None:
        self._run, self._client = run, run.server.client("s3tables")

    def __call__(self) -> None:
        """Make some until there are enough."""
        for name in self._run.names():
            while not self._made(f"bucket-{name}"):
                time.sleep(0.01)
            self._run.known.append(name)

    def _made(self, name: str) -> bool:
        """Whether there is one, made by this attempt or by one before."""
        try:
            self._client.create_table_bucket(name=name)
        except BotoCoreError:
            return False
        except ClientError as error:
            assert error.response["Error"]["Code"] in ("ConflictException", "InternalServerErrorException")
            return error.response["Error"]["Code"] == "ConflictException"
        return True


@pytest.mark.full
@pytest.mark.parametrize("killed", [200], indirect=True)
def test_no_table_bucket_is_half_made(killed: Killed) -> None:
    killed.run(8, *(Buckets(killed) for _ in range(WRITERS)))
    names = {f"bucket-{name}" for name in killed.known}
    client = killed.server.client("s3tables")
    found = {each["name"]: each["arn"] for each in client.list_table_buckets()["tableBuckets"]}
    assert names == set(found) - {LAKE}
    for name in names:
        client.create_namespace(tableBucketARN=found[name], namespace=["n"])
