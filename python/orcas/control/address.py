"""`server.json` in the data directory: where the server that has the store open is reached, for the tools of its operator.

Written once requests are accepted, removed in an orderly end. What a crash leaves is ignored: whoever reads it has found
the directory locked, so that its server lives. A server serves without it, where the disk is full.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from orcas.clients import http_url
from orcas.control.files import is_locked, read_secret_file, write_secret_file
from orcas.errors import UnavailableError

FILE_NAME: Final = "server.json"


def reachable(host: str) -> str:
    """The address under which this machine reaches a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - maps it away


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is reached, and for which region its clients sign."""

    url: str
    region: str


def write_address(directory: Path, url: str, region: str) -> None:
    """Say that the server of `directory` is reached under `url`.

    Raises:
        UnavailableError: the file cannot be written; there is none then.
    """
    parts = urlsplit(url)
    reached = http_url(reachable(parts.hostname or ""), parts.port or 0)
    content = json.dumps({"url": reached, "region": region, "pid": os.getpid()}).encode() + b"\n"
    try:
        write_secret_file(directory / FILE_NAME, content)
    except UnavailableError:
        # Room for another file is more than there may be; what a crash left has room for one.
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
    """Take it back."""
    (directory / FILE_NAME).unlink(missing_ok=True)


def read_address(directory: Path) -> Address | None:
    """The server that has the store of `directory`; None when the file says nothing that can be read.

    Raises:
        UnavailableError: the file is there but cannot be read.
    """
    content = read_secret_file(directory / FILE_NAME)
    try:
        document = json.loads(content or b"")
        url, region = document["url"], document["region"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(url, str) or not url.startswith("http://") or not isinstance(region, str):
        return None
    return Address(url, region)


def running_at(directory: Path) -> Address | None:
    """The server that has the store of `directory` open and takes requests; None while there is none.

    Raises:
        UnavailableError: the file is there but cannot be read.
    """
    # In this order: what the file says counts only while the directory is locked.
    return read_address(directory) if is_locked(directory) else None
