"""How many files a process may have open: each connection is one, of a server and of a load."""

from __future__ import annotations

import resource
from typing import Final

FILES_WANTED: Final = 65536


def allow_files() -> None:
    """Raise the limit of open files as far as it goes without asking."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
