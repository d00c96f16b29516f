"""Orcas: the S3 server that one installs with pip.

    import orcas

    with orcas.Server(memory=True) as server:
        s3 = server.client()
        s3.create_bucket(Bucket="photos")
        orcas.instant.upload(s3, "photos", "holiday.jpg", "picture.jpg")

`orcas serve` runs the same server from a shell. The names below are the whole public interface of the package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from orcas.errors import ConfigurationError, OrcasError, UnavailableError
from orcas.server import Server

if TYPE_CHECKING:
    from types import ModuleType

    from orcas import instant

__all__ = ["ConfigurationError", "OrcasError", "Server", "UnavailableError", "instant"]


def __getattr__(name: str) -> ModuleType:
    # Not imported with the package: most that import it upload nothing.
    if name == "instant":
        return importlib.import_module("orcas.instant")
    raise AttributeError(f"module 'orcas' has no attribute {name!r}")
