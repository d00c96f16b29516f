"""What a server that listens by itself has for its clients, and counts of them for the metrics.

Made with the application, and filled when the server listens. Behind the server of somebody else it stays empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcas.acme.keeper import Keeper
    from orcas.engine import Front
    from orcas.http.certificate import Certificates


class Connections:
    """The listener, its certificates (none for plain HTTP), and what keeps those of ACME."""

    def __init__(self) -> None:
        self.front: Front | None = None
        self.certificates: Certificates | None = None
        self.keeper: Keeper | None = None

    def count_connections(self) -> int:
        """How many clients are connected."""
        return 0 if self.front is None else self.front.connections()

    def count_refusals(self) -> Mapping[str, int]:
        """How often connections were ended with an answer of their own, by error code."""
        return {} if self.front is None else dict(self.front.refusals())

    def count_passed(self) -> Mapping[str, int]:
        """How many requests were for another node of the cluster, by what came of them."""
        return {} if self.front is None else dict(self.front.passed())

    def certificate_state(self) -> tuple[float, bool] | None:
        """When the first certificate ends (seconds since 1970), and whether another is missing; None without TLS."""
        certificates = self.certificates
        if certificates is None:
            return None
        return certificates.ends, certificates.failure is not None or (self.keeper is not None and self.keeper.fails)
