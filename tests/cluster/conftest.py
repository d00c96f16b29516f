"""Clusters: a store of the log, nodes as processes of their own, and a client that reaches all of them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from tests.fixtures.commands import document
from tests.fixtures.marks import full
from tests.fixtures.waiting import wait_until

import orcas
from orcas.settings.config import child_environment

LEASE_SECONDS = 2
ROOT = ("cluster-root", "cluster-secret")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Node:
    """A node: its directory, which outlives its process."""

    directory: Path
    port: int
    words: list[str]
    environ: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    module: str = "orcas"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory.with_suffix(".log")

    def start(self, *, wait: bool = True) -> None:
        with self.log.open("ab") as err:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", self.module, "serve", "--data", str(self.directory), "-p", str(self.port),
                    *self.words,
                ],
                stdout=subprocess.PIPE, stderr=err, env=child_environment() | self.environ,
            )  # fmt: skip
        if wait:
            self.await_ready()

    def await_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("orcas ready "), self.log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the process. Its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def status(self) -> dict[str, Any]:
        """The cluster as the node sees it."""
        keys = {"AWS_ACCESS_KEY_ID": ROOT[0], "AWS_SECRET_ACCESS_KEY": ROOT[1]}
        shown: dict[str, Any] = document("cluster", "status", "--endpoint", self.url, **keys)
        return shown

    def client(self, attempts: int = 1, seconds: float = 30, service: str = "s3", keys: tuple[str, str] = ROOT) -> Any:
        return boto3.client(
            service, endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=keys[0],
            aws_secret_access_key=keys[1],
            config=Config(
                retries={"total_max_attempts": attempts, "mode": "standard"}, read_timeout=seconds, connect_timeout=5
            ),
        )  # fmt: skip


@dataclass
class Cluster:
    """Nodes that share a log."""

    folder: Path
    log_url: str
    environ: dict[str, str]
    nodes: list[Node] = field(default_factory=list)

    def add(self, *, start: bool = True, log_url: str | None = None, **variables: str) -> Node:
        """One more node. `log_url`: how it reaches the log."""
        port, name = free_port(), f"node{len(self.nodes)}"
        words = ["--log", log_url or self.log_url, "--node-url", f"http://127.0.0.1:{port}"]
        environ = {
            "ORCAS_ROOT_ACCESS_KEY": ROOT[0], "ORCAS_ROOT_SECRET_KEY": ROOT[1],
            "ORCAS_CLUSTER_LEASE_SEC": str(LEASE_SECONDS), "ORCAS_TRUSTED_PROXIES": "127.0.0.1",
        }  # fmt: skip
        node = Node(self.folder / name, port, words, self.environ | environ | variables)
        self.nodes.append(node)
        if start:
            node.start()
        return node


@dataclass
class Bucket:
    """A bucket for logs, on a server in memory."""

    server: orcas.Server
    made: int = 0

    def log_url(self) -> str:
        self.made += 1
        return f"s3://logs/log{self.made}?endpoint={self.server.endpoint}"

    @property
    def environ(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.server.access_key, "AWS_SECRET_ACCESS_KEY": self.server.secret_key}


@pytest.fixture(scope="session")
def log_bucket() -> Iterator[Bucket]:
    with orcas.Server(memory=True) as server:
        client = server.client("s3")
        client.create_bucket(Bucket="logs")
        yield Bucket(server)


class Database:
    """A PostgreSQL server in a folder."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._folder, self._binaries, self._port = folder, binaries, free_port()
        # It refuses to run as root.
        self._owner: dict[str, Any] = {} if os.geteuid() else {"user": "postgres"}
        if self._owner:
            shutil.chown(folder, "postgres")
        self._run("initdb", "-U", "orcas", "--auth=trust", "--no-sync")

    @property
    def url(self) -> str:
        return f"postgresql://orcas@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"
        self._run("pg_ctl", "-w", "-l", str(self._folder / "server.log"), "-o", options, "start")

    def stop(self) -> None:
        """Without a word to anybody, as in a crash."""
        self._run("pg_ctl", "-m", "immediate", "stop")

    def keep(self, log: str) -> None:
        """Keep the state of a log for `go_back`."""
        self._execute(log, "CREATE TABLE {0}_then AS SELECT * FROM {0}")

    def go_back(self, log: str) -> None:
        """Lose what was appended to a log since `keep`."""
        self._execute(log, "DELETE FROM {0}; INSERT INTO {0} SELECT * FROM {0}_then")

    def _execute(self, log: str, statement: str) -> None:
        """Run a statement for both tables of a log, in one transaction."""
        text = "; ".join(statement.format(f"{log}_{part}") for part in ("head", "log"))
        subprocess.run(["psql", "--quiet", "-v", "ON_ERROR_STOP=1", "-1", self.url, "-c", text], check=True)

    def _run(self, program: str, *words: str) -> None:
        line = [str(self._binaries / program), "-D", str(self._folder / "data"), *words]
        subprocess.run(line, check=True, capture_output=True, **self._owner)


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    found = shutil.which("initdb") or shutil.which("initdb", path="/usr/lib/postgresql/15/bin")
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    # Only root enters the directories of pytest.
    with tempfile.TemporaryDirectory(prefix="orcas-postgresql-") as folder:
        made = Database(Path(folder), Path(found).resolve().parent)
        made.start()
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(params=["objects", *full("rows")])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster without nodes, whose log is in a bucket or in a database."""
    if request.param == "objects":
        bucket: Bucket = request.getfixturevalue("log_bucket")
        made = Cluster(tmp_path, bucket.log_url(), bucket.environ)
    else:
        database: Database = request.getfixturevalue("database")
        made = Cluster(tmp_path, f"{database.url}?log=log{secrets.token_hex(6)}", {})
    yield made
    for node in made.nodes:
        if node.process is not None:
            node.end(signal.SIGKILL)


@pytest.fixture
def cluster_of_rows(database: Database, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster without nodes, whose log is in a database."""
    made = Cluster(tmp_path, f"{database.url}?log=log{secrets.token_hex(6)}", {})
    yield made
    for node in made.nodes:
        if node.process is not None:
            node.end(signal.SIGKILL)


def once(call: Callable[[], Any], seconds: float = 30) -> Any:
    """The result of a call once it succeeds."""
    results: list[Any] = []

    def tried() -> bool:
        with contextlib.suppress(Exception):
            results.append(call())
            return True
        return False

    assert wait_until(tried, seconds)
    return results[0]
