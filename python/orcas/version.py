"""The versions of Orcas, and of the parts that an error report should name."""

from __future__ import annotations

import functools
import platform
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "orcas-s3"


# To find it takes a millisecond, and every page of metrics has it.
@functools.cache
def orcas_version() -> str:
    """The version of the installed distribution."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


def versions() -> dict[str, str]:
    """Orcas, the interpreter, the platform, and the packages that requests pass through."""
    parts = {"orcas": orcas_version(), "python": platform.python_version(), "platform": platform.platform()}
    return parts | {name: version(name) for name in ("uvicorn", "uvloop", "httptools", "fastapi")}
