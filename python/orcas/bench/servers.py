"""The servers of a run: those given by URL, with keys from the environment, and one that the benchmark starts.

A server that the benchmark starts has a store of its own in a temporary directory, and both are gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from orcas.bench.processes import listeners, name_of, resolve_address
from orcas.control.files import NoStoreError
from orcas.control.sealing import SealedError
from orcas.errors import ConfigurationError, UnavailableError, UsageError
from orcas.server import Server
from orcas.settings.clients import client_variables
from orcas.settings.config import resolve
from orcas.tools.reach import stored_pair

# The word that stands for a server that the benchmark starts.
OWN: Final = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """A pair of keys. None: as the environment has it."""

    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A server that a run is to use."""

    # `own`, or http://HOST:PORT.
    url: str
    keys: Keys = Keys()
    # Whose processor time is that of the server; found when empty.
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A server that takes requests."""

    url: str
    host: str
    address: str
    port: int
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str
    own: bool
    pids: list[int]
    # Of a server of the benchmark's own.
    durability: str | None = None
    file_system: str | None = None

    def document(self) -> dict[str, Any]:
        """The fields of a report about it: no secrets."""
        return {
            "url": self.url,
            "own": self.own,
            "region": self.region,
            "processes": [{"pid": pid, "name": name_of(pid)} for pid in self.pids],
            "durability": self.durability,
            "file_system": self.file_system,
        }


def check_url(url: str) -> str:
    """A URL that a load can be put on, without its last slash.

    Raises:
        ConfigurationError: it is none.
    """
    if url == OWN:
        return url
    parts = urlsplit(url)
    if parts.scheme == "https":
        raise UsageError(
            f"{url} cannot be measured: the load generator does not support TLS, whose cost would be counted as the "
            "server's; give the http:// address of the server."
        )
    try:
        port = parts.port
    except ValueError:
        port = -1
    plain = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
    if parts.scheme != "http" or not parts.hostname or not plain or port == -1:
        raise UsageError(f"{url} is not a server: use http://HOST:PORT, or {OWN} to start a server for the run.")
    return url.rstrip("/")


@contextlib.contextmanager
def running(wanted: Wanted, settings: Mapping[str, Any], place: Path | None) -> Iterator[Reached]:
    """The server, started if it is the benchmark's own: with these settings, its store in a directory under `place`.

    Raises:
        ConfigurationError: there is no key for it.
        UnavailableError: it cannot be started, or its host has no address.
    """
    if wanted.url != OWN:
        yield _existing(wanted)
        return
    with contextlib.ExitStack() as stack:
        if place is not None and not place.is_dir():
            raise UsageError(
                f"--data must be a directory for temporary stores, but {place} is not a directory: create it."
            )
        data = stack.enter_context(tempfile.TemporaryDirectory(prefix="orcas-bench-", dir=place))
        server = stack.enter_context(Server(data, **settings))
        parts = urlsplit(server.endpoint)
        yield Reached(
            url=server.endpoint, host=parts.netloc, address=parts.hostname or "", port=parts.port or 0,
            access_key=server.access_key, secret_key=server.secret_key, region=server.region, own=True,
            pids=[server.pid] if sys.platform == "linux" else [],
            durability=str(settings.get("durability", "sync")), file_system=_file_system(Path(data)),
        )  # fmt: skip


def _existing(wanted: Wanted) -> Reached:
    parts = urlsplit(wanted.url)
    host, port = parts.hostname or "", parts.port or 80
    try:
        address = resolve_address(host, port)
    except OSError as error:
        raise UnavailableError(
            f"{wanted.url} cannot be reached: {error.strerror}; check the name of the host."
        ) from None
    access_key, secret_key, token, region = _keys(wanted.keys)
    return Reached(
        url=wanted.url, host=parts.netloc, address=address, port=port, access_key=access_key, secret_key=secret_key,
        session_token=token, region=region, own=False, pids=list(wanted.pids) or listeners(address, port),
    )  # fmt: skip


def _keys(given: Keys) -> tuple[str, str, str | None, str]:
    """The pair that was given, else that of the AWS variables, else the root key that `orcas env` prints."""
    variables = client_variables()
    settings = resolve().settings
    region = given.region or variables.region or settings.region
    if (given.access_key is None) != (given.secret_key is None):
        raise UsageError("--access-key and --secret-key are one pair: give both or neither.")
    if given.access_key is not None and given.secret_key is not None:
        return given.access_key, given.secret_key, None, region
    if variables.access_key is not None and variables.secret_key is not None:
        return variables.access_key, variables.secret_key, variables.session_token, region
    try:
        access_key, secret_key = stored_pair(settings, settings.root_access_key, settings.root_secret_key)
    except SealedError:
        raise
    except (ConfigurationError, NoStoreError):
        raise ConfigurationError(
            "There is no key: give --access-key and --secret-key, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        ) from None
    return access_key, secret_key, None, region


def _file_system(path: Path) -> str | None:
    """The kind of file system that a store is on: a sync on one in memory is none."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return None
    found: tuple[str, str | None] = ("", None)
    for line in mounts:
        _, point, kind, *_ = line.split()
        if os.path.commonpath([point, path.resolve()]) == point and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def machine() -> dict[str, Any]:
    """The facts about this machine that one needs in order to compare two reports."""
    uname = os.uname()
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "kernel": f"{uname.sysname} {uname.release} {uname.machine}",
        "load_average": os.getloadavg(),
    }


def _cpu_model() -> str | None:
    with contextlib.suppress(OSError, IndexError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return None
