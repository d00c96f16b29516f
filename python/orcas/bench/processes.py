"""The processes behind a server: who listens on a port of this machine, their processor time, and when they are idle.

Works on Linux only: elsewhere it finds no processes, and the results lack the figures of the server.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_LISTENING: Final = "0A"
# A process is at rest when it used less than this share of a processor for `_IDLE_SECONDS`.
_IDLE_SHARE: Final = 0.03
_IDLE_SECONDS: Final = 0.3
_IDLE_WAIT_SECONDS_MAX: Final = 5.0


def listeners(address: str, port: int) -> list[int]:
    """Ids of the processes that take connections to a loopback address, as far as this user may know them."""
    if sys.platform != "linux" or not ipaddress.ip_address(address).is_loopback:
        return []
    wanted = ipaddress.ip_address(address)
    inodes = {inode for at, on, inode in _sockets() if on == port and (at == wanted or at.is_unspecified)}
    return sorted(pid for pid, inode in _sockets_of_processes() if inode in inodes)


def _sockets() -> Iterator[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int, str]]:
    """Address, port and inode of every listening socket (proc(5), /proc/net/tcp)."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                address, _, port = words[1].partition(":")
                if words[3] == _LISTENING:
                    # Words of 32 bits, each in the order of the machine.
                    raw = b"".join(struct.pack("=I", int(address[at : at + 8], 16)) for at in range(0, len(address), 8))
                    found = ipaddress.ip_address(raw)
                    mapped = getattr(found, "ipv4_mapped", None)
                    yield mapped or found, int(port, 16), words[9]


def _sockets_of_processes() -> Iterator[tuple[int, str]]:
    """Every process and the inode of each socket that it holds."""
    for process in _PROC.iterdir():
        if process.name.isdigit():
            seen = set()
            # Of another user, or gone meanwhile.
            with contextlib.suppress(OSError):
                for descriptor in (process / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        seen.add(str(descriptor.readlink()))
            for target in seen:
                if target.startswith("socket:["):
                    yield int(process.name), target.removeprefix("socket:[").removesuffix("]")


def name_of(pid: int) -> str:
    """The name of a process's program, as the kernel keeps it."""
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "gone"


def cpu_seconds(pids: list[int]) -> float | None:
    """Processor time of all their threads so far, ended ones included; None when there is none or one has ended."""
    if not pids:
        return None
    try:
        # The clock of another process: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of the kernel's posix-timers.
        return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in pids) / 1e9
    except OSError:
        return None


def settle(pids: list[int], pause: Callable[[float], None] = time.sleep) -> None:
    """Wait until they are at rest, five seconds at most, so that work after the last answer is counted where it belongs."""
    deadline = time.monotonic() + _IDLE_WAIT_SECONDS_MAX
    before = cpu_seconds(pids)
    while before is not None and time.monotonic() < deadline:
        pause(_IDLE_SECONDS)
        now = cpu_seconds(pids)
        if now is None or now - before < _IDLE_SHARE * _IDLE_SECONDS:
            return
        before = now


def resolve_address(host: str, port: int) -> str:
    """The first address of a host.

    Raises:
        OSError: it has none.
    """
    return str(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0])
