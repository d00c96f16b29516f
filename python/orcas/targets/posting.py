"""A delivery over HTTP: a POST within a time limit, to an address that was checked.

Redirects are not followed, and only the beginning of an answer is read. Nothing here retries. Must not know what is sent.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from typing import Final, Generic, TypeVar
from urllib.parse import SplitResult

import httptools

from orcas.targets.addresses import NotPublicError, connect
from orcas.targets.kinds import AwsTarget, WebhookTarget
from orcas.targets.sending import Failure, Message
from orcas.version import orcas_version

# Bytes of an answer.
_ANSWER_MAX: Final = 65_536
_RETRY_AFTER_MAX: Final = 300
_DIGITS: Final = re.compile(r"[0-9]{1,6}")

Headers = list[tuple[str, str]]
_T = TypeVar("_T", bound=WebhookTarget | AwsTarget)


class HttpSender(ABC, Generic[_T]):
    """A connection to one target, kept between deliveries. For one thread."""

    def __init__(self, target: _T, url: SplitResult) -> None:
        self._target = target
        self._url = url
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._sending = self._closed = False

    @abstractmethod
    def call(self, message: Message) -> tuple[str, Headers, bytes]:
        """The request for a message: the path with the query, the headers besides those of all, and the body."""

    @abstractmethod
    def failure(self, answer: Answer) -> Failure | None:
        """Whether an answer says that the target has taken the message; otherwise why it has not."""

    def probe(self) -> Failure | None:
        """Nothing: a receiver is asked by messages alone."""
        return None

    def send(self, message: Message) -> Failure | None:
        """Deliver one message. None if the target has taken it."""
        with self._lock:
            if self._closed:
                return Failure("the sender is closed")
            self._sending = True
        try:
            return self._send(message)
        finally:
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._sending = False
            if self._closed:
                self._disconnect()

    def _send(self, message: Message) -> Failure | None:
        deadline = time.monotonic() + self._target.timeout_sec
        request = self._request(*self.call(message))
        reused = self._socket is not None
        try:
            answer = self._exchange(request, deadline)
            if answer is None and reused:
                # The target had closed the connection that was kept.
                answer = self._exchange(request, deadline)
        except NotPublicError:
            host = self._url.hostname
            return Failure(f"{host} has no public address, and the target is not marked private")
        except TimeoutError:
            self._disconnect()
            return Failure(f"no answer within {self._target.timeout_sec} s")
        except (OSError, UnicodeError, httptools.HttpParserError) as error:
            # A label of the host that is too long for DNS is a UnicodeError.
            self._disconnect()
            return Failure(f"{type(error).__name__}: {error}"[:200])
        if answer is None:
            return Failure("the connection was closed without an answer")
        if not answer.keeps:
            self._disconnect()
        return self.failure(answer)

    def close(self) -> None:
        """Give the connection up, also while another thread uses it."""
        with self._lock:
            self._closed = True
            if not self._sending:
                self._disconnect()
            elif (connection := self._socket) is not None:
                # The thread that waits for it closes it: its number must not become that of another file meanwhile.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _disconnect(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _request(self, path: str, headers: Headers, body: bytes) -> bytes:
        of_all = [
            ("host", self._url.netloc), ("user-agent", f"Orcas/{orcas_version()}"), ("content-length", str(len(body))),
        ]  # fmt: skip
        lines = "".join(f"{name}: {value}\r\n" for name, value in [*of_all, *headers])
        return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode("ascii") + body

    def _exchange(self, request: bytes, deadline: float) -> Answer | None:
        """The answer; None if the connection ended before it began."""
        connection = self._socket or self._connect(deadline)
        self._socket = connection
        answer = Answer()
        parser = httptools.HttpResponseParser(answer)
        answer.parser = parser
        received = 0
        try:
            connection.settimeout(_left(deadline))
            connection.sendall(request)
            while not answer.complete:
                connection.settimeout(_left(deadline))
                data = connection.recv(min(_ANSWER_MAX - received, 16_384))
                received += len(data)
                if not data:
                    break
                parser.feed_data(data)
                if received >= _ANSWER_MAX:
                    break
        except (BrokenPipeError, ConnectionResetError):
            if received:
                raise
        if not answer.complete:
            self._disconnect()
        return answer if answer.status else None

    def _connect(self, deadline: float) -> socket.socket:
        return connect(self._url, private=self._target.private, left=lambda: _left(deadline))


class Answer:
    """The parts of an answer that httptools finds."""

    def __init__(self) -> None:
        self.parser: httptools.HttpResponseParser | None = None
        self.status = 0
        self.complete = False
        self.keeps = False
        self.retry_after_sec = 0
        self.body = b""

    def on_message_begin(self) -> None:
        """Called by httptools before the head. Nobody asked for a second answer, so its connection is not kept."""
        self.keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by httptools for each header."""
        if (
            not self.complete
            and name.lower() == b"retry-after"
            and _DIGITS.fullmatch(text := value.decode("latin-1").strip())
        ):
            self.retry_after_sec = min(int(text), _RETRY_AFTER_MAX)

    def on_headers_complete(self) -> None:
        """Called by httptools after the head."""
        if self.parser is not None and not self.complete:
            self.status = self.parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        """Called by httptools for each piece of a body."""
        if not self.complete:
            self.body += piece

    def on_message_complete(self) -> None:
        """Called by httptools at the end of an answer. An interim one, such as `100 Continue`, does not count."""
        if self.complete:
            self.keeps = False
        elif 100 <= self.status < 200:
            self.status = 0
        else:
            self.complete = True
            self.keeps = self.parser is not None and self.parser.should_keep_alive()


def _left(deadline: float) -> float:
    """Seconds until then.

    Raises:
        TimeoutError: there are none.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
