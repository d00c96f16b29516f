"""Servers under measurement: child processes on loopback, with their CPU time and memory as the kernel counts them."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import load
from load import Address
from signing import Signer

ACCESS_KEY = "ORCASBENCHMARK000001"
SECRET_KEY = "orcas/benchmark/secret/key/of/no/value00"
# The root key, in the environment of a server.
KEYS = {"ORCAS_ROOT_ACCESS_KEY": ACCESS_KEY, "ORCAS_ROOT_SECRET_KEY": SECRET_KEY}
# Disables the scrub, for figures that a few per cent of a CPU would disturb.
UNSCRUBBED = {"ORCAS_SCRUB_BYTES_PER_SEC": "0"}
_HERE = Path(__file__).parent
_MIB = 1 << 20
# A process is idle when it uses less than this share of a CPU for this long.
_REST_SHARE = 0.03
_REST_SECONDS = 0.4
_REST_SECONDS_MAX = 60


class Process:
    """A server that has reported that it is ready."""

    def __init__(
        self, command: list[str], ready: str, order: object = None, environment: dict[str, str] | None = None
    ) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORCAS_", "AWS_"))}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        started = time.perf_counter()
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=kept | (environment or {}),
            text=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("" if order is None else order if isinstance(order, str) else json.dumps(order) + "\n")
        self._child.stdin.close()
        line = self._child.stdout.readline()
        self.ready_seconds = time.perf_counter() - started
        if not line.startswith(ready):
            self._child.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{command} did not become ready: {line}{self._errors.read().decode()}")
        self.url = line.split()[-1]
        place = urlsplit(self.url)
        self.address: Address = (str(place.hostname), int(place.port or 0))
        self.pid = self._child.pid

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the process and wait for it."""
        self._child.send_signal(number)
        self._child.wait(120)
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def cpu_ns(self) -> int:
        """CPU time of all threads so far, ended ones included, user and system, in nanoseconds."""
        # The clock id of another process: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel's posix-timers.
        return time.clock_gettime_ns((~self.pid << 3) | 2)

    def threads_ns(self) -> dict[str, int]:
        """CPU time of each live thread by name, those of a pool together; exact while the process is idle."""
        used: dict[str, int] = {}
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            name = (thread / "comm").read_text().strip().rstrip("0123456789").rstrip("-")
            used[name] = used.get(name, 0) + int((thread / "schedstat").read_text().split()[0])
        return used

    def settle(self, rest_seconds: float = _REST_SECONDS) -> None:
        """Wait until the process is idle, so that work after its answers is attributed to them."""
        deadline = time.monotonic() + _REST_SECONDS_MAX
        before = self.cpu_ns()
        while time.monotonic() < deadline:
            time.sleep(rest_seconds)
            now = self.cpu_ns()
            if now - before < _REST_SHARE * rest_seconds * 1e9:
                return
            before = now

    def signer(self) -> Signer:
        """Signs requests with the root key; they are valid for the next 15 minutes."""
        return Signer(ACCESS_KEY, SECRET_KEY, f"{self.address[0]}:{self.address[1]}", dt.datetime.now(dt.UTC))

    def rss_mib(self) -> float:
        """Resident memory."""
        return self._status("VmRSS")

    def peak_rss_mib(self) -> float:
        """Largest resident memory since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Reset the peak to the present memory (proc(5): 5 in clear_refs)."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def page_faults(self) -> int:
        """Minor page faults of the process so far (proc(5): minflt in stat)."""
        behind_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2]
        return int(behind_name.split()[7])

    def _status(self, name: str) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / _MIB
        raise RuntimeError(f"/proc knows no {name}")


# `orcas` as on a machine that has only the first processors of this one, as many as the first argument says.
_ON_PROCESSORS = """
import os, sys
count = int(sys.argv.pop(1))
os.sched_setaffinity(0, range(count))
os.cpu_count = lambda: count
from orcas.cli import main
sys.exit(main())
"""


class Orcas(Process):
    """`orcas serve` over a directory, as a user starts it; without one, in memory. `processors`: on so many only."""

    def __init__(
        self,
        data: Path | None = None,
        durability: str = "sync",
        settings: dict[str, str] | None = None,
        processors: int | None = None,
    ) -> None:
        self._data = data
        place = ["--memory"] if data is None else ["--data", str(data), "--durability", durability]
        command = ["-m", "orcas"] if processors is None else ["-c", _ON_PROCESSORS, str(processors)]
        super().__init__(
            [sys.executable, *command, "serve", "--port", "0", *place],
            "orcas ready",
            environment=KEYS | (settings or {}),
        )

    def pools(self) -> dict[str, Any]:
        """The counters of its pools. Not of a server in memory."""
        assert self._data is not None
        said: dict[str, Any] = tool(self._data, "stats")["pools"]
        return said

    def admin(self, method: str, path: str, order: object = None) -> dict[str, Any]:
        """The answer of the admin API.

        Raises:
            UnexpectedResponseError: it was no success.
        """
        body = b"" if order is None else json.dumps(order).encode()
        headers = {"content-length": str(len(body)), "content-type": "application/json"}
        # The same request may come twice within a second.
        headers["x-amz-orcas-nonce"] = secrets.token_hex(8)
        digest = hashlib.sha256(body).hexdigest()
        request = self.signer().request(method, f"/_orcas/admin/{path}", None, headers, digest) + body
        said: dict[str, Any] = json.loads(load.exchange(self.address, request).body)
        return said


def tool(data: Path, *command: str) -> dict[str, Any]:
    """The output of `orcas COMMAND… --json` for the store in `data`, whether a server runs or not.

    Raises:
        RuntimeError: it failed, or `fsck` found damage.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORCAS_", "AWS_"))}
    words = [sys.executable, "-m", "orcas", *command, "--data", str(data), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=kept | KEYS)
    if done.returncode:
        raise RuntimeError(f"orcas {' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def stored_bytes(data: Path, bucket: str) -> int:
    """Bytes that the contents of a bucket take, each counted once."""
    entries: list[dict[str, Any]] = tool(data, "stats", "--bucket", bucket)["buckets"]
    return int(entries[0]["stored"])


def allocated_bytes(directory: Path) -> int:
    """Space on the disk that a directory takes, as du counts it."""
    total = directory.stat().st_blocks
    for path in directory.rglob("*"):
        # Files come and go in a store that is served.
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_blocks
    return total * 512


class Bare(Process):
    """Bare uvicorn; `answers` as `bare_uvicorn` takes them."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__([sys.executable, str(_HERE / "bare_uvicorn.py")], "bare ready", order=answers)


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """An empty temporary directory on the measured disk."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="orcas-bench-") as name:
        yield Path(name)
