"""Orcas with another store behind its PUTs: a file, a directory entry and a database transaction for each object.

This is what batch writes are compared with in the report that Orcas started from. Everything before the store is the
same on both sides: uvicorn, the application, the signature. As the report has it: SQLite with a write-ahead log, 25
connections, immediate transactions, and waiting for a locked database for up to 10 s. It only takes PUTs of objects:
what it stored is not there for a GET.

As a program it is a server: one line of JSON on stdin has `data`, `objects` and `kind`; one line on stdout the address. Of
the kind `orcas`, the store is that of Orcas.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hosted import serve
from orcas.engine import Request
from orcas.s3.dispatch import Dispatcher
from orcas.serving.app import Orcas
from orcas.settings.config import resolve

# What an answer promises: nothing at all is stored; the page cache has it; the disk has it.
KINDS = ("nothing", "cached", "synced")
CONNECTIONS = 25
_BUSY_SECONDS = 10.0
_FOLDERS = 256
_TABLES = """
CREATE TABLE IF NOT EXISTS data (id TEXT PRIMARY KEY, size INTEGER NOT NULL, md5 BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID;
"""


class FileEach:
    """The store. `put` is called on any thread; each keeps a connection of its own."""

    def __init__(self, directory: Path, *, synced: bool) -> None:
        self._directory, self._synced = directory, synced
        self._connections = threading.local()
        for number in range(_FOLDERS):
            (directory / f"{number:02x}").mkdir(parents=True)
        database = self._connect()
        database.executescript(_TABLES)
        database.close()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._directory / "objects.db", timeout=_BUSY_SECONDS, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        # With a write-ahead log, FULL is a sync of each transaction, NORMAL of checkpoints alone.
        database.execute(f"PRAGMA synchronous = {'FULL' if self._synced else 'NORMAL'}")
        return database

    def put(self, key: str, body: bytes) -> bytes:
        """Store an object, and return its MD5."""
        md5 = hashlib.md5(body, usedforsecurity=False).digest()
        name = os.urandom(16).hex()
        folder = self._directory / name[:2]
        self._write(folder, folder / name, body)
        if (database := getattr(self._connections, "database", None)) is None:
            database = self._connections.database = self._connect()
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO data VALUES (?, ?, ?)", (name, len(body), md5))
        database.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (key, name))
        database.execute("COMMIT")
        return md5

    def _write(self, folder: Path, path: Path, body: bytes) -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, body)
            if self._synced:
                os.fsync(file)
        finally:
            os.close(file)
        if self._synced:
            entries = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(entries)
            finally:
                os.close(entries)


class FileEachDispatcher:
    """Answers PUTs of objects from such a store, or stores `nothing`; the dispatcher that it replaces does the rest."""

    def __init__(self, dispatcher: Dispatcher, directory: Path, kind: str) -> None:
        self._dispatcher, self._accept = dispatcher, dispatcher._core.accept
        self._store = None if kind == "nothing" else FileEach(directory, synced=kind == "synced")
        self._threads = ThreadPoolExecutor(CONNECTIONS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Of a bucket: no second slash, or none with something behind it.
        bucket, _, key = scope["raw_path"][1:].partition(b"/")
        if scope["method"] != "PUT" or not bucket or not key:
            await self._dispatcher(scope, receive, send)
            return
        request = self._accept(scope, mount_length=0)
        if not isinstance(request, Request):
            await send({"type": "http.response.start", "status": request.status, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        body = await _body(receive)
        if self._store is None:
            md5 = hashlib.md5(body, usedforsecurity=False).digest()
        else:
            loop = asyncio.get_running_loop()
            md5 = await loop.run_in_executor(self._threads, self._store.put, key.decode(), body)
        headers = [(b"etag", b'"%s"' % md5.hex().encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


async def _body(receive: Callable[[], Awaitable[Any]]) -> bytes:
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


def main() -> None:
    """Serve until a signal."""
    order = json.loads(sys.stdin.readline())
    app = Orcas(resolve({"data": order["data"], "scrub_bytes_per_sec": 0}).settings)

    def swap() -> None:
        store = app.store
        assert store is not None
        assert isinstance(store.dispatch, Dispatcher)
        swapped: Any = FileEachDispatcher(store.dispatch, Path(order["objects"]), order["kind"])
        app.store = dataclasses.replace(store, dispatch=swapped)

    serve(app, "files", swap if order["kind"] != "orcas" else lambda: None)


if __name__ == "__main__":
    main()
