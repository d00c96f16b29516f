"""Orcas: the S3 server that one installs with pip.

    with orcas.Server(memory=True) as s3:
        s3.client().put_object(Bucket="b", Key="k", Body=b"…")

`orcas serve` runs the same server from a shell. The names below are the whole public interface of the package.
"""

from orcas.errors import ConfigurationError, OrcasError, UnavailableError
from orcas.server import Server

__all__ = ["ConfigurationError", "OrcasError", "Server", "UnavailableError"]
