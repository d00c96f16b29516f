"""Actions of IAM, as commands call them over the admin API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orcas.cli.identities.options import InAccount, Limits
from orcas.cli.options import Where
from orcas.cli.output import tell
from orcas.cli.store.upkeep import opened
from orcas.errors import ConfigurationError, OrcasError

if TYPE_CHECKING:
    from orcas.tools.session import Session


class Iam:
    """Calls actions in one account."""

    def __init__(self, session: Session, account: str | None) -> None:
        self.session = session
        self._account = account

    def call(self, action: str, **parameters: Any) -> dict[str, Any]:
        """The answer of one action. Parameters that are None are left out.

        Raises:
            RefusedError: it is an error.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        order = {"action": action, "parameters": given, "account": self._account}
        return self.session.admin("POST", "iam", order)

    def all(self, action: str, title: str, **parameters: Any) -> Iterator[Any]:
        """The entries of a list, page by page."""
        marker = None
        while True:
            page = self.call(action, **parameters, MaxItems=1000, Marker=marker)
            yield from page[title]
            if not page["IsTruncated"]:
                return
            marker = page["Marker"]

    def policy(self, name: str) -> str:
        """The ARN of a managed policy.

        Raises:
            OrcasError: there is none of this name.
        """
        if name.startswith("arn:"):
            return name
        for policy in self.all("ListPolicies", "Policies"):
            if policy["PolicyName"] == name:
                return str(policy["Arn"])
        raise OrcasError(f"There is no policy {name}: `orcas policy list` shows them.")


@contextlib.contextmanager
def iam(where: Where, account: str | None = None) -> Iterator[Iam]:
    """The identities of a store, running or not, in the account that is named, or in that of `where`."""
    with opened(where) as session:
        yield Iam(session, where.account if isinstance(where, InAccount) else account)


def limit(called: str, named: dict[str, str], limits: Limits, where: InAccount) -> None:
    """Set the requests and bytes a second of a user or key."""
    requests, bytes_ = limits.requests, limits.bytes_
    with iam(where) as store:
        store.call("PutLimits", **named, RequestsPerSecond=requests, BytesPerSecond=bytes_)
    words = [
        f"{count} {what if count > 1 else what[:-1]}"
        for count, what in ((requests, "requests"), (bytes_, "bytes"))
        if count
    ]
    said = f"at most {' and '.join(words)} a second" if words else "no limits"
    shown = {**named, "Limits": {"RequestsPerSecond": requests, "BytesPerSecond": bytes_}}
    tell(shown, f"{called}: {said}", where.as_json)


def read_document(path: Path) -> str:
    """The policy in a file.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{path} cannot be read: {getattr(error, 'strerror', error)}; name a file that this user can read."
        ) from None
