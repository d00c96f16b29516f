"""`orcas table rollback`, `expire` and `orphans`: what goes, and that nothing goes which a snapshot still has."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.clients.tables.lake import LAKE, numbers, rows
from tests.fixtures.clients import package
from tests.fixtures.commands import command
from tests.fixtures.targets import keys_of

import orcas
from orcas.errors import OrcasError, UsageError
from orcas.tables import retention
from orcas.tables.names import TRANSACTIONS
from orcas.tools import tables
from orcas.tools.session import Session, session_of
from orcas.tools.tables import remove_orphans

exceptions = package("pyiceberg.exceptions")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def session(server: orcas.Server) -> Iterator[Session]:
    with session_of(server.client()) as found:
        yield found


@pytest.fixture
def orcas_table(server: orcas.Server) -> Callable[..., Any]:
    def run(*words: str, code: int = 0) -> Any:
        keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
        said = command(
            "table", *words, "--endpoint", server.endpoint, *(() if code else ("--json",)), code=code, **keys
        )
        return said if code else json.loads(said)

    return run


def below(server: orcas.Server, table: Any) -> set[str]:
    place = table.location().removeprefix(f"s3://{LAKE}/")
    return {key for key in keys_of(server.client(), LAKE) if key.startswith(f"{place}/")}


def swept(session: Session, name: str, *, dry_run: bool = False, days: float = -1) -> set[str]:
    """What is removed of files that are older than so many days: by default, of all."""
    keys: set[str] = set()
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)
    done = remove_orphans(session, LAKE, name, before, lambda place: keys.add(place.key.decode()), dry_run=dry_run)
    assert not done.failed
    return keys


def history(catalog: Any, namespace: str, name: str = "t") -> Any:
    """A table with five snapshots: rows were added, one half of them rewritten, and some deleted."""
    table = catalog.create_table((namespace, name), schema=rows(0).schema)
    for first in (0, 10, 20):
        table.append(rows(first))
    table.delete("n < 5")
    table.append(rows(30))
    return table


def test_rolled_back(
    server: orcas.Server, catalog: Any, namespace: str, session: Session, orcas_table: Callable[..., Any]
) -> None:
    table, name = history(catalog, namespace), f"{namespace}.t"
    snapshots = table.snapshots()
    ids = [each.snapshot_id for each in snapshots]
    # What the branch says about its snapshots stays.
    keep = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": ids[4]}
    change = {"requirements": [], "updates": [keep | {"min-snapshots-to-keep": 7}]}
    url = f"{server.endpoint}/_orcas/iceberg/v1/{LAKE}/namespaces/{namespace}/tables/t"
    assert catalog._session.post(url, json=change).status_code == 200

    def rolled_back(to: str, *words: str) -> tuple[int, int]:
        done = orcas_table("rollback", LAKE, name, "--to", to, *words)
        return ids.index(done["before"]), ids.index(done["after"])

    def now() -> list[int]:
        left = catalog.load_table((namespace, "t"))
        assert [each.snapshot_id for each in left.snapshots()][:5] == ids
        assert left.metadata.refs["main"].min_snapshots_to_keep == 7
        return numbers(left)

    assert rolled_back(str(ids[2]), "--dry-run") == (4, 2)
    assert now() == list(range(5, 40))
    assert rolled_back(str(ids[2])) == (4, 2)
    assert now() == list(range(30))
    assert rolled_back(str(ids[2])) == (2, 2)
    # Its successors are no ancestors, and stay, with their files.
    assert "--force sets it anyway" in orcas_table("rollback", LAKE, name, "--to", str(ids[4]), code=2)
    assert swept(session, name) == set()
    assert rolled_back(str(ids[4]), "--force") == (2, 4)
    assert now() == list(range(5, 40))
    # As the history shows it: the newest one from then or before.
    at = dt.datetime.fromtimestamp(snapshots[1].timestamp_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    assert rolled_back(at) == (4, 1)
    assert now() == list(range(20))
    catalog.load_table((namespace, "t")).append(rows(50))
    assert numbers(catalog.load_table((namespace, "t"))) == [*range(20), *range(50, 60)]


def test_a_commit_meanwhile_is_not_rolled_back(
    catalog: Any, namespace: str, orcas_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, line = history(catalog, namespace), tables._line
    first = table.snapshots()[0].snapshot_id

    def slow(metadata: dict[str, Any]) -> list[dict[str, Any]]:
        table.append(rows(40))
        return line(metadata)

    monkeypatch.setattr(tables, "_line", slow)
    said = orcas_table("rollback", LAKE, f"{namespace}.t", "--to", str(first), code=1)
    assert "The catalog refused the commit (Requirement failed: branch main has changed" in said
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(5, 50))


def test_expired(catalog: Any, namespace: str, orcas_table: Callable[..., Any]) -> None:
    table = history(catalog, namespace)
    ids = [each.snapshot_id for each in table.snapshots()]
    name = f"{namespace}.t"
    assert orcas_table("expire", LAKE, name)["snapshots"] == []
    table.manage_snapshots().create_tag(ids[1], "kept").commit()
    gone = [ids[0], ids[2]]
    assert orcas_table("expire", LAKE, name, "--older-than", "0", "--keep", "2", "--dry-run")["snapshots"] == gone
    assert len(catalog.load_table((namespace, "t")).snapshots()) == 5
    assert orcas_table("expire", LAKE, name, "--older-than", "0", "--keep", "2")["snapshots"] == gone
    left = catalog.load_table((namespace, "t"))
    assert [each.snapshot_id for each in left.snapshots()] == [ids[1], *ids[3:]]
    assert numbers(left) == list(range(5, 40))
    assert numbers(left, snapshot_id=ids[1]) == list(range(20))


def test_a_commit_that_is_refused(
    catalog: Any, namespace: str, orcas_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = history(catalog, namespace)
    monkeypatch.setattr(retention, "expired", lambda *_: [table.current_snapshot().snapshot_id])
    said = orcas_table("expire", LAKE, f"{namespace}.t", code=1)
    assert "The catalog refused the commit (The snapshot" in said
    assert "branch main" in said
    assert len(catalog.load_table((namespace, "t")).snapshots()) == 5


def test_a_tag_that_is_made_meanwhile_keeps_its_snapshot(catalog: Any, namespace: str) -> None:
    table = history(catalog, namespace)
    first = table.snapshots()[0].snapshot_id
    mine = catalog.load_table((namespace, "t"))
    expiring = mine.maintenance.expire_snapshots().by_id(first)
    table.manage_snapshots().create_tag(first, "kept").commit()
    with pytest.raises(exceptions.CommitFailedException):
        expiring.commit()
    left = catalog.load_table((namespace, "t"))
    assert numbers(left, snapshot_id=left.snapshot_by_name("kept").snapshot_id) == list(range(10))


def test_orphans(server: orcas.Server, catalog: Any, namespace: str, session: Session) -> None:
    table, client, name = history(catalog, namespace), server.client(), f"{namespace}.t"
    other = history(catalog, namespace, "other")
    before, untouched = below(server, table), below(server, other)
    assert swept(session, name) == set()
    place = table.location().removeprefix(f"s3://{LAKE}/")
    orphans = {f"{place}/data/x y+ü%20.parquet", f"{place}/metadata/00009-x.metadata.json", f"{place}/data/deep/x"}
    orphans |= {f"{TRANSACTIONS}x/{namespace}/t"}
    for key in orphans:
        client.put_object(Bucket=LAKE, Key=key, Body=b"x")
    # Younger files may belong to a commit under way.
    assert swept(session, name, days=1) == set()
    assert swept(session, name, dry_run=True) == orphans
    assert below(server, table) > before
    assert swept(session, name) == orphans
    assert below(server, table) == before
    assert below(server, other) == untouched
    assert [key for key in keys_of(client, LAKE) if key.startswith(TRANSACTIONS)] == []


def test_orphans_of_snapshots_that_have_expired(
    server: orcas.Server, catalog: Any, namespace: str, session: Session, orcas_table: Callable[..., Any]
) -> None:
    table = history(catalog, namespace)
    kept = table.snapshots()[2].snapshot_id
    with table.manage_snapshots() as managing:
        managing.create_branch(kept, "side")
    orcas_table("expire", LAKE, f"{namespace}.t", "--older-than", "0")
    gone = swept(session, f"{namespace}.t")
    # Manifest lists of three, and the file that was rewritten is still one of the branch.
    assert len([key for key in gone if key.rpartition("/")[2].startswith("snap-")]) == 3
    left = catalog.load_table((namespace, "t"))
    assert len(left.snapshots()) == 2
    assert numbers(left) == list(range(5, 40))
    assert numbers(left, snapshot_id=kept) == list(range(30))
    left.append(rows(40))
    assert numbers(left) == list(range(5, 50))
    assert swept(session, f"{namespace}.t") == set()


def test_files_that_two_tables_name(server: orcas.Server, catalog: Any, namespace: str, session: Session) -> None:
    table = history(catalog, namespace)
    twin = catalog.register_table((namespace, "twin"), table.metadata_location)
    twin.append(rows(100))
    before = below(server, table)
    assert swept(session, f"{namespace}.t") == set()
    assert below(server, table) == before
    # The place of the twin is one that was given to it.
    with pytest.raises(UsageError, match="was given to it and may have files of others"):
        swept(session, f"{namespace}.twin")


def test_nothing_is_deleted_if_something_cannot_be_read(
    server: orcas.Server, catalog: Any, namespace: str, session: Session, orcas_table: Callable[..., Any]
) -> None:
    table, client = history(catalog, namespace), server.client()
    place = table.location().removeprefix(f"s3://{LAKE}/")
    client.put_object(Bucket=LAKE, Key=f"{place}/data/orphan", Body=b"x")
    manifest = table.inspect.all_manifests()["path"][0].as_py().removeprefix(f"s3://{LAKE}/")
    client.put_object(Bucket=LAKE, Key=manifest, Body=b"no manifest")
    with pytest.raises(OrcasError, match=r"The manifests of .+ cannot be read"):
        swept(session, f"{namespace}.t")
    client.delete_object(Bucket=LAKE, Key=manifest)
    with pytest.raises(OrcasError, match="is missing, so nothing is deleted"):
        swept(session, f"{namespace}.t")
    assert f"{place}/data/orphan" in below(server, table)
    assert "no table" in orcas_table("orphans", LAKE, f"{namespace}.none", code=2)


def test_a_commit_meanwhile(catalog: Any, namespace: str, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are listed first, so a sweep knows none of those that a commit writes while it reads what is named."""
    table, live = history(catalog, namespace), tables._live

    def slow(*arguments: Any) -> set[str]:
        found = live(*arguments)
        table.append(rows(40))
        return found

    monkeypatch.setattr(tables, "_live", slow)
    assert swept(session, f"{namespace}.t") == set()
    assert numbers(catalog.load_table((namespace, "t"))) == list(range(5, 50))


def test_a_table_that_is_dropped_meanwhile(
    server: orcas.Server, catalog: Any, namespace: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, older = history(catalog, namespace), tables._older
    before = below(server, table)

    def slow(*arguments: Any) -> Iterator[bytes]:
        if catalog.table_exists((namespace, "t")):
            catalog.drop_table((namespace, "t"))
        return older(*arguments)

    monkeypatch.setattr(tables, "_older", slow)
    with pytest.raises(OrcasError, match="was dropped or renamed meanwhile"):
        swept(session, f"{namespace}.t")
    assert below(server, table) == before
