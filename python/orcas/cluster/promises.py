"""Whether the bucket of the log keeps what the log rests on: a small part of `orcas probe`, without writers at once.

Some thirty requests below the prefix of the log, whose objects are removed in the end. A database is not asked: each
connection looks at its settings, and a commit says itself what it is worth.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from orcas.cluster.log import without_secrets
from orcas.errors import UnavailableError
from orcas.settings.clients import client_variables

if TYPE_CHECKING:
    from orcas.settings.config import Settings

_CHECKS: Final = frozenset({"create-existing", "create-new", "swap", "read-after-write"})


def has_bucket(settings: Settings) -> bool:
    """Whether the log is in a bucket."""
    return (settings.cluster_log or "").startswith("s3://")


def check_promises(settings: Settings) -> dict[str, Any]:
    """Ask the bucket. How many requests that took, and how many checks could not be told. Blocks.

    Raises:
        UnavailableError: a promise is broken, or the bucket cannot be reached.
        RefusedError: nothing can be written there.
        OrcasError: something could not be removed.
    """
    # Few servers need this, and none at its start.
    from orcas.tools.probe import BROKEN, OPEN, Probe
    from orcas.tools.session import HttpTransport, Session
    from orcas.tools.transfers.places import place_of

    url = settings.cluster_log or ""
    parts = urlsplit(url)
    said = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    region = said.get("region", "us-east-1")
    transport = HttpTransport(said.get("endpoint", f"https://s3.{region}.amazonaws.com"))
    given = client_variables()
    assert given.access_key is not None
    assert given.secret_key is not None
    token = [(b"x-amz-security-token", given.session_token.encode())] if given.session_token else []
    session = Session(transport, (given.access_key, given.secret_key), region, "of AWS_ACCESS_KEY_ID", headers=token)
    place = place_of(f"s3://{parts.netloc}/{parts.path.strip('/')}")
    with contextlib.closing(session), contextlib.ExitStack() as stack:
        probe = Probe([session], place)
        stack.callback(probe.clean)
        findings = probe.run(lambda _: None, _CHECKS)
    broken = [f"{found['check']}: {found['meaning'].rstrip('.')}" for found in findings if found["verdict"] == BROKEN]
    if broken:
        raise UnavailableError(
            f"The log of the cluster, {without_secrets(url)}, is not safe in its bucket ({'; '.join(broken)}): see what "
            "`orcas probe` says, let only one node run, and use another store for the log."
        )
    return {"requests": probe.requests, "untold": sum(found["verdict"] == OPEN for found in findings)}
