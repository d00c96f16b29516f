"""Reading the page of metrics of a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from orcas.errors import UnavailableError
from orcas.telemetry.samples import Page
from orcas.tools.session import RefusedError

if TYPE_CHECKING:
    from orcas.tools.session import Headers, Transport

PATH: Final = "/_orcas/metrics"
_PAGE_MAX: Final = 16 << 20


def read_page(transport: Transport, token: str | None) -> Page:
    """The metrics of a server now.

    Raises:
        RefusedError: the server does not show them to this reader, or has turned them off.
        UnavailableError: it cannot be reached, or not at present.
    """
    headers: Headers = [(b"host", transport.host.encode()), (b"accept", b"text/plain")]
    if token is not None:
        headers.append((b"authorization", b"Bearer " + token.encode()))
    moment = time.monotonic()
    with transport.exchange("GET", PATH, "", headers, b"") as answer:
        text = answer.read(_PAGE_MAX).decode(errors="replace")
    if answer.status in {401, 403}:
        raise RefusedError(
            answer.status,
            f"The server at {transport.host} refuses this reader of its metrics: set ORCAS_METRICS_TOKEN to its token.",
        )
    if answer.status == 404:
        raise RefusedError(404, f"The server at {transport.host} has no metrics: set ORCAS_METRICS there.")
    if answer.status >= 500:
        raise UnavailableError(f"The server at {transport.host} answered {answer.status}: see its log.")
    if answer.status != 200:
        raise RefusedError(answer.status, f"The server at {transport.host} answered {answer.status}: see its log.")
    return Page.parsed(text, moment)
