"""Orcas: the S3 server that one installs with pip.

    with orcas.Server(memory=True) as s3:
        s3.client().put_object(Bucket="b", Key="k", Body=b"…")
        orcas.instant.upload(s3.client(), "b", "k", "file.bin")

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
