"""Keys for the files of one table: sessions of STS that reach what lies below its place, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from orcas.control.identities.failures import IamError
from orcas.errors import UnavailableError
from orcas.tables.callers import TOKEN_SECONDS
from orcas.tables.names import bucket_of, name_of

if TYPE_CHECKING:
    from orcas.iam.directory import Directory
    from orcas.tables.objects import Signing

_READ: Final = ("s3:GetObject",)
_WRITE: Final = ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListMultipartUploadParts", "s3:PutObject")
_NAME: Final = re.compile(r"[^\w+=,.@-]", re.ASCII)
_NAME_MAX: Final = 32


class Vending:
    """Makes keys. `directory` and `root` are called each time."""

    def __init__(self, directory: Callable[[], Directory | None], root: Callable[[], Signing], region: str) -> None:
        self._directory, self._root, self._region = directory, root, region

    def config(self, endpoint: str) -> dict[str, str]:
        """How clients reach the files of any table."""
        return {
            "s3.endpoint": endpoint, "s3.region": self._region, "client.region": self._region,
            "s3.path-style-access": "true",
        }  # fmt: skip

    async def keys(self, bucket: str, place: str, arn: str, *, writes: bool) -> dict[str, str]:
        """Keys for what lies below a place, for the one with this ARN.

        Those of a branch reach its bucket under the name of its warehouse, and have no rights to the bucket of that.

        Raises:
            UnavailableError: there can be none now.
        """
        directory = self._directory()
        if directory is None:
            raise UnavailableError("The store is open for reading: serve it without --salvage.")
        # Who is behind the requests, for logs.
        name = _NAME.sub("-", re.split("[:/]", arn)[-1])[:_NAME_MAX] or "root"
        given = {
            "Name": name if len(name) > 1 else f"{name}-", "DurationSeconds": str(TOKEN_SECONDS),
            "Policy": policy(bucket_of(bucket), place, writes=writes),
        }  # fmt: skip
        alias = None if bucket_of(bucket) == bucket else (name_of(bucket), bucket_of(bucket))
        try:
            identities = await directory.identities()
            answer = await identities.perform(
                "GetFederationToken", given, access_key=self._root().access_key, service="sts", alias=alias
            )
        except IamError as error:
            raise UnavailableError(error.message) from None
        found: dict[str, Any] = answer["Credentials"]
        return {
            "s3.access-key-id": found["AccessKeyId"], "s3.secret-access-key": found["SecretAccessKey"],
            "s3.session-token": found["SessionToken"],
        }  # fmt: skip


def policy(bucket: str, place: str, *, writes: bool) -> str:
    """What keys for a place allow."""
    statements: list[dict[str, Any]] = [
        {
            "Effect": "Allow", "Action": [*_READ, *(_WRITE if writes else ())],
            "Resource": f"arn:aws:s3:::{bucket}/{place}/*",
        },
        {
            "Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}",
            "Condition": {"StringLike": {"s3:prefix": [f"{place}/*"]}},
        },
        {"Effect": "Allow", "Action": "s3:GetBucketLocation", "Resource": f"arn:aws:s3:::{bucket}"},
    ]  # fmt: skip
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
