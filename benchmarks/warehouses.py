"""The catalog of tables beside pyiceberg's own catalog in SQLite, and branches of a large warehouse."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orcas
from figures import Figure, Plan, ratios
from index import Filler
from orcas.tables.names import WAREHOUSE
from orcas.tables.warehouses import marker
from orcas.testing import Control
from processes import ACCESS_KEY, SECRET_KEY, UNSCRUBBED, Orcas, scratch

_LAKE = "lake"
_WRITERS = 8
_KINDS = ("rest", "sqlite")
_TABLES = 1_000
_SETTINGS = UNSCRUBBED | {"ORCAS_WAREHOUSE": _LAKE, "ORCAS_BUCKETS": "other"}


def _catalog(kind: str, url: str, directory: str) -> Any:
    """A catalog of pyiceberg: that of the server, or one in SQLite over another bucket of the same server."""
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    if kind == "rest":
        said = {"credential": f"{ACCESS_KEY}:{SECRET_KEY}", "uri": f"{url}/_orcas/iceberg", "warehouse": _LAKE}
        return RestCatalog("rest", **said)
    keys = {"s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY, "s3.region": "us-east-1"}
    database = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": "s3://other/tables", "s3.endpoint": url}
    return SqlCatalog("sqlite", **keys, **database)


def _schema() -> Any:
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    return Schema(NestedField(1, "n", LongType()))


def _commits(kind: str, url: str, directory: str, count: int, name: str) -> list[float]:
    """The moments before and after each of some commits to a table, seconds."""
    table = _catalog(kind, url, directory).load_table(("n", name))
    moments = [time.monotonic()]
    for number in range(count):
        with table.transaction() as change:
            change.set_properties(number=str(number))
        moments.append(time.monotonic())
    return moments


def commits(plan: Plan) -> list[Figure]:
    """Figures table-commit and table-commits: each commit sets one property, so that both sides write metadata alone."""
    rounds, alone, together = plan.size(7, 2), plan.size(30, 5), plan.size(15, 3)
    took: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    rates: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    spawning = multiprocessing.get_context("spawn")
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=_SETTINGS) as server:
        names = [f"t{number}" for number in range(_WRITERS)]
        for kind in _KINDS:
            made = _catalog(kind, server.url, str(directory))
            made.create_namespace("n")
            for name in names:
                made.create_table(("n", name), schema=_schema())
        with spawning.Pool(_WRITERS) as writers:
            for warm in [True] + [False] * rounds:
                for kind in _KINDS:
                    run = functools.partial(_commits, kind, server.url, str(directory))
                    moments = run(alone, names[0])
                    of_all = writers.map(functools.partial(run, together), names, chunksize=1)
                    if warm:
                        continue
                    each = [after - before for before, after in itertools.pairwise(moments)]
                    took[kind].append(1000 * statistics.median(each))
                    seconds = max(one[-1] for one in of_all) - min(one[0] for one in of_all)
                    rates[kind].append(_WRITERS * together / seconds)
    return [
        Figure("table-commit", "a commit with the catalog of the server ÷ with pyiceberg's in SQLite, p50, one writer",
               ratios(took["rest"], took["sqlite"]), 1.0, detail={"ms": took, "commits": alone}),
        Figure("table-commits", f"commits a second of {_WRITERS} writers to {_WRITERS} tables ÷ the same in SQLite",
               ratios(rates["rest"], rates["sqlite"]), 3.0, at_least=True,
               detail={"commits_per_second": rates, "commits": together}),
    ]  # fmt: skip


def loads(plan: Plan) -> list[Figure]:
    """Figure table-load: the answer of LoadTable, without what a client makes of it."""
    found: list[float] = []
    size = 0
    with scratch(plan.directory) as directory, Orcas(directory / "data", settings=_SETTINGS) as server:
        catalog = _catalog("rest", server.url, str(directory))
        catalog.create_namespace("n")
        # A property for each of so many columns, as a tool for documentation leaves them.
        properties = {f"comment.column_{number:05d}": "x" * 60 for number in range(10_500)}
        catalog.create_table(("n", "wide"), schema=_schema(), properties=properties)
        session, url = _session(server), f"{server.url}/_orcas/iceberg/v1/{_LAKE}/namespaces/n/tables/wide"
        for warm in [True] + [False] * plan.size(7, 2):
            took = []
            for _ in range(plan.size(50, 5)):
                began = time.perf_counter()
                answer = session.get(url)
                took.append(1000 * (time.perf_counter() - began))
                answer.raise_for_status()
                size = len(answer.content)
            if not warm:
                found.append(statistics.median(took))
    what = "LoadTable of a table with metadata of 1 MB, p50"
    return [Figure("table-load", what, found, 10, unit="ms", detail={"bytes": size})]


def _session(server: Orcas) -> Any:
    """A session of requests that has a token."""
    import requests

    session = requests.Session()
    form = {"grant_type": "client_credentials", "client_id": ACCESS_KEY, "client_secret": SECRET_KEY}
    answer = session.post(f"{server.url}/_orcas/iceberg/v1/oauth/tokens", data=form)
    answer.raise_for_status()
    session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
    return session


def branches(plan: Plan) -> list[Figure]:
    """Figures branch and branch-drop, of a warehouse with many tables and files."""
    objects, tables = plan.size(1_000_000, 5_000), plan.size(_TABLES, 20)
    made: list[float] = []
    dropped: list[float] = []
    with scratch(plan.directory) as directory:
        data = directory / "data"
        with Orcas(data, settings=_SETTINGS):
            pass
        Filler(plan, data).run(_LAKE, objects)
        with Orcas(data, settings=_SETTINGS) as server:
            catalog = _catalog("rest", server.url, str(directory))
            catalog.create_namespace("n")
            with ThreadPoolExecutor(4) as pool:
                list(
                    pool.map(lambda number: catalog.create_table(("n", f"t{number}"), schema=_schema()), range(tables))
                )
            server.settle()
            session, url = _session(server), f"{server.url}/_orcas/iceberg/branches/{_LAKE}@b"
            for _ in range(plan.size(10, 2)):
                for method, found in (("POST", made), ("DELETE", dropped)):
                    began = time.perf_counter()
                    answer = session.request(method, url, json={})
                    found.append(1000 * (time.perf_counter() - began))
                    answer.raise_for_status()
    detail = {"files": objects, "tables": tables}
    of = f"of a warehouse with {tables:,} tables and {objects:,} other files"
    return [
        Figure("branch", f"a branch {of}", made, 50, unit="ms", detail=detail),
        Figure("branch-drop", f"dropping a branch {of}", dropped, 50, unit="ms", detail=detail),
    ]


def fixture(plan: Plan) -> list[Figure]:
    """Figures catalog-ready and catalog-reset: what the fixture `orcas_catalog` does for each test."""
    from pyiceberg.catalog.rest import RestCatalog

    ready: list[float] = []
    resets: list[float] = []
    with orcas.Server(memory=True) as server, Control(server) as control:
        client = server.client()
        uri = f"{server.endpoint}/_orcas/iceberg"
        said = {"uri": uri, "warehouse": "first", "credential": f"{server.access_key}:{server.secret_key}"}
        for _ in range(plan.size(10, 3)):
            control.create_bucket("first")
            began = time.perf_counter()
            client.put_object(Bucket="first", Key=WAREHOUSE, Body=marker("first"))
            with RestCatalog("orcas", **said) as catalog:
                ready.append(time.perf_counter() - began)
                catalog.create_namespace("n")
                for name in "abcde":
                    catalog.create_table(("n", name), schema=_schema())
            began = time.perf_counter()
            control.reset()
            resets.append(1000 * (time.perf_counter() - began))
        client.close()
    return [
        Figure(
            "catalog-ready", "a bucket becomes a warehouse, and a client has its configuration", ready, 0.3, unit="s"
        ),
        Figure("catalog-reset", "`Control.reset` of a warehouse with five tables", resets, 10, unit="ms"),
    ]
