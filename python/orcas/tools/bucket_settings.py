"""The settings of one bucket, by the S3 requests that show and change them: HeadBucket and PutBucketSettings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from orcas.errors import UnavailableError
from orcas.tools.objects import refusal
from orcas.tools.session import RefusedError, no_bucket

if TYPE_CHECKING:
    from orcas.tools.session import Response, Session

# In the order in which they are shown. Each is a header of the same name.
NAMES: Final = ("durability", "chunk-size", "ref-level", "chunking", "keep-sha256")
# The value that removes a setting.
DEFAULT: Final = "default"
_HEADER: Final = "x-amz-orcas-"


def bucket_settings(session: Session, bucket: str) -> dict[str, str]:
    """The settings that are set.

    Raises:
        RefusedError: there is no such bucket, or they cannot be shown.
    """
    with session.request("HEAD", _path(bucket)) as answer:
        # 400: no bucket can have this name.
        if answer.status in (400, 404):
            raise no_bucket(bucket)
        if answer.status == 403:
            raise RefusedError(
                403,
                f"The server refused the key{session.key_owner}: use the root key of its store, or one whose "
                "policies allow it.",
            )
        if answer.status != 200:
            # The answer to HEAD has no body that gives a reason.
            raise RefusedError(
                answer.status, f"The server answered {answer.status} for the bucket {bucket}: see its log."
            )
        return _set(answer)


def is_durable(session: Session, bucket: str) -> bool:
    """Whether the bucket has what it acknowledges on the disk. Errors as of `bucket_settings`."""
    found = bucket_settings(session, bucket).get("durability")
    return (found or session.admin("GET", "about")["health"]["durability"]) == "sync"


def change_bucket_settings(session: Session, bucket: str, changes: Mapping[str, str]) -> dict[str, str]:
    """Set these, by name; `DEFAULT` removes one. The settings that are set then.

    Raises:
        OrcasError: there is no such bucket.
        RefusedError: a value is not valid; nothing is changed.
        UnavailableError: the server does not know settings of buckets.
    """
    # A server that ignores the query would create a missing bucket.
    bucket_settings(session, bucket)
    headers = [(f"{_HEADER}{name}".encode(), value.encode()) for name, value in changes.items()]
    with session.request("PUT", _path(bucket), "orcas-settings", extra=headers) as answer:
        if answer.status != 200:
            code, message = refusal(answer)
            raise RefusedError(
                answer.status, f"The settings of {bucket} cannot be changed ({message}): give another value.", code
            )
        found = _set(answer)
    if any(value != DEFAULT and name not in found for name, value in changes.items()):
        raise UnavailableError(
            f"The server at {session.transport.host} does not know settings of buckets: name the address of Orcas."
        )
    return found


def _path(bucket: str) -> str:
    return f"/{quote(bucket, safe='')}"


def _set(answer: Response) -> dict[str, str]:
    return {name: answer.headers[_HEADER + name] for name in NAMES if _HEADER + name in answer.headers}
