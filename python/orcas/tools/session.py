"""Signed requests to one store: JSON of the admin API, S3 requests, and answers taken piece by piece.

A transport carries a request and gives its answer; two exist, HTTP here and the application in this process in `local`.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import itertools
import json
import secrets
import select
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from orcas.engine import sign
from orcas.errors import ConfigurationError, OrcasError, UnavailableError, UsageError
from orcas.settings.clients import client_variables

if TYPE_CHECKING:
    from orcas.control.files.address import Address
    from orcas.engine import SalvageReport

PIECE: Final = 1 << 20
_SILENCE_SECONDS_MAX: Final = 300
_JSON_MAX: Final = 256 << 20

Headers = list[tuple[bytes, bytes]]
# What a signature says in place of the SHA-256 of a body that is not known before it is sent.
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"


class RefusedError(OrcasError):
    """The store answered with an error; `status` is that of HTTP, `code` that of the error, if it is known."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code or OrcasError.code


def no_bucket(name: str) -> RefusedError:
    """The error of a command that names a bucket which the store does not have."""
    return RefusedError(404, f"There is no bucket {name}: name another one.", "NoSuchBucket")


@dataclass
class Response:
    """A response. Its body can be read once, in pieces."""

    status: int
    headers: dict[str, str]
    pieces: Iterator[bytes]

    def read(self, limit: int = _JSON_MAX) -> bytes:
        """The whole body.

        Raises:
            UnavailableError: it is longer than `limit`.
        """
        body = bytearray()
        for piece in self.pieces:
            body += piece
            if len(body) > limit:
                raise UnavailableError(f"The server's answer has more than {limit} bytes: name the address of Orcas.")
        return bytes(body)


@dataclass
class Body:
    """A body that is sent piece by piece, once; its `length` in bytes is known."""

    length: int
    pieces: Iterator[bytes]

    def __len__(self) -> int:
        return self.length


class Transport(Protocol):
    """Carries one request at a time for each thread. `remote`: to another process."""

    host: str
    remote: bool

    def exchange(
        self, method: str, raw_path: str, query: str, headers: Headers, body: bytes | Body
    ) -> contextlib.AbstractContextManager[Response]:
        """Send, and give the answer until the block is left."""

    def close(self) -> None:
        """End what is kept for the next request."""


# Why no TLS can be spoken with a server of plain HTTP.
_NO_TLS: Final = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST"}
# What servers with TLS, Orcas and nginx, answer to plain HTTP.
_SPEAKS_TLS: Final = (b"This port speaks TLS", b"The plain HTTP request was sent to HTTPS port")


