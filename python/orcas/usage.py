"""`orcas.usage`: who has used how much of a server, through any boto3 client that has the root key.

The numbers are those of `orcas usage`. Must not import boto3 or botocore.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlencode

Group = Literal["owner", "key", "bucket", "day"]


def report(
    client: Any, *, since: dt.date | None = None, until: dt.date | None = None, by: Sequence[Group] = ("bucket",)
) -> list[dict[str, Any]]:
    """Requests, bytes and GB-months of a period, a dictionary for each combination of `by`.

    Args:
        client: a boto3 S3 client with the root key; its endpoint and credentials are used.
        since: the first day in UTC; the first of this month if not given.
        until: the last day; today if not given.
        by: what to group by.

    Raises:
        OrcasError: the server cannot be reached, or refuses.

    Example:
        for row in orcas.usage.report(client, by=["owner", "day"]):
            print(row["owner"], row["day"], row["writes"], row["gb_months"])
    """
    from orcas.tools.session import session_of

    asked = {"by": ",".join(by)}
    asked |= {name: day.isoformat() for name, day in (("since", since), ("until", until)) if day is not None}
    with session_of(client) as session:
        rows: list[dict[str, Any]] = session.admin("GET", f"usage?{urlencode(asked)}")["rows"]
        return rows
