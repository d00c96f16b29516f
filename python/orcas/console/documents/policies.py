"""Policies as text: templates for what people ask for most, and the statement of a policy that a decision names."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

VERSION: Final = "2012-10-17"
# What the pages of a bucket need: of objects to be read or written too, and of the bucket. With versions, because a page
# looks at them, and undoes a deletion by removing its delete marker.
_READ: Final = [
    "s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectAttributes", "s3:GetObjectVersionAttributes",
    "s3:GetObjectTagging", "s3:GetObjectVersionTagging",
]  # fmt: skip
_WRITE: Final = [
    *_READ, "s3:PutObject", "s3:PutObjectTagging", "s3:PutObjectVersionTagging", "s3:DeleteObject",
    "s3:DeleteObjectVersion", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts",
]  # fmt: skip
_LISTS: Final = ["s3:ListBucket", "s3:ListBucketVersions", "s3:ListBucketMultipartUploads"]


@dataclass(frozen=True, slots=True)
class Template:
    """A policy to begin with. `whose`: it names a user or role. `build` takes the bucket, a prefix and the ARN of that."""

    title: str
    whose: bool
    build: Callable[[str, str, str], list[dict[str, Any]]]


def _list(bucket: str, prefix: str) -> list[dict[str, Any]]:
    on_it: dict[str, Any] = {
        "Effect": "Allow",
        "Action": "s3:GetBucketVersioning",
        "Resource": f"arn:aws:s3:::{bucket}",
    }
    lists = on_it | {"Action": _LISTS}
    return [on_it, lists | ({"Condition": {"StringLike": {"s3:prefix": f"{prefix}*"}}} if prefix else {})]


def _of_bucket(statements: list[dict[str, Any]], principal: Any) -> list[dict[str, Any]]:
    return [{"Effect": each["Effect"], "Principal": principal, **each} for each in statements]


def _objects(bucket: str, prefix: str, actions: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": f"arn:aws:s3:::{bucket}/{prefix}*"}


def _use(bucket: str, prefix: str, actions: list[str]) -> list[dict[str, Any]]:
    return [*_list(bucket, prefix), _objects(bucket, prefix, actions)]


def _encrypted_only(bucket: str, _prefix: str, _whose: str) -> list[dict[str, Any]]:
    statement = {
        "Sid": "OnlyOverTls", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }  # fmt: skip
    return [statement]


_NAMES: Final = {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}
BUCKET: Final[dict[str, Template]] = {
    "public-read": Template(
        "Everybody may read objects", False, lambda b, p, _: _of_bucket([_objects(b, p, ["s3:GetObject"])], "*"),
    ),
    "read": Template(
        "One user or role may list and read", True, lambda b, p, whose: _of_bucket(_use(b, p, _READ), {"AWS": whose}),
    ),
    "write": Template(
        "One user or role may list, read, write and delete, old versions too", True,
        lambda b, p, whose: _of_bucket(_use(b, p, _WRITE), {"AWS": whose}),
    ),
    "tls": Template("Refuse requests that are not encrypted on their way", False, _encrypted_only),
}  # fmt: skip
IDENTITY: Final[dict[str, Template]] = {
    "browse": Template(
        "List and read one bucket, and see the names of all: for the console", False,
        lambda b, p, _: [_NAMES, *_use(b, p, _READ)],
    ),
    "read": Template("List and read one bucket", False, lambda b, p, _: _use(b, p, _READ)),
    "write": Template(
        "List, read, write and delete in one bucket, old versions too", False, lambda b, p, _: _use(b, p, _WRITE),
    ),
}  # fmt: skip


def build(template: Template, bucket: str, prefix: str = "", whose: str = "") -> str:
    """The policy as text."""
    return shown({"Version": VERSION, "Statement": template.build(bucket, prefix, whose)})


def shown(policy: Any) -> str:
    """A policy, or a part of one, with line breaks."""
    return json.dumps(policy, indent=2, ensure_ascii=False) + "\n"


def readable(text: str) -> str:
    """A policy with line breaks; as it is, if it has some or is no JSON."""
    if "\n" in text.strip():
        return text
    try:
        return shown(json.loads(text))
    except ValueError:
        return text


def statement(text: str, number: int) -> str | None:
    """The statement of this number, from 1, as text; None if there is none."""
    try:
        found = json.loads(text)["Statement"]
    except (ValueError, KeyError, TypeError):
        return None
    listed = found if isinstance(found, list) else [found]
    return shown(listed[number - 1]) if 0 < number <= len(listed) else None