class HttpTransport:
    """A server at a URL. Each thread has a connection of its own, and more if it asks before it has read an answer.

    Args:
        url: its address.
        context: what its certificate must satisfy; if not given, it is verified with the CAs in `AWS_CA_BUNDLE`, else
            with those of the machine.
        certificate: the SHA-256 of its certificate, whatever name and issuer that has.
    """

    remote = True

    def __init__(self, url: str, *, context: ssl.SSLContext | None = None, certificate: str | None = None) -> None:
        parts = urlsplit(url)
        try:
            port_is_valid = parts.port is None or parts.port > 0
        except ValueError:
            port_is_valid = False
        plain = not (parts.path.strip("/") or parts.query) and port_is_valid
        if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
            raise UsageError(f"--endpoint must be http://HOST:PORT or https://HOST:PORT, not {url}.")
        self.url = url
        # How long a server may say nothing until it counts as gone.
        self.silence_seconds_max = _SILENCE_SECONDS_MAX
        self.host = parts.netloc.rpartition("@")[2]
        self._parts = parts
        self._context = context
        self._certificate = certificate
        self._local = threading.local()
        self._open: set[http.client.HTTPConnection] = set()

    def close(self) -> None:
        """Close the connections of all threads, which are done."""
        while self._open:
            self._open.pop().close()

    @contextlib.contextmanager
    def exchange(
        self, method: str, raw_path: str, query: str, headers: Headers, body: bytes | Body
    ) -> Iterator[Response]:
        """Send over a connection of this thread, opened anew when the server has closed it meanwhile."""
        target = f"{raw_path}?{query}" if query else raw_path
        connection = None
        try:
            connection, response = self._send(method, target, headers, body)
            given = {name.lower(): value for name, value in response.getheaders()}
            pieces = _pieces(response)
            if response.status == 400 and self._parts.scheme == "http":
                pieces = self._unless_tls(pieces)
            yield Response(response.status, given, pieces)
            if response.isclosed():
                self._idle.append(connection)
            else:
                self._forget(connection)
        except ssl.SSLCertVerificationError as error:
            raise UnavailableError(
                f"The certificate of {self.url} is refused ({error.verify_message.rstrip('.')}): correct it, or name its CA "
                "with AWS_CA_BUNDLE."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
                raise UnavailableError(f"The server at {self.url} does not speak TLS: name it with http://.") from error
            if connection is not None:
                self._forget(connection)
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UnavailableError(
                f"{self.url} cannot be reached, or closed the connection ({reason}): start the server, or check the address."
            ) from error
        except BaseException:
            if connection is not None:
                self._forget(connection)
            raise

    def _unless_tls(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The body of a refusal, unless the server says that it speaks TLS."""
        first = next(pieces, b"")
        if any(sentence in first for sentence in _SPEAKS_TLS):
            raise UnavailableError(f"The server at {self.url} speaks TLS: name it with https://.")
        return itertools.chain([first], pieces)

    def _send(
        self, method: str, target: str, headers: Headers, body: bytes | Body
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        for connection, is_last in ((self._unused(), False), (None, False), (None, True)):
            fresh = connection is None
            connection = connection or self._connect()
            try:
                connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
                for name, value in [*headers, (b"content-length", b"%d" % len(body))]:
                    connection.putheader(name.decode("latin-1"), value)
                if isinstance(body, Body):
                    _send_pieces(connection, body)
                else:
                    connection.endheaders(body or None)
                return connection, connection.getresponse()
            except (http.client.RemoteDisconnected, ConnectionError) as error:
                self._forget(connection)
                # A kept connection may end just now; a second order of a job is another job, and pieces are there only once.
                if method == "POST" or isinstance(body, Body):
                    raise
                # A node that changes its role closes its connections, new ones too, and answers on the next.
                if fresh and (is_last or method != "GET" or not isinstance(error, ConnectionResetError)):
                    raise
            except BaseException:
                # Half of a request may have been sent.
                self._forget(connection)
                raise
        raise AssertionError("the last connection is a fresh one")

    def _unused(self) -> http.client.HTTPConnection | None:
        """A connection that waits for a request, unless the server has ended it while nobody used it."""
        while self._idle:
            connection = self._idle.pop()
            if connection.sock is not None:
                readable = select.poll()
                readable.register(connection.sock, select.POLLIN)
                if not readable.poll(0):
                    return connection
            self._forget(connection)
        return None

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            connection: http.client.HTTPConnection = self._connect_tls(host, port)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self.silence_seconds_max)
        self._open.add(connection)
        return connection

    def _connect_tls(self, host: str, port: int | None) -> http.client.HTTPSConnection:
        """Connected and verified before anything is sent."""
        if self._context is None:
            try:
                self._context = ssl.create_default_context(cafile=client_variables().ca_bundle)
            except OSError as error:
                raise ConfigurationError(
                    f"AWS_CA_BUNDLE names a file that cannot be used: {error}; name one with CA certificates in PEM."
                ) from None
            if self._certificate is not None:
                self._context.check_hostname = False
                self._context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=self.silence_seconds_max, context=self._context)
        connection.connect()
        if self._certificate is not None:
            shown = connection.sock.getpeercert(binary_form=True)
            if hashlib.sha256(shown or b"").hexdigest() != self._certificate:
                connection.close()
                raise UnavailableError(
                    f"The server at {self.url} has another certificate than the one of the store: name its server with "
                    "--endpoint."
                )
        return connection

    def _forget(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        self._open.discard(connection)

    @property
    def _idle(self) -> list[http.client.HTTPConnection]:
        """The connections of this thread that wait for a request."""
        idle: list[http.client.HTTPConnection] = self._local.__dict__.setdefault("idle", [])
        return idle


def _send_pieces(connection: http.client.HTTPConnection, body: Body) -> None:
    """Send a body. A server that refuses it may answer, and close the connection, before it has all of it."""
    connection.endheaders()
    for piece in body.pieces:
        try:
            connection.send(piece)
        except ConnectionError:
            return


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := response.read(PIECE):
        yield piece
    # `read` ends quietly where a body with a length was cut short.
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


class Session:
    """A transport, the key that signs requests (None: nobody does), a description of its owner, headers of every request."""

    def __init__(
        self,
        transport: Transport,
        keys: tuple[str, str] | None,
        region: str,
        key_owner: str = "",
        *,
        headers: Headers | None = None,
        salvage: SalvageReport | None = None,
    ) -> None:
        self.transport = transport
        self._keys = keys
        self._region = region
        # In a sentence, with a space before it.
        self.key_owner = f" {key_owner}" if key_owner else ""
        self._headers = headers or []
        # Of a store that was opened for salvage.
        self.salvage = salvage

    @property
    def is_remote(self) -> bool:
        """Whether another process has the store."""
        return self.transport.remote

    def close(self) -> None:
        """End what is kept for the next request."""
        self.transport.close()

    @contextlib.contextmanager
    def request(
        self, method: str, raw_path: str, query: str = "", body: bytes | Body = b"", extra: Headers | None = None
    ) -> Iterator[Response]:
        """A signed request, with these headers besides those of the session; its answer, whatever the status."""
        headers: Headers = [(b"host", self.transport.host.encode()), *self._headers, *(extra or [])]
        if body and not any(name == b"content-type" for name, _ in headers):
            headers.append((b"content-type", b"application/json"))
        if self._keys is not None:
            payload = _UNSIGNED if isinstance(body, Body) else hashlib.sha256(body).hexdigest()
            signed = sign(
                method, raw_path.encode(), query.encode(), headers, payload, self._keys, self._region, int(time.time())
            )
            headers += [(name.encode(), value.encode()) for name, value in signed]
        with self.transport.exchange(method, raw_path, query, headers, body) as answer:
            yield answer

    def presigned(self, raw_path: str, seconds: int) -> str:
        """Path and query of a link by which anyone can get what is at a path for some time."""
        from orcas.http.signing import Keys, presign

        assert self._keys is not None, "links are signed"
        token = next((value.decode() for name, value in self._headers if name == b"x-amz-security-token"), None)
        host = [("host", self.transport.host)]
        query = presign(Keys(*self._keys, token), self._region, ("GET", raw_path, {}), host, seconds)
        return f"{raw_path}?{query}"

    def admin(self, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request to the admin API; `path` without its prefix, with its query.

        Raises:
            RefusedError: the answer is an error.
            UnavailableError: there is none, or none of this API.
        """
        body = b"" if order is None else json.dumps(order).encode()
        # The server takes what changes something once; the nonce tells orders of one second apart.
        extra = None if method == "GET" else [(b"x-amz-orcas-nonce", secrets.token_hex(16).encode())]
        path, _, query = path.partition("?")
        with self.request(method, f"/_orcas/admin/{path}", query, body, extra) as answer:
            return self.document(answer.status, answer.read())

    def document(self, status: int, content: bytes) -> dict[str, Any]:
        """An answer of the admin API.

        Raises:
            RefusedError: it is an error.
            UnavailableError: it is none of this API.
        """
        try:
            document = json.loads(content)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise UnavailableError(
                f"The server at {self.transport.host} is not Orcas, or has no admin API: name the address of Orcas."
            )
        if status >= 400:
            error = document.get("error", {})
            message = error.get("message", "no reason was given") if isinstance(error, dict) else str(error)
            explanation = message if message.endswith(".") else f"{message}."
            if status == 403:
                explanation = (
                    f"The server refused the key{self.key_owner} ({explanation[:-1]}): use the root key of its store, or "
                    "one whose policies allow it."
                )
            code = error.get("code", "") if isinstance(error, dict) else ""
            raise RefusedError(status, explanation, str(code))
        return document


def transport_of(address: Address) -> HttpTransport:
    """The server at an address that a data directory has."""
    return HttpTransport(address.url, certificate=address.certificate)


@contextlib.contextmanager
def session_of(client: Any) -> Iterator[Session]:
    """A session with the server of a boto3 client, signed with the keys of the client."""
    from orcas.events import tls_of

    credentials = client._request_signer._credentials.get_frozen_credentials()
    headers = [(b"x-amz-security-token", credentials.token.encode())] if credentials.token else []
    keys = credentials.access_key, credentials.secret_key
    transport = HttpTransport(client.meta.endpoint_url, context=tls_of(client))
    session = Session(transport, keys, client.meta.region_name, "of the client", headers=headers)
    try:
        yield session
    finally:
        session.close()
