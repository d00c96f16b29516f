"""What the catalog refuses, as the REST specification says it: status, type and message."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

# The type of an error of the store, after which it is not known whether it has done what it was asked.
UNAVAILABLE: Final = "ServiceUnavailableException"


class TableError(Exception):
    """A request is refused. `kind`: the type of the error, by which clients tell errors apart."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


def invalid(message: str) -> TableError:
    """The request says something that cannot be."""
    return TableError(400, "BadRequestException", message)


def denied(action: str, resource: str) -> TableError:
    """No policy allows it."""
    return TableError(403, "ForbiddenException", f"Not authorized to perform {action} on {resource}.")


def conflict(message: str) -> TableError:
    """The commit was overtaken, and its client may try again."""
    return TableError(409, "CommitFailedException", message)


@contextlib.contextmanager
def committing() -> Iterator[None]:
    """Say so if it is not known whether a commit was made. Clients delete their new files after other errors, 503 too."""
    try:
        yield
    except TableError as error:
        if error.kind != UNAVAILABLE:
            raise
        message = f"Whether it was committed is not known. {error.message}"
        raise TableError(500, "CommitStateUnknownException", message) from None


# The words of Iceberg's own catalogs, which its clients and its tests look for.
NO_NAMESPACE: Final = "NoSuchNamespaceException"
NO_TABLE: Final = "NoSuchTableException"
NO_VIEW: Final = "NoSuchViewException"
_NAMED: Final = {NO_NAMESPACE: "Namespace", NO_TABLE: "Table", NO_VIEW: "View"}


def exists(what: str, name: str) -> TableError:
    """There is something of that name. `what`: what there is, such as "Table"."""
    return TableError(409, "AlreadyExistsException", f"{what} already exists: {name}")


def missing(kind: str, name: str) -> TableError:
    """There is nothing of that name."""
    return TableError(404, kind, f"{_NAMED[kind]} does not exist: {name}")
