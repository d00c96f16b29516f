"""The load of `h2load`, of nghttp2: one client for HTTP/1.1 and HTTP/2, with and without TLS. It checks no certificate."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from load import UnexpectedResponseError

MISSING = "not measured without h2load, which is in the package nghttp2-client of Debian and Ubuntu"


@dataclass(frozen=True)
class Way:
    """How many requests are in flight, and how they share connections."""

    http2: bool
    connections: int
    streams: int = 1


@dataclass(frozen=True)
class Done:
    """What a load took."""

    seconds: float
    # Processor time of h2load itself.
    client_seconds: float


def is_installed() -> bool:
    return shutil.which("h2load") is not None


def run(urls: Sequence[str], way: Way, count: int, body_bytes: int) -> Done:
    """GET one URL of a server after the other, `count` times in all, on one thread.

    Raises:
        UnexpectedResponseError: an answer was no success, or of another length than `body_bytes`, or the server speaks
            another protocol.
    """
    secure = urls[0].startswith("https:")
    # Servers may prefer HTTP/1.1 if they are offered both.
    offered = ("h2" if secure else "h2c") if way.http2 else "http/1.1"
    option = f"--npn-list={offered}" if secure else f"--no-tls-proto={offered}"
    before = _of_children()
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(urls))
        file.flush()
        many = [f"--requests={count}", f"--clients={way.connections}", f"--max-concurrent-streams={way.streams}"]
        command = ["h2load", *many, option, f"--input-file={file.name}"]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"finished in ([\d.]+)(us|ms|s|m),", said.stdout)
    expected = (
        f"Application protocol: {offered}\n",
        f"status codes: {count} 2xx,",
        f"({count * body_bytes}) data\n",
    )
    if found is None or not all(words in said.stdout for words in expected):
        raise UnexpectedResponseError(f"not {expected}: {said.stdout}{said.stderr}")
    scale = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}[found[2]]
    return Done(float(found[1]) * scale, _of_children() - before)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
