"""Where the documents of a bucket come from and go to: requests of S3, and for quotas the admin API."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from dataclasses import dataclass
from typing import Final

from orcas.console.calls import CallError, Visit, admin, call, object_path
from orcas.console.documents.kinds import STORE
from orcas.console.documents.trees import parse, parse_lines, render


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


class Quota:
    """The quota of a bucket, as lines."""

    removable = True

    async def load(self, visit: Visit, bucket: str) -> str | None:
        """Bytes and objects; None without a quota."""
        for row in (await admin(visit, "GET", "quotas"))["buckets"]:
            if row["bucket"] == bucket:
                return "".join(f"{name}: {row[name]}\n" for name in ("bytes", "objects") if row[name] is not None)
        return None

    async def save(self, visit: Visit, bucket: str, document: str | None) -> None:
        """Set or remove it."""
        given = _settings(document)
        limits = {name: int(text) if text.isascii() and text.isdecimal() else text for name, text in given.items()}
        await admin(visit, "PUT", "quotas", {**limits, "bucket": bucket})


class StoreSettings:
    """The settings of a bucket in place of those of the store, as header lines."""

    removable = True

    async def load(self, visit: Visit, bucket: str) -> str | None:
        """The settings that are set; None if there are none."""
        headers = (await call(visit, "HEAD", object_path(bucket))).headers
        return "".join(f"{name}: {headers[name]}\n" for name in _NAMES if name in headers) or None

    async def save(self, visit: Visit, bucket: str, document: str | None) -> None:
        """Set them, and remove all others."""
        headers = dict.fromkeys(_NAMES, "default") | _settings(document)
        if unknown := next((name for name in headers if name not in _NAMES), None):
            raise CallError(400, "InvalidRequest", f"{unknown} is none of these settings: {', '.join(_NAMES)}.")
        await call(visit, "PUT", object_path(bucket), {"orcas-settings": ""}, headers)


# Each reads a document of a bucket, and stores it or, if it is `removable`, takes it away. None stands for no document.
Source = Configuration | Quota | StoreSettings


def _settings(document: str | None) -> dict[str, str]:
    try:
        return {each.name: each.text for each in parse_lines(document or "").children}
    except ValueError as error:
        raise CallError(400, "InvalidRequest", str(error)) from None


_NAMES: Final = tuple(each.path for each in STORE.fixed)
