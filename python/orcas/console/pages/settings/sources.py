"""Where the documents of a bucket come from and go to: requests of S3, and for quotas the admin API."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Final, Protocol

from orcas.console.calls import CallError, Visit, admin, call, object_path
from orcas.console.documents.basics import SETTINGS, setting_lines, setting_text
from orcas.console.documents.trees import parse, render

_SETTING: Final = "x-amz-orcas-"
_DEFAULT: Final = "default"


class Source(Protocol):
    """Reads and writes a document of a bucket. `removable`: it can be taken away; None stands for no document."""

    @property
    def removable(self) -> bool:
        """Whether `save` takes None."""

    async def load(self, visit: Visit, bucket: str) -> str | None:
        """The document, with line breaks. Raises CallError."""

    async def save(self, visit: Visit, bucket: str, document: str | None) -> None:
        """Store it, or take it away. Raises CallError."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A document that S3 has as a sub-resource of the bucket. `missing`: the code of the answer where there is none."""

    query: str
    missing: str = ""
    removable: bool = True
    is_json: bool = False

    async def load(self, visit: Visit, bucket: str) -> str | None:
        """The document; None if there is none."""
        try:
            answer = await call(visit, "GET", object_path(bucket), {self.query: ""})
        except CallError as error:
            if error.code == self.missing:
                return None
            raise
        if self.is_json:
            return answer.body.decode("utf-8", "replace")
        return await asyncio.to_thread(_readable, answer.body)

    async def save(self, visit: Visit, bucket: str, document: str | None) -> None:
        """Store a document, or remove it."""
        if document is None:
            await call(visit, "DELETE", object_path(bucket), {self.query: ""})
            return
        body = document.encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        await call(visit, "PUT", object_path(bucket), {self.query: ""}, {"content-md5": digest}, body)


def _readable(body: bytes) -> str:
    try:
        return render(parse(body))
    except ValueError:
        return body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a bucket."""

    removable: bool = True

    async def load(self, visit: Visit, bucket: str) -> str | None:
        """Bytes and objects as JSON; None without a quota."""
        for row in (await admin(visit, "GET", "quotas"))["buckets"]:
            if row["bucket"] == bucket:
                return json.dumps({"bytes": row["bytes"], "objects": row["objects"]})
        return None

    async def save(self, visit: Visit, bucket: str, document: str | None) -> None:
        """Set or remove it."""
        try:
            limits = {} if document is None else json.loads(document)
        except ValueError:
            limits = None
        if not isinstance(limits, dict) or not set(limits) <= {"bytes", "objects"}:
            message = 'A quota is a JSON object with "bytes" and "objects", each a number or null.'
            raise CallError(400, "InvalidRequest", message)
        await admin(visit, "PUT", "quotas", {"bucket": bucket, **limits})


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of a bucket in place of those of the store, as header lines."""

    removable: bool = True

    async def load(self, visit: Visit, bucket: str) -> str | None:
        """The settings that are set; None if there are none."""
        answer = await call(visit, "HEAD", object_path(bucket))
        found = {name: answer.headers[_SETTING + name] for name in _NAMES if _SETTING + name in answer.headers}
        return setting_text(found) or None

    async def save(self, visit: Visit, bucket: str, document: str | None) -> None:
        """Set them, and remove all others."""
        try:
            given = setting_lines(document or "")
        except ValueError as error:
            raise CallError(400, "InvalidRequest", str(error)) from None
        headers = {_SETTING + name: given.get(name, _DEFAULT) for name in dict.fromkeys([*_NAMES, *given])}
        await call(visit, "PUT", object_path(bucket), {"orcas-settings": ""}, headers)


_NAMES: Final = (*SETTINGS, "chunk-size")
