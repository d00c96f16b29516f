"""`server.json` in the data directory: the address of the server that has the store open, for the operator's tools.

It is written when the server accepts requests, and removed at an orderly stop. A file that a crash left is ignored: it only
counts while the directory is locked, which means that the server is running. On a full disk a server runs without it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from orcas.control.files import is_locked, read_secret_file, write_secret_file
from orcas.errors import UnavailableError
from orcas.settings.clients import server_url
from orcas.settings.config import Settings

FILE_NAME: Final = "server.json"


def reachable(host: str) -> str:
    """The address at which this machine can reach a server that listens on `host`."""
    if host == "::":
        # Containers may have no address of IPv6; a server that listens on all addresses has those of IPv4 as well.
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return "::1"
    return "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104 - maps it away


@dataclass(frozen=True, slots=True)
class Address:
    """The URL of a server, and the region that its clients sign for.

    With TLS, also the SHA-256 of its certificate, and the file of the CA if that is one for development.
    """

    url: str
    region: str
    certificate: str | None = None
    ca: str | None = None


def write_address(directory: Path, address: Address) -> None:
    """Record that the server of `directory` has this address.

    Raises:
        UnavailableError: the file cannot be written. Then there is none.
    """
    parts = urlsplit(address.url)
    reached = server_url(reachable(parts.hostname or ""), parts.port or 0, tls=parts.scheme == "https")
    document = {**dataclasses.asdict(address), "url": reached, "pid": os.getpid()}
    content = json.dumps({name: value for name, value in document.items() if value is not None}).encode() + b"\n"
    try:
        write_secret_file(directory / FILE_NAME, content)
    except UnavailableError:
        # There may be no room for another file. A file that a crash left can be overwritten.
        if not _overwritten(directory / FILE_NAME, content):
            remove_address(directory)
            raise


def _overwritten(path: Path, content: bytes) -> bool:
    try:
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()
    except OSError:
        return False
    return True


def remove_address(directory: Path) -> None:
    """Remove the file."""
    (directory / FILE_NAME).unlink(missing_ok=True)


def read_address(directory: Path) -> Address | None:
    """The address in the file; None if there is none or the file is not valid.

    Raises:
        UnavailableError: the file is there but cannot be read.
    """
    content = read_secret_file(directory / FILE_NAME)
    try:
        document = json.loads(content or b"")
        address = Address(document["url"], document["region"], document.get("certificate"), document.get("ca"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not all(isinstance(value, str) for value in dataclasses.astuple(address) if value is not None):
        return None
    return address if re.match("https?://", address.url) else None


def running_at(directory: Path) -> Address | None:
    """The address of the server that has the store of `directory` open and accepts requests; None if there is none.

    Raises:
        UnavailableError: the file is there but cannot be read.
    """
    # The lock first: the file only counts while the directory is locked.
    return read_address(directory) if is_locked(directory) else None


def link_to(directory: Path, link: Path) -> None:
    """Let `link` lead to the data directory of a server that runs, in place of that of another.

    Raises:
        OSError: there is something else than a link, or it cannot be made.
    """
    if link.exists() and not link.is_symlink():
        raise FileExistsError(errno.EEXIST, "there is something else than a symbolic link")
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(directory)
    fresh.replace(link)


def linked(link: Path | None) -> Path | None:
    """The data directory to which `link` leads, of a server that runs; None if there is none."""
    with contextlib.suppress(OSError):
        directory = None if link is None else link.readlink()
        return directory if directory is not None and is_locked(directory) else None
    return None


def remove_link(directory: Path, link: Path | None) -> None:
    """Remove the link, if it leads to `directory`, whose server still runs."""
    if link is not None and linked(link) == directory:
        link.unlink(missing_ok=True)


def following(settings: Settings, data: str | None) -> Settings:
    """The settings of a command whose line names `data` as the data directory.

    Without it, the directory is that of the server to which `ORCAS_SERVER_LINK` leads, if one runs.
    """
    found = linked(settings.server_link) if data is None else None
    return settings if found is None else dataclasses.replace(settings, data=found)
