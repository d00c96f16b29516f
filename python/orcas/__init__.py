"""Orcas: the S3 server that you install with pip.

    import orcas

    with orcas.Server(memory=True) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="photos")
        orcas.instant.upload(s3, "photos", "holiday.jpg", "picture.jpg")

`orcas serve` runs the same server from a shell. `orcas.create_app` returns it as an ASGI application that other servers
can run. The names below are the whole public interface of the package.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):  # noqa: UP036 - pip refuses such a Python, but it may run the sources
    raise ImportError("Orcas needs Python 3.11 or later: run it with a newer one, such as `python3.13 -m orcas`.")

from orcas.errors import ConfigurationError, InstallationError, OrcasError, UnavailableError
from orcas.server import Server

if TYPE_CHECKING:
    from orcas import buckets, events, instant, testing, usage
    from orcas.serving.app import create_app

__all__ = [
    "ConfigurationError", "OrcasError", "Server", "UnavailableError", "buckets", "create_app", "events", "instant",
    "testing", "usage",
]  # fmt: skip


def __getattr__(name: str) -> object:
    # Imported on first use: most programs need neither, and run their server in another process.
    try:
        if name in ("buckets", "events", "instant", "testing", "usage"):
            return importlib.import_module(f"orcas.{name}")
        if name == "create_app":
            return importlib.import_module("orcas.serving.app").create_app
    except ImportError as error:
        raise InstallationError(error) from None
    raise AttributeError(f"module 'orcas' has no attribute {name!r}")
