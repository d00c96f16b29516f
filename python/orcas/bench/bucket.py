"""The bucket of a run: created under an unused name, and emptied of exactly what the run created."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import secrets
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import islice
from typing import Final
from urllib.parse import quote

from orcas.bench.servers import Reached
from orcas.errors import OrcasError, UnavailableError
from orcas.tools.objects import listed
from orcas.tools.session import Headers, HttpTransport, RefusedError, Session

PREFIX: Final = "orcas-bench-"
_DELETED_AT_ONCE: Final = 1000
_ANSWER_MAX: Final = 16 << 20
_PAUSES_SECONDS: Final = (0.0, 0.2, 1.0)
# The keys that the load makes; whatever else is found was put there by somebody else, and stays.
_KEYS_OF_LOAD: Final = re.compile(rb"[ocm]/[0-9a-f]{8}-[0-9a-f]{8}")


class Bucket:
    """A bucket of this run. `left` says why it could not be removed."""

    def __init__(self, server: Reached) -> None:
        token: Headers = []
        if server.session_token is not None:
            token = [(b"x-amz-security-token", server.session_token.encode())]
        self.name = PREFIX + secrets.token_hex(10)
        self.left: str | None = None
        self._server = server
        self._session = Session(
            HttpTransport(server.url), (server.access_key, server.secret_key), server.region, headers=token
        )

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Make it, and remove it in the end, unless the server goes away with it.

        Raises:
            UnavailableError: the server cannot be reached.
            RefusedError: it does not let the bucket be made.
        """
        with contextlib.closing(self._session):
            self._make()
            try:
                yield
            finally:
                if not self._server.own:
                    self._remove()

    def _make(self) -> None:
        status, _ = self._ask("HEAD", "")
        # Servers answer 200 to the making of a bucket that one has already, and this one will be emptied.
        if status == 200:
            raise UnavailableError(
                f"{self._server.url} already has a bucket {self.name}: delete it, then run the benchmark again."
            )
        region = self._server.region
        place = f"<LocationConstraint>{region}</LocationConstraint>"
        document = f"<CreateBucketConfiguration>{place}</CreateBucketConfiguration>".encode()
        status, answer = self._ask("PUT", "", b"" if region == "us-east-1" else document)
        if status != 200:
            raise RefusedError(
                status,
                f"{self._server.url} refused to create a bucket ({_reason(status, answer)}): give a key that may.",
            )

    def _remove(self) -> None:
        try:
            # Again, because a server may still have been at work on what an interrupted run asked of it.
            for pause in _PAUSES_SECONDS:
                time.sleep(pause)
                self._empty()
                status, answer = self._ask("DELETE", "")
                if status in (200, 204):
                    return
            self.left = _reason(status, answer)
        except OrcasError as error:
            self.left = str(error).rstrip(".")

    def _empty(self) -> None:
        keys = (entry.key for entry in listed(self._session, self.name) if _KEYS_OF_LOAD.fullmatch(entry.key))
        while batch := list(islice(keys, _DELETED_AT_ONCE)):
            self._delete(batch)
        for key, upload in self._uploads():
            self._ask("DELETE", f"/{quote(key)}", query=f"uploadId={quote(upload, safe='')}")

    def _delete(self, keys: list[bytes]) -> None:
        """Many at a time; one by one where a server does not know how."""
        objects = "".join(f"<Object><Key>{key.decode()}</Key></Object>" for key in keys)
        body = f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest())
        status, _ = self._ask("POST", "", body, "delete=", [(b"content-md5", digest)])
        if status != 200:
            for key in keys:
                self._ask("DELETE", f"/{quote(key)}")

    def _uploads(self) -> list[tuple[str, str]]:
        """Key and id of multipart uploads that were broken off."""
        status, answer = self._ask("GET", "", query="uploads=")
        with contextlib.suppress(ET.ParseError):
            if status == 200:
                tree = ET.fromstring(answer)  # noqa: S314 - of the server that is measured; expat bounds its growth
                found = [{part.tag.rpartition("}")[2]: part.text or "" for part in upload} for upload in tree]
                return [(upload["Key"], upload["UploadId"]) for upload in found if {"Key", "UploadId"} <= set(upload)]
        return []

    def _ask(
        self, method: str, path: str, body: bytes = b"", query: str = "", headers: Headers | None = None
    ) -> tuple[int, bytes]:
        with self._session.request(method, f"/{self.name}{path}", query, body, headers or []) as answer:
            return answer.status, answer.read(_ANSWER_MAX)


def _reason(status: int, answer: bytes) -> str:
    found = re.search(rb"<Message>([^<]*)</Message>", answer)
    message = found[1].decode(errors="replace").rstrip(".") if found else ""
    return f"{status}, {message}" if message else f"status {status}"
