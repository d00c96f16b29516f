"""The limit on open files. Each connection of a server or a load generator is one."""

from __future__ import annotations

import resource
from typing import Final

FILES_WANTED: Final = 65536


def allow_files() -> None:
    """Raise the soft limit of open files as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
